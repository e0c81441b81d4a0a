//! Opens and closes runs, several at a time. The row of the task is locked first, under the caller's fence: without a
//! row, the lease is lost (D1).

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::future::try_join_all;
use patra_core::paging::Position;
use patra_core::state::TaskStatus;
use patra_core::tx::{EndRun, PauseSubject, ResumePoint, ResumeWork, RunEnd, RunEnded, RunStarted, StartRun, TxError};
use patra_core::{Fault, RunId};
use serde_json::json;
use tokio_postgres::Row;

use super::ledger::{INSERT_FAILURES, Ledger};
use super::{count, now, pause, poll, raw, split, taken};
use crate::error::Fail;
use crate::json::{Json, JsonText};
use crate::pool::{Session, pipeline, unless_empty};
use crate::rows::{Rows, Value};
use crate::time::Time;

/// By key only: with a condition on the status, the planner may read all tasks in progress.
const LOCK_LEASED: &str = "
SELECT t.id, p.status_code, p.spec_fingerprint, s.status_code, t.redrive_of, t.redrive_request, polled.validators,
  s.slice_signature_hash, t.status_code IN ('DISPATCHED', 'EXECUTING'), t.lease_epoch
FROM unnest($1::bigint[], $2::bigint[]) AS asked (task, fence)
JOIN ing_task t ON t.id = asked.task AND t.lease_epoch = asked.fence
JOIN ing_plan p ON p.id = t.plan_id
JOIN ing_plan_slice s ON s.id = t.slice_id
LEFT JOIN source polled ON polled.id = t.source_id
ORDER BY t.id
FOR UPDATE OF t";

const FIND_RUNS: &str = "
SELECT moment.now, r.task_id, r.attempt_no, r.id
FROM (SELECT clock_timestamp() AS now) AS moment
LEFT JOIN (
  unnest($1::bigint[], $2::bigint[]) AS asked (task, fence)
  JOIN ing_task_run r ON r.task_id = asked.task AND r.attempt_no = asked.fence
) ON true";

/// The run with the greatest id is the latest of a task. A redrive resumes where its original task stopped, as long as
/// it has no run of its own.
const LAST_BATCH: &str = "
WITH RECURSIVE driven AS (
  SELECT id, redrive_of, 0 AS step FROM ing_task WHERE id = $1
  UNION ALL
  SELECT t.id, t.redrive_of, driven.step + 1 FROM driven JOIN ing_task t ON t.id = driven.redrive_of
)
SELECT last.run_id, last.batch_no, last.next_position, last.total, last.taken, last.walk
FROM driven
CROSS JOIN LATERAL (
  SELECT b.run_id, b.batch_no, b.next_position, (b.stats->>'total')::bigint AS total, (b.stats->>'taken')::bigint AS taken,
    b.stats->>'walk' AS walk
  FROM ing_task_run_batch b
  WHERE b.task_id = driven.id AND b.status_code = 'SUCCEEDED'
  ORDER BY b.run_id DESC, b.batch_no DESC
  LIMIT 1
) AS last
ORDER BY driven.step
LIMIT 1";

const CANCEL_TASKS: &str = "
UPDATE ing_task
SET status_code = 'CANCELLED', finished_at = $2, lease_owner = NULL, leased_until = NULL
WHERE id = ANY ($1)";

const OPEN_RUNS: &str = "
WITH executing AS (
  UPDATE ing_task t SET status_code = 'EXECUTING', started_at = coalesce(t.started_at, $3)
  FROM unnest($1::bigint[], $2::jsonb[]) AS opened (task, checkpoint)
  WHERE t.id = opened.task
  RETURNING t.*, opened.checkpoint
)
INSERT INTO ing_task_run (task_id, plan_id, provenance_code, endpoint_name, operation_code, attempt_no, status_code,
  checkpoint, window_from, window_to, created_at, source_id)
SELECT id, plan_id, provenance_code, endpoint_name, operation_code, lease_epoch, 'RUNNING', checkpoint, window_from,
  window_to, $3, source_id
FROM executing
RETURNING task_id, attempt_no, id";

