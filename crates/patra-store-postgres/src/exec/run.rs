//! Opening and closing a run. The task's row is locked first, under the caller's fence: no row, no right (D1).

use std::time::Duration;

use patra_core::paging::Position;
use patra_core::state::TaskStatus;
use patra_core::tx::{EndRun, Release, Resume, RunEnd, RunEnded, RunStarted, StartRun, Subject, TxError};
use patra_core::{Fault, RunId};
use serde_json::json;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::ledger::{INSERT_FAILURE, Ledger};
use super::{NOW, count, hold, moment, poll, raw, split};
use crate::error::{Fail, refused};
use crate::json::{Json, JsonText};
use crate::pool::{Session, pipeline};
use crate::time::Time;

const LOCK_LEASED: &str = "
SELECT p.status_code, p.spec_fingerprint, s.status_code, t.redrive_of, t.redrive_request, polled.validators,
  s.slice_signature_hash
FROM ing_task t JOIN ing_plan p ON p.id = t.plan_id JOIN ing_plan_slice s ON s.id = t.slice_id
LEFT JOIN source polled ON polled.id = t.source_id
WHERE t.id = $1 AND t.lease_epoch = $2 AND t.status_code IN ('DISPATCHED', 'EXECUTING')
FOR UPDATE OF t";

const FIND_RUN: &str = "SELECT id FROM ing_task_run WHERE task_id = $1 AND attempt_no = $2";

/// Runs of a task follow each other, so the greatest id is the latest. A task that drives another one again goes on where
/// that one stopped, as long as it has nothing of its own.
const LAST_BATCH: &str = "
WITH RECURSIVE driven AS (
  SELECT id, redrive_of, 0 AS step FROM ing_task WHERE id = $1
  UNION ALL
  SELECT t.id, t.redrive_of, driven.step + 1 FROM driven JOIN ing_task t ON t.id = driven.redrive_of
)
SELECT last.run_id, last.batch_no, last.next_position, last.total, last.taken
FROM driven
CROSS JOIN LATERAL (
  SELECT b.run_id, b.batch_no, b.next_position, (b.stats->>'total')::bigint AS total, (b.stats->>'taken')::bigint AS taken
  FROM ing_task_run_batch b
  WHERE b.task_id = driven.id AND b.status_code = 'SUCCEEDED'
  ORDER BY b.run_id DESC, b.batch_no DESC
  LIMIT 1
) AS last
ORDER BY driven.step
LIMIT 1";

const CANCEL_TASK: &str = "
UPDATE ing_task
SET status_code = 'CANCELLED', finished_at = $3, lease_owner = NULL, leased_until = NULL
WHERE id = $1 AND lease_epoch = $2";

const EXECUTE_TASK: &str = "
UPDATE ing_task SET status_code = 'EXECUTING', started_at = coalesce(started_at, $3)
WHERE id = $1 AND lease_epoch = $2";

const INSERT_RUN: &str = "
INSERT INTO ing_task_run (task_id, plan_id, provenance_code, endpoint_name, operation_code, attempt_no, status_code,
  checkpoint, window_from, window_to, created_at, source_id)
SELECT id, plan_id, provenance_code, endpoint_name, operation_code, lease_epoch, 'RUNNING', $2, window_from, window_to,
  $3, source_id
FROM ing_task WHERE id = $1
RETURNING id";

const LOCK_TASK: &str = "
SELECT status_code, lease_epoch, attempt_count, provenance_code, endpoint_name, operation_code
FROM ing_task WHERE id = $1 FOR UPDATE";

const READ_RUN: &str = "
SELECT r.status_code IN ('SUCCEEDED', 'PARTIAL', 'FAILED', 'CANCELLED'), r.attempt_no,
  EXISTS (SELECT 1 FROM ing_task_run_batch b WHERE b.run_id = r.id AND b.status_code = 'SUCCEEDED')
FROM ing_task_run r WHERE r.id = $1 AND r.task_id = $2";

const END_TASK: &str = "
UPDATE ing_task
SET status_code = $3, error = $4, attempt_count = $5, scheduled_at = coalesce($6, scheduled_at), finished_at = $7,
  items = items + $8, done_from = coalesce($9, done_from), done_to = coalesce($10, done_to),
  replaced = greatest(replaced, $11), lease_owner = NULL, leased_until = NULL
WHERE id = $1 AND lease_epoch = $2 AND status_code = 'EXECUTING'";

const END_RUN: &str = "
UPDATE ing_task_run SET status_code = $2, error = $3, stats = $4, finished_at = $5
WHERE id = $1 AND status_code = 'RUNNING'";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[LOCK_LEASED, FIND_RUN, LAST_BATCH, CANCEL_TASK, EXECUTE_TASK, INSERT_RUN, LOCK_TASK, READ_RUN, END_TASK, END_RUN];

