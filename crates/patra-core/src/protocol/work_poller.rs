//! One poll for all parts of a process: whether there is work, and when there will be. An idle part sleeps until it
//! is woken, and need not poll the store itself.

use std::time::Duration;

use super::LATER;
use crate::clock_step::ClockStep;
use crate::port::next_due::NextDue;
use crate::rng::Rng;
use crate::time::Ts;
use crate::tx::TxError;

/// The parts that may find work now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wake {
    pub schedules: bool,
    pub jobs: bool,
    pub background_jobs: bool,
    pub tasks: bool,
    pub polls: bool,
    pub leases: bool,
}

impl Wake {
    const ALL: Wake =
        Wake { schedules: true, jobs: true, background_jobs: true, tasks: true, polls: true, leases: true };
}

#[derive(Clone, Debug)]
pub struct WorkPoller {
    every: Duration,
    rng: Rng,
    due: Ts,
    /// No poll before this, however much becomes due.
    soonest: Ts,
    /// The store's time at the last poll, and when that was.
    last: Option<(Ts, Ts)>,
}

impl WorkPoller {
    /// The first poll runs at once.
    pub fn new(every: Duration, rng: Rng, now: Ts) -> WorkPoller {
        WorkPoller { every, rng, due: now, soonest: now, last: None }
    }

    /// When to poll next.
    pub fn due(&self) -> Ts {
        self.due
    }

    /// Work may become due earlier than is known.
    pub fn nudge(&mut self, now: Ts) {
        self.due = self.due.min(now.max(self.soonest));
    }

    /// The parts to wake after a poll. The next poll is when the next known work becomes due, though not for every
    /// single item, or when other processes may have added some.
    pub fn on(&mut self, now: Ts, result: &Result<NextDue, TxError>) -> Wake {
        (self.due, self.soonest) = (now + self.rng.around(self.every), now + self.every / 4);
        // The poll failed: every part checks for itself.
        let Ok(next) = result else { return Wake::ALL };
        // A store whose clock was set back makes its work wait for longer, until a sweep.
        let stepped =
            self.last.is_some_and(|(there, here)| ClockStep::back(there + now.since(here), next.now).is_some());
        self.last = Some((next.now, now));
        let mut is_due = |first: Option<Ts>| match first {
            Some(first) if first > next.now => {
                let comes = now + first.since(next.now) + LATER;
                self.due = self.due.min(comes.max(self.soonest));
                false
            }
            first => first.is_some(),
        };
        Wake {
            schedules: is_due(next.schedule),
            jobs: is_due(next.job),
            background_jobs: is_due(next.background_job),
            tasks: is_due(next.task),
            polls: is_due(next.poll),
            leases: is_due(next.lease) || stepped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(1_500);
    /// The store's clock is an hour ahead.
    const THERE: Ts = Ts::from_secs(4_600);
    const HERE: Ts = Ts::from_secs(1_000);

    fn work_poller() -> WorkPoller {
        WorkPoller::new(EVERY, Rng::new(1), HERE)
    }

    fn nothing() -> NextDue {
        NextDue { now: THERE, schedule: None, job: None, background_job: None, task: None, poll: None, lease: None }
    }

    #[test]
    fn only_parts_with_due_work_are_woken() {
        let (mut work_poller, now) = (work_poller(), Some(THERE));
        let later = Some(THERE + EVERY * 2);
        let result = NextDue { job: now, poll: Some(THERE - EVERY), task: later, lease: later, ..nothing() };
        assert_eq!(work_poller.due(), HERE);
        assert_eq!(work_poller.on(HERE, &Ok(result)), Wake { jobs: true, polls: true, ..Wake::default() });
        let result = NextDue { schedule: now, background_job: now, task: now, lease: now, ..nothing() };
        let wake = Wake { schedules: true, background_jobs: true, tasks: true, leases: true, ..Wake::default() };
        assert_eq!(work_poller.on(HERE, &Ok(result)), wake);
    }

    #[test]
    fn sweeper_is_woken_when_the_clock_of_the_store_was_set_back() {
        let mut work_poller = work_poller();
        let mut wake = |there: Ts, passed: u32| {
            let now = HERE + Duration::from_secs(1) * passed;
            work_poller.on(now, &Ok(NextDue { now: there, ..nothing() })).leases
        };
        assert!(!wake(THERE, 0));
        assert!(!wake(THERE + EVERY, 1), "a little ahead");
        assert!(!wake(THERE + EVERY, 2), "a little behind");
        assert!(wake(THERE, 3));
        assert!(!wake(THERE + Duration::from_secs(1), 4), "once per step");
        assert!(!wake(THERE + Duration::from_secs(3_600), 5), "forward looks like time that passed");
    }

    #[test]
    fn next_poll_is_when_work_becomes_due_or_after_the_interval() {
        let mut work_poller = work_poller();
        let due_in = |work_poller: &WorkPoller| work_poller.due().since(HERE);
        let (later, away) = (NextDue { poll: Some(THERE + EVERY * 2), ..nothing() }, Wake::ALL);
        for (result, wake) in
            [(Ok(nothing()), Wake::default()), (Err(TxError::Busy), away), (Ok(later), Wake::default())]
        {
            assert_eq!(work_poller.on(HERE, &result), wake);
            let wait = due_in(&work_poller);
            assert!(wait >= EVERY * 9 / 10 && wait <= EVERY * 11 / 10, "{wait:?}");
        }
        let (soon, sooner) = (THERE + Duration::from_millis(400), THERE + Duration::from_millis(1));
        work_poller.on(HERE, &Ok(NextDue { task: Some(soon), lease: Some(THERE), ..nothing() }));
        assert_eq!(due_in(&work_poller), Duration::from_millis(405));
        work_poller.on(HERE, &Ok(NextDue { task: Some(soon), schedule: Some(sooner), ..nothing() }));
        assert_eq!(due_in(&work_poller), EVERY / 4, "not at every single one of many");
        work_poller.on(HERE, &Ok(nothing()));
        work_poller.nudge(HERE);
        assert_eq!(due_in(&work_poller), EVERY / 4, "nor at every nudge");
        work_poller.nudge(HERE + EVERY * 2);
        assert_eq!(due_in(&work_poller), EVERY / 4);
    }
}