const LOCK_TASKS: &str = "
SELECT id, status_code, lease_epoch, attempt_count, provenance_code, endpoint_name, operation_code
FROM ing_task WHERE id = ANY ($1) ORDER BY id FOR UPDATE";

/// Returns the time, and whether there is any advisory pause that a success could end.
const READ_RUNS: &str = "
SELECT moment.now, r.id, r.task_id, moment.is_advised,
  r.status_code IN ('SUCCEEDED', 'PARTIAL', 'FAILED', 'CANCELLED'), r.attempt_no,
  EXISTS (SELECT 1 FROM ing_task_run_batch b WHERE b.run_id = r.id AND b.status_code = 'SUCCEEDED')
FROM (
  SELECT clock_timestamp() AS now,
    EXISTS (SELECT 1 FROM ing_hold WHERE kind_code = 'ADVISORY' AND released_at IS NULL) AS is_advised
) AS moment
LEFT JOIN (
  unnest($1::bigint[], $2::bigint[]) AS asked (task, run)
  JOIN ing_task_run r ON r.id = asked.run AND r.task_id = asked.task
) ON true";

/// `MATERIALIZED`: both updates read it. It locks the rows and checks the fence.
const END_RUNS: &str = "
WITH ended AS MATERIALIZED (
  SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::jsonb[], $6::jsonb[], $7::bigint[],
      $8::timestamptz[], $9::timestamptz[], $10::bigint[], $11::timestamptz[], $12::timestamptz[], $13::int[],
      $14::int[])
    AS ended (task, run, task_status, run_status, error, stats, attempts, scheduled_at, finished_at, items, done_from,
      done_to, replaced, is_unverified)
),
closed AS (
  UPDATE ing_task_run r
  SET status_code = ended.run_status, error = ended.error, stats = ended.stats, finished_at = $15
  FROM ended
  WHERE r.id = ended.run
)
UPDATE ing_task t
SET status_code = ended.task_status, error = ended.error, attempt_count = ended.attempts,
  scheduled_at = coalesce(ended.scheduled_at, t.scheduled_at), finished_at = ended.finished_at,
  items = t.items + ended.items, done_from = coalesce(ended.done_from, t.done_from),
  done_to = coalesce(ended.done_to, t.done_to), replaced = greatest(t.replaced, ended.replaced),
  is_unverified = ended.is_unverified, lease_owner = NULL, leased_until = NULL
FROM ended
WHERE t.id = ended.task";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[LOCK_LEASED, FIND_RUNS, LAST_BATCH, CANCEL_TASKS, OPEN_RUNS, LOCK_TASKS, READ_RUNS, END_RUNS];

