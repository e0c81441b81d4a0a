//! Runs: opening an attempt at a task and closing it. Every statement carries the fence.

use patra_core::error::Fault;
use patra_core::state::{RunStatus, TaskStatus};
use patra_core::tx::{EndRun, LeaseRef, PauseSubject, ResumePoint, RunEnd, RunEnded, RunStarted, StartRun, TxError};
use patra_core::{RunId, SourceId, TaskId, Ts};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Map, Value, json};

use super::{ledger, pause, poll, split};
use crate::error::{Error, Result};
use crate::sql::word;

const READ_LEASED: &str = "
SELECT plan.status_code IN ('FAILED', 'CANCELLED') OR slice.status_code IN ('FAILED', 'CANCELLED'),
  plan.spec_fingerprint, slice.slice_signature_hash, task.redrive_of, task.redrive_request, task.source_id
FROM ing_task task
JOIN ing_plan plan ON plan.id = task.plan_id
JOIN ing_plan_slice slice ON slice.id = task.slice_id
WHERE task.id = ?1 AND task.lease_epoch = ?2 AND task.status_code IN ('DISPATCHED', 'EXECUTING')";

const CANCEL_TASK: &str = "
UPDATE ing_task
SET status_code = 'CANCELLED', lease_owner = NULL, leased_until = NULL, finished_at = ?3
WHERE id = ?1 AND lease_epoch = ?2";

const CANCEL_RUN: &str = "
UPDATE ing_task_run
SET status_code = 'CANCELLED', finished_at = ?3
WHERE task_id = ?1 AND attempt_no = ?2 AND status_code IN ('PLANNED', 'RUNNING')";

const MARK_EXECUTING: &str = "
UPDATE ing_task
SET status_code = 'EXECUTING', started_at = coalesce(started_at, ?3)
WHERE id = ?1 AND lease_epoch = ?2";

const INSERT_RUN: &str = "
INSERT INTO ing_task_run
  (task_id, plan_id, provenance_code, endpoint_name, operation_code, attempt_no, status_code, window_from, window_to,
   created_at, source_id)
SELECT id, plan_id, provenance_code, endpoint_name, operation_code, ?2, 'RUNNING', window_from, window_to, ?3, source_id
FROM ing_task
WHERE id = ?1
ON CONFLICT (task_id, attempt_no) DO NOTHING
RETURNING id";

const READ_RUN: &str = "SELECT id FROM ing_task_run WHERE task_id = ?1 AND attempt_no = ?2";

const SET_CHECKPOINT: &str = "UPDATE ing_task_run SET checkpoint = ?2 WHERE id = ?1";

const READ_REDRIVEN: &str = "SELECT redrive_of FROM ing_task WHERE id = ?1";

pub(crate) const READ_RESUME: &str = "
SELECT run_id, batch_no, next_position, json_extract(stats, '$.total'), json_extract(stats, '$.taken'),
  json_extract(stats, '$.walk')
FROM ing_task_run_batch
WHERE task_id = ?1 AND status_code = 'SUCCEEDED'
ORDER BY run_id DESC, batch_no DESC
LIMIT 1";

const READ_ATTEMPTS: &str = "
SELECT attempt_count, provenance_code, endpoint_name, operation_code
FROM ing_task
WHERE id = ?1 AND lease_epoch = ?2 AND status_code = 'EXECUTING'";

const READ_STATES: &str = "
SELECT run.attempt_no, run.status_code, task.status_code
FROM ing_task_run run
JOIN ing_task task ON task.id = run.task_id
WHERE run.id = ?1 AND run.task_id = ?2";

const HAS_COMMITTED: &str = "
SELECT EXISTS (SELECT 1 FROM ing_task_run_batch WHERE run_id = ?1 AND status_code = 'SUCCEEDED')";

const CLOSE_RUN: &str = "
UPDATE ing_task_run
SET status_code = ?2, stats = ?3, error = ?4, finished_at = ?5
WHERE id = ?1 AND status_code = 'RUNNING'";

const CLOSE_TASK: &str = "
UPDATE ing_task
SET status_code = ?3, lease_owner = NULL, leased_until = NULL, error = ?4, attempt_count = ?5,
    scheduled_at = coalesce(?6, scheduled_at), finished_at = ?7, items = items + ?8,
    done_from = coalesce(?9, done_from), done_to = coalesce(?10, done_to), replaced = max(replaced, ?11),
    is_unverified = ?12
