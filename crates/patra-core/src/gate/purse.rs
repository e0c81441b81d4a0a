//! What one process holds of a key's permits, in the time of that process.
//!
//! Slots come in the time of the store. An answer was made some time between the question and its arrival; so a slot begins as
//! late as it can have been meant, and ends as early. Nobody's clock has to be right for that, only to run evenly.

mod news;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use self::news::News;
use super::Why;
use super::ask::{Answer, Ask, Signal};
use super::limits::{HORIZON, Limits, MOST_LEAD};
use super::slots::Slot;
use super::view::View;
use crate::rng::Rng;
use crate::time::Ts;

/// Between two questions of one process, while it still has something.
const PAUSE: Duration = Duration::from_millis(100);

/// What others need not know at once is told with the next question, or after so long.
const TELL: Duration = Duration::from_secs(1);

/// For how long the store may be silent before a process goes by itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// The rate of a process that cannot ask (ING-4.10-38), at most.
const ALONE_PER_SEC: f64 = 1.0;

/// However little was sent before, it goes on with this.
const LEAST_PER_SEC: f64 = 0.01;

/// Observations of the own rate.
const OBSERVED: usize = 100;

/// One request may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Permit {
    slot: Ts,
    /// Before this, in the time of the process.
    pub until: Ts,
    epoch: u64,
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
    /// Rises whenever what was given out before is void.
    epoch: u64,
    news: News,
    /// What the store is being told.
    told: News,
    /// The others must hear of the news at once.
    urgent: bool,
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
    /// For those who wait.
    wanted: u32,
    /// Before this there is no more for us.
    again_at: Ts,
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

impl Held {
    fn slot(self) -> Slot {
        Slot { at: self.slot, permits: self.permits }
    }
}

