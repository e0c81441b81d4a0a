//! Permits that one process has cached for a key, in the time of that process.
//!
//! Slots are in the store's time. A reply was made some time between request and arrival; so a slot begins at the
//! latest time that it can mean, and ends at the earliest. No clock has to be right for that, only to run evenly.

mod pending_signals;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use self::pending_signals::PendingSignals;
use super::GateRefusal;
use super::limits::{GateLimits, HORIZON, MOST_LEAD};
use super::request::{GateReply, GateRequest, GateSignal};
use super::slots::{ReturnedSlot, Slot};
use super::view::GateView;
use crate::rng::Rng;
use crate::time::Ts;

/// Minimum time between two requests to the store while permits are left.
const MIN_REQUEST_INTERVAL: Duration = Duration::from_millis(100);

/// Signals that are not urgent are sent with the next request, or after this long.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How long the store may be silent before the process paces itself.
const STORE_AWAY_AFTER: Duration = Duration::from_secs(2);

/// Maximum rate of a process that cannot reach the store (ING-4.10-38).
const OFFLINE_PER_SEC: f64 = 1.0;

/// Minimum rate of a process that cannot reach the store, however little it sent before.
const MIN_OFFLINE_PER_SEC: f64 = 0.01;

/// Observations of this process's own rate that are kept.
const OBSERVED: usize = 100;

/// The right to send one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Permit {
    slot: Ts,
    /// The request must leave before this, in the time of the process.
    pub until: Ts,
    granted_at: Ts,
    epoch: u64,
}

/// Result of [`PermitCache::take`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PermitResult {
    Go(Permit),
    /// The next permit is usable at this time.
    At(Ts),
    /// No permit is cached: request some from the store.
    Empty,
    Closed(GateRefusal, Ts),
}

#[derive(Debug)]
pub struct PermitCache {
    cached: VecDeque<CachedSlot>,
    returned: Vec<ReturnedSlot>,
    /// Rises whenever permits that were given out before become void.
    epoch: u64,
    pending: PendingSignals,
    /// Signals in the request that is in flight.
    in_flight: PendingSignals,
    /// Other processes must learn of the pending signals at once.
    urgent: bool,
    closed: Option<(GateRefusal, Ts)>,
    /// Shared with everybody who got a permit under it.
    view: Option<Arc<GateView>>,
    /// Store time minus process time, as of the last reply.
    offset: i64,
    /// Round trip to the store.
    trip: Duration,
    requesting: bool,
    /// The request in flight became void meanwhile.
    stale: bool,
    requested_at: Ts,
    /// Permits requested for callers that wait.
    requested: u32,
    /// The request in flight reports only: its reply does not say whether the store grants permits.
    reports_only: bool,
    /// No more permits for this process before this time.
    again_at: Ts,
    /// Permits used since `used_since`, and the resulting rate.
    used: u32,
    used_since: Ts,
    per_sec: f64,
    observed: VecDeque<f64>,
    /// When the store first failed to reply.
    silent_since: Option<Ts>,
    /// Next time at which the process may send without the store.
    offline_next_at: Ts,
}

#[derive(Clone, Copy, Debug)]
struct CachedSlot {
    slot: Ts,
    permits: u32,
    from: Ts,
    until: Ts,
    granted_at: Ts,
}

impl CachedSlot {
    fn returned(self) -> ReturnedSlot {
        ReturnedSlot { slot: Slot { at: self.slot, permits: self.permits }, granted_at: self.granted_at }
    }
}

impl Default for PermitCache {
    fn default() -> PermitCache {
        PermitCache {
            cached: VecDeque::new(),
            returned: Vec::new(),
            epoch: 0,
            pending: PendingSignals::default(),
            in_flight: PendingSignals::default(),
            urgent: false,
            closed: None,
            view: None,
            offset: 0,
            trip: Duration::from_millis(2),
            requesting: false,
            stale: false,
            requested_at: Ts::MIN,
            requested: 0,
            reports_only: false,
            again_at: Ts::MIN,
            used: 0,
            used_since: Ts::MIN,
            per_sec: 0.0,
            observed: VecDeque::new(),
            silent_since: None,
            offline_next_at: Ts::MIN,
        }
    }
}

