//! A clock that moves only when a test says so.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use patra_core::port::Clock;
use patra_core::time::{Ts, micros};

/// Shared between a store and its test; both see the same instant.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn new(at: Ts) -> ManualClock {
        ManualClock(AtomicI64::new(at.micros()))
    }

    pub fn set(&self, at: Ts) {
        self.0.store(at.micros(), Ordering::SeqCst);
    }

    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(micros(by), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// 2026-01-01, a realistic instant.
    fn default() -> ManualClock {
        ManualClock::new(Ts::from_secs(1_767_225_600))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Ts {
        Ts::from_micros(self.0.load(Ordering::SeqCst))
    }
}