pub(super) async fn start(session: &Session, ops: &[StartRun]) -> Result<Vec<Result<RunStarted, TxError>>, Fail> {
    let [lock, find, last, cancel, open] =
        session.prepare([LOCK_LEASED, FIND_RUNS, LAST_BATCH, CANCEL_TASKS, OPEN_RUNS]).await?;
    let asked: Rows<'_, 2> = ops.iter().map(|op| [&op.lease.task.0 as Value<'_>, &op.lease.fence.0]).collect();
    let ((), leased, opened) = pipeline!(
        session.begin_by_key(ops.len()),
        session.rows(&lock, &asked.params()),
        session.rows(&find, &asked.params()),
    )?;
    let now = now(&opened)?;
    let mut leased = leased.iter().map(Leased::read).collect::<Result<HashMap<_, _>, _>>()?;
    leased.retain(|_, leased| leased.is_held);
    let mut runs = run_ids(taken(&opened)?, 1)?;
    // The first run of a task has nothing to resume, unless it is opened again.
    let may_resume = |(at, leased): &(&At, &Leased)| at.1 > 1 || leased.redriven.is_some() || runs.contains_key(*at);
    let resumed = leased.iter().filter(may_resume).map(async |((task, _), _)| {
        let last = session.opt(&last, &[task]).await?;
        Ok::<_, Fail>((*task, last.as_ref().map(read_resume).transpose()?))
    });
    let resumes: HashMap<_, _> = try_join_all(resumed).await?.into_iter().collect();
    let resume_of = |task| resumes.get(&task).and_then(Option::as_ref);
    let (mut cancelled, mut opening) = (Vec::new(), Vec::new());
    for (at, leased) in &leased {
        if leased.is_cancelled {
            cancelled.push(at.0);
        } else if !runs.contains_key(at) {
            opening.push((at.0, leased.checkpoint(resume_of(at.0))?));
        }
    }
    let tasks: Rows<'_, 2> = opening.iter().map(|(task, checkpoint)| [task as Value<'_>, checkpoint]).collect();
    let [ids, checkpoints] = tasks.params();
    let (_, opened, ()) = pipeline!(
        unless_empty(&cancelled, session.write(&cancel, &[&cancelled, &now])),
        unless_empty(&opening, session.rows(&open, &[ids, checkpoints, &now])),
        session.commit(),
    )?;
    runs.extend(run_ids(opened.iter(), 0)?);
    let result = |op: &StartRun| {
        let at = (op.lease.task.0, op.lease.fence.0);
        let leased = leased.get(&at).ok_or(TxError::Fenced)?;
        if leased.is_cancelled {
            return Ok(RunStarted::Cancelled);
        }
        let run = *runs.get(&at).ok_or_else(|| TxError::Refused("a run was not opened".to_owned()))?;
        Ok(RunStarted::Go {
            run,
            attempt_no: op.lease.fence.0,
            snapshot_hash: leased.snapshot_hash.clone(),
            slice_signature_hash: leased.slice_signature_hash.clone(),
            resume: resume_of(at.0).cloned(),
            // Unreadable validators cost one full response, no more.
            validators: leased.known.as_ref().and_then(|JsonText(text)| serde_json::from_str(text).ok()),
        })
    };
    Ok(ops.iter().map(result).collect())
}

/// A task and a fence. A group may contain operations of a lost lease and of the lease that replaced it.
type At = (i64, i64);

/// Matches by task and fence, in the columns before them.
fn run_ids<'a>(rows: impl Iterator<Item = &'a Row>, at: usize) -> Result<HashMap<At, RunId>, Fail> {
    rows.map(|row| Ok(((row.try_get(at)?, row.try_get(at + 1)?), RunId(row.try_get(at + 2)?)))).collect()
}

/// A task whose row is locked, as its run sees it.
struct Leased {
    /// DISPATCHED or EXECUTING.
    is_held: bool,
    is_cancelled: bool,
    snapshot_hash: String,
    slice_signature_hash: String,
    /// The task that this one drives again, and the request for it.
    redriven: Option<(i64, Option<String>)>,
    known: Option<JsonText>,
}

impl Leased {
    fn read(row: &Row) -> Result<(At, Leased), Fail> {
        let (plan, slice): (&str, &str) = (row.try_get(1)?, row.try_get(3)?);
        let request = row.try_get(5)?;
        let leased = Leased {
            is_held: row.try_get(8)?,
            is_cancelled: [plan, slice].into_iter().any(|status| matches!(status, "FAILED" | "CANCELLED")),
            snapshot_hash: row.try_get(2)?,
            slice_signature_hash: row.try_get(7)?,
            redriven: row.try_get::<_, Option<i64>>(4)?.map(|task| (task, request)),
            known: row.try_get(6)?,
        };
        Ok(((row.try_get(0)?, row.try_get(9)?), leased))
    }

    /// Origin of a new run, for its row.
    fn checkpoint(&self, resume: Option<&ResumePoint>) -> Result<Option<Json<String>>, Fail> {
        let mut checkpoint = serde_json::Map::new();
        if let Some(resume) = resume {
            let from = json!({ "runId": resume.run, "batchNo": resume.batch_no });
            checkpoint.insert("resumedFrom".to_owned(), from);
        }
        if let Some((task, request)) = &self.redriven {
            checkpoint.insert("replay".to_owned(), json!({ "task": task, "request": request }));
        }
        Ok((!checkpoint.is_empty()).then(|| Json::of(&checkpoint)).transpose()?)
    }
}

