//! The queue. Each operation is one statement; all times are the server's, read once per statement.

use patra_core::tx::{Claim, Claimed, Lease, LeaseRef, Lineage, Renew, Renewed, Sweep, Swept};
use patra_core::{Code, CredentialId, CursorId, Fault, Fence, InstanceId, PlanId, SliceId, TaskId, Ts, Window};
use tokio_postgres::Row;

use super::{count, micros};
use crate::error::{Fail, refused};
use crate::json::{Json, JsonText};
use crate::pool::Session;
use crate::time::Time;

/// Walks `idx_task_pick` in its order and stops at the limit. Rows that another claim holds are passed over, so claims
/// neither wait for each other nor share a task. The plan's state is a subquery, not a join: a join could tempt the
/// planner to give up the order. `ANY (ARRAY(…))` looks the picked rows up by key, whatever it thinks of the limit.
pub(crate) const CLAIM: &str = "
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
picked AS (
  SELECT t.id FROM ing_task t
  WHERE t.status_code = 'QUEUED' AND t.scheduled_at <= (SELECT now FROM moment)
    AND (SELECT p.status_code FROM ing_plan p WHERE p.id = t.plan_id) IN ('READY', 'PARTIAL')
  ORDER BY t.priority, t.scheduled_at, t.id
  LIMIT $2
  FOR UPDATE OF t SKIP LOCKED
),
claimed AS (
  UPDATE ing_task
  SET status_code = 'DISPATCHED', lease_owner = $1,
    leased_until = (SELECT now FROM moment) + $3::bigint * interval '1 microsecond',
    lease_epoch = lease_epoch + 1, lease_count = lease_count + 1, attempt_count = attempt_count + 1
  WHERE id = ANY (ARRAY(SELECT id FROM picked))
  RETURNING *
)
SELECT moment.now, c.id, c.lease_epoch, c.leased_until, c.attempt_count, c.schedule_instance_id, c.plan_id, c.slice_id,
  c.cursor_id, c.project_key, c.provenance_code, c.endpoint_name, c.operation_code, c.expr_hash, c.window_from,
  c.window_to, c.params, c.credential_id
FROM moment LEFT JOIN claimed c ON true
ORDER BY c.priority, c.scheduled_at, c.id";

/// Rows are locked in the order of their ids, then the clock is read: a lease that ran out while this waited for a lock
/// is not revived.
const RENEW: &str = "
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
  RETURNING id, lease_epoch
)
SELECT moment.now, r.id, r.lease_epoch
FROM moment LEFT JOIN renewed r ON true
ORDER BY r.id";

/// A row that is locked is being written by its owner or by another sweep: the next sweep looks again.
const SWEEP: &str = "
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
dead AS (
  SELECT id FROM ing_task
  WHERE status_code IN ('DISPATCHED', 'EXECUTING')
    AND leased_until <= (SELECT CASE WHEN $3 THEN 'infinity'::timestamptz ELSE now END FROM moment)
  ORDER BY leased_until, id
  LIMIT $1
  FOR UPDATE SKIP LOCKED
),
swept AS (
  UPDATE ing_task
  SET status_code = CASE WHEN attempt_count >= $2 THEN 'FAILED' ELSE 'QUEUED' END,
    finished_at = CASE WHEN attempt_count >= $2 THEN (SELECT now FROM moment) END,
    error = $4, lease_owner = NULL, leased_until = NULL
  WHERE id = ANY (ARRAY(SELECT id FROM dead))
  RETURNING id, status_code
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
)
SELECT moment.now, s.id, s.status_code
FROM moment LEFT JOIN swept s ON true
ORDER BY s.id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[CLAIM, RENEW, SWEEP];

pub(super) async fn claim(session: &Session, op: &Claim) -> Result<Claimed, Fail> {
    let [claim] = session.prepare([CLAIM]).await?;
    let rows = session.alone(&claim, &[&op.owner, &i64::from(op.limit), &micros(op.lease)]).await?;
    let leases = taken(&rows)?.map(read_lease).collect::<Result<_, _>>()?;
    Ok(Claimed { leases, now: now(&rows)? })
}

fn read_lease(row: &Row) -> Result<Lease, Fail> {
    let (Time(from), Time(to)) = (row.try_get(14)?, row.try_get(15)?);
    Ok(Lease {
        task: TaskId(row.try_get(1)?),
        fence: Fence(row.try_get(2)?),
        until: row.try_get::<_, Time>(3)?.0,
        attempts: count(row.try_get(4)?),
        lineage: Lineage {
            instance: InstanceId(row.try_get(5)?),
            plan: PlanId(row.try_get(6)?),
            slice: SliceId(row.try_get(7)?),
        },
        cursor: CursorId(row.try_get(8)?),
        project_key: row.try_get(9)?,
        provenance_code: row.try_get(10)?,
        endpoint_name: row.try_get(11)?,
        operation: row.try_get::<_, &str>(12)?.parse()?,
        expr_hash: row.try_get(13)?,
        window: Window { from, to },
        params: row.try_get::<_, JsonText>(16)?.0,
        credential: row.try_get::<_, Option<i64>>(17)?.map(CredentialId),
    })
}

pub(super) async fn renew(session: &Session, op: &Renew) -> Result<Renewed, Fail> {
    let [renew] = session.prepare([RENEW]).await?;
    let (tasks, fences): (Vec<_>, Vec<_>) = op.leases.iter().map(|lease| (lease.task.0, lease.fence.0)).unzip();
    let rows = session.alone(&renew, &[&op.owner, &tasks, &fences, &micros(op.lease)]).await?;
    let held = taken(&rows)?
        .map(|row| Ok(LeaseRef { task: TaskId(row.try_get(1)?), fence: Fence(row.try_get(2)?) }))
        .collect::<Result<_, Fail>>()?;
    Ok(Renewed { held, now: now(&rows)? })
}

pub(super) async fn sweep(session: &Session, op: Sweep) -> Result<Swept, Fail> {
    let [sweep] = session.prepare([SWEEP]).await?;
    let error = Json::of(&Fault::transient(Code::LockLost, "lease_expired"))?;
    let (limit, max_attempts) = (i64::from(op.limit), i64::from(op.max_attempts));
    let rows = session.alone(&sweep, &[&limit, &max_attempts, &op.everyone, &error]).await?;
    let (mut requeued, mut failed) = (Vec::new(), Vec::new());
    for row in taken(&rows)? {
        let list = if row.try_get::<_, &str>(2)? == "FAILED" { &mut failed } else { &mut requeued };
        list.push(TaskId(row.try_get(1)?));
    }
    Ok(Swept { requeued, failed, now: now(&rows)? })
}

/// The first column of every row is the moment, which is there even when nothing was taken.
fn now(rows: &[Row]) -> Result<Ts, Fail> {
    let row = rows.first().ok_or_else(|| refused("a statement without its moment"))?;
    Ok(row.try_get::<_, Time>(0)?.0)
}

/// The rows that stand for a task.
fn taken(rows: &[Row]) -> Result<impl Iterator<Item = &Row>, Fail> {
    let none = match rows.first() {
        Some(row) => row.try_get::<_, Option<i64>>(1)?.is_none(),
        None => true,
    };
    Ok(rows.iter().skip(if none { rows.len() } else { 0 }))
}
