//! The fair claim: reads the head of every lane of the queue and takes the first tasks in turn.

use std::collections::BTreeMap;

use patra_core::state::Operation;
use patra_core::tx::{ClaimTasks, ClaimedTasks, Lease, PartitionKey, TaskLineage};
use patra_core::{CredentialId, CursorId, Fence, JobId, PlanId, SliceId, SourceId, TaskId, Ts};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::pause::{StoppingPauses, TaskAttributes, TaskIds};
use crate::error::Result;
use crate::sql::{maybe_window, time, word};

// The next lane after one. A lane is the part of the queue with the same partition, C_max, credential and priority:
// there are few, however long the queue. The next lane differs in the last of these that can rise. With row values only
// `>=` seeks in an index: `>` would scan all equal rows.
pub(crate) const NEXT_LANE: &str = "
SELECT * FROM (
  SELECT provenance_code, endpoint_name, operation_code, c_max, coalesce(credential_id, 0), priority
  FROM ing_task
  WHERE status_code = 'QUEUED' AND source_id IS NULL AND provenance_code = ?1 AND endpoint_name = ?2
    AND operation_code = ?3 AND c_max = ?4
    AND coalesce(credential_id, 0) = ?5 AND priority > ?6
  ORDER BY priority
  LIMIT 1)
UNION ALL
SELECT * FROM (
  SELECT provenance_code, endpoint_name, operation_code, c_max, coalesce(credential_id, 0), priority
  FROM ing_task
  WHERE status_code = 'QUEUED' AND source_id IS NULL AND provenance_code = ?1 AND endpoint_name = ?2
    AND operation_code = ?3 AND c_max = ?4
    AND coalesce(credential_id, 0) > ?5
  ORDER BY coalesce(credential_id, 0), priority
  LIMIT 1)
UNION ALL
SELECT * FROM (
  SELECT provenance_code, endpoint_name, operation_code, c_max, coalesce(credential_id, 0), priority
  FROM ing_task
  WHERE status_code = 'QUEUED' AND source_id IS NULL
    AND (provenance_code, endpoint_name, operation_code, c_max) >= (?1, ?2, ?3, ?4 + 1)
  ORDER BY provenance_code, endpoint_name, operation_code, c_max, coalesce(credential_id, 0), priority
  LIMIT 1)
LIMIT 1";

// The index range ends exactly at `now`: tasks that are due later cost nothing.
pub(crate) const HEAD: &str = "
SELECT scheduled_at, id
FROM ing_task
WHERE status_code = 'QUEUED' AND source_id IS NULL AND provenance_code = ?1 AND endpoint_name = ?2
  AND operation_code = ?3 AND c_max = ?4
  AND coalesce(credential_id, 0) = ?5 AND priority = ?6 AND scheduled_at <= ?7
ORDER BY scheduled_at, id
LIMIT ?8";

// The same with the columns that a pause can name, read row by row until enough of them are free.
pub(crate) const HEAD_WITH_HOLDS: &str = "
SELECT scheduled_at, id, plan_id, slice_id
FROM ing_task
WHERE status_code = 'QUEUED' AND source_id IS NULL AND provenance_code = ?1 AND endpoint_name = ?2
  AND operation_code = ?3 AND c_max = ?4
  AND coalesce(credential_id, 0) = ?5 AND priority = ?6 AND scheduled_at <= ?7
ORDER BY scheduled_at, id";

pub(crate) const COUNT_HELD: &str = "
SELECT provenance_code, endpoint_name, operation_code, count(*)
FROM ing_task INDEXED BY idx_task_queue
WHERE status_code IN ('DISPATCHED', 'EXECUTING')
GROUP BY provenance_code, endpoint_name, operation_code";

const LEASE: &str = "
UPDATE ing_task
SET status_code = 'DISPATCHED', lease_owner = ?2, leased_until = ?3, lease_epoch = lease_epoch + 1,
    lease_count = lease_count + 1, attempt_count = attempt_count + 1
WHERE id = ?1 AND status_code = 'QUEUED'
RETURNING id, lease_epoch, leased_until, attempt_count, schedule_instance_id, plan_id, slice_id, cursor_id, project_key,
  provenance_code, endpoint_name, operation_code, expr_hash, window_from, window_to, params, credential_id, source_id,
  priority, scheduled_at, is_suspect";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[NEXT_LANE, HEAD, HEAD_WITH_HOLDS, COUNT_HELD, LEASE];

