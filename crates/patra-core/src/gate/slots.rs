//! The slots of one key that are not granted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::{MOST_SLOTS, SlotSpacing};
use crate::time::Ts;

/// A time to send at, with its number of permits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slot {
    pub at: Ts,
    pub permits: u32,
}

/// A slot whose permits were not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReturnedSlot {
    pub slot: Slot,
    /// When the store granted it, in the time of the store: the quotas count it there.
    pub granted_at: Ts,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct SlotPool {
    /// From this time on no slot was ever granted.
    #[serde(with = "super::micros")]
    next: Ts,
    /// Skipped or returned slots; rising.
    #[serde(with = "runs")]
    free: Vec<Slot>,
    /// Slots before this are never granted again.
    #[serde(with = "super::micros")]
    fresh: Ts,
}

impl SlotPool {
    /// As many slots before `now` as the burst has room for.
    pub(super) fn full(pace: &SlotSpacing, now: Ts) -> SlotPool {
        SlotPool::from(now - pace.backlog())
    }

    /// A pool without slots before `first`.
    pub(super) fn from(first: Ts) -> SlotPool {
        SlotPool { next: first, free: Vec::new(), fresh: first }
    }

    /// The rate has changed: only free slots from `now` on remain, as far apart as the new rate demands. Slots that
    /// others hold become void.
    pub(super) fn respace(&mut self, pace: &SlotSpacing, now: Ts) {
        let mut from = now;
        self.free.retain_mut(|slot| {
            let fits = slot.at >= from;
            if fits {
                slot.permits = slot.permits.min(pace.permits);
                from = slot.at + pace.step();
            }
            fits
        });
        self.next = self.next.max(from);
        self.fresh = self.next;
    }

    /// Drops all free slots; no slot before `from` is granted any more.
    pub(super) fn restart(&mut self, from: Ts) {
        self.free.clear();
        self.next = self.next.max(from);
        self.fresh = self.next;
    }

    /// Extends the slots up to `until`, with at least one free slot from `usable` on.
    pub(super) fn lay(&mut self, pace: &SlotSpacing, now: Ts, usable: Ts, until: Ts) {
        let oldest = now - pace.backlog();
        self.free.retain(|slot| slot.at >= oldest);
        // After an idle period the first slot is one that this caller can use, or else it would wait a whole step.
        self.next = self.next.max(if self.free.is_empty() { usable.max(oldest) } else { oldest });
        let enough = |slots: &SlotPool| slots.next > until || slots.free.len() >= 2 * MOST_SLOTS;
        while !enough(self) || self.free.last().is_none_or(|last| last.at < usable) {
            self.free.push(Slot { at: self.next, permits: pace.permits });
            self.next = self.next + pace.step();
        }
    }

    /// Free slots from `from` on, with their indexes.
    pub(super) fn free(&self, from: Ts) -> impl Iterator<Item = (usize, Slot)> + '_ {
        self.free.iter().copied().enumerate().filter(move |(_, slot)| slot.at >= from)
    }

    /// Takes the slots at these indexes, which rise.
    pub(super) fn take(&mut self, indexes: &[(usize, Slot)]) {
        let (mut indexes, mut at) = (indexes.iter().map(|(index, _)| *index).peekable(), 0..);
        self.free.retain(|_| at.next().is_some_and(|at| indexes.next_if_eq(&at).is_none()));
    }

    /// Returns a slot that is not needed.
    pub(super) fn put_back(&mut self, slot: Slot) {
        if !self.is_void(slot) && slot.at < self.next {
            let index = self.free.partition_point(|free| free.at < slot.at);
            self.free.insert(index, slot);
        }
    }

    /// Whether the slot is from before the last restart.
    pub(super) fn is_void(&self, slot: Slot) -> bool {
        slot.at < self.fresh
    }

    pub(super) fn shift(&mut self, micros: i64) {
        (self.next, self.fresh) = (self.next.shifted(micros), self.fresh.shifted(micros));
        for slot in &mut self.free {
            slot.at = slot.at.shifted(micros);
        }
    }

    /// Granted permits for slots after `now`.
    pub(super) fn held_after(&self, pace: &SlotSpacing, now: Ts) -> u64 {
        // Slots from before the last restart are void.
        let from = now.max(self.fresh);
        let ahead = self.next.since(from).as_micros() as u64 / pace.step as u64 * u64::from(pace.permits);
        let free: u64 = self.free.iter().filter(|slot| slot.at > from).map(|slot| u64::from(slot.permits)).sum();
        ahead.saturating_sub(free)
    }

    /// How far ahead slots were laid out.
    pub(super) fn ahead(&self, now: Ts) -> Duration {
        self.next.since(now)
    }
}

/// Stored form of slots: evenly spaced ones together, as `[first, step, count, permits]`.
mod runs {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::Slot;
    use crate::time::Ts;

    pub(super) fn serialize<S: Serializer>(slots: &[Slot], serializer: S) -> Result<S::Ok, S::Error> {
        let mut runs: Vec<(i64, i64, i64, u32)> = Vec::new();
        for slot in slots {
            let at = slot.at.micros();
            match runs.last_mut() {
                Some((first, step, count @ 1, permits)) if *permits == slot.permits => {
                    (*step, *count) = (at - *first, 2);
                }
                Some((first, step, count, permits)) if *permits == slot.permits && *first + *step * *count == at => {
                    *count += 1;
                }
                _ => runs.push((at, 0, 1, slot.permits)),
            }
        }
        serializer.collect_seq(runs)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Slot>, D::Error> {
        let runs = Vec::<(i64, u64, u32, u32)>::deserialize(deserializer)?;
        let slots = runs.into_iter().flat_map(|(first, step, count, permits)| {
            (0..count.min(super::MOST_SLOTS as u32 * 2)).map(move |nth| {
                let at = Ts::from_micros(first) + Duration::from_micros(step.saturating_mul(u64::from(nth)));
                Slot { at, permits }
            })
        });
        Ok(slots.collect())
    }
}