pub(super) async fn start(session: &Session, op: StartRun) -> Result<RunStarted, Fail> {
    let [lock, now, find, last] = session.prepare([LOCK_LEASED, NOW, FIND_RUN, LAST_BATCH]).await?;
    let (task, fence) = (op.lease.task.0, op.lease.fence.0);
    let ((), leased, now, opened, last) = pipeline!(
        session.begin(),
        session.opt(&lock, &[&task, &fence]),
        moment(session, &now),
        session.opt(&find, &[&task, &fence]),
        session.opt(&last, &[&task]),
    )?;
    let leased = leased.ok_or(TxError::Fenced)?;
    let (plan, slice): (&str, &str) = (leased.try_get(0)?, leased.try_get(2)?);
    if [plan, slice].into_iter().any(|status| matches!(status, "FAILED" | "CANCELLED")) {
        let [cancel] = session.prepare([CANCEL_TASK]).await?;
        session.write(&cancel, &[&task, &fence, &now]).await?;
        session.commit().await?;
        return Ok(RunStarted::Cancelled);
    }
    let resume = last.as_ref().map(read_resume).transpose()?;
    let run = match opened {
        Some(row) => RunId(row.try_get(0)?),
        None => {
            let mut checkpoint = serde_json::Map::new();
            if let Some(resume) = &resume {
                let from = json!({ "runId": resume.run, "batchNo": resume.batch_no });
                checkpoint.insert("resumedFrom".to_owned(), from);
            }
            if let Some(task) = leased.try_get::<_, Option<i64>>(3)? {
                let request: Option<&str> = leased.try_get(4)?;
                checkpoint.insert("replay".to_owned(), json!({ "task": task, "request": request }));
            }
            open(session, op, checkpoint, now).await?
        }
    };
    session.commit().await?;
    // What cannot be read costs one whole answer, no more.
    let known: Option<JsonText> = leased.try_get(5)?;
    let known = known.and_then(|JsonText(text)| serde_json::from_str(&text).ok());
    let (snapshot_hash, slice_signature_hash) = (leased.try_get(1)?, leased.try_get(6)?);
    Ok(RunStarted::Go { run, attempt_no: fence, snapshot_hash, slice_signature_hash, resume, known })
}

async fn open(
    session: &Session,
    op: StartRun,
    checkpoint: serde_json::Map<String, serde_json::Value>,
    now: Time,
) -> Result<RunId, Fail> {
    let [execute, insert] = session.prepare([EXECUTE_TASK, INSERT_RUN]).await?;
    let checkpoint = (!checkpoint.is_empty()).then(|| Json::of(&checkpoint)).transpose()?;
    let (_, run) = pipeline!(
        session.write(&execute, &[&op.lease.task.0, &op.lease.fence.0, &now]),
        session.one(&insert, &[&op.lease.task.0, &checkpoint, &now]),
    )?;
    Ok(RunId(run.try_get(0)?))
}

fn read_resume(row: &Row) -> Result<Resume, Fail> {
    let next: Option<JsonText> = row.try_get(2)?;
    let next = next.map(|JsonText(text)| serde_json::from_str::<Position>(&text)).transpose()?;
    let number = |at| Ok::<_, Fail>(row.try_get::<_, Option<i64>>(at)?.and_then(|n| u64::try_from(n).ok()));
    let (total, taken) = (number(3)?, number(4)?);
    Ok(Resume { run: RunId(row.try_get(0)?), batch_no: count(row.try_get(1)?), next, total, taken })
}

