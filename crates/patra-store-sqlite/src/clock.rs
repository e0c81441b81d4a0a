//! The time of the store: one for the writer and all readers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patra_core::Ts;
use patra_core::clock_step::{ClockStep, StoreTime};
use patra_core::port::Clock;

/// See [`StoreTime`].
#[derive(Debug)]
pub(crate) struct StoreClock {
    clock: Arc<dyn Clock>,
    time: Mutex<StoreTime>,
}

impl StoreClock {
    /// `seen` is the newest time that the store remembers. If the clock shows less, it was set back, and time goes on
    /// from there until the stored times have followed.
    pub(crate) fn new(clock: Arc<dyn Clock>, seen: Option<Ts>) -> StoreClock {
        let now = clock.now();
        let start = seen.filter(|seen| ClockStep::back(*seen, now).is_some());
        let time = StoreTime::new(start.unwrap_or(now), clock.steady());
        StoreClock { clock, time: Mutex::new(time) }
    }

    pub(crate) fn now(&self) -> Ts {
        // Read under the lock, so that all readers see one order.
        let mut time = self.time();
        time.read(self.clock.now(), self.clock.steady())
    }

    /// The step that the stored times must follow now.
    pub(crate) fn step(&self) -> Option<ClockStep> {
        let mut time = self.time();
        time.step(self.clock.now(), self.clock.steady())
    }

    /// The stored times have followed the step.
    pub(crate) fn follow(&self) {
        let mut time = self.time();
        time.follow(self.clock.now(), self.clock.steady());
    }

    fn time(&self) -> MutexGuard<'_, StoreTime> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