WHERE id = ?1 AND lease_epoch = ?2 AND status_code = 'EXECUTING'";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    READ_LEASED,
    CANCEL_TASK,
    CANCEL_RUN,
    MARK_EXECUTING,
    INSERT_RUN,
    READ_RUN,
    SET_CHECKPOINT,
    READ_REDRIVEN,
    READ_RESUME,
    READ_ATTEMPTS,
    READ_STATES,
    HAS_COMMITTED,
    CLOSE_RUN,
    CLOSE_TASK,
];

/// A task and whether it may be started.
struct Leased {
    cancelled: bool,
    snapshot_hash: String,
    slice_signature_hash: String,
    /// The task that it drives again, and the request for it.
    redrive: Option<(TaskId, String)>,
    source: Option<SourceId>,
}

pub(super) fn start(db: &Connection, op: StartRun, now: Ts) -> Result<RunStarted> {
    let LeaseRef { task, fence } = op.lease;
    let leased = db.prepare_cached(READ_LEASED)?.query_row([task.0, fence.0], read_leased).optional()?;
    let Leased { cancelled, snapshot_hash, slice_signature_hash, redrive, source } = leased.ok_or(TxError::Fenced)?;
    let at = params![task.0, fence.0, now.micros()];
    if cancelled {
        db.prepare_cached(CANCEL_TASK)?.execute(at)?;
        db.prepare_cached(CANCEL_RUN)?.execute(at)?;
        return Ok(RunStarted::Cancelled);
    }
    db.prepare_cached(MARK_EXECUTING)?.execute(at)?;
    let inserted = db.prepare_cached(INSERT_RUN)?.query_row(at, |row| row.get(0).map(RunId)).optional()?;
    let run = match inserted {
        Some(run) => run,
        None => db.prepare_cached(READ_RUN)?.query_row([task.0, fence.0], |row| row.get(0).map(RunId))?,
    };
    let (mut resume, mut old) = (read_resume(db, task)?, redrive.as_ref().map(|(old, _)| *old));
    while resume.is_none()
        && let Some(task) = old
    {
        resume = read_resume(db, task)?;
        let before: Option<i64> = db.prepare_cached(READ_REDRIVEN)?.query_row([task.0], |row| row.get(0))?;
        old = before.map(TaskId);
    }
    if inserted.is_some()
        && let Some(checkpoint) = checkpoint(resume.as_ref(), redrive.as_ref())
    {
        db.prepare_cached(SET_CHECKPOINT)?.execute(params![run.0, checkpoint])?;
    }
    let known = source.map(|source| poll::known(db, source)).transpose()?.flatten();
    Ok(RunStarted::Go { run, attempt_no: fence.0, snapshot_hash, slice_signature_hash, resume, validators: known })
}

fn read_leased(row: &Row<'_>) -> rusqlite::Result<Leased> {
    let old = row.get::<_, Option<i64>>(3)?.map(TaskId);
    Ok(Leased {
        cancelled: row.get(0)?,
        snapshot_hash: row.get(1)?,
        slice_signature_hash: row.get(2)?,
        redrive: old.zip(row.get(4)?),
        source: row.get::<_, Option<i64>>(5)?.map(SourceId),
    })
}

/// Returns the origin of a resumed or redriven run; nothing for most.
fn checkpoint(resume: Option<&ResumePoint>, redrive: Option<&(TaskId, String)>) -> Option<String> {
    let mut checkpoint = Map::new();
    if let Some(ResumePoint { run, batch_no, .. }) = resume {
        checkpoint.insert("resumedFrom".to_owned(), json!({ "runId": run, "batchNo": batch_no }));
    }
    if let Some((task, request)) = redrive {
        checkpoint.insert("replay".to_owned(), json!({ "task": task, "request": request }));
    }
    (!checkpoint.is_empty()).then(|| Value::from(checkpoint).to_string())
}