impl PermitCache {
    /// Takes one permit. `first`: the caller may use the reserve of a quota.
    pub fn take(&mut self, first: bool, declared: &GateLimits, now: Ts) -> PermitResult {
        self.drop_expired(now);
        if let Some((reason, until)) = self.closed(first, now) {
            return PermitResult::Closed(reason, until);
        }
        // The reserve of a quota is only for important requests.
        if !first && self.view.as_ref().is_some_and(|view| view.is_soft()) {
            return PermitResult::Empty;
        }
        let epoch = self.epoch;
        let Some(next) = self.cached.front_mut() else { return self.without_store(declared, now) };
        if next.from > now {
            return PermitResult::At(next.from);
        }
        let permit = Permit { slot: next.slot, until: next.until, granted_at: next.granted_at, epoch };
        next.permits -= 1;
        if next.permits == 0 {
            self.cached.pop_front();
        }
        self.used += 1;
        PermitResult::Go(permit)
    }

    /// Slots that are too late to use are only returned to the quota.
    fn drop_expired(&mut self, now: Ts) {
        while self.cached.front().is_some_and(|slot| slot.until <= now) {
            self.returned.extend(self.cached.pop_front().map(CachedSlot::returned));
        }
    }

    /// Whether permits that were not used, and cannot be used any more, wait to be returned.
    pub fn has_unused(&mut self, now: Ts) -> bool {
        self.drop_expired(now);
        !self.returned.is_empty()
    }

    /// Whether a request that needs these permits may leave now. If not, they are returned.
    pub fn spend(&mut self, permits: &mut Vec<Permit>, now: Ts) -> bool {
        // The newest permit counts: the request leaves on its slot.
        let is_late = permits.last().is_none_or(|permit| permit.until <= now);
        if is_late || permits.iter().any(|permit| permit.epoch != self.epoch) {
            permits.drain(..).for_each(|permit| self.give_back(permit, now));
            return false;
        }
        permits.clear();
        true
    }

    /// Returns a permit that was not used.
    pub fn give_back(&mut self, permit: Permit, now: Ts) {
        let Permit { slot, until, granted_at, epoch } = permit;
        if slot == Ts::MIN {
            return;
        }
        self.used = self.used.saturating_sub(1);
        if until > now && epoch == self.epoch {
            self.cached.push_front(CachedSlot { slot, permits: 1, from: now, until, granted_at });
        } else {
            // No longer usable: it is only returned to the quota.
            self.returned.push(ReturnedSlot { slot: Slot { at: slot, permits: 1 }, granted_at });
        }
    }

    /// Voids all permits, cached or given out: the upstream asked for a pause, or the rate has changed.
    pub fn empty(&mut self) {
        self.epoch += 1;
        self.stale = self.requesting;
        self.again_at = Ts::MIN;
        self.returned.extend(self.cached.drain(..).map(CachedSlot::returned));
    }

    /// Voids all permits because nobody will need them, and returns them with the next request.
    pub fn give_back_all(&mut self) {
        self.empty();
        self.urgent |= !self.returned.is_empty() || !self.pending.is_empty();
    }

    /// Blocks all requests until this time. A shorter pause never shortens a longer one.
    pub fn cool_down(&mut self, until: Ts) {
        self.empty();
        let until = match self.closed {
            Some((GateRefusal::Cooldown, longer)) => until.max(longer),
            _ => until,
        };
        self.closed = Some((GateRefusal::Cooldown, until));
    }

    /// Records a signal of the upstream. True when other processes must learn of it at once.
    pub fn record_signal(&mut self, signal: GateSignal, now: Ts) -> bool {
        let urgent = match signal {
            // A window that has ended says nothing about the next one.
            GateSignal::Remaining { resets_in, .. } if resets_in.is_zero() => return false,
            GateSignal::Remaining { remaining, .. } => self.keep_at_most(remaining),
            GateSignal::Refused { .. } => {
                self.empty();
                true
            }
            // Applied at once, before the store knows.
            GateSignal::RetryAfter(wait) => {
                self.cool_down(now + wait);
                true
            }
        };
        self.pending.add(signal, now);
        self.urgent |= urgent;
        urgent
    }

    /// Drops cached permits above the upstream's remaining count. True when some were dropped, or nothing remains.
    fn keep_at_most(&mut self, remaining: u64) -> bool {
        if remaining == 0 {
            self.empty();
            return true;
        }
        let mut over = u64::from(self.permits()).saturating_sub(remaining) as u32;
        let is_over = over > 0;
        while let Some(last) = self.cached.back_mut().filter(|_| over > 0) {
            let back = last.permits.min(over);
            (last.permits, over) = (last.permits - back, over - back);
            self.returned.push(CachedSlot { permits: back, ..*last }.returned());
            if last.permits == 0 {
                self.cached.pop_back();
            }
        }
        is_over
    }

