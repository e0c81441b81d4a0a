//! Everything that is known of one key, and the one way in which it changes: somebody asks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Why;
use super::aimd::Aimd;
use super::limits::{HORIZON, Limits, Pace, Rate};
use super::quota::{Quota, Standing};
use super::slots::{Slot, Slots};
use crate::time::Ts;

/// A member that has not asked for so long leaves its share to the others.
const ACTIVE: Duration = Duration::from_secs(3);

/// Members that are remembered, for the share and for people who look.
const MOST_MEMBERS: usize = 64;

/// Slots that nobody has taken so shortly before their time are anybody's of a class, whatever the members' shares; between
/// classes they are shared as all are. Long enough for members to ask twice.
const LAST_CALL: Duration = Duration::from_millis(250);

/// The longest silence that a far side is granted. A clock that was set back makes a longer one; it is cut.
const LONGEST_COOLDOWN: Duration = Duration::from_secs(28 * 3_600);

/// The longest that any asker waits for a slot. What was laid out further ahead than this comes from a clock that was set back.
const LONGEST_DEADLINE: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// What the far side's answers say about the pace (ING-4.10-08). A good answer needs no word: time alone raises the rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Signal {
    /// 429, or a failure that passes, of a request that left at `sent`.
    Refused { sent: Ts },
    /// Silence for so long.
    RetryAfter(Duration),
    /// What remains of the far side's own window, and when that ends.
    Remaining { remaining: u64, limit: Option<u64>, resets_in: Duration },
}

/// "So many permits, please."
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ask {
    /// Who asks: one process on behalf of one class. Empty: nobody, only to tell something.
    pub member: String,
    /// Classes share a key by their weights, the members of a class share its part evenly.
    pub class: String,
    pub weight: u32,
    /// Permits for requests that wait, and for those that are to come within the horizon.
    pub now: u32,
    pub ahead: u32,
    /// Permits that the member still has.
    pub held: u32,
    /// How much of its share the member makes use of.
    pub percent: u32,
    /// May use what little is left of a quota.
    pub first: bool,
    /// How long it would wait for the first.
    pub deadline: Duration,
    /// How long the answer is on its way.
    pub lead: Duration,
    pub returned: Vec<Slot>,
    pub signals: Vec<Signal>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    pub now: Ts,
    pub slots: Vec<Slot>,
    /// How long after its time each may be used.
    pub good_for: Duration,
    /// Why there is none, and until when asking is in vain.
    pub refused: Option<(Why, Ts)>,
    /// What others hold has lost its ground: they must be told.
    pub news: bool,
    pub view: View,
}

/// For ledgers, pictures and planners.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    pub rate: f64,
    pub declared: Rate,
    pub cooldown_until: Option<Ts>,
    pub hourly: Option<Standing>,
    pub daily: Option<Standing>,
    pub provider: Option<Provider>,
    pub members: Vec<Member>,
    /// Permits handed out so far, less those given back.
    pub permits: u64,
    /// How often the rate was lowered.
    pub lowered: u64,
}

impl View {
    /// Requests that any window still allows; `None` where nothing bounds them.
    pub fn remaining(&self) -> Option<u64> {
        let provider = self.provider.map(|provider| provider.remaining);
        [self.hourly.map(|of| of.remaining), self.daily.map(|of| of.remaining), provider].into_iter().flatten().min()
    }

    pub fn is_soft(&self) -> bool {
        self.hourly.is_some_and(|of| of.soft) || self.daily.is_some_and(|of| of.soft)
    }
}

/// The far side's own count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Provider {
    pub remaining: u64,
    pub limit: Option<u64>,
    pub resets_at: Ts,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Member {
    pub name: String,
    pub class: String,
    pub weight: u32,
    pub seen: Ts,
    limits: Limits,
    /// How long answers take to it.
    lead: Duration,
    /// Why it got nothing when it asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Why>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct State {
    limits: Limits,
    slots: Slots,
    aimd: Aimd,
    #[serde(with = "super::micros")]
    cooldown_until: Ts,
    hourly: Quota,
    daily: Quota,
    provider: Option<Provider>,
    members: Vec<Member>,
    #[serde(with = "super::micros")]
    asked_at: Ts,
    /// When the warm-up began.
    #[serde(with = "super::micros")]
    woke_at: Ts,
    permits: u64,
    lowered: u64,
}

