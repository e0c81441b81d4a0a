//! One look for all parts of a process: whether there is something to do, and when there will be. Who has found nothing
//! sleeps until it is called, and need not ask the store again and again.

use std::time::Duration;

use super::LATER;
use crate::port::ahead::Ahead;
use crate::rng::Rng;
use crate::time::Ts;
use crate::tx::TxError;

/// The parts that may find something now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Call {
    pub schedules: bool,
    pub triggers: bool,
    pub chores: bool,
    pub tasks: bool,
    pub polls: bool,
    pub leases: bool,
}

impl Call {
    const EVERYBODY: Call =
        Call { schedules: true, triggers: true, chores: true, tasks: true, polls: true, leases: true };
}

#[derive(Clone, Debug)]
pub struct Lookout {
    every: Duration,
    rng: Rng,
    due: Ts,
    /// However much comes of age: not before this.
    soonest: Ts,
}

impl Lookout {
    /// Looks for the first time at once.
    pub fn new(every: Duration, rng: Rng, now: Ts) -> Lookout {
        Lookout { every, rng, due: now, soonest: now }
    }

    /// When to look next.
    pub fn due(&self) -> Ts {
        self.due
    }

    /// Something may come of age earlier than is known.
    pub fn nudge(&mut self, now: Ts) {
        self.due = self.due.min(now.max(self.soonest));
    }

    /// Who is called after a look. The next one is when something comes of age that this one has seen, though not at every
    /// single one of many, or when others may have made some.
    pub fn on(&mut self, now: Ts, answer: &Result<Ahead, TxError>) -> Call {
        (self.due, self.soonest) = (now + self.rng.around(self.every), now + self.every / 4);
        // Each sees for itself.
        let Ok(ahead) = answer else { return Call::EVERYBODY };
        let mut is_due = |first: Option<Ts>| match first {
            Some(first) if first > ahead.now => {
                let comes = now + first.since(ahead.now) + LATER;
                self.due = self.due.min(comes.max(self.soonest));
                false
            }
            first => first.is_some(),
        };
        Call {
            schedules: is_due(ahead.schedule),
            triggers: is_due(ahead.trigger),
            chores: is_due(ahead.chore),
            tasks: is_due(ahead.task),
            polls: is_due(ahead.poll),
            leases: is_due(ahead.lease),
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

    fn lookout() -> Lookout {
        Lookout::new(EVERY, Rng::new(1), HERE)
    }

    fn nothing() -> Ahead {
        Ahead { now: THERE, schedule: None, trigger: None, chore: None, task: None, poll: None, lease: None }
    }

    #[test]
    fn who_may_find_something_is_called_and_nobody_else() {
        let (mut lookout, now) = (lookout(), Some(THERE));
        let later = Some(THERE + EVERY * 2);
        let answer = Ahead { trigger: now, poll: Some(THERE - EVERY), task: later, lease: later, ..nothing() };
        assert_eq!(lookout.due(), HERE);
        assert_eq!(lookout.on(HERE, &Ok(answer)), Call { triggers: true, polls: true, ..Call::default() });
        let answer = Ahead { schedule: now, chore: now, task: now, lease: now, ..nothing() };
        let call = Call { schedules: true, chores: true, tasks: true, leases: true, ..Call::default() };
        assert_eq!(lookout.on(HERE, &Ok(answer)), call);
    }

    #[test]
    fn the_next_look_is_when_something_comes_of_age_or_others_may_have_made_some() {
        let mut lookout = lookout();
        let due_in = |lookout: &Lookout| lookout.due().since(HERE);
        let (later, away) = (Ahead { poll: Some(THERE + EVERY * 2), ..nothing() }, Call::EVERYBODY);
        for (answer, call) in
            [(Ok(nothing()), Call::default()), (Err(TxError::Busy), away), (Ok(later), Call::default())]
        {
            assert_eq!(lookout.on(HERE, &answer), call);
            let wait = due_in(&lookout);
            assert!(wait >= EVERY * 9 / 10 && wait <= EVERY * 11 / 10, "{wait:?}");
        }
        let (soon, sooner) = (THERE + Duration::from_millis(400), THERE + Duration::from_millis(1));
        lookout.on(HERE, &Ok(Ahead { task: Some(soon), lease: Some(THERE), ..nothing() }));
        assert_eq!(due_in(&lookout), Duration::from_millis(405));
        lookout.on(HERE, &Ok(Ahead { task: Some(soon), schedule: Some(sooner), ..nothing() }));
        assert_eq!(due_in(&lookout), EVERY / 4, "not at every single one of many");
        lookout.on(HERE, &Ok(nothing()));
        lookout.nudge(HERE);
        assert_eq!(due_in(&lookout), EVERY / 4, "nor for everybody who says so");
        lookout.nudge(HERE + EVERY * 2);
        assert_eq!(due_in(&lookout), EVERY / 4);
    }
}
