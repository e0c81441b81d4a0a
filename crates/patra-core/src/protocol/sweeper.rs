//! The sweeper: takes back expired leases. Idempotent and allowed on every host: the store's guarded statement
//! decides.

use std::time::Duration;

use crate::rng::Rng;
use crate::time::Ts;
use crate::tx::{Sweep, Swept, TxError};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub every: Duration,
    pub limit: u32,
    pub max_attempts: u32,
    pub longest_lease: Duration,
}

#[derive(Clone, Debug)]
pub struct Sweeper {
    options: Options,
    rng: Rng,
    due: Ts,
    in_flight: bool,
}

impl Sweeper {
    /// The first sweep runs at once.
    pub fn new(options: Options, rng: Rng, now: Ts) -> Sweeper {
        Sweeper { options, rng, due: now, in_flight: false }
    }

    /// The sweep to run now, if it is due.
    pub fn poll(&mut self, now: Ts) -> Option<Sweep> {
        if self.in_flight || now < self.due {
            return None;
        }
        self.in_flight = true;
        let Options { limit, max_attempts, longest_lease, .. } = self.options;
        Some(Sweep { limit, max_attempts, all_owners: false, longest_lease })
    }

    /// A lease may have expired.
    pub fn nudge(&mut self, now: Ts) {
        self.due = self.due.min(now);
    }

    pub fn on(&mut self, now: Ts, result: &Result<Swept, TxError>) {
        self.in_flight = false;
        let full =
            matches!(result, Ok(swept) if swept.requeued.len() + swept.failed.len() >= self.options.limit as usize);
        // A full sweep has more to do. Otherwise wait with jitter, so that many hosts do not sweep in step.
        self.due = if full { now } else { now + self.rng.around(self.options.every) };
    }

    /// When `poll` has something to do next; not before the result, while a sweep is in flight.
    pub fn wake_at(&self) -> Ts {
        if self.in_flight { Ts::MAX } else { self.due }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TaskId;

    #[test]
    fn a_full_sweep_is_followed_at_once_and_an_idle_one_after_about_the_interval() {
        let now = Ts::from_secs(100);
        let options = Options {
            every: Duration::from_secs(1),
            limit: 2,
            max_attempts: 5,
            longest_lease: Duration::from_secs(60),
        };
        let mut sweeper = Sweeper::new(options, Rng::new(1), now);
        assert!(sweeper.poll(now).is_some());
        assert!(sweeper.poll(now).is_none(), "one at a time");
        assert_eq!(sweeper.wake_at(), Ts::MAX);
        sweeper.on(now, &Ok(Swept { requeued: vec![TaskId(1), TaskId(2)], failed: vec![], now }));
        assert!(sweeper.poll(now).is_some());
        sweeper.on(now, &Err(TxError::Busy));
        assert!(sweeper.poll(now).is_none());
        let wait = sweeper.wake_at().since(now);
        assert!(wait >= options.every * 9 / 10 && wait <= options.every * 11 / 10);
    }
}