impl State {
    /// Of a key that was never used: its bucket is full (ING-4.10-09), unless it must warm up.
    pub fn new(limits: Limits, now: Ts) -> State {
        let pace = Pace::of(limits.rate, limits.rate.per_sec, Duration::ZERO);
        State {
            limits,
            slots: if limits.warmup.is_zero() { Slots::full(&pace, now) } else { Slots::empty(now) },
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

    /// What [`State::read`] reads.
    pub fn write(&self) -> String {
        // Numbers, texts and lists of them: nothing that JSON has no form for.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Answers one asker.
    pub fn ask(&mut self, declared: Limits, ask: &Ask, now: Ts) -> Answer {
        self.catch_up(self.strictest(declared, ask, now), now);
        let pace = self.pace(now);
        for slot in &ask.returned {
            self.take_back(&pace, *slot, now);
        }
        let mut news = false;
        for signal in &ask.signals {
            news |= self.hear(*signal, now);
        }
        // A signal may have lowered the rate.
        let pace = self.pace(now);
        let (slots, refused) = match self.choose(&pace, ask, now) {
            Ok(slots) => (slots, None),
            Err(refused) => (Vec::new(), Some(refused)),
        };
        self.remember(declared, ask, refused.map(|(why, _)| why), now);
        Answer { now, slots, good_for: pace.good_for(), refused, news, view: self.view(now) }
    }

    pub fn view(&self, now: Ts) -> View {
        View {
            rate: self.pace(now).per_sec(),
            declared: self.limits.rate,
            cooldown_until: Some(self.cooldown_until).filter(|until| *until > now),
            hourly: self.limits.quotas.hourly.map(|limit| self.hourly.standing(HOUR, limit, now)),
            daily: self.limits.quotas.daily.map(|limit| self.daily.standing(DAY, limit, now)),
            provider: self.provider.filter(|provider| provider.resets_at > now),
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

    /// Time has passed, and the declaration may have changed.
    fn catch_up(&mut self, limits: Limits, now: Ts) {
        if limits.rate != self.limits.rate {
            self.slots.restart(now);
        }
        if limits.warmup.is_zero() || now.since(self.asked_at) < limits.warmup {
            self.asked_at = now;
        } else {
            (self.asked_at, self.woke_at) = (now, now);
            self.slots.restart(now);
        }
        self.limits = limits;
        self.aimd.tick(now);
        self.cooldown_until = self.cooldown_until.min(now + LONGEST_COOLDOWN);
        self.provider = self.provider.filter(|provider| provider.resets_at > now);
        let furthest = LONGEST_DEADLINE + HORIZON + 2 * self.pace(now).step();
        if self.slots.ahead(now) > furthest {
            // Whoever holds a slot has used it or lost it by then.
            self.slots = Slots::empty(now + 2 * HORIZON);
        }
    }

    fn pace(&self, now: Ts) -> Pace {
        let warm = match self.limits.warmup {
            Duration::ZERO => 1.0,
            span => (now.since(self.woke_at).as_secs_f64() / span.as_secs_f64()).min(1.0),
        };
        let active = self.members.iter().filter(|member| now.since(member.seen) <= ACTIVE);
        let lead = active.map(|member| member.lead).max().unwrap_or_default();
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
            Signal::Remaining { remaining, limit, resets_in } => {
                let resets_at = now + resets_in;
                let same = self.provider.filter(|known| resets_at.since(known.resets_at) <= Duration::from_secs(2));
                // What is on its way is not in the far side's count yet. Within one window our own count knows it; at the
                // beginning of one it is what was handed out ahead.
                let remaining = match same {
                    Some(known) => known.remaining.min(remaining),
                    None => remaining.saturating_sub(self.slots.held_after(&self.pace(now), now)),
                };
                self.provider =
                    Some(Provider { remaining, limit, resets_at: same.map_or(resets_at, |of| of.resets_at) });
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
        let usable = now + ask.lead - pace.backlog();
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
        if let Some(provider) = self.provider {
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

    /// What is near is taken in its order. Of the rest, as far as the share goes, those who wait get the first, and what is to
    /// come is spread evenly over the horizon.
    fn pick(&self, pace: &Pace, ask: &Ask, usable: Ts, want: u32, now: Ts) -> Vec<(usize, Slot)> {
        let wanted = want.div_ceil(pace.permits) as usize;
        let last_call = now + ask.lead + LAST_CALL;
        let (mut picked, far): (Vec<_>, Vec<_>) = self.slots.free(usable).partition(|(_, slot)| slot.at <= last_call);
        let (share, alone) = self.share(ask, now);
        let part = f64::from(ask.percent.clamp(1, 100)) / 100.0;
        let near = if alone { part } else { share * part };
        picked.truncate(wanted.min((picked.len() as f64 * near).ceil() as usize));
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

    fn charge(&mut self, permits: u64, now: Ts) {
        self.permits += permits;
        if self.limits.quotas.hourly.is_some() {
            self.hourly.charge(HOUR, now, permits);
        }
        if self.limits.quotas.daily.is_some() {
            self.daily.charge(DAY, now, permits);
        }
        if let Some(provider) = &mut self.provider {
            provider.remaining = provider.remaining.saturating_sub(permits);
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
        // Not to the far side's own count: what it says now may already be without this one.
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
        self.members.push(Member { name, class, weight: ask.weight, seen: now, limits, lead: ask.lead, waits });
    }
}

#[cfg(test)]
mod tests;
