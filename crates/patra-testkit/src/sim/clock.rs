//! Steps of the store's clock. It is never ahead of the true time for more than a planned window can be: a cursor that
//! passed records which do not exist yet would miss them, whatever the store did.

use std::time::Duration;

use patra_core::rng::Rng;
use patra_core::tx::{Done, Tx, TxError};
use patra_core::{ClockStep, Ts};

use super::event::Event;
use super::world::World;

/// Permille of the worlds whose store's clock is set, and how often at most.
const STEPPING: u64 = 150;
const MOST_STEPS: u64 = 3;

/// How long a step waits for a sweep that sees the one before.
const AGAIN: Duration = Duration::from_secs(1);

/// Permille of these worlds in which the clock is never right again.
const STAYING: u64 = 400;

/// The furthest that the clock is set back, in seconds: long enough that no world ends if nobody notices.
const FURTHEST: [u64; 4] = [5, 60, 3_600, 90_000];

/// The store's clock, and whether a sweep has noticed that it was set back.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct StoreClock {
    /// Distance from the true time in microseconds; never positive.
    offset: i64,
    /// Set back, and not noticed yet.
    pub(super) unnoticed: bool,
    /// No sweep has seen the clock since it was set.
    unseen: bool,
    /// It is not right again before the end of the world.
    pub(super) stays: bool,
}

impl StoreClock {
    pub(super) fn at(self, now: Ts) -> Ts {
        now.shifted(self.offset)
    }

    /// The true time at which the store's clock will show this, unless it is set before.
    pub(super) fn truly(self, at: Ts) -> Ts {
        if at == Ts::MAX { at } else { at.shifted(-self.offset) }
    }
}

impl World {
    /// The time of the store.
    pub(super) fn store_now(&self) -> Ts {
        self.clock.at(self.now)
    }

    /// Drawn apart from everything else, so that worlds without steps stay as they were.
    pub(super) fn plan_steps(&mut self, seed: u64) {
        let mut rng = Rng::new(seed ^ 0x636c_6f63_6b21);
        if !rng.chance(STEPPING) {
            return;
        }
        self.check.steps = true;
        self.clock.stays = rng.chance(STAYING);
        // A store remembers the time at which it was made.
        self.store.mem.seen_at = Some(self.now);
        let furthest = FURTHEST[rng.below(FURTHEST.len() as u64) as usize];
        for _ in 0..=rng.below(MOST_STEPS) {
            let at = self.now.shifted(rng.below(self.profile.rough.as_micros() as u64).cast_signed());
            let back = rng.below(furthest * 1_000_000).cast_signed();
            // The wall clock is right again.
            let offset = if rng.chance(300) { 0 } else { -back };
            self.agenda.push(at, &mut rng, Event::SetClock { offset });
        }
    }

    /// Sets the clock, once a sweep has seen the step before: what is stored between two steps that no sweep has seen keeps
    /// the time of the first.
    pub(super) fn on_set_clock(&mut self, offset: i64) {
        match (self.calm, self.clock.unseen) {
            (true, _) => {}
            (false, true) => self.agenda.push(self.now + AGAIN, &mut self.rng, Event::SetClock { offset }),
            (false, false) => self.set_clock(offset),
        }
    }

    pub(super) fn set_clock(&mut self, offset: i64) {
        // A work poller notices it and wakes its sweeper.
        if offset < self.clock.offset {
            self.clock.unnoticed = true;
            self.check.set_back_from = self.check.set_back_from.max(self.store_now());
        }
        self.clock.unseen = true;
        self.clock.offset = offset;
        for process in 0..self.processes.len() {
            self.rewake(process);
        }
    }

    /// The step that this transaction will notice.
    pub(super) fn noticed_by(&self, tx: &Tx) -> Option<(ClockStep, Duration)> {
        let Tx::Sweep(op) = tx else { return None };
        let step = ClockStep::back(self.store.mem.seen_at?, self.store_now())?;
        Some((step, op.longest_lease))
    }

    pub(super) fn after_sweep(&mut self, tx: &Tx, result: &Result<Done, TxError>) {
        let has_looked = matches!(tx, Tx::Sweep(_)) && result.is_ok();
        self.clock.unnoticed &= !has_looked;
        self.clock.unseen &= !has_looked;
    }
}
