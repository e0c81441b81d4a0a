//! Queue lengths and progress, for gauges. The cost follows what is queued, running and still collected, not the size
//! of the ledger.

use std::time::Duration;

use crate::cursor::CursorScope;
use crate::time::Ts;
use crate::tx::PartitionKey;

/// A namespace whose cursor has not moved for this long is no longer collected: its partition is gone, or nobody
/// needs it.
pub const FORGOTTEN: Duration = Duration::from_secs(30 * 86_400);

/// The state of a store at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreLoad {
    pub now: Ts,
    /// By partition; those without tasks are omitted.
    pub queues: Vec<PartitionQueue>,
    /// Progress of cursors that move forward through time, by partition and scope.
    pub reached: Vec<ScopeProgress>,
    /// Partitions that have a schedule.
    pub scheduled: Vec<PartitionKey>,
    pub outbox: OutboxLoad,
}

impl StoreLoad {
    /// Sorts everything, so that the result does not depend on the database's order.
    #[must_use]
    pub fn sorted(mut self) -> StoreLoad {
        self.queues.sort_unstable_by(|one, other| one.partition.cmp(&other.partition));
        self.reached.sort_unstable();
        self.scheduled.sort_unstable();
        self
    }
}

/// The tasks of a partition that have not ended, polls included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionQueue {
    pub partition: PartitionKey,
    pub queued: u64,
    /// DISPATCHED or EXECUTING, whoever holds them.
    pub active: u64,
    /// Since when the oldest queued task could have been leased.
    pub oldest: Option<Ts>,
}

impl PartitionQueue {
    pub fn new(partition: PartitionKey) -> PartitionQueue {
        PartitionQueue { partition, queued: 0, active: 0, oldest: None }
    }

    /// Adds queued tasks, the oldest of which waits since `oldest`.
    pub fn add_queued(&mut self, queued: u64, oldest: Ts) {
        self.queued += queued;
        self.oldest = Some(self.oldest.map_or(oldest, |known| known.min(oldest)));
    }
}

/// Events that are not delivered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OutboxLoad {
    /// When the oldest pending event was written.
    pub oldest: Option<Ts>,
    /// Failed events, until they are deleted.
    pub failed: u64,
}

/// Progress of the namespaces of a scope: the one that is furthest behind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ScopeProgress {
    pub partition: PartitionKey,
    pub scope: CursorScope,
    /// The cursor's value, or the namespace's origin while there is none.
    pub instant: Ts,
}
