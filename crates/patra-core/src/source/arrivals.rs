//! How often a source brings something new, and whether it has been silent for too long (COLL-128).

use std::time::Duration;

use crate::time::Ts;

/// A source that is silent for less than this is not reported: many publish nothing at weekends.
pub const MIN_SILENCE: Duration = Duration::from_secs(3 * 86_400);
/// Arrivals that make a habit.
const MIN_ARRIVALS: u32 = 5;
/// Weight of one gap: the habit follows about this many of them.
const GAPS: u64 = 8;

/// Arrivals are the polls that brought a new or a changed item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArrivalHabit {
    pub last_at: Option<Ts>,
    pub count: u32,
    /// Moving average of the time between two arrivals.
    pub gap_seconds: u64,
}

impl ArrivalHabit {
    pub(super) fn count(&mut self, now: Ts) {
        if let Some(last) = self.last_at {
            let weight = u64::from(self.count).clamp(1, GAPS);
            self.gap_seconds = (self.gap_seconds * (weight - 1) + now.since(last).as_secs()) / weight;
        }
        self.last_at = Some(now);
        self.count = self.count.saturating_add(1);
    }

    /// How long the source has been silent, in times of its habit. `None` while it has no habit or is not silent for
    /// longer than [`MIN_SILENCE`].
    pub fn silence(&self, now: Ts) -> Option<f64> {
        let silent = now.since(self.last_at?);
        let has_habit = self.count >= MIN_ARRIVALS && silent > MIN_SILENCE;
        has_habit.then(|| silent.as_secs_f64() / self.gap_seconds.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn at(days: u64) -> Ts {
        Ts::from_secs(1_000_000) + Duration::from_secs(days * DAY)
    }

    #[test]
    fn source_is_silent_by_its_own_habit() {
        let mut weekly = ArrivalHabit::default();
        for week in 0..5 {
            assert_eq!(weekly.silence(at(7 * week + 100)), None, "no habit yet");
            weekly.count(at(7 * week));
        }
        assert_eq!((weekly.count, weekly.gap_seconds), (5, 7 * DAY));
        assert_eq!(weekly.silence(at(28 + 2)), None);
        assert_eq!(weekly.silence(at(28 + 35)), Some(5.0));
        let mut hourly = ArrivalHabit::default();
        for hour in 0..100 {
            hourly.count(at(0) + Duration::from_secs(hour * 3_600));
        }
        assert_eq!(hourly.gap_seconds, 3_600);
        assert_eq!(hourly.silence(at(6)), None, "a weekend");
        assert!(hourly.silence(at(9)).is_some_and(|times| times > 100.0));
    }
}
