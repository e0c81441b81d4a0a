//! Everything that is known of one key, and the one way in which it changes: somebody asks.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Why;
use super::aimd::Aimd;
use super::ask::{Answer, Ask, Signal};
use super::limits::{HORIZON, Limits, MOST_LEAD, Pace};
use super::provider::Count;
use super::quota::Quota;
use super::slots::{Slot, Slots};
use super::view::{Member, View};
use crate::time::Ts;

/// A member that has not asked for so long leaves its share to the others.
const ACTIVE: Duration = Duration::from_secs(3);

/// Members that are remembered, for the share and for people who look.
const MOST_MEMBERS: usize = 64;

/// Slots that nobody has taken so shortly before their time are anybody's of a class, whatever the members' shares; between
/// classes they are shared as all are. Long enough for members to ask twice.
const LAST_CALL: Duration = Duration::from_millis(250);

/// How long what is fetched ahead should be good for: until the next question was put and answered.
const LASTS: Duration = Duration::from_millis(250);

/// The longest silence that a far side is granted.
const LONGEST_COOLDOWN: Duration = Duration::from_secs(28 * 3_600);

/// The longest that any asker waits for a slot. What was laid out further ahead than this was laid out at a slower rate.
const LONGEST_DEADLINE: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct State {
    limits: Limits,
    slots: Slots,
    aimd: Aimd,
    #[serde(with = "super::micros")]
    cooldown_until: Ts,
    #[serde(default)]
    hourly: Quota,
    #[serde(default)]
    daily: Quota,
    #[serde(default)]
    provider: Option<Count>,
    #[serde(default)]
    members: Vec<Member>,
    #[serde(with = "super::micros")]
    asked_at: Ts,
    /// When the warm-up began.
    #[serde(with = "super::micros")]
    woke_at: Ts,
    #[serde(default)]
    permits: u64,
    #[serde(default)]
    lowered: u64,
}

impl State {
    /// Of a key that was never used: its bucket is full (ING-4.10-09), unless it must warm up.
    pub fn new(limits: Limits, now: Ts) -> State {
        let pace = Pace::of(limits.rate, limits.rate.per_sec, Duration::ZERO);
        State {
            limits,
            slots: if limits.warmup.is_zero() { Slots::full(&pace, now) } else { Slots::from(now) },
            aimd: Aimd::FULL,
            cooldown_until: Ts::MIN,
            hourly: Quota::default(),
            daily: Quota::default(),
            provider: None,
            members: Vec::new(),
            asked_at: now,
            woke_at: now,
            permits: 0,
            lowered: 0,
        }
    }

    pub fn read(text: &str) -> Result<State, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// What is stored; and where nobody can read it, a state that grants nothing that may have been used already: neither burst
    /// nor quota. It heals by itself, in the time of the longest window that is declared.
    pub fn read_or_spent(text: &str, limits: Limits, now: Ts) -> (State, Option<serde_json::Error>) {
        match State::read(text) {
            Ok(state) => (state, None),
            Err(error) => {
                let mut state = State::new(limits, now);
                state.slots = Slots::from(now + 2 * HORIZON);
                state.hourly.charge(HOUR, now, limits.quotas.hourly.unwrap_or(0));
                state.daily.charge(DAY, now, limits.quotas.daily.unwrap_or(0));
                (state, Some(error))
            }
        }
    }

