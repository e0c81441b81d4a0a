//! How much there is to do and how far it has come: what gauges are made of. The cost follows what waits, what is at work and
//! what is still collected, not what the ledger holds.

use std::time::Duration;

use crate::cursor::Scope;
use crate::time::Ts;
use crate::tx::Inventory;

/// A namespace whose cursor has not moved for so long is no longer collected: its partition is gone, or nobody cares.
pub const FORGOTTEN: Duration = Duration::from_secs(30 * 86_400);

/// The state of a store at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Load {
    pub now: Ts,
    /// By partition; those with nothing to do are left out.
    pub queues: Vec<Queue>,
    /// Of cursors that move forward through time, by partition and scope.
    pub reached: Vec<Reached>,
    /// Partitions that a schedule fires.
    pub scheduled: Vec<Inventory>,
    pub outbox: Outbox,
}

impl Load {
    /// In one order, whatever a database sorts by.
    #[must_use]
    pub fn sorted(mut self) -> Load {
        self.queues.sort_unstable_by(|one, other| one.partition.cmp(&other.partition));
        self.reached.sort_unstable();
        self.scheduled.sort_unstable();
        self
    }
}

/// The tasks of a partition that have not ended, polls included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queue {
    pub partition: Inventory,
    pub queued: u64,
    /// DISPATCHED or EXECUTING, whoever holds them.
    pub held: u64,
    /// Since when the oldest of the queued could have been leased.
    pub oldest: Option<Ts>,
}

impl Queue {
    pub fn new(partition: Inventory) -> Queue {
        Queue { partition, queued: 0, held: 0, oldest: None }
    }

    /// So many more wait, the oldest of them since then.
    pub fn add_queued(&mut self, queued: u64, oldest: Ts) {
        self.queued += queued;
        self.oldest = Some(self.oldest.map_or(oldest, |known| known.min(oldest)));
    }
}

/// Events that the world outside has not heard.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Outbox {
    /// When the oldest was written that still waits to be told.
    pub oldest: Option<Ts>,
    /// Those that were given up, until they are forgotten.
    pub failed: u64,
}

/// How far the namespaces of a scope have come: the one that is furthest behind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reached {
    pub partition: Inventory,
    pub scope: Scope,
    /// The cursor's value, or where the namespace began while there is none.
    pub instant: Ts,
}
