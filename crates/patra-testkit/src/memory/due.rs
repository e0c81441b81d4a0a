//! For whoever plays many worlds: what is open, when there is something to take, and a store to begin with again.

use patra_core::Ts;

use super::{MemStore, place};

/// The earliest time of each kind; [`Ts::MAX`] when there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// A queued task can be claimed.
    pub task: Ts,
    /// The lease on a task runs out.
    pub lease: Ts,
    /// A trigger can be taken, or a schedule fires.
    pub trigger: Ts,
}

impl Due {
    pub const NOTHING: Due = Due { task: Ts::MAX, lease: Ts::MAX, trigger: Ts::MAX };
}

impl MemStore {
    /// An empty store in the memory of this one: a new one would have to grow again.
    #[must_use]
    pub fn emptied(self) -> MemStore {
        fn cleared<T>(mut table: Vec<T>) -> Vec<T> {
            table.clear();
            table
        }
        MemStore {
            instances: cleared(self.instances),
            plans: cleared(self.plans),
            slices: cleared(self.slices),
            tasks: cleared(self.tasks),
            runs: cleared(self.runs),
            batches: cleared(self.batches),
            cursors: cleared(self.cursors),
            events: cleared(self.events),
            items: cleared(self.items),
            ..MemStore::default()
        }
    }

    /// No trigger waits for planning, no task is queued or held.
    pub fn is_idle(&self) -> bool {
        let queued = self.index.partitions.iter().any(|partition| !partition.queue.is_empty());
        !queued && self.index.polls.is_empty() && self.index.waiting.is_empty() && self.index.leased.is_empty()
    }

    pub fn due(&self) -> Due {
        let queued = self.index.partitions.iter().flat_map(|partition| &partition.queue);
        let tasks = queued.map(|(_, scheduled_at, _)| *scheduled_at);
        let triggers = self.index.waiting.iter().map(|id| {
            let row = &self.instances[place(id.0)];
            row.lease.as_ref().map_or(row.not_before, |(_, until)| row.not_before.max(*until))
        });
        let schedules = self.schedules.iter().map(|row| row.next_due_at);
        Due {
            task: tasks.min().unwrap_or(Ts::MAX),
            lease: self.index.leased.first().map_or(Ts::MAX, |(until, _)| *until),
            trigger: triggers.chain(schedules).min().unwrap_or(Ts::MAX),
        }
    }
}
