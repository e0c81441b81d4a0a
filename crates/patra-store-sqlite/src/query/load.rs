//! Load: queued work, work in progress, and cursor positions.

use std::collections::BTreeMap;

use patra_core::Ts;
use patra_core::port::load::{FORGOTTEN, OutboxLoad, PartitionQueue, ScopeProgress, StoreLoad};
use patra_core::tx::PartitionKey;
use rusqlite::{Connection, Row, params};

use super::all;
use crate::error::Result;
use crate::exec::COUNT_HELD;
use crate::sql::{count, maybe_time, time, word};

// In the order of the index, which has only the waiting tasks.
pub(crate) const COUNT_QUEUED: &str = "
SELECT provenance_code, endpoint_name, operation_code, count(*), min(scheduled_at)
FROM ing_task INDEXED BY idx_task_pick
WHERE status_code = 'QUEUED' AND source_id IS NULL
GROUP BY provenance_code, endpoint_name, operation_code";

pub(crate) const COUNT_POLLS: &str = "
SELECT provenance_code, endpoint_name, operation_code, count(*), min(scheduled_at)
FROM ing_task INDEXED BY idx_task_poll
WHERE status_code = 'QUEUED' AND source_id IS NOT NULL
GROUP BY provenance_code, endpoint_name, operation_code";

pub(crate) const READ_REACHED: &str = "
SELECT provenance_code, endpoint_name, operation_code, namespace_scope_code,
  min(coalesce(normalized_instant, origin_instant))
FROM ing_cursor INDEXED BY idx_cursor_moved
WHERE direction_code = 'FORWARD' AND updated_at >= ?1 AND origin_instant IS NOT NULL
GROUP BY provenance_code, endpoint_name, operation_code, namespace_scope_code";

const READ_SCHEDULED: &str = "SELECT DISTINCT provenance_code, endpoint_name, operation_code FROM reg_schedule";

const READ_OUTBOX: &str = "
SELECT
  (SELECT created_at FROM outbox_event INDEXED BY idx_outbox_pending WHERE status_code = 'PENDING' ORDER BY id LIMIT 1),
  (SELECT count(*) FROM outbox_event INDEXED BY idx_outbox_failed WHERE status_code = 'FAILED')";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[COUNT_QUEUED, COUNT_POLLS, READ_REACHED, READ_SCHEDULED, READ_OUTBOX];

pub(super) fn read(db: &Connection, now: Ts) -> Result<StoreLoad> {
    let mut queues: BTreeMap<PartitionKey, PartitionQueue> = BTreeMap::new();
    let mut queue = |row: &Row<'_>| -> rusqlite::Result<_> {
        let partition = read_partition(row)?;
        Ok((partition, count(row, 3)?, time(row, 4)?))
    };
    for statement in [COUNT_QUEUED, COUNT_POLLS] {
        for (partition, queued, oldest) in all(db, statement, params![], &mut queue)? {
            let known = queues.entry(partition.clone()).or_insert_with(|| PartitionQueue::new(partition));
            known.add_queued(queued, oldest);
        }
    }
    for (partition, held) in all(db, COUNT_HELD, params![], |row| Ok((read_partition(row)?, count(row, 3)?)))? {
        queues.entry(partition.clone()).or_insert_with(|| PartitionQueue::new(partition)).active = held;
    }
    let moved_since = (now - FORGOTTEN).micros();
    let reached = all(db, READ_REACHED, params![moved_since], |row| {
        Ok(ScopeProgress { partition: read_partition(row)?, scope: word(row, 3)?, instant: time(row, 4)? })
    })?;
    let scheduled = all(db, READ_SCHEDULED, params![], read_partition)?;
    let outbox = db
        .prepare_cached(READ_OUTBOX)?
        .query_row([], |row| Ok(OutboxLoad { oldest: maybe_time(row, 0)?, failed: count(row, 1)? }))?;
    Ok(StoreLoad { now, queues: queues.into_values().collect(), reached, scheduled, outbox }.sorted())
}

fn read_partition(row: &Row<'_>) -> rusqlite::Result<PartitionKey> {
    Ok(PartitionKey { provenance_code: row.get(0)?, endpoint_name: row.get(1)?, operation: word(row, 2)? })
}
