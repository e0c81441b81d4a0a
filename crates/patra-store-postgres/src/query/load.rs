//! Load: queued work, work in progress, and cursor positions.

use std::collections::BTreeMap;

use patra_core::port::load::{FORGOTTEN, OutboxLoad, PartitionQueue, ScopeProgress, StoreLoad};
use patra_core::time::micros;
use patra_core::tx::PartitionKey;

use super::{count, inventory};
use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// Each part reads an index of its own; the time is returned even if nothing waits.
const QUEUES: &str = "
SELECT provenance_code, endpoint_name, operation_code, count(*), min(scheduled_at)
FROM ing_task
WHERE status_code = 'QUEUED' AND source_id IS NULL
GROUP BY provenance_code, endpoint_name, operation_code
UNION ALL
SELECT provenance_code, endpoint_name, operation_code, count(*), min(scheduled_at)
FROM ing_task
WHERE status_code = 'QUEUED' AND source_id IS NOT NULL
GROUP BY provenance_code, endpoint_name, operation_code
UNION ALL
SELECT provenance_code, endpoint_name, operation_code, count(*), NULL
FROM ing_task
WHERE status_code IN ('DISPATCHED', 'EXECUTING')
GROUP BY provenance_code, endpoint_name, operation_code";

const REACHED: &str = "
SELECT provenance_code, endpoint_name, operation_code, namespace_scope_code,
  min(coalesce(normalized_instant, origin_instant))
FROM ing_cursor
WHERE direction_code = 'FORWARD' AND origin_instant IS NOT NULL
  AND updated_at >= clock_timestamp() - $1::bigint * interval '1 microsecond'
GROUP BY provenance_code, endpoint_name, operation_code, namespace_scope_code";

const SCHEDULED: &str = "
SELECT DISTINCT provenance_code, endpoint_name, operation_code FROM reg_schedule";

const OUTBOX: &str = "
SELECT
  (SELECT created_at FROM outbox_event WHERE status_code = 'PENDING' ORDER BY id LIMIT 1),
  (SELECT count(*) FROM outbox_event WHERE status_code = 'FAILED')";

const CLOCK: &str = "SELECT clock_timestamp()";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[QUEUES, REACHED, SCHEDULED, OUTBOX, CLOCK];

pub(crate) async fn read(session: &Session) -> Result<StoreLoad, Fail> {
    let [queues, reached, scheduled, outbox, clock] =
        session.prepare([QUEUES, REACHED, SCHEDULED, OUTBOX, CLOCK]).await?;
    let forgotten = micros(FORGOTTEN);
    let (queues, reached, scheduled, outbox, clock) = pipeline!(
        session.rows(&queues, &[]),
        session.rows(&reached, &[&forgotten]),
        session.rows(&scheduled, &[]),
        session.one(&outbox, &[]),
        session.one(&clock, &[]),
    )?;
    let mut by_partition: BTreeMap<PartitionKey, PartitionQueue> = BTreeMap::new();
    for row in &queues {
        let partition = inventory(row, 0)?;
        let count = count(row, 3)?;
        let queue = by_partition.entry(partition.clone()).or_insert_with(|| PartitionQueue::new(partition));
        match row.try_get::<_, Option<Time>>(4)? {
            Some(oldest) => queue.add_queued(count, oldest.0),
            None => queue.active = count,
        }
    }
    let reached = reached.iter().map(|row| {
        let scope = row.try_get::<_, &str>(3)?.parse()?;
        Ok(ScopeProgress { partition: inventory(row, 0)?, scope, instant: row.try_get::<_, Time>(4)?.0 })
    });
    let oldest = outbox.try_get::<_, Option<Time>>(0)?.map(|oldest| oldest.0);
    let load = StoreLoad {
        now: clock.try_get::<_, Time>(0)?.0,
        queues: by_partition.into_values().collect(),
        reached: reached.collect::<Result<_, Fail>>()?,
        scheduled: scheduled.iter().map(|row| inventory(row, 0)).collect::<Result<_, Fail>>()?,
        outbox: OutboxLoad { oldest, failed: count(&outbox, 1)? },
    };
    Ok(load.sorted())
}
