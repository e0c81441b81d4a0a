//! What one process holds of a key's permits, in the time of that process.
//!
//! Slots come in the time of the store. An answer was made some time between the question and its arrival; so a slot begins as
//! late as it can have been meant, and ends as early. Nobody's clock has to be right for that, only to run evenly.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Why;
use super::limits::HORIZON;
use super::slots::Slot;
use super::state::{Answer, Ask, Signal, View};
use crate::rng::Rng;
use crate::time::Ts;

/// Between two questions of one process, while it still has something.
const PAUSE: Duration = Duration::from_millis(100);

/// For how long the store may be silent before a process goes by itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// The rate of a process that cannot ask (ING-4.10-38), at most.
const ALONE_PER_SEC: f64 = 1.0;

/// Observations of the own rate.
const OBSERVED: usize = 100;

/// One request may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Permit {
    slot: Ts,
    /// Before this, in the time of the process.
    pub until: Ts,
}

/// The answer to one who wants to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Try {
    Go(Permit),
    /// There will be one then.
    At(Ts),
    /// There is nothing here: the store must be asked.
    Empty,
    Closed(Why, Ts),
}

#[derive(Debug)]
pub struct Purse {
    held: VecDeque<Held>,
    returned: Vec<Slot>,
    signals: Vec<Signal>,
    /// What the store is being told.
    told: Vec<Signal>,
    closed: Option<(Why, Ts)>,
    /// Shared with everybody who got a permit under it.
    view: Option<Arc<View>>,
    /// Store time less process time, as of the last answer.
    offset: i64,
    /// How long answers take.
    trip: Duration,
    asking: bool,
    /// What was asked for has lost its ground meanwhile.
    stale: bool,
    asked_at: Ts,
    /// Used since then, and the use per second that follows.
    used: u32,
    used_since: Ts,
    per_sec: f64,
    observed: VecDeque<f64>,
    /// When the store first failed to answer.
    silent_since: Option<Ts>,
    /// The next time that a process on its own may send.
    alone_at: Ts,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    slot: Ts,
    permits: u32,
    from: Ts,
    until: Ts,
}

impl Default for Purse {
    fn default() -> Purse {
        Purse {
            held: VecDeque::new(),
            returned: Vec::new(),
            signals: Vec::new(),
            told: Vec::new(),
            closed: None,
            view: None,
            offset: 0,
            trip: Duration::from_millis(2),
            asking: false,
            stale: false,
            asked_at: Ts::MIN,
            used: 0,
            used_since: Ts::MIN,
            per_sec: 0.0,
            observed: VecDeque::new(),
            silent_since: None,
            alone_at: Ts::MIN,
        }
    }
}

impl Purse {
    /// One permit, for somebody who comes first when little is left, or not.
    pub fn take(&mut self, first: bool, now: Ts) -> Try {
        while self.held.front().is_some_and(|held| held.until <= now) {
            // Too late for this one: it only goes back to the quota.
            self.returned.extend(self.held.pop_front().map(|held| Slot { at: held.slot, permits: held.permits }));
        }
        if let Some((why, until)) = self.closed(first, now) {
            return Try::Closed(why, until);
        }
        // What little is left of a quota is for those who come first.
        if !first && self.view.as_ref().is_some_and(|view| view.is_soft()) {
            return Try::Empty;
        }
        let Some(next) = self.held.front_mut() else { return self.alone(now) };
        if next.from > now {
            return Try::At(next.from);
        }
        let permit = Permit { slot: next.slot, until: next.until };
        next.permits -= 1;
        if next.permits == 0 {
            self.held.pop_front();
        }
        self.used += 1;
        Try::Go(permit)
    }

    /// A permit that was not used.
    pub fn give_back(&mut self, permit: Permit, now: Ts) {
        if permit.until > now && permit.slot != Ts::MIN {
            self.held.push_front(Held { slot: permit.slot, permits: 1, from: now, until: permit.until });
            self.used = self.used.saturating_sub(1);
        }
    }