    /// Why no request may leave now, and until when. Permits that are cached may still be used when the store grants
    /// no more: they are counted.
    pub fn closed(&self, first: bool, now: Ts) -> Option<(GateRefusal, Ts)> {
        self.refused(first, now).filter(|(reason, _)| match reason {
            GateRefusal::Cooldown | GateRefusal::QuotaSoft => true,
            GateRefusal::OverDeadline | GateRefusal::Provider | GateRefusal::QuotaHard => {
                self.cached.iter().all(|slot| slot.until <= now)
            }
        })
    }

    /// Why the store grants no permits now, and until when.
    pub fn refused(&self, first: bool, now: Ts) -> Option<(GateRefusal, Ts)> {
        self.closed.filter(|(reason, until)| now < *until && !(first && *reason == GateRefusal::QuotaSoft))
    }

    /// The request to send to the store now, if one is needed, when `waiting` callers wait. `first`: one of them may
    /// use the reserve of a quota.
    pub fn request(&mut self, waiting: u32, first: bool, now: Ts) -> Option<GateRequest> {
        let rest = now.since(self.requested_at);
        let has_news = !self.pending.is_empty() || !self.returned.is_empty();
        let must_report = self.urgent || (rest >= REPORT_INTERVAL && has_news);
        let is_refused = self.refused(first, now).is_some();
        if self.requesting || (is_refused && !must_report) {
            return None;
        }
        self.observe(now);
        let covered = self.cached.back().map_or(Duration::ZERO, |last| last.from.since(now));
        let expected = (self.per_sec * HORIZON.as_secs_f64() * 1.25).ceil() as u32;
        let (cached, want) = (self.permits(), waiting.max(expected));
        let is_short = cached < waiting || (covered < HORIZON / 2 && cached < want);
        let has_rested = now >= self.again_at && (self.cached.is_empty() || rest >= MIN_REQUEST_INTERVAL);
        let must_request = waiting > 0 && is_short && has_rested;
        if !must_report && !must_request {
            return None;
        }
        (self.requesting, self.requested_at, self.urgent) = (true, now, false);
        let soon = self
            .cached
            .iter()
            .take_while(|slot| slot.from.since(now) <= MIN_REQUEST_INTERVAL)
            .map(|slot| slot.permits)
            .sum();
        self.requested = waiting.saturating_sub(soon);
        let prefetch = if waiting > 0 { want.saturating_sub(cached + self.requested) } else { 0 };
        self.reports_only = self.requested + prefetch == 0;
        self.in_flight = std::mem::take(&mut self.pending);
        Some(GateRequest {
            now: self.requested,
            prefetch,
            cached,
            first,
            lead: self.trip,
            returned: std::mem::take(&mut self.returned),
            signals: self.in_flight.signals(now),
            ..GateRequest::default()
        })
    }

    /// A cache for a key that this process has not used lately, given the round trip to the store.
    pub fn expecting(trip: Duration) -> PermitCache {
        PermitCache { trip: trip.min(MOST_LEAD), ..PermitCache::default() }
    }

    /// Round trip to the store.
    pub fn trip(&self) -> Duration {
        self.trip
    }

