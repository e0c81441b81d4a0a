//! State of one key. It changes in one way only: by a request.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::GateRefusal;
use super::aimd::Aimd;
use super::limits::{GateLimits, HORIZON, MOST_LEAD, SlotSpacing};
use super::provider::ProviderCount;
use super::quota::QuotaWindow;
use super::request::{GateReply, GateRequest, GateSignal};
use super::slots::{ReturnedSlot, Slot, SlotPool};
use super::view::{GateMember, GateView};
use crate::clock_step::ClockStep;
use crate::time::Ts;

/// A member that has made no request for this long leaves its share to the others.
const ACTIVE: Duration = Duration::from_secs(3);

/// Maximum members that are remembered, for the shares and for display.
const MOST_MEMBERS: usize = 64;

/// A free slot this shortly before its time goes to any member of a class, whatever the members' shares; between
/// classes the shares still hold. Long enough for members to request twice.
const LAST_CALL: Duration = Duration::from_millis(250);

/// How long prefetched slots should stay valid: until the next reply.
const LASTS: Duration = Duration::from_millis(250);

/// The longest pause that an upstream is granted.
const LONGEST_COOLDOWN: Duration = Duration::from_secs(28 * 3_600);

/// The longest deadline of any caller. Slots further ahead than this were laid out at a slower rate.
const LONGEST_DEADLINE: Duration = Duration::from_secs(60);

/// How long after their grant unused permits may come back.
const RETURNED_WITHIN: Duration = Duration::from_secs(2 * LONGEST_DEADLINE.as_secs());

/// How long after its time a slot that nobody used is returned, at the latest, by a process that runs.
const RETURN_TAKES: Duration = Duration::from_secs(HORIZON.as_secs() + 3);

/// With a declared quota, the part of the rest that one process may prefetch: its death loses no more.
const PREFETCHED_PART: u64 = 20;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GateState {
    limits: GateLimits,
    slots: SlotPool,
    aimd: Aimd,
    #[serde(with = "super::micros")]
    cooldown_until: Ts,
    #[serde(default)]
    hourly: QuotaWindow,
    #[serde(default)]
    daily: QuotaWindow,
    #[serde(default)]
    provider: Option<ProviderCount>,
    #[serde(default)]
    members: Vec<GateMember>,
    #[serde(rename = "asked_at", with = "super::micros")]
    requested_at: Ts,
    /// When the warm-up began.
    #[serde(with = "super::micros")]
    woke_at: Ts,
    #[serde(default)]
    permits: u64,
    #[serde(default)]
    lowered: u64,
    /// Until then permits that were granted may come back unused.
    #[serde(default = "never", with = "super::micros")]
    held_until: Ts,
}

fn never() -> Ts {
    Ts::MIN
}

impl GateState {
    /// State of a key that was never used: its bucket is full (ING-4.10-09), unless it must warm up.
    pub fn new(limits: GateLimits, now: Ts) -> GateState {
        let pace = SlotSpacing::of(limits.rate, limits.rate.per_sec, Duration::ZERO);
        GateState {
            limits,
            slots: if limits.warmup.is_zero() { SlotPool::full(&pace, now) } else { SlotPool::from(now) },
            aimd: Aimd::FULL,
            cooldown_until: Ts::MIN,
            hourly: QuotaWindow::default(),
            daily: QuotaWindow::default(),
            provider: None,
            members: Vec::new(),
            requested_at: now,
            woke_at: now,
            permits: 0,
            lowered: 0,
            held_until: Ts::MIN,
        }
    }

    pub fn read(text: &str) -> Result<GateState, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Reads the stored state; if that fails, returns a state that grants nothing that may have been used already:
    /// neither burst nor quota. It recovers by itself, in the time of the longest declared window.
    pub fn read_or_spent(text: &str, limits: GateLimits, now: Ts) -> (GateState, Option<serde_json::Error>) {
        match GateState::read(text) {
            Ok(state) => (state, None),
            Err(error) => {
                let mut state = GateState::new(limits, now);
                state.slots = SlotPool::from(now + 2 * HORIZON);
                state.hourly.charge(HOUR, now, limits.quotas.hourly.unwrap_or(0));
                state.daily.charge(DAY, now, limits.quotas.daily.unwrap_or(0));
                (state, Some(error))
            }
        }
    }

