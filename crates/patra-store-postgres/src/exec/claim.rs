//! The fair claim. A first statement reads the head of every lane of the queue without locks and decides which lanes
//! may be next. A second round trip locks their partitions, counts again what each has in progress, and takes the
//! tasks.
//!
//! A *lane* is the part of the queue with the same partition, C_max, credential and priority. There are few lanes,
//! however long the queue. Within a lane only time and id decide, so a claim takes its beginning.
//!
//! C_max holds over all processes because a claim holds the advisory lock of a partition until it has committed, and
//! counts in a statement that starts after it got the lock.

mod lane;

use patra_core::tx::{ClaimTasks, ClaimedTasks, Lease, TaskLineage};
use patra_core::{CredentialId, CursorId, Fence, JobId, PlanId, SliceId, SourceId, TaskId, Ts};
use tokio_postgres::Row;

use self::lane::{Chosen, Lane, choose, direction};
use super::pause::{covers_task, names_partition};
use super::{count, micros, now, taken};
use crate::error::Fail;
use crate::json::JsonText;
use crate::pool::{Session, pipeline};
use crate::time::{Time, window};

/// Columns of row `c` for [`read_lease`], after the time.
macro_rules! lease_columns {
    () => {
        "c.id, c.lease_epoch, c.leased_until, c.attempt_count, c.schedule_instance_id, c.plan_id, c.slice_id,
  c.cursor_id, c.project_key, c.provenance_code, c.endpoint_name, c.operation_code, c.expr_hash, c.window_from,
  c.window_to, c.params, c.credential_id, c.source_id, c.priority, c.scheduled_at,
  c.is_suspect"
    };
}
pub(super) use lease_columns;

/// Due tasks of a lane that are not paused, in order.
macro_rules! due_of_lane {
    () => {
        concat!(
            "
    SELECT t.scheduled_at, t.id
    FROM ing_task t
    WHERE t.status_code = 'QUEUED' AND t.source_id IS NULL AND t.provenance_code = lane.provenance_code
      AND t.endpoint_name = lane.endpoint_name AND t.operation_code = lane.operation_code AND t.c_max = lane.c_max
      AND coalesce(t.credential_id, 0) = lane.credential_id AND t.priority = lane.priority
      AND t.scheduled_at <= (SELECT now FROM moment)
      AND NOT EXISTS (SELECT 1 FROM holds WHERE ",
            covers_task!("holds", "t"),
            ")
    ORDER BY t.scheduled_at, t.id
"
        )
    };
}

/// First task of every lane. The recursive query steps through `idx_task_pick` from lane to lane and lands on the first
/// task of each.
macro_rules! lanes {
    () => {
        "lanes AS (
  (SELECT provenance_code, endpoint_name, operation_code, c_max, coalesce(credential_id, 0) AS credential_id, priority,
     scheduled_at, id
   FROM ing_task
   WHERE status_code = 'QUEUED' AND source_id IS NULL
   ORDER BY provenance_code, endpoint_name, operation_code, c_max, coalesce(credential_id, 0), priority, scheduled_at, id
   LIMIT 1)
  UNION ALL
  SELECT next.*
  FROM lanes
  CROSS JOIN LATERAL (
    SELECT t.provenance_code, t.endpoint_name, t.operation_code, t.c_max, coalesce(t.credential_id, 0), t.priority,
      t.scheduled_at, t.id
    FROM ing_task t
    WHERE t.status_code = 'QUEUED' AND t.source_id IS NULL
      AND (t.provenance_code, t.endpoint_name, t.operation_code, t.c_max, coalesce(t.credential_id, 0), t.priority)
        > (lanes.provenance_code, lanes.endpoint_name, lanes.operation_code, lanes.c_max, lanes.credential_id,
           lanes.priority)
    ORDER BY t.provenance_code, t.endpoint_name, t.operation_code, t.c_max, coalesce(t.credential_id, 0), t.priority,
      t.scheduled_at, t.id
    LIMIT 1
  ) AS next
)"
    };
}
pub(crate) use lanes;

