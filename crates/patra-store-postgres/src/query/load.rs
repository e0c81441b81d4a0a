//! What waits, what is at work, and how far cursors have come.

use std::collections::BTreeMap;

use patra_core::port::load::{FORGOTTEN, Load, Outbox, Queue, Reached};
use patra_core::time::micros;
use patra_core::tx::Inventory;
use tokio_postgres::Row;

use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// Each part from an index that holds nothing else; the moment is there even when nothing waits.
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

pub(crate) async fn read(session: &Session) -> Result<Load, Fail> {
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
    let mut by_partition: BTreeMap<Inventory, Queue> = BTreeMap::new();
    for row in &queues {
        let partition = read_partition(row)?;
        let count = count(row, 3)?;
        let queue = by_partition.entry(partition.clone()).or_insert_with(|| Queue::new(partition));
        match row.try_get::<_, Option<Time>>(4)? {
            Some(oldest) => queue.add_queued(count, oldest.0),
            None => queue.held = count,
        }
    }
    let reached = reached.iter().map(|row| {
        let scope = row.try_get::<_, &str>(3)?.parse()?;
        Ok(Reached { partition: read_partition(row)?, scope, instant: row.try_get::<_, Time>(4)?.0 })
    });
    let oldest = outbox.try_get::<_, Option<Time>>(0)?.map(|oldest| oldest.0);
    let load = Load {
        now: clock.try_get::<_, Time>(0)?.0,
        queues: by_partition.into_values().collect(),
        reached: reached.collect::<Result<_, Fail>>()?,
        scheduled: scheduled.iter().map(read_partition).collect::<Result<_, Fail>>()?,
        outbox: Outbox { oldest, failed: count(&outbox, 1)? },
    };
    Ok(load.sorted())
}

fn count(row: &Row, column: usize) -> Result<u64, Fail> {
    Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or(0))
}

fn read_partition(row: &Row) -> Result<Inventory, Fail> {
    Ok(Inventory {
        provenance_code: row.try_get(0)?,
        endpoint_name: row.try_get(1)?,
        operation: row.try_get::<_, &str>(2)?.parse()?,
    })
}