pub(super) async fn end(session: &Session, op: &EndRun) -> Result<RunEnded, Fail> {
    let [lock, now, read, end_task, end_run, set_hold, end_advice] =
        session.prepare([LOCK_TASK, NOW, READ_RUN, END_TASK, END_RUN, hold::INSERT, hold::RELEASE_ADVISORY]).await?;
    let (task, fence) = (op.lease.task.0, op.lease.fence.0);
    let ((), row, now, run) = pipeline!(
        session.begin(),
        session.opt(&lock, &[&task]),
        moment(session, &now),
        session.opt(&read, &[&op.run.0, &task]),
    )?;
    let (Some(row), Some(run)) = (row, run) else { return Err(TxError::Fenced.into()) };
    let status: TaskStatus = row.try_get::<_, &str>(0)?.parse()?;
    let (closed, attempt_no): (bool, i64) = (run.try_get(0)?, run.try_get(1)?);
    if closed && attempt_no == fence {
        session.commit().await?;
        return Ok(RunEnded { task_status: status });
    }
    if status != TaskStatus::Executing || row.try_get::<_, i64>(1)? != fence {
        return Err(TxError::Fenced.into());
    }
    if attempt_no != fence {
        return Err(refused(format!("run {} is not of fence {fence}", op.run)));
    }
    let ending = Ending::of(op, count(row.try_get(2)?), run.try_get(2)?);
    let (error, stats) = (ending.error.map(Json::of).transpose()?, Json::of(&op.stats)?);
    let (task_status, attempts) = (ending.task.as_str(), i64::from(ending.attempts));
    let scheduled_at = ending.delay.map(|delay| Time(now.0 + delay));
    let finished_at = ending.delay.is_none().then_some(now);
    let items = i64::from(op.stats.ret_count);
    let (done_from, done_to) = (op.done.map(|done| Time(done.from)), op.done.map(|done| Time(done.to)));
    let mut replaced = 0;
    record_failure(session, op, now).await?;
    poll::end(session, op, ending.task, now).await?;
    if let RunEnd::Split { slices, .. } = &op.end {
        split::replace(session, op.lease.task, slices, now).await?;
        replaced = 1;
    }
    let values: [&(dyn ToSql + Sync); 11] = [
        &task,
        &fence,
        &task_status,
        &error,
        &attempts,
        &scheduled_at,
        &finished_at,
        &items,
        &done_from,
        &done_to,
        &replaced,
    ];
    pipeline!(
        session.write(&end_task, &values),
        session.write(&end_run, &[&op.run.0, &ending.run, &error, &stats, &now]),
        set_a_hold(session, &set_hold, op, now),
        end_the_advice(session, &end_advice, op, &row, now),
        session.commit(),
    )?;
    Ok(RunEnded { task_status: ending.task })
}

/// A FAILED row in the ledger, with its answer. A row that is there already stands, and so does its answer.
async fn record_failure(session: &Session, op: &EndRun, now: Time) -> Result<(), Fail> {
    let Some(failure) = &op.failure else { return Ok(()) };
    let [insert, keep] = session.prepare([INSERT_FAILURE, raw::INSERT]).await?;
    let recorded = session.write(&insert, &Ledger::of_failure(op, failure, now)?.params()).await?;
    let answer = failure.raw.as_ref().filter(|_| recorded > 0);
    raw::keep(session, &keep, op.run, failure.batch_no, answer, now).await
}

async fn set_a_hold(session: &Session, insert: &Statement, op: &EndRun, now: Time) -> Result<(), Fail> {
    match &op.hold {
        Some(wanted) => hold::put(session, insert, wanted, now).await.map(drop),
        None => Ok(()),
    }
}

/// What was advised about a partition is answered by a task of it that succeeds.
async fn end_the_advice(
    session: &Session,
    release: &Statement,
    op: &EndRun,
    task: &Row,
    now: Time,
) -> Result<(), Fail> {
    if op.end != RunEnd::Succeeded {
        return Ok(());
    }
    let partition = Subject {
        operation: Some(task.try_get::<_, &str>(5)?.parse()?),
        ..Subject::endpoint(task.try_get(3)?, task.try_get(4)?)
    };
    session.write(release, &[&partition.to_text(), &Release::BY_SUCCESS, &now]).await?;
    Ok(())
}

/// What becomes of a run and its task.
struct Ending<'a> {
    run: &'static str,
    task: TaskStatus,
    error: Option<&'a Fault>,
    attempts: u32,
    /// Until a requeued task is visible again; `None` for one that is over.
    delay: Option<Duration>,
}

impl Ending<'_> {
    fn of(op: &EndRun, attempts: u32, committed: bool) -> Ending<'_> {
        let over = |run, task, error| Ending { run, task, error, attempts, delay: None };
        match &op.end {
            RunEnd::Succeeded => over("SUCCEEDED", TaskStatus::Succeeded, None),
            RunEnd::Partial { error } | RunEnd::Split { error, .. } => {
                over("PARTIAL", TaskStatus::Partial, Some(error))
            }
            RunEnd::Failed { error } => over("FAILED", TaskStatus::Failed, Some(error)),
            RunEnd::Requeue { error, counted: true, .. } if attempts >= op.max_attempts => {
                over("FAILED", TaskStatus::Failed, Some(error))
            }
            RunEnd::Requeue { delay, error, counted } => Ending {
                run: match (counted, committed) {
                    (true, _) => "FAILED",
                    (false, true) => "PARTIAL",
                    (false, false) => "CANCELLED",
                },
                task: TaskStatus::Queued,
                error: Some(error),
                attempts: attempts.saturating_sub(u32::from(!counted)),
                delay: Some(*delay),
            },
        }
    }
}
