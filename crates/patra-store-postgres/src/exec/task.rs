//! Live leases. Each operation is one statement; all times are the server's, read once per statement.

use patra_core::tx::{LeaseRef, Renew, Renewed, Sweep, Swept};
use patra_core::{Code, Fault, Fence, TaskId};

use super::clock;
use super::pause::covers_task;
use super::{micros, now, taken};
use crate::error::Fail;
use crate::json::Json;
use crate::pool::Session;

/// Rows are locked in the order of their ids, then the clock is read: a lease that expired while this waited for a lock
/// is not revived.
const RENEW: &str = concat!(
    "
WITH held AS (
  SELECT t.id FROM ing_task t
  JOIN unnest($2::bigint[], $3::bigint[]) AS asked (task, fence) ON t.id = asked.task AND t.lease_epoch = asked.fence
  WHERE t.status_code IN ('DISPATCHED', 'EXECUTING') AND t.lease_owner = $1
  ORDER BY t.id
  FOR UPDATE OF t
),
moment AS MATERIALIZED (SELECT clock_timestamp() AS now FROM (SELECT count(*) FROM held) AS locked),
renewed AS (
  UPDATE ing_task
  SET leased_until = (SELECT now FROM moment) + $4::bigint * interval '1 microsecond', lease_count = lease_count + 1
  WHERE id = ANY (ARRAY(SELECT id FROM held)) AND leased_until > (SELECT now FROM moment)
  RETURNING id, lease_epoch, provenance_code, endpoint_name, operation_code, credential_id, plan_id, slice_id
)
SELECT moment.now, r.id, r.lease_epoch, EXISTS (
  SELECT 1 FROM ing_hold h
  WHERE h.kind_code IN ('PAUSE', 'BREAK') AND h.released_at IS NULL AND ",
    covers_task!("h", "r"),
    ")
FROM moment LEFT JOIN renewed r ON true
ORDER BY r.id"
);

/// A locked row is being written by its owner or by another sweep: the next sweep looks again.
const SWEEP: &str = "
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
dead AS (
  SELECT id, source_id IS NOT NULL OR (is_suspect = 1 AND status_code = 'EXECUTING') AS is_counted FROM ing_task
  WHERE status_code IN ('DISPATCHED', 'EXECUTING')
    AND leased_until <= (SELECT CASE WHEN $3 THEN 'infinity'::timestamptz ELSE now END FROM moment)
  ORDER BY leased_until, id
  LIMIT $1
  FOR UPDATE SKIP LOCKED
),
swept AS (
  UPDATE ing_task t
  SET status_code = CASE WHEN is_counted AND attempt_count >= $2 THEN 'FAILED' ELSE 'QUEUED' END,
    finished_at = CASE WHEN is_counted AND attempt_count >= $2 THEN (SELECT now FROM moment) END,
    attempt_count = CASE WHEN is_counted THEN attempt_count ELSE greatest(attempt_count - 1, 0) END,
    is_suspect = CASE WHEN status_code = 'EXECUTING' AND source_id IS NULL THEN 1 ELSE is_suspect END,
    error = $4, lease_owner = NULL, leased_until = NULL
  FROM dead
  WHERE t.id = dead.id
  RETURNING t.id, status_code
),
orphans AS (
  UPDATE ing_task_run
  SET status_code = 'FAILED', error = $4, finished_at = (SELECT now FROM moment)
  WHERE task_id IN (SELECT id FROM swept) AND status_code = 'RUNNING'
),
triggers AS (
  UPDATE ing_schedule_instance
  SET lease_owner = NULL, leased_until = NULL
  WHERE $3 AND status_code = 'REQUESTED' AND lease_owner IS NOT NULL
),
refreshes AS (
  UPDATE ing_credential_state
  SET refresh_owner = NULL, refresh_until = NULL
  WHERE $3 AND refresh_owner IS NOT NULL
),
events AS (
  UPDATE outbox_event
  SET lease_owner = NULL, leased_until = NULL
  WHERE $3 AND leased_until IS NOT NULL
)
SELECT moment.now, s.id, s.status_code
FROM moment LEFT JOIN swept s ON true
ORDER BY s.id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[RENEW, SWEEP];

pub(super) async fn renew(session: &Session, op: &Renew) -> Result<Renewed, Fail> {
    let [renew] = session.prepare([RENEW]).await?;
    let (tasks, fences): (Vec<_>, Vec<_>) = op.leases.iter().map(|lease| (lease.task.0, lease.fence.0)).unzip();
    let rows = session.alone(&renew, &[&op.owner, &tasks, &fences, &micros(op.lease)]).await?;
    let (mut held, mut paused) = (Vec::new(), Vec::new());
    for row in taken(&rows)? {
        let lease = LeaseRef { task: TaskId(row.try_get(1)?), fence: Fence(row.try_get(2)?) };
        held.push(lease);
        if row.try_get(3)? {
            paused.push(lease);
        }
    }
    Ok(Renewed { held, paused, now: now(&rows)?.0 })
}

pub(super) async fn sweep(session: &Session, op: Sweep) -> Result<Swept, Fail> {
    clock::follow(session, op.longest_lease).await?;
    let [sweep] = session.prepare([SWEEP]).await?;
    let error = Json::of(&Fault::transient(Code::LockLost, "lease_expired"))?;
    let (limit, max_attempts) = (i64::from(op.limit), i64::from(op.max_attempts));
    let rows = session.alone(&sweep, &[&limit, &max_attempts, &op.all_owners, &error]).await?;
    let (mut requeued, mut failed) = (Vec::new(), Vec::new());
    for row in taken(&rows)? {
        let list = if row.try_get::<_, &str>(2)? == "FAILED" { &mut failed } else { &mut requeued };
        list.push(TaskId(row.try_get(1)?));
    }
    Ok(Swept { requeued, failed, now: now(&rows)?.0 })
}