fn read_resume(db: &Connection, task: TaskId) -> Result<Option<ResumePoint>> {
    let mut statement = db.prepare_cached(READ_RESUME)?;
    let mut rows = statement.query([task.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let next = row.get::<_, Option<String>>(2)?.map(|text| serde_json::from_str(&text)).transpose()?;
    let number = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.and_then(|n| u64::try_from(n).ok()));
    let (total, taken) = (number(3)?, number(4)?);
    let walk = row.get::<_, Option<String>>(5)?.map(|text| serde_json::from_str(&text)).transpose()?;
    Ok(Some(ResumePoint { run: RunId(row.get(0)?), batch_no: row.get(1)?, next, total, taken, walk }))
}

pub(super) fn end(db: &Connection, op: &EndRun, now: Ts) -> Result<RunEnded> {
    let LeaseRef { task, fence } = op.lease;
    let states: Option<(i64, RunStatus, TaskStatus)> = db
        .prepare_cached(READ_STATES)?
        .query_row([op.run.0, task.0], |row| Ok((row.get(0)?, word(row, 1)?, word(row, 2)?)))
        .optional()?;
    let (attempt_no, run_status, task_status) = states.ok_or(TxError::Fenced)?;
    if attempt_no == fence.0 && run_status.is_final() {
        return Ok(RunEnded { task_status });
    }
    let executing = db.prepare_cached(READ_ATTEMPTS)?.query_row([task.0, fence.0], read_executing).optional()?;
    let (attempts, partition) = executing.ok_or(TxError::Fenced)?;
    if attempt_no != fence.0 {
        return Err(Error::refused(format!("run {} does not belong to this lease", op.run)));
    }
    let close = decide(db, op, attempts, now)?;
    let error = close.error.map(serde_json::to_string).transpose()?;
    let stats = serde_json::to_string(&op.stats)?;
    // Runs before the run is closed: the counters of its end name the page that failed.
    if let Some(failure) = &op.failure {
        ledger::insert_failure(db, op, failure, now)?;
    }
    db.prepare_cached(CLOSE_RUN)?.execute(params![op.run.0, close.run.as_str(), stats, error, now.micros()])?;
    db.prepare_cached(CLOSE_TASK)?.execute(params![
        task.0,
        fence.0,
        close.task.as_str(),
        error,
        close.attempts,
        close.again_at.map(Ts::micros),
        close.task.is_final().then_some(now.micros()),
        op.stats.ret_count,
        op.done.map(|done| done.from.micros()),
        op.done.map(|done| done.to.micros()),
        matches!(op.end, RunEnd::Split { .. }),
        op.is_unverified(),
    ])?;
    if let RunEnd::Split { slices, .. } = &op.end {
        split::replace(db, task, slices, now)?;
    }
    if let Some(wanted) = &op.pause {
        pause::set(db, wanted, now)?;
    }
    if let Some(ended) = &op.poll {
        poll::end(db, op, ended, close.task, now)?;
    }
    if close.task == TaskStatus::Succeeded {
        pause::resume_advisory(db, &partition, now)?;
    }
    Ok(RunEnded { task_status: close.task })
}

/// Reads the attempts of a task, and its partition.
fn read_executing(row: &Row<'_>) -> rusqlite::Result<(u32, PauseSubject)> {
    let operation = Some(word(row, 3)?);
    let partition =
        PauseSubject { provenance_code: row.get(1)?, endpoint_name: row.get(2)?, operation, ..PauseSubject::default() };
    Ok((row.get(0)?, partition))
}

/// Next state of the run and its task.
struct Close<'a> {
    run: RunStatus,
    task: TaskStatus,
    error: Option<&'a Fault>,
    attempts: u32,
    again_at: Option<Ts>,
}

fn decide<'a>(db: &Connection, op: &'a EndRun, attempts: u32, now: Ts) -> Result<Close<'a>> {
    let ended = |run, task, error| Close { run, task, error, attempts, again_at: None };
    Ok(match &op.end {
        RunEnd::Succeeded => ended(RunStatus::Succeeded, TaskStatus::Succeeded, None),
        RunEnd::Partial { error } | RunEnd::Split { error, .. } => {
            ended(RunStatus::Partial, TaskStatus::Partial, Some(error))
        }
        RunEnd::Failed { error } => ended(RunStatus::Failed, TaskStatus::Failed, Some(error)),
        RunEnd::Requeue { error, counted: true, .. } if attempts >= op.max_attempts => {
            ended(RunStatus::Failed, TaskStatus::Failed, Some(error))
        }
        RunEnd::Requeue { delay, error, counted: true } => {
            Close { again_at: Some(now + *delay), ..ended(RunStatus::Failed, TaskStatus::Queued, Some(error)) }
        }
        RunEnd::Requeue { delay, error, counted: false } => {
            let committed = db.prepare_cached(HAS_COMMITTED)?.query_row([op.run.0], |row| row.get(0))?;
            let run = if committed { RunStatus::Partial } else { RunStatus::Cancelled };
            let attempts = attempts.saturating_sub(1);
            Close { attempts, again_at: Some(now + *delay), ..ended(run, TaskStatus::Queued, Some(error)) }
        }
    })
}
