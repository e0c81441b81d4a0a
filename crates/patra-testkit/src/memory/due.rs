//! Support for simulators of many worlds: open work, due times, and a store that can be reset.

use patra_core::Ts;
use patra_core::port::next_due::NextDue;
use patra_core::state::PauseKind;
use patra_core::tx::ADVISORY_TTL;

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
    /// Empties the store and keeps its memory, which a new store would have to allocate again.
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

    /// Whether no trigger waits for planning and no task is queued or leased.
    pub fn is_idle(&self) -> bool {
        let queued = self.index.partitions.iter().any(|partition| !partition.queue.is_empty());
        !queued && self.index.polls.is_empty() && self.index.waiting.is_empty() && self.index.leased.is_empty()
    }

    pub fn ahead(&self, now: Ts) -> NextDue {
        let queued = self.index.partitions.iter().flat_map(|partition| &partition.queue);
        let (mut trigger, mut background_job) = (None, None);
        for id in &self.index.waiting {
            let row = &self.instances[place(id.0)];
            let free = row.lease.as_ref().map_or(row.not_before, |(_, until)| row.not_before.max(*until));
            let first = if row.is_background_job() { &mut background_job } else { &mut trigger };
            *first = Some(first.map_or(free, |first: Ts| first.min(free)));
        }
        let advice =
            self.lasting().filter(|row| row.kind == PauseKind::Advisory).map(|row| row.created_at + ADVISORY_TTL);
        NextDue {
            now,
            schedule: self.schedules.iter().map(|row| row.next_due_at).min(),
            job: advice.chain(trigger).min(),
            background_job,
            task: queued.map(|(_, scheduled_at, _)| *scheduled_at).min(),
            poll: self.index.polls.first().map(|(scheduled_at, _)| *scheduled_at),
            lease: self.index.leased.first().map(|(until, _)| *until),
        }
    }

    pub fn due(&self) -> Due {
        let NextDue { schedule, job: trigger, task, lease, .. } = self.ahead(Ts::MIN);
        let or_never = |first: Option<Ts>| first.unwrap_or(Ts::MAX);
        Due { task: or_never(task), lease: or_never(lease), trigger: or_never(trigger).min(or_never(schedule)) }
    }
}
