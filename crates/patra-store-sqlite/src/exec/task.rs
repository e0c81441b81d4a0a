//! Leases: renewing and sweeping them.

use patra_core::error::{Code, Fault};
use patra_core::state::TaskStatus;
use patra_core::tx::{LeaseRef, Renew, Renewed, Sweep, Swept};
use patra_core::{CredentialId, PlanId, SliceId, TaskId, Ts};
use rusqlite::{Connection, params};

use super::pause::{StoppingPauses, TaskAttributes, TaskIds};
use crate::error::Result;
use crate::sql::word;

const RENEW: &str = "
UPDATE ing_task
SET leased_until = ?5, lease_count = lease_count + 1
WHERE id = ?1 AND lease_epoch = ?2 AND lease_owner = ?3 AND leased_until > ?4
  AND status_code IN ('DISPATCHED', 'EXECUTING')";

const READ_HELD: &str = "
SELECT provenance_code, endpoint_name, operation_code, credential_id, plan_id, slice_id FROM ing_task WHERE id = ?1";

pub(crate) const READ_EXPIRED: &str = "
SELECT id
FROM ing_task
WHERE status_code IN ('DISPATCHED', 'EXECUTING') AND leased_until <= ?1
ORDER BY leased_until, id
LIMIT ?2";

// Expressions on the right see the row as it was.
const TAKE_BACK: &str = "
UPDATE ing_task
SET status_code = iif(is_counted AND attempt_count >= ?2, 'FAILED', 'QUEUED'),
    finished_at = iif(is_counted AND attempt_count >= ?2, ?3, NULL),
    attempt_count = iif(is_counted, attempt_count, max(attempt_count - 1, 0)),
    is_suspect = is_suspect OR (status_code = 'EXECUTING' AND source_id IS NULL),
    lease_owner = NULL, leased_until = NULL, error = ?4
FROM (
  SELECT source_id IS NOT NULL OR (is_suspect AND status_code = 'EXECUTING') AS is_counted FROM ing_task WHERE id = ?1)
WHERE id = ?1 AND status_code IN ('DISPATCHED', 'EXECUTING')
RETURNING status_code";

const FAIL_ORPHANS: &str = "
UPDATE ing_task_run
SET status_code = 'FAILED', error = ?2, finished_at = ?3
WHERE task_id = ?1 AND status_code IN ('PLANNED', 'RUNNING')";

const FREE_TRIGGERS: &str = "
UPDATE ing_schedule_instance INDEXED BY idx_instance_waiting SET lease_owner = NULL, leased_until = NULL
WHERE status_code = 'REQUESTED' AND leased_until IS NOT NULL";

const FREE_REFRESHES: &str = "
UPDATE ing_credential_state INDEXED BY idx_credential_refreshing SET refresh_owner = NULL, refresh_until = NULL
WHERE refresh_owner IS NOT NULL";

const FREE_EVENTS: &str = "
UPDATE outbox_event INDEXED BY idx_outbox_leased SET lease_owner = NULL, leased_until = NULL
WHERE leased_until IS NOT NULL";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[RENEW, READ_HELD, READ_EXPIRED, TAKE_BACK, FAIL_ORPHANS, FREE_TRIGGERS, FREE_REFRESHES, FREE_EVENTS];

pub(super) fn renew(db: &Connection, op: &Renew, now: Ts) -> Result<Renewed> {
    let until = (now + op.lease).micros();
    let mut leases = op.leases.clone();
    leases.sort_unstable();
    leases.dedup();
    let mut held = Vec::with_capacity(leases.len());
    for lease in leases {
        let values = params![lease.task.0, lease.fence.0, op.owner, now.micros(), until];
        if db.prepare_cached(RENEW)?.execute(values)? == 1 {
            held.push(lease);
        }
    }
    let paused = paused(db, &held)?;
    Ok(Renewed { held, paused, now })
}

/// Tasks that a PAUSE or BREAK covers.
fn paused(db: &Connection, held: &[LeaseRef]) -> Result<Vec<LeaseRef>> {
    let stopping = StoppingPauses::read(db)?;
    let mut paused = Vec::new();
    if stopping.is_empty() {
        return Ok(paused);
    }
    for lease in held {
        let stopped = db.prepare_cached(READ_HELD)?.query_row([lease.task.0], |row| {
            let common = TaskAttributes {
                provenance_code: row.get_ref(0)?.as_str()?,
                endpoint_name: row.get_ref(1)?.as_str()?,
                operation: word(row, 2)?,
                credential: row.get::<_, Option<i64>>(3)?.map(CredentialId),
            };
            let own = TaskIds { plan: PlanId(row.get(4)?), slice: SliceId(row.get(5)?), task: lease.task };
            Ok(stopping.stops(&common, &own))
        })?;
        paused.extend(stopped.then_some(*lease));
    }
    Ok(paused)
}

pub(super) fn sweep(db: &Connection, op: Sweep, now: Ts) -> Result<Swept> {
    if op.all_owners {
        db.prepare_cached(FREE_TRIGGERS)?.execute([])?;
        db.prepare_cached(FREE_REFRESHES)?.execute([])?;
        db.prepare_cached(FREE_EVENTS)?.execute([])?;
    }
    let expired_by = if op.all_owners { Ts::MAX } else { now };
    let expired: Vec<i64> = db
        .prepare_cached(READ_EXPIRED)?
        .query_map(params![expired_by.micros(), op.limit], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let error = serde_json::to_string(&Fault::transient(Code::LockLost, "lease_expired"))?;
    let mut swept = Swept { requeued: Vec::new(), failed: Vec::new(), now };
    for task in expired {
        let values = params![task, op.max_attempts, now.micros(), error];
        let status: TaskStatus = db.prepare_cached(TAKE_BACK)?.query_row(values, |row| word(row, 0))?;
        db.prepare_cached(FAIL_ORPHANS)?.execute(params![task, error, now.micros()])?;
        let list = if status == TaskStatus::Failed { &mut swept.failed } else { &mut swept.requeued };
        list.push(TaskId(task));
    }
    swept.requeued.sort_unstable();
    swept.failed.sort_unstable();
    Ok(swept)
}
