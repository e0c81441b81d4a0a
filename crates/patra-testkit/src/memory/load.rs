//! Waiting and running tasks by partition, and the positions of cursors.

use std::collections::{BTreeMap, BTreeSet};

use patra_core::Ts;
use patra_core::port::load::{FORGOTTEN, OutboxLoad, PartitionQueue, ScopeProgress, StoreLoad};
use patra_core::state::{Direction, TaskStatus};
use patra_core::tx::PartitionKey;

use super::MemStore;

impl MemStore {
    pub(super) fn load(&self, now: Ts) -> StoreLoad {
        let mut queues: BTreeMap<PartitionKey, PartitionQueue> = BTreeMap::new();
        for task in self.tasks.iter().filter(|task| !task.status.is_final()) {
            let partition = PartitionKey {
                provenance_code: task.origin.provenance_code.clone(),
                endpoint_name: task.origin.endpoint_name.clone(),
                operation: task.origin.operation,
            };
            let queue = queues.entry(partition.clone()).or_insert_with(|| PartitionQueue::new(partition));
            match task.status {
                TaskStatus::Queued => queue.add_queued(1, task.scheduled_at),
                _ => queue.active += 1,
            }
        }
        let mut reached = BTreeMap::new();
        for cursor in &self.cursors {
            let Some(start) = cursor.start().filter(|_| cursor.direction() == Direction::Forward) else { continue };
            if cursor.updated_at < now - FORGOTTEN {
                continue;
            }
            let partition = PartitionKey {
                provenance_code: cursor.name.provenance_code.clone(),
                endpoint_name: cursor.name.endpoint_name.clone(),
                operation: cursor.name.operation,
            };
            let least = reached.entry((partition, cursor.name.scope)).or_insert(start);
            *least = start.min(*least);
        }
        let scheduled = self.schedules.iter().map(|row| PartitionKey {
            provenance_code: row.provenance_code.clone(),
            endpoint_name: row.endpoint_name.clone(),
            operation: row.operation,
        });
        let events = |status| self.outbox.values().filter(move |row| row.status == status);
        StoreLoad {
            now,
            queues: queues.into_values().collect(),
            reached: reached
                .into_iter()
                .map(|((partition, scope), instant)| ScopeProgress { partition, scope, instant })
                .collect(),
            scheduled: scheduled.collect::<BTreeSet<_>>().into_iter().collect(),
            outbox: OutboxLoad {
                oldest: events("PENDING").next().map(|row| row.created_at),
                failed: events("FAILED").count() as u64,
            },
        }
        .sorted()
    }
}