    /// Handles the store's reply to the request sent at `sent`.
    pub fn on_reply(&mut self, reply: &GateReply, sent: Ts, now: Ts, rng: &mut Rng) {
        (self.requesting, self.silent_since) = (false, None);
        let trip = now.since(sent);
        // Rises at once, or else slots would come too late until it has caught up; falls slowly.
        self.trip = ((self.trip * 3 + trip) / 4).max(trip).min(MOST_LEAD);
        self.offset = reply.now.micros() - now.micros();
        let local = |at: Ts, by: Ts| Ts::from_micros(at.micros() - reply.now.micros() + by.micros());
        let stale = std::mem::take(&mut self.stale);
        let back = |slot: &Slot| ReturnedSlot { slot: *slot, granted_at: reply.now };
        self.returned.extend(reply.slots.iter().filter(|_| stale).map(back));
        for slot in reply.slots.iter().filter(|_| !stale) {
            // No slot is kept for longer than the horizon.
            let from = local(slot.at, now);
            let until = local(slot.at + reply.good_for, sent).min(from.max(now) + HORIZON);
            let granted_at = reply.now;
            self.cached.push_back(CachedSlot { slot: slot.at, permits: slot.permits, from, until, granted_at });
        }
        self.cached.make_contiguous().sort_by_key(|slot| slot.from);
        let brought: u32 = reply.slots.iter().map(|slot| slot.permits).sum();
        self.again_at = match self.cached.front() {
            // The process has its share: more follow when the first slot is used.
            Some(next) if brought < self.requested => next.from,
            None if brought < self.requested => now + MIN_REQUEST_INTERVAL,
            _ => Ts::MIN,
        };
        self.view = Some(Arc::clone(&reply.view));
        if self.reports_only {
            return;
        }
        let own = self.closed.filter(|(reason, until)| *reason == GateRefusal::Cooldown && *until > now);
        let refused = reply.refused.map(|(reason, until)| {
            let until = local(until, now);
            if reason == GateRefusal::OverDeadline {
                return (reason, until);
            }
            // Spread the callers when the pause ends (ING-4.10-19).
            let wait = until.since(now);
            (
                reason,
                until + (wait / 20 + wait.mul_f64(0.1 * rng.below(1000) as f64 / 1000.0)).min(Duration::from_secs(60)),
            )
        });
        if matches!(refused, Some((GateRefusal::Cooldown, _))) {
            self.empty();
        }
        self.closed = refused.filter(|(_, until)| own.is_none_or(|(_, own)| *until >= own)).or(own);
    }

    /// Handles a missing reply. Permits in flight are lost: returning slots twice would be worse.
    pub fn on_failure(&mut self, now: Ts) {
        (self.requesting, self.stale) = (false, false);
        // The signals must still reach the store.
        self.pending = std::mem::take(&mut self.in_flight).followed_by(self.pending);
        self.urgent |= self.pending.is_urgent();
        self.silent_since.get_or_insert(now);
    }

    /// Urgent signals wait to be sent.
    pub fn has_urgent_signals(&self) -> bool {
        self.urgent
    }

    /// A request to the store is in flight.
    pub fn is_requesting(&self) -> bool {
        self.requesting
    }

    /// The store's time, as well as this process knows it.
    pub fn store_time(&self, now: Ts) -> Ts {
        Ts::from_micros(now.micros().saturating_add(self.offset))
    }

    /// The view in the store's last reply.
    pub fn view(&self) -> Option<&Arc<GateView>> {
        self.view.as_ref()
    }

    fn is_store_away(&self, now: Ts) -> bool {
        self.silent_since.is_some_and(|since| now.since(since) >= STORE_AWAY_AFTER)
    }

    /// Approximate wait of the last of this many callers.
    pub fn expected_wait(&self, waiting: u32) -> Duration {
        let per_sec = self.view.as_ref().map_or(0.0, |view| view.rate / view.members.len().max(1) as f64);
        if per_sec <= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(f64::from(waiting) / per_sec) }
    }

    /// No permit is cached. Without a store the process paces itself, slowly; where a quota is declared, it sends
    /// nothing.
    fn without_store(&mut self, declared: &GateLimits, now: Ts) -> PermitResult {
        let has_quota = declared.quotas.hourly.is_some()
            || declared.quotas.daily.is_some()
            || self.view.as_ref().is_some_and(|view| view.remaining().is_some());
        if !self.is_store_away(now) || has_quota {
            return PermitResult::Empty;
        }
        if now < self.offline_next_at {
            return PermitResult::At(self.offline_next_at);
        }
        let mut observed: Vec<f64> = self.observed.iter().copied().collect();
        observed.sort_unstable_by(f64::total_cmp);
        let low = observed.get(observed.len() / 10).copied().unwrap_or(OFFLINE_PER_SEC).max(MIN_OFFLINE_PER_SEC);
        let shared = self.view.as_ref().map_or(f64::MAX, |view| view.rate / view.members.len().max(1) as f64);
        let per_sec = OFFLINE_PER_SEC.min(low).min(shared).min(declared.rate.per_sec).max(1e-6);
        self.offline_next_at = now + Duration::from_secs_f64(1.0 / per_sec);
        let until = now + Duration::from_secs(1);
        PermitResult::Go(Permit { slot: Ts::MIN, until, granted_at: Ts::MIN, epoch: self.epoch })
    }

    fn permits(&self) -> u32 {
        self.cached.iter().map(|slot| slot.permits).sum()
    }

    /// Updates the average use per second, half new and half old.
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