fn read_resume(row: &Row) -> Result<ResumePoint, Fail> {
    let next: Option<JsonText> = row.try_get(2)?;
    let next = next.map(|JsonText(text)| serde_json::from_str::<Position>(&text)).transpose()?;
    let number = |at| Ok::<_, Fail>(row.try_get::<_, Option<i64>>(at)?.and_then(|n| u64::try_from(n).ok()));
    let (total, taken) = (number(3)?, number(4)?);
    let walk = row.try_get::<_, Option<&str>>(5)?.map(serde_json::from_str).transpose()?;
    Ok(ResumePoint { run: RunId(row.try_get(0)?), batch_no: count(row.try_get(1)?), next, total, taken, walk })
}

pub(super) async fn end(session: &Session, ops: &[&EndRun]) -> Result<Vec<Result<RunEnded, TxError>>, Fail> {
    let [lock, read, end, set_pause, end_advice] =
        session.prepare([LOCK_TASKS, READ_RUNS, END_RUNS, pause::INSERT, pause::RESUME_ADVISORY]).await?;
    let tasks: Vec<_> = ops.iter().map(|op| op.lease.task.0).collect();
    let asked: Rows<'_, 2> = ops.iter().map(|op| [&op.lease.task.0 as Value<'_>, &op.run.0]).collect();
    let ((), tasks, found) = pipeline!(
        session.begin_by_key(ops.len()),
        session.rows(&lock, &[&tasks]),
        session.rows(&read, &asked.params()),
    )?;
    let now = now(&found)?;
    let tasks = tasks.iter().map(|row| Ok((row.try_get(0)?, row))).collect::<Result<HashMap<i64, _>, Fail>>()?;
    let runs = taken(&found)?.map(|row| Ok(((row.try_get(2)?, row.try_get(1)?), row)));
    let runs = runs.collect::<Result<HashMap<(i64, i64), _>, Fail>>()?;
    let run_of = |op: &EndRun| runs.get(&(op.lease.task.0, op.run.0)).copied();
    let judged = ops.iter().map(|op| Judgement::of(op, tasks.get(&op.lease.task.0).copied(), run_of(op)));
    let judged = judged.collect::<Result<Vec<_>, _>>()?;
    let mut endings = Vec::new();
    for (op, judgement) in ops.iter().zip(&judged) {
        let Judgement::Ends(ending) = judgement else { continue };
        record_failure(session, op, now).await?;
        poll::end(session, op, ending.task, now).await?;
        if let RunEnd::Split { slices, .. } = &op.end {
            split::replace(session, op.lease.task, slices, now).await?;
        }
        if let Some(wanted) = &op.pause {
            pause::put(session, &set_pause, wanted, now).await?;
        }
        endings.push(Closed::of(op, ending, now)?);
    }
    let ended: Rows<'_, 14> = endings.iter().map(Closed::row).collect();
    let ended: Vec<_> = ended.params().into_iter().chain([&now as Value<'_>]).collect();
    let is_advised = found.first().map_or(Ok(false), |row| row.try_get(3))?;
    let resolved = if is_advised { resolved(&endings, &tasks)? } else { Vec::new() };
    pipeline!(
        unless_empty(&endings, session.write(&end, &ended)),
        unless_empty(&resolved, session.write(&end_advice, &[&resolved, &ResumeWork::BY_SUCCESS, &now])),
        session.commit(),
    )?;
    Ok(judged.into_iter().map(Judgement::result).collect())
}

/// State of a run that is to be closed.
enum Judgement<'a> {
    Ends(Ending<'a>),
    /// Whether it was closed before under this fence.
    Ended(TaskStatus),
    Refused(TxError),
}

impl<'a> Judgement<'a> {
    fn of(op: &'a EndRun, task: Option<&Row>, run: Option<&Row>) -> Result<Judgement<'a>, Fail> {
        let (Some(task), Some(run)) = (task, run) else { return Ok(Judgement::Refused(TxError::Fenced)) };
        let fence = op.lease.fence.0;
        let status: TaskStatus = task.try_get::<_, &str>(1)?.parse()?;
        let (is_closed, attempt_no): (bool, i64) = (run.try_get(4)?, run.try_get(5)?);
        Ok(if is_closed && attempt_no == fence {
            Judgement::Ended(status)
        } else if status != TaskStatus::Executing || task.try_get::<_, i64>(2)? != fence {
            Judgement::Refused(TxError::Fenced)
        } else if attempt_no != fence {
            Judgement::Refused(TxError::Refused(format!("run {} is not of fence {fence}", op.run)))
        } else {
            Judgement::Ends(Ending::of(op, count(task.try_get(3)?), run.try_get(6)?))
        })
    }

    fn result(self) -> Result<RunEnded, TxError> {
        match self {
            Judgement::Ends(ending) => Ok(RunEnded { task_status: ending.task }),
            Judgement::Ended(task_status) => Ok(RunEnded { task_status }),
            Judgement::Refused(error) => Err(error),
        }
    }
}

/// The values of an end, in the types of the columns.
struct Closed<'a> {
    op: &'a EndRun,
    task_status: &'static str,
    run_status: &'static str,
    error: Option<Json<String>>,
    stats: Json<String>,
    attempts: i64,
    scheduled_at: Option<Time>,
    finished_at: Option<Time>,
    items: i64,
    done_from: Option<Time>,
    done_to: Option<Time>,
    replaced: i32,
    is_unverified: i32,
}

impl<'a> Closed<'a> {
    fn of(op: &'a EndRun, ending: &Ending<'_>, now: Time) -> Result<Closed<'a>, Fail> {
        Ok(Closed {
            op,
            task_status: ending.task.as_str(),
            run_status: ending.run,
            error: ending.error.map(Json::of).transpose()?,
            stats: Json::of(&op.stats)?,
            attempts: i64::from(ending.attempts),
            scheduled_at: ending.delay.map(|delay| Time(now.0 + delay)),
            finished_at: ending.delay.is_none().then_some(now),
            items: i64::from(op.stats.ret_count),
            done_from: op.done.map(|done| Time(done.from)),
            done_to: op.done.map(|done| Time(done.to)),
            replaced: i32::from(matches!(op.end, RunEnd::Split { .. })),
            is_unverified: i32::from(op.is_unverified()),
        })
    }

    /// The values in the order of the statement.
    fn row(&self) -> [Value<'_>; 14] {
        [
            &self.op.lease.task.0,
            &self.op.run.0,
            &self.task_status,
            &self.run_status,
            &self.error,
            &self.stats,
            &self.attempts,
            &self.scheduled_at,
            &self.finished_at,
            &self.items,
            &self.done_from,
            &self.done_to,
            &self.replaced,
            &self.is_unverified,
        ]
    }
}