    /// The text that [`GateState::read_or_spent`] reads.
    pub fn write(&self) -> String {
        // Numbers, texts and lists of them: serialisation cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Handles one request.
    pub fn request(&mut self, declared: GateLimits, request: &GateRequest, now: Ts) -> GateReply {
        self.follow(now);
        self.catch_up(self.strictest(declared, request, now), now);
        let pace = self.pace_with(request.lead, now);
        for slot in &request.returned {
            self.take_back(&pace, slot, now);
        }
        let mut notify_others = false;
        for signal in &request.signals {
            notify_others |= self.apply_signal(*signal, now);
        }
        // A signal may have lowered the rate.
        let pace = self.pace_with(request.lead, now);
        let (slots, refused) = match self.choose(&pace, request, now) {
            Ok(slots) => (slots, None),
            Err(refused) => (Vec::new(), Some(refused)),
        };
        self.remember(declared, request, refused.map(|(reason, _)| reason), now);
        GateReply { now, slots, good_for: pace.good_for(), refused, notify_others, view: Arc::new(self.view(now)) }
    }

    pub fn view(&self, now: Ts) -> GateView {
        GateView {
            rate: self.pace(now).per_sec(),
            declared: self.limits.rate,
            cooldown_until: Some(self.cooldown_until).filter(|until| *until > now),
            hourly: self.limits.quotas.hourly.map(|limit| self.hourly.standing(HOUR, limit, now)),
            daily: self.limits.quotas.daily.map(|limit| self.daily.standing(DAY, limit, now)),
            provider: self.provider.filter(|count| count.lasts(now)).map(|count| count.shown()),
            members: self.members.iter().filter(|member| now.since(member.seen) <= ACTIVE).cloned().collect(),
            permits: self.permits,
            lowered: self.lowered,
        }
    }

    /// Several manifests may declare limits for one key: the strictest of those in use applies.
    fn strictest(&self, declared: GateLimits, request: &GateRequest, now: Ts) -> GateLimits {
        self.others(request, now).fold(declared, |limits, member| limits.stricter(&member.limits))
    }

    fn others<'a>(&'a self, request: &'a GateRequest, now: Ts) -> impl Iterator<Item = &'a GateMember> {
        self.members.iter().filter(move |member| now.since(member.seen) <= ACTIVE && member.name != request.member)
    }

    /// Shifts everything when the clock was set back, as if no time had passed since the last request. Slots that are
    /// held are used at their old time, before all that are granted from now on.
    fn follow(&mut self, now: Ts) {
        if self.requested_at > now {
            self.step(ClockStep { from: self.requested_at, to: now });
        }
    }

    /// Moves all times with a clock that was set back, unless a request has done so since. Returns whether it did.
    pub fn step_back(&mut self, step: ClockStep) -> bool {
        let ahead = self.requested_at > step.to;
        if ahead {
            self.step(step);
        }
        ahead
    }

    /// Moves all times with the clock, for a store that notices each of its steps.
    pub fn step(&mut self, step: ClockStep) {
        let by = step.micros();
        self.slots.shift(by);
        self.aimd.shift(by);
        self.hourly.shift(HOUR, by, step.to);
        self.daily.shift(DAY, by, step.to);
        if let Some(count) = &mut self.provider {
            count.shift(by);
        }
        for member in &mut self.members {
            member.seen = member.seen.shifted(by);
        }
        for at in [&mut self.cooldown_until, &mut self.woke_at, &mut self.held_until, &mut self.requested_at] {
            *at = at.shifted(by);
        }
    }

    /// Applies the passage of time, and changed limits.
    fn catch_up(&mut self, limits: GateLimits, now: Ts) {
        let was_silent = self.requested_at < self.cooldown_until && self.cooldown_until <= now;
        let is_cold = !limits.warmup.is_zero() && now.since(self.requested_at) >= limits.warmup;
        if was_silent || is_cold {
            self.woke_at = now;
        }
        // Slots that could not be used during a pause do not add up to a burst after it.
        if was_silent || is_cold {
            self.slots.restart(now);
        }
        let is_new_rate = limits.rate != self.limits.rate;
        (self.limits, self.requested_at) = (limits, now);
        self.aimd.tick(now);
        if is_new_rate {
            self.slots.respace(&self.pace(now), now);
        }
        self.cooldown_until = self.cooldown_until.min(now + LONGEST_COOLDOWN);
        self.provider = self.provider.filter(|count| count.lasts(now));
        let speaks = now.max(self.cooldown_until);
        if self.slots.ahead(speaks) > LONGEST_DEADLINE + HORIZON + 2 * self.pace(now).step() {
            // By then every slot that is held was used or lost.
            self.slots = SlotPool::from(speaks + 2 * HORIZON);
        }
    }

    fn pace(&self, now: Ts) -> SlotSpacing {
        self.pace_with(Duration::ZERO, now)
    }

    /// Spacing for a member with this round trip, which may be new: its slots must reach it in time.
    fn pace_with(&self, lead: Duration, now: Ts) -> SlotSpacing {
        let warm = match self.limits.warmup {
            Duration::ZERO => 1.0,
            span => (now.since(self.woke_at).as_secs_f64() / span.as_secs_f64()).min(1.0),
        };
        let active = self.members.iter().filter(|member| now.since(member.seen) <= ACTIVE);
        let lead = active.map(|member| member.lead).fold(lead.min(MOST_LEAD), Duration::max);
        SlotSpacing::of(self.limits.rate, self.aimd.per_sec(&self.limits) * (1.0 + 2.0 * warm) / 3.0, lead)
    }

    /// True when granted slots became void.
    fn apply_signal(&mut self, signal: GateSignal, now: Ts) -> bool {
        match signal {
            GateSignal::Refused { sent } => {
                let lowered = self.aimd.lower(&self.limits, sent, now);
                if lowered {
                    self.lowered += 1;
                    self.slots.respace(&self.pace(now), now);
                }
                lowered
            }
            GateSignal::RetryAfter(wait) => {
                let longer = now + wait > self.cooldown_until;
                self.cooldown_until = self.cooldown_until.max(now + wait);
                self.slots.restart(self.cooldown_until);
                longer
            }
            // A window that has ended says nothing about the next one.
            GateSignal::Remaining { resets_in, .. } if resets_in.is_zero() => false,
            GateSignal::Remaining { remaining, limit, resets_in } => {
                let resets_at = now + resets_in.min(LONGEST_COOLDOWN);
                let held = self.slots.held_after(&self.pace(now), now);
                self.provider = Some(ProviderCount::updated(self.provider, remaining, limit, resets_at, held, now));
                remaining == 0
            }
        }
    }

    fn choose(&mut self, pace: &SlotSpacing, request: &GateRequest, now: Ts) -> Result<Vec<Slot>, (GateRefusal, Ts)> {
        if request.now.saturating_add(request.prefetch) == 0 {
            return Ok(Vec::new());
        }
        if now < self.cooldown_until {
            return Err((GateRefusal::Cooldown, self.cooldown_until));
        }
        let (allowed, quota) = self.allowed(request.first, now)?;
        // Permits that are prefetched may be lost with their process.
        let spare = quota.saturating_sub(request.now.into()) / PREFETCHED_PART;
        let prefetch = u64::from(request.prefetch).min(spare) as u32;
        let want = u64::from(request.now.saturating_add(prefetch)).min(allowed) as u32;
        // A slot must still be valid when the reply arrives.
        let usable = now + request.lead.min(MOST_LEAD) - pace.backlog();
        self.slots.lay(pace, now, usable, now + HORIZON);
        let picked = self.pick(pace, request, usable, want, now);
        let deadline = request.deadline.min(LONGEST_DEADLINE);
        if let Some((_, first)) = picked.first().filter(|(_, first)| first.at.since(now) > deadline) {
            return Err((GateRefusal::OverDeadline, first.at));
        }
        self.slots.take(&picked);
        let (mut slots, mut left) = (Vec::with_capacity(picked.len()), want);
        for (_, slot) in picked {
            // With several permits on a slot, the last slot may have more than is requested or allowed.
            let permits = slot.permits.min(left);
            left -= permits;
            slots.push(Slot { permits, ..slot });
            if permits < slot.permits {
                self.slots.put_back(Slot { permits: slot.permits - permits, ..slot });
            }
        }
        self.charge(u64::from(want - left), now);
        if let Some(last) = slots.last() {
            self.held_until = self.held_until.max(last.at.max(now) + RETURN_TAKES);
        }
        Ok(slots)
    }

    /// Requests that are allowed now, and those that the declared quotas allow.
    fn allowed(&self, first: bool, now: Ts) -> Result<(u64, u64), (GateRefusal, Ts)> {
        let (mut allowed, mut left) = (u64::MAX, u64::MAX);
        if let Some(provider) = self.provider.map(|count| count.shown()) {
            if provider.remaining == 0 {
                return Err((GateRefusal::Provider, provider.resets_at));
            }
            allowed = provider.remaining;
        }
        let quotas = [(&self.hourly, HOUR, self.limits.quotas.hourly), (&self.daily, DAY, self.limits.quotas.daily)];
        for (quota, window, limit) in quotas {
            let Some(limit) = limit else { continue };
            let standing = quota.standing(window, limit, now);
            if standing.remaining == 0 {
                let frees_at = quota.frees_at(window, limit, 0, now);
                return Err((GateRefusal::QuotaHard, self.try_again_at(frees_at, now)));
            }
            let kept = if first { 0 } else { (limit as f64 * super::quota::MARGIN) as u64 };
            if standing.soft && !first {
                let frees_at = quota.frees_at(window, limit, kept, now);
                return Err((GateRefusal::QuotaSoft, self.try_again_at(frees_at, now)));
            }
            left = left.min(standing.remaining - kept);
        }
        allowed = allowed.min(left);
        Ok((allowed, left))
    }

    /// The quota is free again at `frees_at`, or sooner when permits that somebody holds come back unused.
    fn try_again_at(&self, frees_at: Ts, now: Ts) -> Ts {
        if self.held_until > now { frees_at.min(self.held_until) } else { frees_at }
    }

    /// Takes near slots first, in order. From the rest, as far as the share goes, waiting callers get the first, and
    /// prefetched slots are spread evenly over the horizon.
    fn pick(&self, pace: &SlotSpacing, request: &GateRequest, usable: Ts, want: u32, now: Ts) -> Vec<(usize, Slot)> {
        let requested = want.div_ceil(pace.permits) as usize;
        let last_call = now + request.lead.min(MOST_LEAD) + LAST_CALL;
        let (near, far): (Vec<_>, Vec<_>) = self.slots.free(usable).partition(|(_, slot)| slot.at <= last_call);
        let (share, alone) = self.share(request, now);
        let part = f64::from(request.percent.clamp(1, 100)) / 100.0;
        let most = near.len() as f64 * if alone { part } else { share * part };
        let (waiting, prefetched) = {
            let all = requested.min(most.ceil() as usize);
            let waiting = all.min(request.now.div_ceil(pace.permits) as usize);
            (waiting, all - waiting)
        };
        // Waiting callers use the slots that expire first; prefetched ones must last until there are more.
        let lasting = near.partition_point(|(_, slot)| slot.at < now.min(usable + LASTS));
        let from = lasting.min(near.len() - prefetched).max(waiting);
        let mut picked = [&near[..waiting], &near[from..from + prefetched]].concat();
        let held = (request.cached / pace.permits) as usize + picked.len();
        let share = share * part;
        let own = ((HORIZON.as_micros() as f64 / pace.step as f64 * share).ceil() as usize).max(1);
        let more = requested.saturating_sub(picked.len()).min(own.saturating_sub(held)).min(far.len());
        let first = (request.now.div_ceil(pace.permits) as usize).saturating_sub(picked.len()).min(more);
        let (first, far) = far.split_at(first);
        picked.extend(first);
        let more = more - first.len();
        picked.extend((0..more).map(|nth| far[nth * far.len() / more]));
        picked
    }

    /// The member's share of the rate, by the weights of recent members; and whether there is no other class.
    fn share(&self, request: &GateRequest, now: Ts) -> (f64, bool) {
        let mut classes: Vec<(&str, u32)> =
            self.others(request, now).map(|member| (&*member.class, member.weight)).collect();
        classes.push((&request.class, request.weight));
        classes.sort_unstable();
        classes.dedup_by(|a, b| a.0 == b.0);
        let all: u64 = classes.iter().map(|(_, weight)| u64::from((*weight).max(1))).sum();
        let mates = 1 + self.others(request, now).filter(|member| member.class == request.class).count();
        (f64::from(request.weight.max(1)) / all as f64 / mates as f64, classes.len() == 1)
    }

    /// Counts for both windows, declared or not: the members that declare one may be idle just now.
    fn charge(&mut self, permits: u64, now: Ts) {
        self.permits += permits;
        self.hourly.charge(HOUR, now, permits);
        self.daily.charge(DAY, now, permits);
        if let Some(count) = &mut self.provider {
            count.charge(permits);
        }
    }

    fn take_back(&mut self, pace: &SlotSpacing, returned: &ReturnedSlot, now: Ts) {
        let ReturnedSlot { slot, granted_at } = *returned;
        let permits = u64::from(slot.permits);
        self.permits = self.permits.saturating_sub(permits);
        // A grant in the future is from before the clock was set back, which has moved the counts.
        if granted_at <= now && now.since(granted_at) <= RETURNED_WITHIN {
            self.hourly.credit(HOUR, granted_at, permits);
            self.daily.credit(DAY, granted_at, permits);
        }
        if let Some(count) = self.provider.as_mut().filter(|_| !self.slots.is_void(slot)) {
            count.credit(slot);
        }
        if slot.at >= (now - pace.backlog()).max(self.cooldown_until) {
            self.slots.put_back(slot);
        }
    }

    fn remember(&mut self, limits: GateLimits, request: &GateRequest, waits: Option<GateRefusal>, now: Ts) {
        if request.member.is_empty() {
            return;
        }
        self.members.retain(|member| member.name != request.member && now.since(member.seen) <= 10 * ACTIVE);
        if self.members.len() >= MOST_MEMBERS {
            self.members.remove(0);
        }
        let (name, class) = (request.member.clone(), request.class.clone());
        let lead = request.lead.min(MOST_LEAD);
        self.members.push(GateMember { name, class, weight: request.weight, seen: now, limits, lead, waits });
    }
}

#[cfg(test)]
mod tests;