impl Default for Purse {
    fn default() -> Purse {
        Purse {
            held: VecDeque::new(),
            returned: Vec::new(),
            epoch: 0,
            news: News::default(),
            told: News::default(),
            urgent: false,
            closed: None,
            view: None,
            offset: 0,
            trip: Duration::from_millis(2),
            asking: false,
            stale: false,
            asked_at: Ts::MIN,
            wanted: 0,
            again_at: Ts::MIN,
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
    /// One permit of a key of which so much is declared, for somebody who comes first when little is left, or not.
    pub fn take(&mut self, first: bool, declared: &Limits, now: Ts) -> Try {
        while self.held.front().is_some_and(|held| held.until <= now) {
            // Too late for this one: it only goes back to the quota.
            self.returned.extend(self.held.pop_front().map(Held::slot));
        }
        if let Some((why, until)) = self.closed(first, now) {
            return Try::Closed(why, until);
        }
        // What little is left of a quota is for those who come first.
        if !first && self.view.as_ref().is_some_and(|view| view.is_soft()) {
            return Try::Empty;
        }
        let epoch = self.epoch;
        let Some(next) = self.held.front_mut() else { return self.alone(declared, now) };
        if next.from > now {
            return Try::At(next.from);
        }
        let permit = Permit { slot: next.slot, until: next.until, epoch };
        next.permits -= 1;
        if next.permits == 0 {
            self.held.pop_front();
        }
        self.used += 1;
        Try::Go(permit)
    }

    /// Whether a request that takes these may leave now. If not, they go back.
    pub fn spend(&mut self, permits: &mut Vec<Permit>, now: Ts) -> bool {
        // The newest counts: the request leaves on that one.
        let is_late = permits.last().is_none_or(|permit| permit.until <= now);
        if is_late || permits.iter().any(|permit| permit.epoch != self.epoch) {
            permits.drain(..).for_each(|permit| self.give_back(permit, now));
            return false;
        }
        permits.clear();
        true
    }

    /// A permit that was not used.
    pub fn give_back(&mut self, permit: Permit, now: Ts) {
        let Permit { slot, until, epoch } = permit;
        if slot == Ts::MIN {
            return;
        }
        self.used = self.used.saturating_sub(1);
        if until > now && epoch == self.epoch {
            self.held.push_front(Held { slot, permits: 1, from: now, until });
        } else {
            // Nobody uses it any more: it only goes back to the quota.
            self.returned.push(Slot { at: slot, permits: 1 });
        }
    }

    /// What is held or was given out is void: the far side wants silence, or the rate has changed.
    pub fn empty(&mut self) {
        self.epoch += 1;
        self.stale = self.asking;
        self.again_at = Ts::MIN;
        self.returned.extend(self.held.drain(..).map(Held::slot));
    }

    /// Nothing leaves before this. A shorter wish never shortens a longer one.
    pub fn hush(&mut self, until: Ts) {
        self.empty();
        let until = match self.closed {
            Some((Why::Cooldown, longer)) => until.max(longer),
            _ => until,
        };
        self.closed = Some((Why::Cooldown, until));
    }

    /// Takes note of what an answer says. True when the others must hear of it at once.
    pub fn hear(&mut self, signal: Signal, now: Ts) -> bool {
        let urgent = match signal {
            // A window that is over says nothing about the next one.
            Signal::Remaining { resets_in, .. } if resets_in.is_zero() => return false,
            Signal::Remaining { remaining, .. } => self.hold_at_most(remaining),
            Signal::Refused { .. } => {
                self.empty();
                true
            }
            // At once, whatever the store says and when.
            Signal::RetryAfter(wait) => {
                self.hush(now + wait);
                true
            }
        };
        self.news.add(signal, now);
        self.urgent |= urgent;
        urgent
    }

    /// Of what is held the far side would take no more than this. True when that is less than there was, or nothing.
    fn hold_at_most(&mut self, remaining: u64) -> bool {
        if remaining == 0 {
            self.empty();
            return true;
        }
        let mut over = u64::from(self.permits()).saturating_sub(remaining) as u32;
        let is_over = over > 0;
        while let Some(last) = self.held.back_mut().filter(|_| over > 0) {
            let back = last.permits.min(over);
            (last.permits, over) = (last.permits - back, over - back);
            self.returned.push(Slot { at: last.slot, permits: back });
            if last.permits == 0 {
                self.held.pop_back();
            }
        }
        is_over
    }

    /// Why nothing leaves now, and until when.
    pub fn closed(&self, first: bool, now: Ts) -> Option<(Why, Ts)> {
        self.closed.filter(|(why, until)| now < *until && !(first && *why == Why::QuotaSoft))
    }

    /// Whether to ask now, and for how much, when `waiting` are here, for one who comes first or not.
    pub fn ask(&mut self, waiting: u32, first: bool, now: Ts) -> Option<Ask> {
        let rest = now.since(self.asked_at);
        let must_tell = self.urgent || (rest >= TELL && !self.news.is_empty());
        if self.asking || (self.closed(first, now).is_some() && !must_tell) {
            return None;
        }
        self.observe(now);
        let covered = self.held.back().map_or(Duration::ZERO, |last| last.from.since(now));
        let expected = (self.per_sec * HORIZON.as_secs_f64() * 1.25).ceil() as u32;
        let (held, want) = (self.permits(), waiting.max(expected));
        let is_short = held < waiting || (covered < HORIZON / 2 && held < want);
        let has_rested = now >= self.again_at && (self.held.is_empty() || rest >= PAUSE);
        let must_ask = waiting > 0 && is_short && has_rested;
        if !must_tell && !must_ask {
            return None;
        }
        (self.asking, self.asked_at, self.urgent) = (true, now, false);
        let soon = self.held.iter().take_while(|held| held.from.since(now) <= PAUSE).map(|held| held.permits).sum();
        self.wanted = waiting.saturating_sub(soon);
        self.told = std::mem::take(&mut self.news);
        Some(Ask {
            now: self.wanted,
            ahead: if waiting > 0 { want.saturating_sub(held + self.wanted) } else { 0 },
            held,
            first,
            lead: self.trip,
            returned: std::mem::take(&mut self.returned),
            signals: self.told.signals(now),
            ..Ask::default()
        })
    }

    /// For a key that this process has not asked for lately, where the store's answers take so long.
    pub fn expecting(trip: Duration) -> Purse {
        Purse { trip: trip.min(MOST_LEAD), ..Purse::default() }
    }

    /// How long the store's answers take.
    pub fn trip(&self) -> Duration {
        self.trip
    }

    /// The store has answered what was asked at `sent`.
    pub fn on_answer(&mut self, answer: &Answer, sent: Ts, now: Ts, rng: &mut Rng) {
        (self.asking, self.silent_since) = (false, None);
        let trip = now.since(sent);
        // Up at once, or else slots come too late until it has crept up; down slowly.
        self.trip = ((self.trip * 3 + trip) / 4).max(trip).min(MOST_LEAD);
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
        let brought: u32 = answer.slots.iter().map(|slot| slot.permits).sum();
        self.again_at = match self.held.front() {
            // It has its part: there is more when the first of it is used.
            Some(next) if brought < self.wanted => next.from,
            None if brought < self.wanted => now + PAUSE,
            _ => Ts::MIN,
        };
        self.view = Some(Arc::clone(&answer.view));
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
        if matches!(refused, Some((Why::Cooldown, _))) {
            self.empty();
        }
        self.closed = refused.filter(|(_, until)| own.is_none_or(|(_, own)| *until >= own)).or(own);
    }

    /// The store has not answered. What was on its way is lost: slots that come back twice would be worse.
    pub fn on_failure(&mut self, now: Ts) {
        (self.asking, self.stale) = (false, false);
        // What was said must still be heard.
        self.news = std::mem::take(&mut self.told).followed_by(self.news);
        self.urgent |= self.news.is_urgent();
        self.silent_since.get_or_insert(now);
    }

    /// Something is still to be told, at once.
    pub fn has_news(&self) -> bool {
        self.urgent
    }

    /// A question is on its way.
    pub fn is_asking(&self) -> bool {
        self.asking
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
    fn alone(&mut self, declared: &Limits, now: Ts) -> Try {
        let has_quota = declared.quotas.hourly.is_some()
            || declared.quotas.daily.is_some()
            || self.view.as_ref().is_some_and(|view| view.remaining().is_some());
        if !self.is_alone(now) || has_quota {
            return Try::Empty;
        }
        if now < self.alone_at {
            return Try::At(self.alone_at);
        }
        let mut observed: Vec<f64> = self.observed.iter().copied().collect();
        observed.sort_unstable_by(f64::total_cmp);
        let low = observed.get(observed.len() / 10).copied().unwrap_or(ALONE_PER_SEC).max(LEAST_PER_SEC);
        let shared = self.view.as_ref().map_or(f64::MAX, |view| view.rate / view.members.len().max(1) as f64);
        let per_sec = ALONE_PER_SEC.min(low).min(shared).min(declared.rate.per_sec).max(1e-6);
        self.alone_at = now + Duration::from_secs_f64(1.0 / per_sec);
        Try::Go(Permit { slot: Ts::MIN, until: now + Duration::from_secs(1), epoch: self.epoch })
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
mod tests;
