//! Crashes of the database server. They lose acknowledged commits that it had not written yet: those of operations whose
//! result follows from other data, and only the newest. A later commit of another operation includes them.

use std::time::Duration;

use patra_core::Ts;
use patra_core::rng::Rng;
use patra_core::tx::{Done, Tx, TxError};

use super::Mutant;
use super::check::Broken;
use super::event::Event;
use super::world::World;
use crate::memory::MemStore;

/// Permille of the worlds whose server crashes, and how often at most.
const CRASHING: u64 = 120;
const MOST_CRASHES: u64 = 3;

#[derive(Debug, Default)]
pub(super) struct ServerCrashes {
    planned: bool,
    /// The tables without the commits that are not on disk.
    on_disk: Option<MemStore>,
}

/// Whether the commit may be lost.
fn is_asynchronous(tx: &Tx, mutant: Option<Mutant>) -> bool {
    match tx {
        Tx::RecordAdvance(_) | Tx::AdvanceCursor(_) => true,
        Tx::CommitBatch(_) | Tx::CommitBatches(_) => mutant == Some(Mutant::CommitVanishes),
        _ => false,
    }
}

impl World {
    /// Drawn apart from everything else, so that worlds without crashes stay as they were.
    pub(super) fn plan_crashes(&mut self, seed: u64) {
        let mut rng = Rng::new(seed ^ 0x6372_6173_6821);
        if !rng.chance(CRASHING) {
            return;
        }
        self.crashes.planned = true;
        for _ in 0..=rng.below(MOST_CRASHES) {
            let at = self.now + Duration::from_micros(rng.below(self.profile.rough.as_micros() as u64));
            let until = at + Duration::from_millis(1 + rng.below(5_000));
            self.agenda.push(at, &mut rng, Event::ServerCrash { until });
        }
    }

    /// Applies a transaction, and remembers the tables before it if its commit may be lost.
    pub(super) fn apply(&mut self, now: Ts, local: Ts, tx: &Tx) -> Result<Done, TxError> {
        if !self.crashes.planned || self.calm {
            return self.store.apply(now, local, tx);
        }
        let asynchronous = is_asynchronous(tx, self.mutant);
        let before = (asynchronous && self.crashes.on_disk.is_none()).then(|| self.store.mem.clone());
        let done = self.store.apply(now, local, tx);
        if done.is_ok() {
            match asynchronous {
                true => self.crashes.on_disk = self.crashes.on_disk.take().or(before),
                false => self.crashes.on_disk = None,
            }
        }
        done
    }

    /// The server dies, and is back at `until` with what is on disk.
    pub(super) fn crash_server(&mut self, until: Ts) -> Result<(), Broken> {
        self.outage_until = self.outage_until.max(until);
        let Some(on_disk) = self.crashes.on_disk.take() else { return Ok(()) };
        self.store.mem = on_disk;
        self.due = self.store.mem.due();
        self.check.forget(&self.store.mem)
    }
}
