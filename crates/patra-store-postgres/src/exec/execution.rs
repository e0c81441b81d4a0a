//! Named locks. The core decides whether one is alive. An execution is locked before the records that it has claimed.

use std::time::Duration;

use patra_core::crawl::{Execution, is_alive};
use patra_core::state::ExecutionStatus;
use patra_core::tx::{AcquireExecution, EndExecution, ExecutionAcquired, ExecutionKept, KeepExecution, TxError};
use tokio_postgres::Row;

use super::{NOW, crawl, moment};
use crate::error::{Fail, refused};
use crate::pool::{Session, pipeline};
use crate::query::count;
use crate::time::{Time, maybe};

const LOCK: &str = "
SELECT execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed,
  project_key
FROM ing_execution
WHERE execution_id = $1
FOR UPDATE";

const LOCK_RUNNING: &str = "
SELECT execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed
FROM ing_execution
WHERE project_key = $1 AND workflow_name = $2 AND status = 'running'
FOR UPDATE";

const READ_RUNNING: &str = "
SELECT execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed
FROM ing_execution
WHERE project_key = $1 AND workflow_name = $2 AND status = 'running'";

const LOCK_SILENT: &str = "
SELECT execution_id FROM ing_execution WHERE status = 'running' AND heartbeat_at <= $1 ORDER BY id FOR UPDATE";

/// Conflicts on either of the two unique keys.
const INSERT: &str = "
INSERT INTO ing_execution (project_key, workflow_name, execution_id, status, started_at, heartbeat_at)
VALUES ($1, $2, $3, 'running', $4, $4)
ON CONFLICT DO NOTHING
RETURNING execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed";

const KEEP: &str = "
UPDATE ing_execution
SET heartbeat_at = $2, items_processed = coalesce($3, items_processed), items_failed = coalesce($4, items_failed)
WHERE execution_id = $1
RETURNING execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed";

/// Rows are locked in the order of their ids, here and wherever several are locked.
const KEEP_RECORDS: &str = "
WITH held AS MATERIALIZED (SELECT id FROM crawl_candidate WHERE processing_lock = $1 ORDER BY id FOR UPDATE)
UPDATE crawl_candidate SET locked_at = $2 WHERE id = ANY (ARRAY(SELECT id FROM held)) AND processing_lock = $1";

const END: &str = "
UPDATE ing_execution
SET status = $2, completed_at = $3, items_processed = coalesce($4, items_processed),
  items_failed = coalesce($5, items_failed)
WHERE execution_id = $1
RETURNING execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[LOCK, LOCK_RUNNING, READ_RUNNING, LOCK_SILENT, INSERT, KEEP, KEEP_RECORDS, END];

/// Reads the first eight columns.
pub(crate) fn read_execution(row: &Row) -> Result<Execution, Fail> {
    let time = |at| Ok::<_, Fail>(row.try_get::<_, Time>(at)?.0);
    Ok(Execution {
        execution_id: row.try_get(0)?,
        workflow_name: row.try_get(1)?,
        status: row.try_get::<_, &str>(2)?.parse()?,
        started_at: time(3)?,
        heartbeat_at: time(4)?,
        completed_at: maybe(row, 5)?,
        items_processed: count(row, 6)?,
        items_failed: count(row, 7)?,
    })
}

pub(super) fn from_count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// State of an execution for a caller with its id.
pub(super) enum ExecutionState {
    Live { project_key: String },
    Ended(Execution),
    Unknown,
}

/// Begins the transaction and locks the execution. Ends an execution that is no longer alive.
pub(super) async fn find(
    session: &Session,
    project: Option<&str>,
    execution_id: &str,
    timeout: Duration,
) -> Result<(ExecutionState, Time), Fail> {
    let [lock, now] = session.prepare([LOCK, NOW]).await?;
    let ((), row, now) = pipeline!(session.begin(), session.opt(&lock, &[&execution_id]), moment(session, &now))?;
    let Some(row) = row else { return Ok((ExecutionState::Unknown, now)) };
    let project_key: String = row.try_get(8)?;
    if project.is_some_and(|project| project != project_key) {
        return Ok((ExecutionState::Unknown, now));
    }
    let execution = read_execution(&row)?;
    let found = match execution.status {
        ExecutionStatus::Running if is_alive(execution.heartbeat_at, now.0, timeout) => {
            ExecutionState::Live { project_key }
        }
        ExecutionStatus::Running => ExecutionState::Ended(time_out(session, execution_id, now).await?),
        _ => ExecutionState::Ended(execution),
    };
    Ok((found, now))
}

async fn time_out(session: &Session, execution_id: &str, now: Time) -> Result<Execution, Fail> {
    end_as(session, execution_id, ExecutionStatus::Timeout, (None, None), now).await
}