/// Writes a FAILED ledger row with its raw response. An existing row stays, and so does its response.
async fn record_failure(session: &Session, op: &EndRun, now: Time) -> Result<(), Fail> {
    let Some(failure) = &op.failure else { return Ok(()) };
    let [insert, keep] = session.prepare([INSERT_FAILURES, raw::INSERT]).await?;
    let entry = Ledger::of_failure(op, failure, now)?;
    let rows: Rows<'_, 32> = [entry.row()].into_iter().collect();
    let recorded = session.write(&insert, &rows.params()).await?;
    let response = failure.raw.as_ref().filter(|_| recorded > 0);
    raw::keep(session, &keep, op.run, failure.batch_no, response, now).await
}

/// A success of a task ends the advisory pause of its partition.
fn resolved(endings: &[Closed<'_>], tasks: &HashMap<i64, &Row>) -> Result<Vec<String>, Fail> {
    let mut subjects = BTreeSet::new();
    for ending in endings.iter().filter(|ending| ending.op.end == RunEnd::Succeeded) {
        let Some(task) = tasks.get(&ending.op.lease.task.0) else { continue };
        let partition = PauseSubject {
            operation: Some(task.try_get::<_, &str>(6)?.parse()?),
            ..PauseSubject::endpoint(task.try_get(4)?, task.try_get(5)?)
        };
        subjects.insert(partition.to_text());
    }
    Ok(subjects.into_iter().collect())
}

/// Next state of a run and its task.
struct Ending<'a> {
    run: &'static str,
    task: TaskStatus,
    error: Option<&'a Fault>,
    attempts: u32,
    /// Time until a requeued task is visible again; `None` for an ended task.
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
