//! The queue: claiming, renewing and sweeping leases.

use patra_core::error::{Code, Fault};
use patra_core::state::TaskStatus;
use patra_core::tx::{Claim, Claimed, Lease, Lineage, Renew, Renewed, Sweep, Swept};
use patra_core::{CredentialId, CursorId, Fence, InstanceId, PlanId, SliceId, TaskId, Ts, Window};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Result;
use crate::sql::{time, word};

// The queue is read one priority at a time. Within a priority the index ends exactly at `now`, so tasks that are put
// off cost nothing, however many stand before the first one that is due.
pub(crate) const NEXT_PRIORITY: &str = "
SELECT min(priority) FROM ing_task WHERE status_code = 'QUEUED' AND priority > ?1";

pub(crate) const PICK: &str = "
SELECT task.id
FROM ing_task task
WHERE task.status_code = 'QUEUED' AND task.priority = ?1 AND task.scheduled_at <= ?2
  AND EXISTS (SELECT 1 FROM ing_plan plan WHERE plan.id = task.plan_id AND plan.status_code IN ('READY', 'PARTIAL'))
ORDER BY task.priority, task.scheduled_at, task.id
LIMIT ?3";

const LEASE: &str = "
UPDATE ing_task
SET status_code = 'DISPATCHED', lease_owner = ?2, leased_until = ?3, lease_epoch = lease_epoch + 1,
    lease_count = lease_count + 1, attempt_count = attempt_count + 1
WHERE id = ?1 AND status_code = 'QUEUED'
RETURNING id, lease_epoch, leased_until, attempt_count, schedule_instance_id, plan_id, slice_id, cursor_id, project_key,
  provenance_code, endpoint_name, operation_code, expr_hash, window_from, window_to, params, credential_id";

const RENEW: &str = "
UPDATE ing_task
SET leased_until = ?5, lease_count = lease_count + 1
WHERE id = ?1 AND lease_epoch = ?2 AND lease_owner = ?3 AND leased_until > ?4
  AND status_code IN ('DISPATCHED', 'EXECUTING')";

pub(crate) const READ_EXPIRED: &str = "
SELECT id
FROM ing_task
WHERE status_code IN ('DISPATCHED', 'EXECUTING') AND leased_until <= ?1
ORDER BY leased_until, id
LIMIT ?2";

const TAKE_BACK: &str = "
UPDATE ing_task
SET status_code = iif(attempt_count >= ?2, 'FAILED', 'QUEUED'), finished_at = iif(attempt_count >= ?2, ?3, NULL),
    lease_owner = NULL, leased_until = NULL, error = ?4
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

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[NEXT_PRIORITY, PICK, LEASE, RENEW, READ_EXPIRED, TAKE_BACK, FAIL_ORPHANS, FREE_TRIGGERS, FREE_REFRESHES];

pub(super) fn claim(db: &Connection, op: &Claim, now: Ts) -> Result<Claimed> {
    let until = (now + op.lease).micros();
    let mut leases = Vec::new();
    for task in pick(db, op.limit as usize, now)? {
        let values = params![task, op.owner, until];
        leases.extend(db.prepare_cached(LEASE)?.query_row(values, read_lease).optional()?);
    }
    Ok(Claimed { leases, now })
}

/// Due tasks in queue order.
fn pick(db: &Connection, limit: usize, now: Ts) -> Result<Vec<i64>> {
    let mut picked = Vec::new();
    let mut priority = i64::MIN;
    while picked.len() < limit {
        let next = db.prepare_cached(NEXT_PRIORITY)?.query_row([priority], |row| row.get(0))?;
        let Some(next) = next else { break };
        priority = next;
        let mut statement = db.prepare_cached(PICK)?;
        let values = params![priority, now.micros(), (limit - picked.len()) as i64];
        for task in statement.query_map(values, |row| row.get(0))? {
            picked.push(task?);
        }
    }
    Ok(picked)
}

fn read_lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    Ok(Lease {
        task: TaskId(row.get(0)?),
        fence: Fence(row.get(1)?),
        until: time(row, 2)?,
        attempts: row.get(3)?,
        lineage: Lineage { instance: InstanceId(row.get(4)?), plan: PlanId(row.get(5)?), slice: SliceId(row.get(6)?) },
        cursor: CursorId(row.get(7)?),
        project_key: row.get(8)?,
        provenance_code: row.get(9)?,
        endpoint_name: row.get(10)?,
        operation: word(row, 11)?,
        expr_hash: row.get(12)?,
        window: Window { from: time(row, 13)?, to: time(row, 14)? },
        params: row.get(15)?,
        credential: row.get::<_, Option<i64>>(16)?.map(CredentialId),
    })
}

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
    Ok(Renewed { held, now })
}

pub(super) fn sweep(db: &Connection, op: Sweep, now: Ts) -> Result<Swept> {
    if op.everyone {
        db.prepare_cached(FREE_TRIGGERS)?.execute([])?;
        db.prepare_cached(FREE_REFRESHES)?.execute([])?;
    }
    let expired_by = if op.everyone { Ts::MAX } else { now };
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