async fn end_as(
    session: &Session,
    execution_id: &str,
    status: ExecutionStatus,
    (processed, failed): (Option<u64>, Option<u64>),
    now: Time,
) -> Result<Execution, Fail> {
    let [end] = session.prepare([END]).await?;
    let (processed, failed) = (processed.map(from_count), failed.map(from_count));
    let row = session.one(&end, &[&execution_id, &status.as_str(), &now, &processed, &failed]).await?;
    read_execution(&row)
}

pub(super) async fn acquire(session: &Session, op: &AcquireExecution) -> Result<ExecutionAcquired, Fail> {
    let [lock, now, insert, read] = session.prepare([LOCK_RUNNING, NOW, INSERT, READ_RUNNING]).await?;
    let ((), running, now) =
        pipeline!(session.begin(), session.opt(&lock, &[&op.project_key, &op.workflow_name]), moment(session, &now),)?;
    if let Some(running) = running.as_ref().map(read_execution).transpose()? {
        if is_alive(running.heartbeat_at, now.0, op.timeout) {
            session.commit().await?;
            return Ok(acquired(running, op));
        }
        time_out(session, &running.execution_id, now).await?;
    }
    let inserted = session.opt(&insert, &[&op.project_key, &op.workflow_name, &op.execution_id, &now]).await?;
    if let Some(row) = inserted {
        let granted = read_execution(&row)?;
        session.commit().await?;
        return Ok(ExecutionAcquired::Granted(granted));
    }
    // Another caller was faster, or the id exists already.
    let row = session.opt(&read, &[&op.project_key, &op.workflow_name]).await?;
    if let Some(running) = row.as_ref().map(read_execution).transpose()? {
        session.commit().await?;
        return Ok(acquired(running, op));
    }
    let [known] = session.prepare([LOCK]).await?;
    match session.opt(&known, &[&op.execution_id]).await? {
        Some(_) => Err(refused(format!("{} was used before", op.execution_id))),
        // The faster caller has released the lock again.
        None => Err(TxError::Busy.into()),
    }
}

fn acquired(running: Execution, op: &AcquireExecution) -> ExecutionAcquired {
    let own = running.execution_id == op.execution_id;
    if own { ExecutionAcquired::Granted(running) } else { ExecutionAcquired::Held(running) }
}

pub(super) async fn keep(session: &Session, op: &KeepExecution) -> Result<ExecutionKept, Fail> {
    let [keep, keep_records] = session.prepare([KEEP, KEEP_RECORDS]).await?;
    let (found, now) = find(session, op.project_key.as_deref(), &op.execution_id, op.timeout).await?;
    let kept = match found {
        ExecutionState::Unknown => ExecutionKept::Unknown,
        ExecutionState::Ended(execution) => ExecutionKept::Lost(execution),
        ExecutionState::Live { .. } => {
            let (processed, failed) = (op.items_processed.map(from_count), op.items_failed.map(from_count));
            let (row, _) = pipeline!(
                session.one(&keep, &[&op.execution_id, &now, &processed, &failed]),
                session.write(&keep_records, &[&op.execution_id, &now]),
            )?;
            ExecutionKept::Kept(read_execution(&row)?)
        }
    };
    session.commit().await?;
    Ok(kept)
}

pub(super) async fn end(session: &Session, op: &EndExecution) -> Result<ExecutionKept, Fail> {
    if !matches!(op.status, ExecutionStatus::Completed | ExecutionStatus::Failed) {
        return Err(refused(format!("an execution cannot end as {}", op.status)));
    }
    let (found, now) = find(session, op.project_key.as_deref(), &op.execution_id, op.timeout).await?;
    let kept = match found {
        ExecutionState::Unknown => ExecutionKept::Unknown,
        ExecutionState::Ended(execution) if execution.status == op.status => ExecutionKept::Kept(execution),
        ExecutionState::Ended(execution) => ExecutionKept::Lost(execution),
        ExecutionState::Live { .. } => {
            let items = (op.items_processed, op.items_failed);
            let ended = end_as(session, &op.execution_id, op.status, items, now).await?;
            crawl::release(session, &op.execution_id, op.status, now).await?;
            ExecutionKept::Kept(ended)
        }
    };
    session.commit().await?;
    Ok(kept)
}

/// Ends all executions that have been silent for too long and returns their number.
pub(super) async fn recover(session: &Session, timeout: Duration, now: Time) -> Result<u64, Fail> {
    let [lock] = session.prepare([LOCK_SILENT]).await?;
    let silent = session.rows(&lock, &[&Time(now.0 - timeout)]).await?;
    for row in &silent {
        time_out(session, row.try_get(0)?, now).await?;
    }
    Ok(silent.len() as u64)
}