pub(super) fn claim(db: &Connection, op: &ClaimTasks, now: Ts) -> Result<ClaimedTasks> {
    let until = now + op.lease;
    let mut leases = Vec::new();
    for task in pick(db, op, now)? {
        leases.extend(lease(db, task, &op.owner, until)?);
    }
    Ok(ClaimedTasks { leases, now })
}

/// Leases one task, if it is still QUEUED.
pub(super) fn lease(db: &Connection, task: i64, owner: &str, until: Ts) -> Result<Option<Lease>> {
    Ok(db.prepare_cached(LEASE)?.query_row(params![task, owner, until.micros()], read_lease).optional()?)
}

/// Returns the next tasks in order: one priority after the other, up to the limit.
fn pick(db: &Connection, op: &ClaimTasks, now: Ts) -> Result<Vec<i64>> {
    let mut lanes = read_lanes(db)?;
    lanes.retain(|lane| op.only.as_ref().is_none_or(|only| *only == lane.partition));
    let mut partitions = read_partitions(db, op, &lanes)?;
    let stopping = StoppingPauses::read(db)?;
    lanes.retain(|lane| !stopping.stops_all(&lane.common()));
    let rank = |lane: &Lane| if op.reverse_priority { -lane.priority } else { lane.priority };
    // A stable sort, so that the lanes of a partition stay together.
    lanes.sort_by_key(rank);
    let queue = Queue { db, stopping: &stopping, now, limit: op.limit };
    let mut picked = Vec::new();
    for level in lanes.chunk_by(|one, other| one.priority == other.priority) {
        let mut next = Vec::new();
        for lanes in level.chunk_by(|one, other| one.partition == other.partition) {
            if let Some(partition) = partitions.get_mut(&lanes[0].partition) {
                queue.heads_in_turn(partition, lanes, &mut next)?;
            }
        }
        next.sort_unstable();
        picked.extend(next.into_iter().map(|(_, _, task)| task).take(op.limit as usize - picked.len()));
        if picked.len() == op.limit as usize {
            break;
        }
    }
    Ok(picked)
}

/// Due time of the first task of any lane; it may lie in the past.
pub(crate) fn first_scheduled(db: &Connection) -> Result<Option<Ts>> {
    let mut statement = db.prepare_cached(HEAD)?;
    let mut first: Option<Ts> = None;
    for Lane { partition, c_max, credential, priority } in read_lanes(db)? {
        let PartitionKey { provenance_code, endpoint_name, operation } = partition;
        let (operation, ever) = (operation.as_str(), Ts::MAX.micros());
        let values = params![provenance_code, endpoint_name, operation, c_max, credential, priority, ever, 1];
        let head = statement.query_row(values, |row| time(row, 0)).optional()?;
        first = first.into_iter().chain(head).min();
    }
    Ok(first)
}

/// A lane: tasks with the same partition, C_max, credential and priority.
struct Lane {
    partition: PartitionKey,
    c_max: u32,
    /// 0 for none.
    credential: i64,
    priority: i64,
}

impl Lane {
    fn common(&self) -> TaskAttributes<'_> {
        TaskAttributes {
            provenance_code: &self.partition.provenance_code,
            endpoint_name: &self.partition.endpoint_name,
            operation: self.partition.operation,
            credential: Some(CredentialId(self.credential)).filter(|id| id.0 != 0),
        }
    }
}

fn read_lanes(db: &Connection) -> Result<Vec<Lane>> {
    let mut statement = db.prepare_cached(NEXT_LANE)?;
    let mut lanes: Vec<Lane> = Vec::new();
    loop {
        let next = match lanes.last() {
            // Every lane sorts after these: no code is empty.
            None => statement.query_row(params!["", "", "", 0, 0, 0], read_lane),
            Some(Lane {
                partition: PartitionKey { provenance_code, endpoint_name, operation },
                c_max,
                credential,
                priority,
            }) => {
                let at = params![provenance_code, endpoint_name, operation.as_str(), c_max, credential, priority];
                statement.query_row(at, read_lane)
            }
        };
        match next.optional()? {
            Some(lane) => lanes.push(lane),
            None => return Ok(lanes),
        }
    }
}

fn read_lane(row: &Row<'_>) -> rusqlite::Result<Lane> {
    Ok(Lane { partition: read_partition(row)?, c_max: row.get(3)?, credential: row.get(4)?, priority: row.get(5)? })
}

fn read_partition(row: &Row<'_>) -> rusqlite::Result<PartitionKey> {
    let operation: Operation = word(row, 2)?;
    Ok(PartitionKey { provenance_code: row.get(0)?, endpoint_name: row.get(1)?, operation })
}

/// Fill level of a partition.
struct Partition {
    /// Rank of the next task.
    turn: u32,
    /// Ranks from here on do not fit the claim.
    room: u32,
    /// Whether all lanes have the same C_max.
    alike: bool,
}