    /// What [`State::read`] reads.
    pub fn write(&self) -> String {
        // Numbers, texts and lists of them: nothing that JSON has no form for.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Answers one asker.
    pub fn ask(&mut self, declared: Limits, ask: &Ask, now: Ts) -> Answer {
        self.follow(now);
        self.catch_up(self.strictest(declared, ask, now), now);
        let pace = self.pace_with(ask.lead, now);
        for slot in &ask.returned {
            self.take_back(&pace, *slot, now);
        }
        let mut news = false;
        for signal in &ask.signals {
            news |= self.hear(*signal, now);
        }
        // A signal may have lowered the rate.
        let pace = self.pace_with(ask.lead, now);
        let (slots, refused) = match self.choose(&pace, ask, now) {
            Ok(slots) => (slots, None),
            Err(refused) => (Vec::new(), Some(refused)),
        };
        self.remember(declared, ask, refused.map(|(why, _)| why), now);
        Answer { now, slots, good_for: pace.good_for(), refused, news, view: Arc::new(self.view(now)) }
    }

    pub fn view(&self, now: Ts) -> View {
        View {
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

    /// Several manifests may declare something for one key: the strictest of those in use holds.
    fn strictest(&self, declared: Limits, ask: &Ask, now: Ts) -> Limits {
        self.others(ask, now).fold(declared, |limits, member| limits.stricter(&member.limits))
    }

    fn others<'a>(&'a self, ask: &'a Ask, now: Ts) -> impl Iterator<Item = &'a Member> {
        self.members.iter().filter(move |member| now.since(member.seen) <= ACTIVE && member.name != ask.member)
    }

    /// A clock that was set back takes everything along that is remembered, as if no time had passed since the last question.
    /// Whoever holds a slot uses it at its old time, before all that is handed out from now on.
    fn follow(&mut self, now: Ts) {
        let back = self.asked_at.since(now);
        if back.is_zero() {
            return;
        }
        self.slots.set_back(back);
        self.aimd.set_back(back);
        self.hourly.set_back(HOUR, back, now);
        self.daily.set_back(DAY, back, now);
        if let Some(count) = &mut self.provider {
            count.set_back(back);
        }
        for member in &mut self.members {
            member.seen = member.seen - back;
        }
        (self.cooldown_until, self.woke_at) = (self.cooldown_until - back, self.woke_at - back);
        self.asked_at = now;
    }

    /// Time has passed, and the declaration may have changed.
    fn catch_up(&mut self, limits: Limits, now: Ts) {
        let was_silent = self.asked_at < self.cooldown_until && self.cooldown_until <= now;
        let is_cold = !limits.warmup.is_zero() && now.since(self.asked_at) >= limits.warmup;
        if was_silent || is_cold {
            self.woke_at = now;
        }
        // What nobody could use in a silence does not make a burst behind it.
        if was_silent || is_cold || limits.rate != self.limits.rate {
            self.slots.restart(now);
        }
        (self.limits, self.asked_at) = (limits, now);
        self.aimd.tick(now);
        self.cooldown_until = self.cooldown_until.min(now + LONGEST_COOLDOWN);
        self.provider = self.provider.filter(|count| count.lasts(now));
        let speaks = now.max(self.cooldown_until);
        if self.slots.ahead(speaks) > LONGEST_DEADLINE + HORIZON + 2 * self.pace(now).step() {
            // Whoever holds a slot has used it or lost it by then.
            self.slots = Slots::from(speaks + 2 * HORIZON);
        }
    }

    fn pace(&self, now: Ts) -> Pace {
        self.pace_with(Duration::ZERO, now)
    }

    /// Somebody's answers take so long, who may be new here: what it gets must reach it in time.
    fn pace_with(&self, lead: Duration, now: Ts) -> Pace {
        let warm = match self.limits.warmup {
            Duration::ZERO => 1.0,
            span => (now.since(self.woke_at).as_secs_f64() / span.as_secs_f64()).min(1.0),
        };
        let active = self.members.iter().filter(|member| now.since(member.seen) <= ACTIVE);
        let lead = active.map(|member| member.lead).fold(lead.min(MOST_LEAD), Duration::max);
        Pace::of(self.limits.rate, self.aimd.per_sec(&self.limits) * (1.0 + 2.0 * warm) / 3.0, lead)
    }

    /// True when what was handed out is void.
    fn hear(&mut self, signal: Signal, now: Ts) -> bool {
        match signal {
            Signal::Refused { sent } => {
                let lowered = self.aimd.lower(&self.limits, sent, now);
                if lowered {
                    self.lowered += 1;
                    self.slots.restart(now);
                }
                lowered
            }
            Signal::RetryAfter(wait) => {
                let longer = now + wait > self.cooldown_until;
                self.cooldown_until = self.cooldown_until.max(now + wait);
                self.slots.restart(self.cooldown_until);
                longer
            }
            // A window that is over says nothing about the next one.
            Signal::Remaining { resets_in, .. } if resets_in.is_zero() => false,
            Signal::Remaining { remaining, limit, resets_in } => {
                let resets_at = now + resets_in.min(LONGEST_COOLDOWN);
                let held = self.slots.held_after(&self.pace(now), now);
                self.provider = Some(Count::heard(self.provider, remaining, limit, resets_at, held, now));
                remaining == 0
            }
        }
    }

    fn choose(&mut self, pace: &Pace, ask: &Ask, now: Ts) -> Result<Vec<Slot>, (Why, Ts)> {
        let want = ask.now.saturating_add(ask.ahead);
        if want == 0 {
            return Ok(Vec::new());
        }
        if now < self.cooldown_until {
            return Err((Why::Cooldown, self.cooldown_until));
        }
        let allowed = self.allowed(ask.first, now)?;
        let want = u64::from(want).min(allowed) as u32;
        // A slot must still be good when the answer is there.
        let usable = now + ask.lead.min(MOST_LEAD) - pace.backlog();
        self.slots.lay(pace, now, usable, now + HORIZON);
        let picked = self.pick(pace, ask, usable, want, now);
        let deadline = ask.deadline.min(LONGEST_DEADLINE);
        if let Some((_, first)) = picked.first().filter(|(_, first)| first.at.since(now) > deadline) {
            return Err((Why::OverDeadline, first.at));
        }
        self.slots.take(&picked);
        let (mut slots, mut left) = (Vec::with_capacity(picked.len()), want);
        for (_, slot) in picked {
            // With several permits on a slot, the last one may have more than is wanted or allowed.
            let permits = slot.permits.min(left);
            left -= permits;
            slots.push(Slot { permits, ..slot });
            if permits < slot.permits {
                self.slots.put_back(Slot { permits: slot.permits - permits, ..slot });
            }
        }
        self.charge(u64::from(want - left), now);
        Ok(slots)
    }

    /// How many requests the quotas allow now.
    fn allowed(&self, first: bool, now: Ts) -> Result<u64, (Why, Ts)> {
        let mut allowed = u64::MAX;
        if let Some(provider) = self.provider.map(|count| count.shown()) {
            if provider.remaining == 0 {
                return Err((Why::Provider, provider.resets_at));
            }
            allowed = provider.remaining;
        }
        let quotas = [(&self.hourly, HOUR, self.limits.quotas.hourly), (&self.daily, DAY, self.limits.quotas.daily)];
        for (quota, window, limit) in quotas {
            let Some(limit) = limit else { continue };
            let standing = quota.standing(window, limit, now);
            if standing.remaining == 0 {
                return Err((Why::QuotaHard, quota.frees_at(window, limit, 0, now)));
            }
            if standing.soft && !first {
                let kept = (limit as f64 * super::quota::MARGIN) as u64;
                return Err((Why::QuotaSoft, quota.frees_at(window, limit, kept, now)));
            }
            allowed = allowed.min(standing.remaining);
        }
        Ok(allowed)
    }

    /// What is near is taken first, in its order. Of the rest, as far as the share goes, those who wait get the first, and what is to
    /// come is spread evenly over the horizon.
    fn pick(&self, pace: &Pace, ask: &Ask, usable: Ts, want: u32, now: Ts) -> Vec<(usize, Slot)> {
        let wanted = want.div_ceil(pace.permits) as usize;
        let last_call = now + ask.lead.min(MOST_LEAD) + LAST_CALL;
        let (near, far): (Vec<_>, Vec<_>) = self.slots.free(usable).partition(|(_, slot)| slot.at <= last_call);
        let (share, alone) = self.share(ask, now);
        let part = f64::from(ask.percent.clamp(1, 100)) / 100.0;
        let most = near.len() as f64 * if alone { part } else { share * part };
        let (waiting, ahead) = {
            let all = wanted.min(most.ceil() as usize);
            let waiting = all.min(ask.now.div_ceil(pace.permits) as usize);
            (waiting, all - waiting)
        };
        // Those who wait use what would be the first to go bad; what is fetched ahead must last until there is more.
        let lasting = near.partition_point(|(_, slot)| slot.at < now.min(usable + LASTS));
        let from = lasting.min(near.len() - ahead).max(waiting);
        let mut picked = [&near[..waiting], &near[from..from + ahead]].concat();
        let held = (ask.held / pace.permits) as usize + picked.len();
        let share = share * part;
        let own = ((HORIZON.as_micros() as f64 / pace.step as f64 * share).ceil() as usize).max(1);
        let more = wanted.saturating_sub(picked.len()).min(own.saturating_sub(held)).min(far.len());
        let first = (ask.now.div_ceil(pace.permits) as usize).saturating_sub(picked.len()).min(more);
        let (first, far) = far.split_at(first);
        picked.extend(first);
        let more = more - first.len();
        picked.extend((0..more).map(|nth| far[nth * far.len() / more]));
        picked
    }

    /// Of the rate, by the weights of those who asked lately; and whether there is no other class.
    fn share(&self, ask: &Ask, now: Ts) -> (f64, bool) {
        let mut classes: Vec<(&str, u32)> =
            self.others(ask, now).map(|member| (&*member.class, member.weight)).collect();
        classes.push((&ask.class, ask.weight));
        classes.sort_unstable();
        classes.dedup_by(|a, b| a.0 == b.0);
        let all: u64 = classes.iter().map(|(_, weight)| u64::from((*weight).max(1))).sum();
        let mates = 1 + self.others(ask, now).filter(|member| member.class == ask.class).count();
        (f64::from(ask.weight.max(1)) / all as f64 / mates as f64, classes.len() == 1)
    }

    /// Counts for both windows, declared or not: those who declare one may be away just now.
    fn charge(&mut self, permits: u64, now: Ts) {
        self.permits += permits;
        self.hourly.charge(HOUR, now, permits);
        self.daily.charge(DAY, now, permits);
        if let Some(count) = &mut self.provider {
            count.charge(permits);
        }
    }

    fn take_back(&mut self, pace: &Pace, slot: Slot, now: Ts) {
        let permits = u64::from(slot.permits);
        self.permits = self.permits.saturating_sub(permits);
        // What comes back late would be credited to requests that were really sent.
        if now.since(slot.at) <= 2 * HORIZON {
            self.hourly.credit(HOUR, now, permits);
            self.daily.credit(DAY, now, permits);
        }
        if let Some(count) = self.provider.as_mut().filter(|_| !self.slots.is_void(slot)) {
            count.credit(slot);
        }
        if slot.at >= (now - pace.backlog()).max(self.cooldown_until) {
            self.slots.put_back(slot);
        }
    }

    fn remember(&mut self, limits: Limits, ask: &Ask, waits: Option<Why>, now: Ts) {
        if ask.member.is_empty() {
            return;
        }
        self.members.retain(|member| member.name != ask.member && now.since(member.seen) <= 10 * ACTIVE);
        if self.members.len() >= MOST_MEMBERS {
            self.members.remove(0);
        }
        let (name, class) = (ask.member.clone(), ask.class.clone());
        let lead = ask.lead.min(MOST_LEAD);
        self.members.push(Member { name, class, weight: ask.weight, seen: now, limits, lead, waits });
    }
}

#[cfg(test)]
mod tests;
