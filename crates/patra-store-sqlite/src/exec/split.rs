//! Splitting: narrower slices replace one that was too large.

use patra_core::tx::NewSlice;
use patra_core::{TaskId, Ts};
use rusqlite::{Connection, params};

use crate::error::Result;

const RETIRE_SLICE: &str = "
UPDATE ing_plan_slice SET status_code = 'PARTIAL'
WHERE id = (SELECT slice_id FROM ing_task WHERE id = ?1) AND status_code = 'READY'";

const INSERT_SLICE: &str = "
INSERT INTO ing_plan_slice
  (plan_id, provenance_code, endpoint_name, slice_spec, slice_signature_hash, expr_hash, expr_snapshot,
   window_from, window_to, status_code, created_at)
SELECT plan_id, provenance_code, endpoint_name, ?2, ?3, ?4, ?5, ?6, ?7, 'READY', ?8
FROM ing_task
WHERE id = ?1
ON CONFLICT (plan_id, slice_signature_hash) DO NOTHING";

const INSERT_TASK: &str = "
INSERT INTO ing_task
  (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name, operation_code,
   credential_id, params, expr_hash, idempotent_key, window_from, window_to, status_code, priority, scheduled_at,
   created_at, c_max, ordinal, last_id)
SELECT task.schedule_instance_id, task.plan_id, slice.id, task.cursor_id, task.project_key, task.provenance_code,
   task.endpoint_name, task.operation_code, task.credential_id, ?3, slice.expr_hash, ?4, slice.window_from,
   slice.window_to, 'QUEUED', task.priority, ?5, ?5, task.c_max, ?6, ?7
FROM ing_task task
JOIN ing_plan_slice slice ON slice.plan_id = task.plan_id AND slice.slice_signature_hash = ?2
WHERE task.id = ?1
ON CONFLICT (idempotent_key) DO NOTHING";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[RETIRE_SLICE, INSERT_SLICE, INSERT_TASK];

/// Replaces the task with the slices, which together with the done part cover its window.
pub(super) fn replace(db: &Connection, task: TaskId, slices: &[NewSlice], now: Ts) -> Result<()> {
    db.prepare_cached(RETIRE_SLICE)?.execute([task.0])?;
    for slice in slices {
        db.prepare_cached(INSERT_SLICE)?.execute(params![
            task.0,
            slice.spec,
            slice.signature,
            slice.expr_hash,
            slice.expr_snapshot,
            slice.window.map(|window| window.from.micros()),
            slice.window.map(|window| window.to.micros()),
            now.micros(),
        ])?;
        db.prepare_cached(INSERT_TASK)?.execute(params![
            task.0,
            slice.signature,
            slice.task_params,
            slice.task_key,
            now.micros(),
            slice.segment.as_ref().map(|segment| segment.ordinal),
            slice.segment.as_ref().map(|segment| &segment.last_id),
        ])?;
    }
    Ok(())
}
