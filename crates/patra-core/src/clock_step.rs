//! Steps of a store's clock, and what they do to stored times.
//!
//! A store measures all waiting by its clock: leases, delays, silences. If the clock is set back by an hour, everything
//! that waits would wait an hour longer. So a store that notices a step moves these times with its clock. Times of
//! things that happened stay as they are.

use std::time::Duration;

use crate::time::{Ts, micros};
use crate::tx::{FireDue, Recurrence};

/// The clock was `from`, and is `to` at the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockStep {
    pub from: Ts,
    pub to: Ts,
}

impl ClockStep {
    /// Smaller steps are not worth the trouble: they delay nothing by more than this.
    pub const SMALLEST: Duration = Duration::from_secs(1);

    /// The step back after which a clock that had reached `seen` is `now`.
    pub fn back(seen: Ts, now: Ts) -> Option<ClockStep> {
        (seen.since(now) > ClockStep::SMALLEST).then_some(ClockStep { from: seen, to: now })
    }

    pub fn is_back(self) -> bool {
        self.to < self.from
    }

    /// Length of the step, whatever its direction.
    pub fn length(self) -> Duration {
        self.from.since(self.to).max(self.to.since(self.from))
    }

    /// The step in microseconds, negative if the clock was set back.
    pub fn micros(self) -> i64 {
        self.to.micros().saturating_sub(self.from.micros())
    }

    /// A time to wait until: as far ahead as before. If it had come, it has come.
    #[must_use]
    pub fn wait_until(self, at: Ts) -> Ts {
        if at > self.from.min(self.to) && at < Ts::NEVER { self.to + at.since(self.from) } else { at }
    }

    /// The end of a lease, for a store that notices a step late: one that ends soon may have been granted since. `longest`:
    /// no lease is granted for longer, so one that ends later has run out before the step.
    #[must_use]
    pub fn lease_until(self, at: Ts, longest: Duration) -> Ts {
        match at {
            _ if at > self.from => self.to + at.since(self.from),
            _ if self.is_back() && at > self.to + longest => self.to,
            _ => at,
        }
    }

    /// The time since which something is so: as long ago as before.
    #[must_use]
    pub fn since(self, at: Ts) -> Ts {
        if at > self.to || !self.is_back() { at.shifted(self.micros()) } else { at }
    }

    /// A time that a calendar or an interval has set: never further ahead than before, and not later than the
    /// recurrence says from now on.
    #[must_use]
    pub fn scheduled(self, at: Ts, recurrence: &Recurrence) -> Ts {
        match recurrence {
            _ if !self.is_back() => at,
            Recurrence::Every(every) => self.wait_until(at).min(self.to + *every),
            Recurrence::Cron(_) if at <= self.from => self.wait_until(at),
            Recurrence::Cron(_) => at.min(FireDue::next_due(at, recurrence, self.to)),
        }
    }
}

/// The time of a store whose process owns it alone. It runs with the steady clock and follows the wall clock: small
/// differences at once, a step only when the wall clock has kept it for a while. A wall clock that is wrong for a moment
/// changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct StoreTime {
    /// The two clocks when they last agreed.
    wall: Ts,
    steady: Ts,
    /// The newest time that was read.
    last: Ts,
    /// Since when (steady) the wall clock has been off, and by how much.
    off: Option<(Ts, i64)>,
}

impl StoreTime {
    /// How long the wall clock must keep a step back until the store follows.
    pub const PATIENCE_BACK: Duration = Duration::from_secs(5);

    /// The same for a step forward. Longer: a store whose time is behind reads records later, but one whose time is
    /// ahead would plan windows whose records do not exist yet, and its cursor would pass them.
    pub const PATIENCE_FORWARD: Duration = Duration::from_secs(60);

    pub fn new(wall: Ts, steady: Ts) -> StoreTime {
        StoreTime { wall, steady, last: wall, off: None }
    }

    /// The time now, from one reading of both clocks. It never goes back, except by [`StoreTime::follow`].
    pub fn read(&mut self, wall: Ts, steady: Ts) -> Ts {
        let expected = self.wall.shifted(steady.micros().saturating_sub(self.steady.micros()));
        let off = wall.micros().saturating_sub(expected.micros());
        let smallest = micros(ClockStep::SMALLEST).unsigned_abs();
        let now = if off.unsigned_abs() <= smallest {
            (self.wall, self.steady, self.off) = (wall, steady, None);
            wall
        } else {
            // A second step begins the wait again.
            if self.off.is_none_or(|(_, before)| before.abs_diff(off) > smallest) {
                self.off = Some((steady, off));
            }
            expected
        };
        self.last = self.last.max(now);
        self.last
    }

    /// The step to follow now, if the wall clock has kept one for long enough.
    pub fn step(&mut self, wall: Ts, steady: Ts) -> Option<ClockStep> {
        let from = self.read(wall, steady);
        let (since, off) = self.off?;
        let patience = if off < 0 { StoreTime::PATIENCE_BACK } else { StoreTime::PATIENCE_FORWARD };
        (steady.since(since) >= patience).then_some(ClockStep { from, to: wall })
    }

