//! A clock that moves only when a test says so.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use patra_core::port::Clock;
use patra_core::time::{Ts, micros};

/// Shared between a store and its test; both see the same instant.
#[derive(Debug)]
pub struct ManualClock {
    steady: AtomicI64,
    /// How far the wall clock is ahead of the steady one.
    stepped: AtomicI64,
}

impl ManualClock {
    pub fn new(at: Ts) -> ManualClock {
        ManualClock { steady: AtomicI64::new(at.micros()), stepped: AtomicI64::new(0) }
    }

    /// Lets time pass until the wall clock is at this time.
    pub fn set(&self, at: Ts) {
        self.steady.store(at.micros() - self.stepped.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    pub fn advance(&self, by: Duration) {
        self.steady.fetch_add(micros(by), Ordering::SeqCst);
    }

    /// Sets the wall clock forward, or back if this is negative, while no time passes.
    pub fn step(&self, micros: i64) {
        self.stepped.fetch_add(micros, Ordering::SeqCst);
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
        self.steady().shifted(self.stepped.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Ts {
        Ts::from_micros(self.steady.load(Ordering::SeqCst))
    }
}
