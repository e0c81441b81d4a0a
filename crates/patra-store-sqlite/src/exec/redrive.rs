//! Redrive: running ended work again.

use patra_core::state::{BatchStatus, PlanStatus};
use patra_core::tx::{RedriveTarget, RedriveWork, Redriven, TaskView};
use patra_core::{BatchId, RunId, TaskId, Ts};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::{Error, Result};
use crate::sql::word;

const READ_RUN: &str = "SELECT task_id FROM ing_task_run WHERE id = ?1";

// Archived batches count as executed too.
const READ_BATCH: &str = "
SELECT id, status_code, stats, next_position FROM ing_task_run_batch WHERE run_id = ?1 AND batch_no = ?2
UNION ALL
SELECT row_id, body ->> '$.status_code', body -> '$.stats', body -> '$.next_position'
FROM ing_archive
WHERE run_id = ?1 AND batch_no = ?2 AND kind_code = 'BATCH'
LIMIT 1";

const READ_TASK: &str = "
SELECT task.status_code, task.replaced, plan.status_code, task.source_id IS NOT NULL
FROM ing_task task JOIN ing_plan plan ON plan.id = task.plan_id
WHERE task.id = ?1";

const FIND: &str = "SELECT id FROM ing_task WHERE idempotent_key = ?1";

const INSERT: &str = "
INSERT INTO ing_task
  (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name, operation_code,
   credential_id, params, expr_hash, idempotent_key, window_from, window_to, ordinal, last_id, status_code, priority,
   scheduled_at, c_max, redrive_of, redrive_request, created_at)
SELECT schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name, operation_code,
   credential_id, params, expr_hash, ?2, window_from, window_to, ordinal, last_id, 'QUEUED', priority,
   ?4, c_max, id, ?3, ?4
FROM ing_task
WHERE id = ?1
RETURNING id";

const REOPEN_SLICE: &str = "
UPDATE ing_plan_slice SET status_code = 'READY'
WHERE id = (SELECT slice_id FROM ing_task WHERE id = ?1) AND status_code = 'CANCELLED'";

const MARK_REPLACED: &str = "UPDATE ing_task SET replaced = 1 WHERE id = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[READ_RUN, READ_BATCH, READ_TASK, FIND, INSERT, REOPEN_SLICE, MARK_REPLACED];

pub(super) fn redrive(db: &Connection, op: &RedriveWork, now: Ts) -> Result<Redriven> {
    match op.target {
        RedriveTarget::Task(task) => drive(db, op, task, now),
        RedriveTarget::Batch { run, batch_no } => {
            let task = db.prepare_cached(READ_RUN)?.query_row([run.0], |row| row.get(0).map(TaskId)).optional()?;
            let Some(task) = task else { return Ok(Redriven::NotFound) };
            match read_back(db, run, batch_no)? {
                Some(executed) => Ok(executed),
                None => drive(db, op, task, now),
            }
        }
    }
}

/// The recorded result of an executed batch.
fn read_back(db: &Connection, run: RunId, batch_no: u32) -> Result<Option<Redriven>> {
    type Batch = (i64, BatchStatus, String, Option<String>);
    let batch: Option<Batch> = db
        .prepare_cached(READ_BATCH)?
        .query_row(params![run.0, batch_no], |row| Ok((row.get(0)?, word(row, 1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((batch, BatchStatus::Succeeded | BatchStatus::Skipped, stats, next)) = batch else { return Ok(None) };
    // An archived batch has `null` where a row has nothing.
    let next = next.map(|text| serde_json::from_str::<Option<_>>(&text)).transpose()?.flatten();
    Ok(Some(Redriven::ReadBack { batch: BatchId(batch), stats: serde_json::from_str(&stats)?, next }))
}

fn drive(db: &Connection, op: &RedriveWork, task: TaskId, now: Ts) -> Result<Redriven> {
    let view = |row: &Row<'_>| {
        let view = TaskView { status: word(row, 0)?, replaced: row.get(1)? };
        Ok((view, word(row, 2)?, row.get::<_, bool>(3)?))
    };
    let Some((view, plan, polls)) = db.prepare_cached(READ_TASK)?.query_row([task.0], view).optional()? else {
        return Ok(Redriven::NotFound);
    };
    let key = op.key(task);
    let id = |row: &Row<'_>| row.get(0).map(TaskId);
    if let Some(task) = db.prepare_cached(FIND)?.query_row([&key], id).optional()? {
        return Ok(Redriven::Queued { task, existed: true });
    }
    if polls {
        return Err(Error::refused("the task is a poll: poll its source again"));
    }
    view.redrivable()?;
    if matches!(plan, PlanStatus::Failed | PlanStatus::Cancelled) {
        return Err(Error::refused(format!("the plan of the task is {plan}: nothing would consume it")));
    }
    db.prepare_cached(REOPEN_SLICE)?.execute([task.0])?;
    db.prepare_cached(MARK_REPLACED)?.execute([task.0])?;
    let values = params![task.0, key, op.request, now.micros()];
    let task = db.prepare_cached(INSERT)?.query_row(values, id)?;
    Ok(Redriven::Queued { task, existed: false })
}
