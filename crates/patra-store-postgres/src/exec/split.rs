//! Splitting: narrower slices replace one that was too large.

use patra_core::TaskId;
use patra_core::tx::NewSlice;

use super::plan::Columns;
use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::Time;

const RETIRE_SLICE: &str = "
UPDATE ing_plan_slice SET status_code = 'PARTIAL'
WHERE id = (SELECT slice_id FROM ing_task WHERE id = $1) AND status_code = 'READY'";

const INSERT_SLICES: &str = "
INSERT INTO ing_plan_slice (plan_id, provenance_code, endpoint_name, slice_spec, slice_signature_hash, expr_hash,
  expr_snapshot, window_from, window_to, status_code, created_at)
SELECT t.plan_id, t.provenance_code, t.endpoint_name, s.spec, s.signature, s.expr_hash, s.expr_snapshot, s.window_from,
  s.window_to, 'READY', $8
FROM ing_task t, unnest($2::jsonb[], $3::text[], $4::text[], $5::jsonb[], $6::timestamptz[], $7::timestamptz[])
  AS s (spec, signature, expr_hash, expr_snapshot, window_from, window_to)
WHERE t.id = $1
ON CONFLICT (plan_id, slice_signature_hash) DO NOTHING";

const INSERT_TASKS: &str = "
INSERT INTO ing_task (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name,
  operation_code, credential_id, params, expr_hash, idempotent_key, window_from, window_to, status_code, priority,
  scheduled_at, created_at, c_max, ordinal, last_id)
SELECT t.schedule_instance_id, t.plan_id, s.id, t.cursor_id, t.project_key, t.provenance_code, t.endpoint_name,
  t.operation_code, t.credential_id, n.params, s.expr_hash, n.task_key, s.window_from, s.window_to, 'QUEUED', t.priority,
  $5, $5, t.c_max, n.ordinal, n.last_id
FROM ing_task t
CROSS JOIN unnest($2::text[], $3::jsonb[], $4::text[], $6::bigint[], $7::text[])
  WITH ORDINALITY AS n (signature, params, task_key, ordinal, last_id, place)
JOIN ing_plan_slice s ON s.plan_id = t.plan_id AND s.slice_signature_hash = n.signature
WHERE t.id = $1
ORDER BY n.place
ON CONFLICT (idempotent_key) DO NOTHING";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[RETIRE_SLICE, INSERT_SLICES, INSERT_TASKS];

/// Replaces the task with the slices. Its row is locked.
pub(super) async fn replace(session: &Session, task: TaskId, slices: &[NewSlice], now: Time) -> Result<(), Fail> {
    let [retire, insert_slices, insert_tasks] = session.prepare([RETIRE_SLICE, INSERT_SLICES, INSERT_TASKS]).await?;
    let given = Columns::of(slices);
    pipeline!(
        session.write(&retire, &[&task.0]),
        session.write(
            &insert_slices,
            &[
                &task.0,
                &given.specs,
                &given.signatures,
                &given.expr_hashes,
                &given.expr_snapshots,
                &given.from,
                &given.to,
                &now,
            ],
        ),
        session.write(
            &insert_tasks,
            &[&task.0, &given.signatures, &given.params, &given.keys, &now, &given.ordinals, &given.last_ids],
        ),
    )?;
    Ok(())
}