fn read_partitions(db: &Connection, op: &ClaimTasks, lanes: &[Lane]) -> Result<BTreeMap<PartitionKey, Partition>> {
    let caps: BTreeMap<_, _> = op.caps.iter().map(|(partition, cap)| (partition, *cap)).collect();
    let mut partitions = BTreeMap::new();
    for lanes in lanes.chunk_by(|one, other| one.partition == other.partition) {
        let partition = &lanes[0].partition;
        let most = lanes.iter().map(|lane| lane.c_max).max().unwrap_or(0);
        let room = caps.get(partition).map_or(most, |cap| most.min(*cap));
        let alike = lanes.iter().all(|lane| lane.c_max == most);
        partitions.insert(partition.clone(), Partition { turn: 0, room, alike });
    }
    let mut statement = db.prepare_cached(COUNT_HELD)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        if let Some(partition) = partitions.get_mut(&read_partition(row)?) {
            partition.turn = row.get(3)?;
        }
    }
    Ok(partitions)
}

struct Queue<'a> {
    db: &'a Connection,
    stopping: &'a StoppingPauses,
    now: Ts,
    limit: u32,
}

impl Queue<'_> {
    /// Adds the first tasks of a partition from lanes of one priority: rank, time and id.
    fn heads_in_turn(&self, partition: &mut Partition, lanes: &[Lane], next: &mut Vec<(u32, i64, i64)>) -> Result<()> {
        let left = partition.room.saturating_sub(partition.turn);
        if left == 0 {
            return Ok(());
        }
        // If all lanes have the same room, all tasks read fit.
        let count = if partition.alike { left.min(self.limit) } else { left };
        let mut waiting = Vec::new();
        for lane in lanes {
            let heads = self.heads(lane, count)?.into_iter();
            waiting.extend(heads.map(|(scheduled_at, task)| (scheduled_at, task, lane.c_max)));
        }
        waiting.sort_unstable();
        for (turn, (scheduled_at, task, c_max)) in (partition.turn..partition.room).zip(waiting) {
            partition.turn = turn + 1;
            if turn < c_max {
                next.push((turn, scheduled_at, task));
            }
        }
        Ok(())
    }

    /// First due tasks of a lane that are not paused: time and id.
    fn heads(&self, lane: &Lane, count: u32) -> Result<Vec<(i64, i64)>> {
        let common = lane.common();
        let (operation, now) = (common.operation.as_str(), self.now.micros());
        let Lane { c_max, credential, priority, .. } = lane;
        let TaskAttributes { provenance_code, endpoint_name, .. } = common;
        if !self.stopping.may_stop_some(&common) {
            let values = params![provenance_code, endpoint_name, operation, c_max, credential, priority, now, count];
            let mut statement = self.db.prepare_cached(HEAD)?;
            let rows = statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
            return Ok(rows.collect::<rusqlite::Result<_>>()?);
        }
        let values = params![provenance_code, endpoint_name, operation, c_max, credential, priority, now];
        let mut statement = self.db.prepare_cached(HEAD_WITH_HOLDS)?;
        let mut rows = statement.query(values)?;
        let mut free = Vec::new();
        while free.len() < count as usize
            && let Some(row) = rows.next()?
        {
            let own = TaskIds { task: TaskId(row.get(1)?), plan: PlanId(row.get(2)?), slice: SliceId(row.get(3)?) };
            if !self.stopping.stops(&common, &own) {
                free.push((row.get(0)?, own.task.0));
            }
        }
        Ok(free)
    }
}

fn read_lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    Ok(Lease {
        task: TaskId(row.get(0)?),
        fence: Fence(row.get(1)?),
        until: time(row, 2)?,
        attempts: row.get(3)?,
        suspect: row.get(20)?,
        lineage: TaskLineage { job: JobId(row.get(4)?), plan: PlanId(row.get(5)?), slice: SliceId(row.get(6)?) },
        cursor: CursorId(row.get(7)?),
        project_key: row.get(8)?,
        provenance_code: row.get(9)?,
        endpoint_name: row.get(10)?,
        operation: word(row, 11)?,
        expr_hash: row.get(12)?,
        window: maybe_window(row, 13)?,
        params: row.get(15)?,
        credential: row.get::<_, Option<i64>>(16)?.map(CredentialId),
        source: row.get::<_, Option<i64>>(17)?.map(SourceId),
        priority: row.get(18)?,
        scheduled_at: time(row, 19)?,
    })
}

#[cfg(test)]
mod tests;