    /// From now on the time is that of the wall clock.
    pub fn follow(&mut self, wall: Ts, steady: Ts) {
        *self = StoreTime::new(wall, steady);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600;

    fn at(secs: i64) -> Ts {
        Ts::from_secs(1_800_000_000 + secs)
    }

    const BACK: ClockStep = ClockStep { from: Ts::from_secs(1_800_000_000), to: Ts::from_secs(1_800_000_000 - 3_600) };

    const LONGEST: Duration = Duration::from_secs(60);

    fn forward() -> ClockStep {
        ClockStep { from: at(0), to: at(HOUR) }
    }

    #[test]
    fn wait_is_as_long_after_a_step_as_before() {
        for (step, now) in [(BACK, -HOUR), (forward(), HOUR)] {
            assert_eq!(step.wait_until(at(7)), at(now + 7), "{step:?}");
            assert!(step.wait_until(at(-7)) <= at(now), "what was due is due");
            assert_eq!(step.wait_until(Ts::NEVER), Ts::NEVER);
            assert_eq!(step.lease_until(at(7), LONGEST), at(now + 7));
            assert_eq!(step.since(at(-7)), at(now - 7));
        }
        assert_eq!(BACK.wait_until(at(-HOUR - 1)), at(-HOUR - 1), "the order of due work stays");
        assert_eq!(BACK.lease_until(at(-HOUR + 30), LONGEST), at(-HOUR + 30), "granted since the step");
        assert_eq!(BACK.lease_until(at(-7), LONGEST), at(-HOUR), "it had run out");
        assert_eq!(BACK.since(at(-2 * HOUR)), at(-2 * HOUR));
    }

    #[test]
    fn schedule_comes_back_and_never_moves_away() {
        let every = Recurrence::Every(Duration::from_secs(10));
        assert_eq!(BACK.scheduled(at(4), &every), at(-HOUR + 4));
        assert_eq!(BACK.scheduled(at(400), &every), at(-HOUR + 10), "not later than its interval");
        assert_eq!(forward().scheduled(at(4), &every), at(4));
        let hourly = Recurrence::Cron("0 * * * *".into());
        assert_eq!(BACK.scheduled(at(0), &hourly), at(-HOUR), "it was due");
        // 1,800,000,000 is 08:00:00 UTC.
        assert_eq!(BACK.scheduled(at(HOUR), &hourly), at(0));
        assert_eq!(forward().scheduled(at(HOUR), &hourly), at(HOUR));
    }

    #[test]
    fn step_back_is_noticed_from_the_last_time_that_was_seen() {
        assert_eq!(ClockStep::back(at(0), at(-HOUR)), Some(BACK));
        assert_eq!(ClockStep::back(at(0), at(-1)), None);
        assert_eq!(ClockStep::back(at(0), at(5)), None);
        assert_eq!((BACK.length(), forward().length()), (Duration::from_secs(3_600), Duration::from_secs(3_600)));
    }

    #[test]
    fn time_follows_a_step_that_lasts_and_ignores_one_that_does_not() {
        for (step, patience) in [(-HOUR, StoreTime::PATIENCE_BACK), (HOUR, StoreTime::PATIENCE_FORWARD)] {
            let mut time = StoreTime::new(at(0), at(0));
            assert_eq!(time.read(at(1), at(1)), at(1));
            assert_eq!(time.step(at(2 + step), at(2)), None);
            assert_eq!(time.read(at(3 + step), at(3)), at(3), "it runs on meanwhile");
            assert_eq!(time.read(at(60), at(60)), at(60), "the wall clock is right again");
            assert_eq!(time.step(at(61 + step), at(61)), None, "a new step");
            let patience = patience.as_secs() as i64;
            assert_eq!(time.step(at(60 + patience + step), at(60 + patience)), None);
            let (wall, steady) = (at(61 + patience + step), at(61 + patience));
            assert_eq!(time.step(wall, steady), Some(ClockStep { from: steady, to: wall }));
            time.follow(wall, steady);
            assert_eq!(time.read(wall, steady), wall);
            assert_eq!(time.step(at(200 + step), at(200)), None);
        }
    }

    #[test]
    fn step_within_a_step_begins_the_wait_again() {
        let mut time = StoreTime::new(at(0), at(0));
        assert_eq!(time.step(at(-HOUR), at(0)), None);
        assert_eq!(time.step(at(4 - 2 * HOUR), at(4)), None);
        assert_eq!(time.step(at(8 - 2 * HOUR), at(8)), None, "four seconds");
        assert_eq!(time.step(at(9 - 2 * HOUR), at(9)), Some(ClockStep { from: at(9), to: at(9 - 2 * HOUR) }));
    }

    #[test]
    fn small_differences_are_followed_without_going_back() {
        let mut time = StoreTime::new(at(0), at(0));
        assert_eq!(time.read(at(11), at(10)), at(11));
        assert_eq!(time.read(at(10), at(10)), at(11), "it waits");
        assert_eq!(time.read(at(12), at(12)), at(12));
        assert_eq!(time.step(at(30), at(31)), None);
    }
}
