//! Redrive: running ended work again.

use patra_core::paging::Position;
use patra_core::tx::{RedriveTarget, RedriveWork, Redriven, TaskView, TxError};
use patra_core::{BatchId, TaskId};

use super::{NOW, moment};
use crate::error::{Fail, refused};
use crate::json::JsonText;
use crate::pool::{Session, pipeline};

const READ_RUN: &str = "SELECT task_id FROM ing_task_run WHERE id = $1";

/// Archived batches count as executed too.
const READ_BATCH: &str = "
SELECT id, stats, next_position FROM ing_task_run_batch
WHERE run_id = $1 AND batch_no = $2 AND status_code IN ('SUCCEEDED', 'SKIPPED')
UNION ALL
SELECT row_id, body::jsonb -> 'stats', nullif(body::jsonb -> 'next_position', 'null') FROM ing_archive
WHERE run_id = $1 AND batch_no = $2 AND kind_code = 'BATCH'
  AND body::jsonb ->> 'status_code' IN ('SUCCEEDED', 'SKIPPED')
LIMIT 1";

const LOCK_TASK: &str = "
SELECT status_code, replaced = 1, source_id IS NOT NULL FROM ing_task WHERE id = $1 FOR UPDATE";

const FIND: &str = "SELECT id FROM ing_task WHERE idempotent_key = $1";

/// Locks the slice, then the plan, like cancelling does.
const LOCK_SLICE: &str = "
SELECT s.id FROM ing_plan_slice s WHERE s.id = (SELECT slice_id FROM ing_task WHERE id = $1) FOR UPDATE";

const LOCK_PLAN: &str = "
SELECT p.status_code FROM ing_plan p WHERE p.id = (SELECT plan_id FROM ing_task WHERE id = $1) FOR SHARE";

const REOPEN_SLICE: &str = "
UPDATE ing_plan_slice SET status_code = 'READY'
WHERE id = (SELECT slice_id FROM ing_task WHERE id = $1) AND status_code = 'CANCELLED'";

const REPLACE: &str = "UPDATE ing_task SET replaced = 1 WHERE id = $1";

const INSERT: &str = "
INSERT INTO ing_task (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name,
  operation_code, credential_id, params, expr_hash, idempotent_key, window_from, window_to, ordinal, last_id,
  redrive_of, redrive_request, c_max, status_code, priority, scheduled_at, created_at)
SELECT schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name,
  operation_code, credential_id, params, expr_hash, $2, window_from, window_to, ordinal, last_id,
  id, $3, c_max, 'QUEUED', priority, $4, $4
FROM ing_task WHERE id = $1
RETURNING id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[READ_RUN, READ_BATCH, LOCK_TASK, FIND, LOCK_SLICE, LOCK_PLAN, REOPEN_SLICE, REPLACE, INSERT];

pub(super) async fn redrive(session: &Session, op: &RedriveWork) -> Result<Redriven, Fail> {
    session.begin().await?;
    let redriven = match op.target {
        RedriveTarget::Task(task) => drive(session, op, task).await?,
        RedriveTarget::Batch { run, batch_no } => {
            let [read_run, read_batch] = session.prepare([READ_RUN, READ_BATCH]).await?;
            let (task, batch) = pipeline!(
                session.opt(&read_run, &[&run.0]),
                session.opt(&read_batch, &[&run.0, &i64::from(batch_no)]),
            )?;
            match (task, batch) {
                (None, _) => Redriven::NotFound,
                (Some(_), Some(batch)) => read_back(&batch)?,
                (Some(task), None) => drive(session, op, TaskId(task.try_get(0)?)).await?,
            }
        }
    };
    session.commit().await?;
    Ok(redriven)
}

/// The recorded result of an executed batch.
fn read_back(row: &tokio_postgres::Row) -> Result<Redriven, Fail> {
    let stats = serde_json::from_str(&row.try_get::<_, JsonText>(1)?.0)?;
    let next: Option<JsonText> = row.try_get(2)?;
    let next = next.map(|JsonText(text)| serde_json::from_str::<Position>(&text)).transpose()?;
    Ok(Redriven::ReadBack { batch: BatchId(row.try_get(0)?), stats, next })
}

async fn drive(session: &Session, op: &RedriveWork, task: TaskId) -> Result<Redriven, Fail> {
    let [lock, find, slice, plan, now] = session.prepare([LOCK_TASK, FIND, LOCK_SLICE, LOCK_PLAN, NOW]).await?;
    let [reopen, replace, insert] = session.prepare([REOPEN_SLICE, REPLACE, INSERT]).await?;
    let key = op.key(task);
    let (old, made) = pipeline!(session.opt(&lock, &[&task.0]), session.opt(&find, &[&key]))?;
    let Some(old) = old else { return Ok(Redriven::NotFound) };
    if let Some(made) = made {
        return Ok(Redriven::Queued { task: TaskId(made.try_get(0)?), existed: true });
    }
    if old.try_get(2)? {
        return Err(refused("the task is a poll: poll its source again"));
    }
    TaskView { status: old.try_get::<_, &str>(0)?.parse()?, replaced: old.try_get(1)? }.redrivable()?;
    let (_, plan, now) =
        pipeline!(session.opt(&slice, &[&task.0]), session.opt(&plan, &[&task.0]), moment(session, &now),)?;
    let status = plan.ok_or(TxError::Conflict)?.try_get::<_, String>(0)?;
    if matches!(&*status, "FAILED" | "CANCELLED") {
        return Err(refused(format!("the task's plan is {status}: trigger the work again")));
    }
    let (_, _, made) = pipeline!(
        session.write(&reopen, &[&task.0]),
        session.write(&replace, &[&task.0]),
        session.one(&insert, &[&task.0, &key, &op.request, &now]),
    )?;
    Ok(Redriven::Queued { task: TaskId(made.try_get(0)?), existed: false })
}