    /// What is held is void: the far side wants silence, or the rate has changed.
    pub fn empty(&mut self) {
        self.stale = self.asking;
        self.returned.extend(self.held.drain(..).map(|held| Slot { at: held.slot, permits: held.permits }));
    }

    /// Takes note of what an answer says. True when the others must hear of it at once.
    pub fn hear(&mut self, signal: Signal, now: Ts) -> bool {
        let urgent = match signal {
            Signal::Refused { .. } | Signal::RetryAfter(_) => true,
            Signal::Remaining { remaining, .. } => remaining <= u64::from(self.permits()),
        };
        match (signal, self.signals.last_mut()) {
            // Only the newest count matters.
            (Signal::Remaining { .. }, Some(last @ Signal::Remaining { .. })) => *last = signal,
            _ => self.signals.push(signal),
        }
        if urgent {
            self.empty();
        }
        if let Signal::RetryAfter(wait) = signal {
            // At once, whatever the store says and when.
            self.closed = Some((Why::Cooldown, now + wait));
        }
        urgent
    }

    /// Why nothing leaves now, and until when.
    pub fn closed(&self, first: bool, now: Ts) -> Option<(Why, Ts)> {
        self.closed.filter(|(why, until)| now < *until && !(first && *why == Why::QuotaSoft))
    }

    /// Whether to ask now, and for how much, when `waiting` are here, for one who comes first or not.
    pub fn ask(&mut self, waiting: u32, first: bool, now: Ts) -> Option<Ask> {
        if self.asking || self.closed(first, now).is_some() && self.signals.is_empty() {
            return None;
        }
        self.observe(now);
        let covered = self.held.back().map_or(Duration::ZERO, |last| last.from.since(now));
        let expected = (self.per_sec * HORIZON.as_secs_f64() * 1.25).ceil() as u32;
        let (held, want) = (self.permits(), waiting.max(expected));
        let short = held < waiting || (covered < HORIZON / 2 && held < want);
        let rested = self.held.is_empty() || now.since(self.asked_at) >= PAUSE;
        if self.signals.is_empty() && !(waiting > 0 && short && rested) {
            return None;
        }
        (self.asking, self.asked_at) = (true, now);
        let soon = self.held.iter().take_while(|held| held.from.since(now) <= PAUSE).map(|held| held.permits).sum();
        let at_once = waiting.saturating_sub(soon);
        Some(Ask {
            now: at_once,
            ahead: if waiting > 0 { want.saturating_sub(held + at_once) } else { 0 },
            held,
            first,
            lead: self.trip,
            returned: std::mem::take(&mut self.returned),
            signals: {
                self.told.clone_from(&self.signals);
                std::mem::take(&mut self.signals)
            },
            ..Ask::default()
        })
    }

    /// The store has answered what was asked at `sent`.
    pub fn on_answer(&mut self, answer: &Answer, sent: Ts, now: Ts, rng: &mut Rng) {
        (self.asking, self.silent_since) = (false, None);
        let trip = now.since(sent);
        self.trip = (self.trip * 3 + trip) / 4;
        self.offset = answer.now.micros() - now.micros();
        let local = |at: Ts, by: Ts| Ts::from_micros(at.micros() - answer.now.micros() + by.micros());
        let stale = std::mem::take(&mut self.stale);
        self.returned.extend(answer.slots.iter().filter(|_| stale));
        for slot in answer.slots.iter().filter(|_| !stale) {
            // Nobody keeps a slot for longer than the horizon.
            let from = local(slot.at, now);
            let until = local(slot.at + answer.good_for, sent).min(from.max(now) + HORIZON);
            self.held.push_back(Held { slot: slot.at, permits: slot.permits, from, until });
        }
        self.held.make_contiguous().sort_by_key(|held| held.from);
        self.view = Some(Arc::new(answer.view.clone()));
        let own = self.closed.filter(|(why, until)| *why == Why::Cooldown && *until > now);
        let refused = answer.refused.map(|(why, until)| {
            let until = local(until, now);
            if why == Why::OverDeadline {
                return (why, until);
            }
            // Not all at once when it ends (ING-4.10-19).
            let wait = until.since(now);
            (
                why,
                until + (wait / 20 + wait.mul_f64(0.1 * rng.below(1000) as f64 / 1000.0)).min(Duration::from_secs(60)),
            )
        });
        self.closed = refused.or(own);
    }