/// If the first task of a lane is not due, nothing of the lane is. Only pauses of plans, slices and tasks require
/// reading past the first.
pub(crate) const LOOK: &str = concat!(
    "
WITH RECURSIVE moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
",
    lanes!(),
    ",
held AS (
  SELECT provenance_code, endpoint_name, operation_code, count(*) AS held
  FROM ing_task
  WHERE status_code IN ('DISPATCHED', 'EXECUTING')
  GROUP BY provenance_code, endpoint_name, operation_code
),
holds AS MATERIALIZED (
  SELECT *, coalesce(plan_id, slice_id, task_id) IS NOT NULL AS is_narrow
  FROM ing_hold
  WHERE kind_code IN ('PAUSE', 'BREAK') AND released_at IS NULL
),
open AS (
  SELECT lane.*, coalesce(held.held, 0) AS held, EXISTS (SELECT 1 FROM holds WHERE holds.is_narrow AND ",
    names_partition!("holds", "lane"),
    ") AS may_hide
  FROM lanes AS lane LEFT JOIN held USING (provenance_code, endpoint_name, operation_code)
  WHERE lane.scheduled_at <= (SELECT now FROM moment)
    AND NOT EXISTS (SELECT 1 FROM holds WHERE NOT holds.is_narrow AND ",
    names_partition!("holds", "lane"),
    "
      AND (holds.credential_id IS NULL OR holds.credential_id = lane.credential_id))
),
heads AS (
  SELECT id, scheduled_at, provenance_code, endpoint_name, operation_code, c_max, credential_id, priority, held
  FROM open WHERE NOT may_hide
  UNION ALL
  SELECT head.id, head.scheduled_at, lane.provenance_code, lane.endpoint_name, lane.operation_code, lane.c_max,
    lane.credential_id, lane.priority, lane.held
  FROM open AS lane
  CROSS JOIN LATERAL (",
    due_of_lane!(),
    "    LIMIT 1
  ) AS head
  WHERE lane.may_hide
)
SELECT moment.now, heads.* FROM moment LEFT JOIN heads ON true"
);

/// Advisory lock of a partition, by its name and the schema: schemas of one database are independent.
macro_rules! lock_of {
    ($lane:literal) => {
        concat!(
            "hashtextextended(current_schema() || ' ' || ",
            $lane,
            ".provenance_code || ' ' || ",
            $lane,
            ".endpoint_name || ' ' || ",
            $lane,
            ".operation_code, 0)"
        )
    };
}

/// Lanes whose partitions no other claim has locked. The next statement reads them from the setting.
const TRY_LOCK: &str = concat!(
    "
SELECT set_config('patra.lanes', coalesce(string_agg(lane.place::text, ','), ''), true)
FROM unnest($1::text[], $2::text[], $3::text[])
  WITH ORDINALITY AS lane (provenance_code, endpoint_name, operation_code, place)
WHERE pg_try_advisory_xact_lock(",
    lock_of!("lane"),
    ")"
);

/// Locks all of them, in the order that every claim uses.
const WAIT_LOCK: &str = concat!(
    "
SELECT set_config('patra.lanes', string_agg(place::text, ','), true), count(pg_advisory_xact_lock(lock))
FROM (
  SELECT lane.place, ",
    lock_of!("lane"),
    " AS lock
  FROM unnest($1::text[], $2::text[], $3::text[])
    WITH ORDINALITY AS lane (provenance_code, endpoint_name, operation_code, place)
  ORDER BY lock
) AS lanes"
);

/// Takes the first `$2` tasks of the lanes, in order. `most` is the greatest C_max of the partition, or its cap. `ANY
/// (ARRAY(…))` looks rows up by key, whatever the planner thinks of their number, and `coalesce` keeps it from reading
/// all QUEUED tasks instead. A locked row is being cancelled.
pub(crate) const TAKE: &str = concat!(
    "
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
holds AS MATERIALIZED (
  SELECT * FROM ing_hold WHERE kind_code IN ('PAUSE', 'BREAK') AND released_at IS NULL
),
held AS (
  SELECT provenance_code, endpoint_name, operation_code, count(*) AS held
  FROM ing_task
  WHERE status_code IN ('DISPATCHED', 'EXECUTING')
  GROUP BY provenance_code, endpoint_name, operation_code
),
lanes AS (
  SELECT lane.*, coalesce(held.held, 0) AS held
  FROM unnest($4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::integer[], $10::bigint[], $11::bigint[])
    WITH ORDINALITY AS lane (provenance_code, endpoint_name, operation_code, c_max, credential_id, priority, most, take,
      place)
  LEFT JOIN held USING (provenance_code, endpoint_name, operation_code)
  WHERE lane.place = ANY (string_to_array(current_setting('patra.lanes'), ',')::bigint[])
),
waiting AS (
  SELECT lane.provenance_code, lane.endpoint_name, lane.operation_code, lane.held, least(lane.c_max, lane.most) AS c_max,
    lane.priority::bigint * $12 AS rank, t.scheduled_at, t.id
  FROM lanes AS lane
  CROSS JOIN LATERAL (",
    due_of_lane!(),
    "    LIMIT greatest(least(lane.take, lane.most - lane.held), 0)
  ) AS t
),
turns AS (
  SELECT *, held - 1 + row_number() OVER (PARTITION BY provenance_code, endpoint_name, operation_code
    ORDER BY rank, scheduled_at, id) AS turn
  FROM waiting
),
picked AS (
  SELECT id, rank, turn, scheduled_at
  FROM turns
  WHERE turn < c_max
  ORDER BY rank, turn, scheduled_at, id
  LIMIT $2
),
locked AS (
  SELECT id FROM ing_task
  WHERE id = ANY (ARRAY(SELECT id FROM picked)) AND coalesce(status_code, '') = 'QUEUED'
  FOR UPDATE SKIP LOCKED
),
claimed AS (
  UPDATE ing_task
  SET status_code = 'DISPATCHED', lease_owner = $1,
    leased_until = (SELECT now FROM moment) + $3::bigint * interval '1 microsecond',
    lease_epoch = lease_epoch + 1, lease_count = lease_count + 1, attempt_count = attempt_count + 1
  WHERE id = ANY (ARRAY(SELECT id FROM locked))
  RETURNING *
)
SELECT moment.now, ",
    lease_columns!(),
    "
FROM moment LEFT JOIN (claimed c JOIN picked p ON p.id = c.id) ON true
ORDER BY p.rank, p.turn, p.scheduled_at, p.id"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOOK, TRY_LOCK, WAIT_LOCK, TAKE];

/// Tries of a claim when others were faster. From the second on it waits for them: with few partitions there may be
/// nothing else to take.
const LOOKS: usize = 3;

pub(super) async fn claim(session: &Session, op: &ClaimTasks) -> Result<ClaimedTasks, Fail> {
    let mut claimed = ClaimedTasks { leases: Vec::new(), now: Ts::MIN };
    for look in 0..LOOKS {
        let (now, mut lanes) = self::look(session).await?;
        lanes.retain(|lane| op.only.as_ref().is_none_or(|only| lane.is_of(only)));
        claimed.now = now;
        let chosen = choose(&lanes, op);
        if chosen.is_empty() {
            break;
        }
        claimed = take(session, op, &chosen, look > 0).await?;
        if !claimed.leases.is_empty() {
            break;
        }
    }
    Ok(claimed)
}

async fn look(session: &Session) -> Result<(Ts, Vec<Lane>), Fail> {
    let [look] = session.prepare([LOOK]).await?;
    let rows = session.rows(&look, &[]).await?;
    let lanes = taken(&rows)?.map(|row| {
        Ok(Lane {
            id: row.try_get(1)?,
            scheduled_at: row.try_get::<_, Time>(2)?.0,
            provenance_code: row.try_get(3)?,
            endpoint_name: row.try_get(4)?,
            operation_code: row.try_get(5)?,
            c_max: row.try_get(6)?,
            credential_id: row.try_get(7)?,
            priority: row.try_get(8)?,
            held: row.try_get(9)?,
        })
    });
    Ok((now(&rows)?.0, lanes.collect::<Result<_, Fail>>()?))
}

/// Sends everything at once, with the COMMIT, so that the locks are held no longer than the server needs.
async fn take(session: &Session, op: &ClaimTasks, chosen: &[Chosen<'_>], wait: bool) -> Result<ClaimedTasks, Fail> {
    let [lock, take] = session.prepare([if wait { WAIT_LOCK } else { TRY_LOCK }, TAKE]).await?;
    let lanes = || chosen.iter().map(|chosen| chosen.lane);
    let provenances: Vec<_> = lanes().map(|lane| lane.provenance_code.as_str()).collect();
    let endpoints: Vec<_> = lanes().map(|lane| lane.endpoint_name.as_str()).collect();
    let operations: Vec<_> = lanes().map(|lane| lane.operation_code.as_str()).collect();
    let c_max: Vec<_> = lanes().map(|lane| lane.c_max).collect();
    let credentials: Vec<_> = lanes().map(|lane| lane.credential_id).collect();
    let priorities: Vec<_> = lanes().map(|lane| lane.priority).collect();
    let most: Vec<_> = chosen.iter().map(|chosen| chosen.most).collect();
    let takes: Vec<_> = chosen.iter().map(|chosen| chosen.take).collect();
    let ((), _, rows, ()) = pipeline!(
        session.begin_by_key(1),
        session.one(&lock, &[&provenances, &endpoints, &operations]),
        session.rows(
            &take,
            &[
                &op.owner,
                &i64::from(op.limit),
                &micros(op.lease),
                &provenances,
                &endpoints,
                &operations,
                &c_max,
                &credentials,
                &priorities,
                &most,
                &takes,
                &direction(op),
            ],
        ),
        session.commit(),
    )?;
    let leases = taken(&rows)?.map(read_lease).collect::<Result<_, _>>()?;
    Ok(ClaimedTasks { leases, now: now(&rows)?.0 })
}

pub(super) fn read_lease(row: &Row) -> Result<Lease, Fail> {
    Ok(Lease {
        task: TaskId(row.try_get(1)?),
        fence: Fence(row.try_get(2)?),
        until: row.try_get::<_, Time>(3)?.0,
        attempts: count(row.try_get(4)?),
        suspect: row.try_get::<_, i32>(21)? != 0,
        lineage: TaskLineage {
            job: JobId(row.try_get(5)?),
            plan: PlanId(row.try_get(6)?),
            slice: SliceId(row.try_get(7)?),
        },
        cursor: CursorId(row.try_get(8)?),
        project_key: row.try_get(9)?,
        provenance_code: row.try_get(10)?,
        endpoint_name: row.try_get(11)?,
        operation: row.try_get::<_, &str>(12)?.parse()?,
        expr_hash: row.try_get(13)?,
        window: window(row, 14)?,
        params: row.try_get::<_, JsonText>(16)?.0,
        credential: row.try_get::<_, Option<i64>>(17)?.map(CredentialId),
        source: row.try_get::<_, Option<i64>>(18)?.map(SourceId),
        priority: row.try_get(19)?,
        scheduled_at: row.try_get::<_, Time>(20)?.0,
    })
}
