//! Quota: requests in a long window. The window slides, so none of the upstream's own windows exceeds it, wherever
//! they begin.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::{Ts, micros};

/// Parts of a window. A part leaves the count when it is outside every window.
const PARTS: i64 = 120;

/// A permit may be used in the part after the one in which it was counted.
const LATE: i64 = 1;

/// The share of a quota that is reserved for important requests (G-07).
pub(super) const MARGIN: f64 = 0.1;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaStatus {
    pub limit: u64,
    pub remaining: u64,
    /// Only the reserve is left.
    pub soft: bool,
    /// When the oldest counted part leaves the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frees_at: Option<Ts>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct QuotaWindow {
    /// Number and count of each part; rising.
    parts: Vec<(i64, u64)>,
}

impl QuotaWindow {
    pub(super) fn standing(&self, window: Duration, limit: u64, now: Ts) -> QuotaStatus {
        let remaining = limit.saturating_sub(self.used(window, now));
        let soft = remaining <= (limit as f64 * MARGIN) as u64;
        let frees_at = self.counted(window, now).next().map(|(number, _)| leaves_at(window, number));
        QuotaStatus { limit, remaining, soft, frees_at }
    }

    fn used(&self, window: Duration, now: Ts) -> u64 {
        self.counted(window, now).fold(0, |used, (_, count)| used.saturating_add(count))
    }

    /// The parts that may be within a current window.
    fn counted(&self, window: Duration, now: Ts) -> impl Iterator<Item = (i64, u64)> + '_ {
        let oldest = part(window, now) - PARTS - LATE;
        self.parts.iter().copied().filter(move |(number, count)| *number >= oldest && *count > 0)
    }

    pub(super) fn charge(&mut self, window: Duration, now: Ts, permits: u64) {
        if permits == 0 {
            return;
        }
        let number = part(window, now);
        self.parts.retain(|(other, count)| *count > 0 && *other >= number - PARTS - LATE);
        match self.parts.last_mut().filter(|(last, _)| *last >= number) {
            Some((_, count)) => *count = count.saturating_add(permits),
            None => self.parts.push((number, permits)),
        }
    }

    /// Takes back permits that were charged at this time and never used. They leave the part in which they were
    /// counted, or else a request that was sent later would be forgotten too early.
    pub(super) fn credit(&mut self, window: Duration, charged_at: Ts, permits: u64) {
        let number = part(window, charged_at);
        if let Some((_, count)) = self.parts.iter_mut().find(|(other, _)| *other >= number) {
            *count = count.saturating_sub(permits);
        }
    }

    /// When more than `left` will remain.
    pub(super) fn frees_at(&self, window: Duration, limit: u64, left: u64, now: Ts) -> Ts {
        let mut used = self.used(window, now);
        for (number, count) in self.counted(window, now) {
            used = used.saturating_sub(count);
            if limit.saturating_sub(used) > left {
                return leaves_at(window, number);
            }
        }
        now + window
    }

    /// The clock stepped by this much, to `now`. In doubt a part counts for longer.
    pub(super) fn shift(&mut self, window: Duration, by: i64, now: Ts) {
        let (parts, newest) = (-by.saturating_neg().div_euclid(length(window)), part(window, now));
        let mut moved: Vec<(i64, u64)> = Vec::with_capacity(self.parts.len());
        for (number, count) in self.parts.drain(..) {
            let number = number.saturating_add(parts).min(newest);
            match moved.last_mut().filter(|(last, _)| *last == number) {
                Some((_, sum)) => *sum = sum.saturating_add(count),
                None => moved.push((number, count)),
            }
        }
        self.parts = moved;
    }
}

fn length(window: Duration) -> i64 {
    (micros(window) / PARTS).max(1)
}

/// When a part is outside every window.
fn leaves_at(window: Duration, number: i64) -> Ts {
    Ts::from_micros(number.saturating_add(PARTS + LATE + 1).saturating_mul(length(window)))
}

fn part(window: Duration, now: Ts) -> i64 {
    now.micros().div_euclid(length(window))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(secs: i64) -> Ts {
        Ts::from_secs(1_800_000_000 + secs)
    }

    // covers: ING-4.10-22
    #[test]
    fn no_hour_wherever_it_begins_holds_more_than_the_quota_and_little_is_wasted() {
        let (mut quota, mut sent) = (QuotaWindow::default(), Vec::new());
        for secs in 0..4 * 3_600 {
            if quota.standing(HOUR, 1_000, at(secs)).remaining > 0 {
                quota.charge(HOUR, at(secs), 1);
                sent.push(secs);
            }
        }
        for (first, start) in sent.iter().enumerate() {
            assert!(sent[first..].iter().take_while(|secs| **secs < start + 3_600).count() <= 1_000);
        }
        assert!(sent.len() >= 3_850, "{}", sent.len());
    }

    #[test]
    fn quota_reports_when_requests_are_free_again() {
        let mut quota = QuotaWindow::default();
        quota.charge(HOUR, at(0), 60);
        quota.charge(HOUR, at(600), 40);
        let (full, some) = (quota.standing(HOUR, 100, at(700)), quota.standing(HOUR, 105, at(700)));
        assert_eq!((full.remaining, full.soft), (0, true));
        assert_eq!((some.remaining, some.soft), (5, true));
        let frees = quota.frees_at(HOUR, 100, 10, at(700));
        assert!(frees > at(3_600) && frees <= at(3_600 + 90), "{frees:?}");
        assert_eq!(quota.standing(HOUR, 100, frees).remaining, 60);
        assert!(quota.standing(HOUR, 100, frees - Duration::from_secs(1)).remaining == 0);
    }

    #[test]
    fn unused_permits_return_to_the_quota() {
        let mut quota = QuotaWindow::default();
        quota.charge(HOUR, at(29), 5);
        quota.charge(HOUR, at(31), 5);
        quota.credit(HOUR, at(29), 4);
        assert_eq!(quota.standing(HOUR, 100, at(90)).remaining, 94, "however late they come back");
        assert_eq!(quota.standing(HOUR, 100, at(3_670)).remaining, 95, "the requests of each part stay counted");
        quota.credit(HOUR, at(31), 60);
        assert_eq!(quota.standing(HOUR, 100, at(90)).remaining, 99, "never more than was taken");
    }
}