    /// The store has not answered. What was on its way is lost: slots that come back twice would be worse.
    pub fn on_failure(&mut self, now: Ts) {
        (self.asking, self.stale) = (false, false);
        // What was said must still be heard.
        let told = std::mem::take(&mut self.told);
        self.signals.splice(..0, told);
        self.silent_since.get_or_insert(now);
    }

    /// Something is still to be told.
    pub fn has_news(&self) -> bool {
        !self.signals.is_empty()
    }

    /// The store's time, as well as this process knows it.
    pub fn store_time(&self, now: Ts) -> Ts {
        Ts::from_micros(now.micros().saturating_add(self.offset))
    }

    /// As the store last told it.
    pub fn view(&self) -> Option<&Arc<View>> {
        self.view.as_ref()
    }

    fn is_alone(&self, now: Ts) -> bool {
        self.silent_since.is_some_and(|since| now.since(since) >= PATIENCE)
    }

    /// About how long the last of so many waits.
    pub fn expected_wait(&self, waiting: u32) -> Duration {
        let per_sec = self.view.as_ref().map_or(0.0, |view| view.rate / view.members.len().max(1) as f64);
        if per_sec <= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(f64::from(waiting) / per_sec) }
    }

    /// Nothing is held. Without a store the process goes by itself, slowly; where a quota is declared, not at all.
    fn alone(&mut self, now: Ts) -> Try {
        if !self.is_alone(now) || self.view.as_ref().is_some_and(|view| view.remaining().is_some()) {
            return Try::Empty;
        }
        if now < self.alone_at {
            return Try::At(self.alone_at);
        }
        let mut observed: Vec<f64> = self.observed.iter().copied().collect();
        observed.sort_unstable_by(f64::total_cmp);
        let low = observed.get(observed.len() / 10).copied().unwrap_or(ALONE_PER_SEC);
        let shared = self.view.as_ref().map_or(1.0, |view| view.rate / view.members.len().max(1) as f64);
        let per_sec = ALONE_PER_SEC.min(low).min(shared).max(0.01);
        self.alone_at = now + Duration::from_secs_f64(1.0 / per_sec);
        Try::Go(Permit { slot: Ts::MIN, until: now + Duration::from_secs(1) })
    }

    fn permits(&self) -> u32 {
        self.held.iter().map(|held| held.permits).sum()
    }

    /// The use per second, now and then, half new and half old.
    fn observe(&mut self, now: Ts) {
        let gone = now.since(self.used_since).min(Duration::from_secs(3_600));
        if gone < HORIZON / 4 {
            return;
        }
        let latest = f64::from(std::mem::take(&mut self.used)) / gone.as_secs_f64();
        self.used_since = now;
        self.per_sec = if gone > 4 * HORIZON { latest } else { (self.per_sec + latest) / 2.0 };
        if latest > 0.0 {
            self.observed.push_back(latest);
            if self.observed.len() > OBSERVED {
                self.observed.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Limits, Rate, State};

    const LIMITS: Limits = Limits {
        rate: Rate { per_sec: 10.0, burst: 5.0 },
        quotas: crate::gate::Quotas { hourly: None, daily: None },
        warmup: Duration::ZERO,
        demote: 2.0,
    };

    /// The process is far from the store's time, in either direction.
    struct Scene {
        state: State,
        purse: Purse,
        skew: i64,
    }

    impl Scene {
        fn new(skew_secs: i64) -> Scene {
            Scene { state: State::new(LIMITS, at(0)), purse: Purse::default(), skew: skew_secs * 1_000_000 }
        }

        fn local(&self, millis: i64) -> Ts {
            Ts::from_micros(at(millis).micros() + self.skew)
        }

        /// Asks at one time; the store answers at once, and the answer arrives later.
        fn ask(&mut self, waiting: u32, millis: i64, trip: i64) {
            let Some(mut ask) = self.purse.ask(waiting, true, self.local(millis)) else { return };
            (ask.member, ask.percent, ask.deadline) = ("m".into(), 100, Duration::from_secs(60));
            let answer = self.state.ask(LIMITS, &ask, at(millis));
            let (sent, now) = (self.local(millis), self.local(millis + trip));
            self.purse.on_answer(&answer, sent, now, &mut Rng::new(3));
        }
    }

    fn at(millis: i64) -> Ts {
        Ts::from_micros(1_800_000_000_000_000 + millis * 1000)
    }

    // covers: ING-4.10-13
    #[test]
    fn a_slot_is_never_used_before_its_time_nor_after_whatever_the_clock_says() {
        for skew in [-7_200, 0, 86_400] {
            let mut scene = Scene::new(skew);
            scene.ask(8, 0, 10);
            let mut sent = Vec::new();
            for millis in 10..1_500 {
                while let Try::Go(permit) = scene.purse.take(true, scene.local(millis)) {
                    assert!(at(millis) >= permit.slot, "not before its time");
                    assert!(scene.local(millis) < permit.until);
                    sent.push(permit.slot);
                }
            }
            assert_eq!(sent.len(), 8, "skew {skew}");
            sent.dedup();
            assert_eq!(sent.len(), 8, "each once");
        }
    }

    #[test]
    fn what_is_given_back_is_the_next_ones_and_what_is_void_goes_back() {
        let mut scene = Scene::new(60);
        scene.ask(2, 0, 1);
        let Try::Go(permit) = scene.purse.take(true, scene.local(1)) else { panic!("there is a burst") };
        scene.purse.give_back(permit, scene.local(2));
        assert_eq!(scene.purse.take(true, scene.local(2)), Try::Go(permit));
        assert!(scene.purse.hear(Signal::RetryAfter(Duration::from_secs(5)), scene.local(2)), "others must hear of it");
        assert_eq!(scene.purse.permits(), 0);
        scene.ask(1, 3, 1);
        assert!(matches!(scene.purse.take(true, scene.local(4)), Try::Closed(Why::Cooldown, _)));
    }

    // covers: ING-4.10-19
    #[test]
    fn the_end_of_a_silence_is_not_the_same_for_all() {
        let ends: std::collections::BTreeSet<i64> = (0..20)
            .map(|seed| {
                let (mut state, mut purse) = (State::new(LIMITS, at(0)), Purse::default());
                purse.hear(Signal::RetryAfter(Duration::from_secs(100)), at(0));
                let ask = purse.ask(1, true, at(0)).expect("it must be told");
                let answer = state.ask(LIMITS, &ask, at(0));
                purse.on_answer(&answer, at(0), at(0), &mut Rng::new(seed));
                let Some((Why::Cooldown, until)) = purse.closed(true, at(0)) else { panic!("{purse:?}") };
                let late = until.since(at(100_000));
                assert!(late >= Duration::from_secs(5) && late <= Duration::from_secs(15), "5 to 15 %: {late:?}");
                until.micros()
            })
            .collect();
        assert!(ends.len() > 15);
    }

    #[test]
    fn an_answer_that_was_overtaken_by_a_wish_for_silence_is_not_used() {
        let mut scene = Scene::new(0);
        let ask = scene.purse.ask(5, true, at(0)).unwrap();
        let answer = scene.state.ask(LIMITS, &Ask { member: "m".into(), percent: 100, ..ask }, at(0));
        assert!(!answer.slots.is_empty());
        scene.purse.empty();
        scene.purse.on_answer(&answer, at(0), at(5), &mut Rng::new(1));
        assert_eq!(scene.purse.take(true, at(5)), Try::Empty);
    }
}
