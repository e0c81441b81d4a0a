//! Named locks. The core decides whether one is alive.

use std::time::Duration;

use patra_core::Ts;
use patra_core::crawl::{Execution, is_alive};
use patra_core::state::ExecutionStatus;
use patra_core::tx::{AcquireExecution, EndExecution, ExecutionAcquired, ExecutionKept, KeepExecution};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::crawl;
use crate::error::{Error, Result};
use crate::sql::{count, from_count, maybe_time, time, word};

const READ: &str = "
SELECT execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed,
  project_key
FROM ing_execution
WHERE execution_id = ?1";

const READ_RUNNING: &str = "
SELECT execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed,
  project_key
FROM ing_execution
WHERE project_key = ?1 AND workflow_name = ?2 AND status = 'running'";

const READ_SILENT: &str = "
SELECT execution_id FROM ing_execution WHERE status = 'running' AND heartbeat_at <= ?1";

const INSERT: &str = "
INSERT INTO ing_execution (project_key, workflow_name, execution_id, status, started_at, heartbeat_at)
VALUES (?1, ?2, ?3, 'running', ?4, ?4)
ON CONFLICT (execution_id) DO NOTHING
RETURNING execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed";

const KEEP: &str = "
UPDATE ing_execution
SET heartbeat_at = ?2, items_processed = coalesce(?3, items_processed), items_failed = coalesce(?4, items_failed)
WHERE execution_id = ?1
RETURNING execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed";

const KEEP_RECORDS: &str = "UPDATE crawl_candidate SET locked_at = ?2 WHERE processing_lock = ?1";

const END: &str = "
UPDATE ing_execution
SET status = ?2, completed_at = ?3, items_processed = coalesce(?4, items_processed),
    items_failed = coalesce(?5, items_failed)
WHERE execution_id = ?1
RETURNING execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[READ, READ_RUNNING, READ_SILENT, INSERT, KEEP, KEEP_RECORDS, END];

/// Reads the first eight columns.
pub(crate) fn read_execution(row: &Row<'_>) -> rusqlite::Result<Execution> {
    Ok(Execution {
        execution_id: row.get(0)?,
        workflow_name: row.get(1)?,
        status: word(row, 2)?,
        started_at: time(row, 3)?,
        heartbeat_at: time(row, 4)?,
        completed_at: maybe_time(row, 5)?,
        items_processed: count(row, 6)?,
        items_failed: count(row, 7)?,
    })
}

/// State of an execution for a caller with its id.
pub(super) enum ExecutionState {
    Live { project_key: String },
    Ended(Execution),
    Unknown,
}

/// Ends an execution that is no longer alive.
pub(super) fn find(
    db: &Connection,
    project: Option<&str>,
    execution_id: &str,
    timeout: Duration,
    now: Ts,
) -> Result<ExecutionState> {
    let found = db.prepare_cached(READ)?.query_row([execution_id], |row| Ok((read_execution(row)?, row.get(8)?)));
    let is_theirs = |(_, of): &(Execution, String)| project.is_none_or(|project| project == of);
    let Some((execution, project_key)) = found.optional()?.filter(is_theirs) else {
        return Ok(ExecutionState::Unknown);
    };
    if execution.status != ExecutionStatus::Running {
        return Ok(ExecutionState::Ended(execution));
    }
    if is_alive(execution.heartbeat_at, now, timeout) {
        return Ok(ExecutionState::Live { project_key });
    }
    Ok(ExecutionState::Ended(time_out(db, execution_id, now)?))
}

fn time_out(db: &Connection, execution_id: &str, now: Ts) -> Result<Execution> {
    end_as(db, execution_id, ExecutionStatus::Timeout, (None, None), now)
}

fn end_as(
    db: &Connection,
    execution_id: &str,
    status: ExecutionStatus,
    (processed, failed): (Option<u64>, Option<u64>),
    now: Ts,
) -> Result<Execution> {
    let (processed, failed) = (processed.map(from_count), failed.map(from_count));
    let values = params![execution_id, status.as_str(), now.micros(), processed, failed];
    Ok(db.prepare_cached(END)?.query_row(values, read_execution)?)
}

pub(super) fn acquire(db: &Connection, op: &AcquireExecution, now: Ts) -> Result<ExecutionAcquired> {
    let key = [&op.project_key, &op.workflow_name];
    if let Some(running) = db.prepare_cached(READ_RUNNING)?.query_row(key, read_execution).optional()? {
        if is_alive(running.heartbeat_at, now, op.timeout) {
            let own = running.execution_id == op.execution_id;
            return Ok(if own { ExecutionAcquired::Granted(running) } else { ExecutionAcquired::Held(running) });
        }
        time_out(db, &running.execution_id, now)?;
    }
    let values = params![op.project_key, op.workflow_name, op.execution_id, now.micros()];
    let granted = db.prepare_cached(INSERT)?.query_row(values, read_execution).optional()?;
    let granted = granted.ok_or_else(|| Error::refused(format!("{} was used before", op.execution_id)))?;
    Ok(ExecutionAcquired::Granted(granted))
}

pub(super) fn keep(db: &Connection, op: &KeepExecution, now: Ts) -> Result<ExecutionKept> {
    match find(db, op.project_key.as_deref(), &op.execution_id, op.timeout, now)? {
        ExecutionState::Unknown => return Ok(ExecutionKept::Unknown),
        ExecutionState::Ended(execution) => return Ok(ExecutionKept::Lost(execution)),
        ExecutionState::Live { .. } => {}
    }
    let (processed, failed) = (op.items_processed.map(from_count), op.items_failed.map(from_count));
    let values = params![op.execution_id, now.micros(), processed, failed];
    let kept = db.prepare_cached(KEEP)?.query_row(values, read_execution)?;
    db.prepare_cached(KEEP_RECORDS)?.execute(params![op.execution_id, now.micros()])?;
    Ok(ExecutionKept::Kept(kept))
}

pub(super) fn end(db: &Connection, op: &EndExecution, now: Ts) -> Result<ExecutionKept> {
    if !matches!(op.status, ExecutionStatus::Completed | ExecutionStatus::Failed) {
        return Err(Error::refused(format!("an execution cannot end as {}", op.status)));
    }
    Ok(match find(db, op.project_key.as_deref(), &op.execution_id, op.timeout, now)? {
        ExecutionState::Unknown => ExecutionKept::Unknown,
        ExecutionState::Ended(execution) if execution.status == op.status => ExecutionKept::Kept(execution),
        ExecutionState::Ended(execution) => ExecutionKept::Lost(execution),
        ExecutionState::Live { .. } => {
            let items = (op.items_processed, op.items_failed);
            let ended = end_as(db, &op.execution_id, op.status, items, now)?;
            crawl::release(db, &op.execution_id, op.status, now)?;
            ExecutionKept::Kept(ended)
        }
    })
}

/// Ends all executions that have been silent for too long and returns their number.
pub(super) fn recover(db: &Connection, timeout: Duration, now: Ts) -> Result<u64> {
    let mut statement = db.prepare_cached(READ_SILENT)?;
    let silent: Vec<String> =
        statement.query_map([(now - timeout).micros()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for execution_id in &silent {
        time_out(db, execution_id, now)?;
    }
    Ok(silent.len() as u64)
}
