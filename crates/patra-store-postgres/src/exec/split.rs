//! Narrower slices in the place of one that was too much.

use patra_core::TaskId;
use patra_core::tx::NewSlice;

use crate::error::Fail;
use crate::json::Json;
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
  scheduled_at, created_at)
SELECT t.schedule_instance_id, t.plan_id, s.id, t.cursor_id, t.project_key, t.provenance_code, t.endpoint_name,
  t.operation_code, t.credential_id, n.params, s.expr_hash, n.task_key, s.window_from, s.window_to, 'QUEUED', t.priority,
  $5, $5
FROM ing_task t
CROSS JOIN unnest($2::text[], $3::jsonb[], $4::text[]) WITH ORDINALITY AS n (signature, params, task_key, place)
JOIN ing_plan_slice s ON s.plan_id = t.plan_id AND s.slice_signature_hash = n.signature
WHERE t.id = $1
ORDER BY n.place
ON CONFLICT (idempotent_key) DO NOTHING";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[RETIRE_SLICE, INSERT_SLICES, INSERT_TASKS];

/// Puts the slices, which together are the task's window, in its place. The task's row is locked.
pub(super) async fn replace(session: &Session, task: TaskId, slices: &[NewSlice], now: Time) -> Result<(), Fail> {
    let [retire, insert_slices, insert_tasks] = session.prepare([RETIRE_SLICE, INSERT_SLICES, INSERT_TASKS]).await?;
    let specs: Vec<_> = slices.iter().map(|slice| Json(slice.spec.as_str())).collect();
    let signatures: Vec<_> = slices.iter().map(|slice| slice.signature.as_str()).collect();
    let hashes: Vec<_> = slices.iter().map(|slice| slice.expr_hash.as_str()).collect();
    let snapshots: Vec<_> = slices.iter().map(|slice| Json(slice.expr_snapshot.as_str())).collect();
    let from: Vec<_> = slices.iter().map(|slice| Time(slice.window.from)).collect();
    let to: Vec<_> = slices.iter().map(|slice| Time(slice.window.to)).collect();
    let params: Vec<_> = slices.iter().map(|slice| Json(slice.task_params.as_str())).collect();
    let keys: Vec<_> = slices.iter().map(|slice| slice.task_key.as_str()).collect();
    pipeline!(
        session.write(&retire, &[&task.0]),
        session.write(&insert_slices, &[&task.0, &specs, &signatures, &hashes, &snapshots, &from, &to, &now]),
        session.write(&insert_tasks, &[&task.0, &signatures, &params, &keys, &now]),
    )?;
    Ok(())
}
