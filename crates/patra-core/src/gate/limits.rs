//! What a key may send, and the pace that follows from it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How far ahead slots are handed out. Whoever dies takes at most this much of the rate along.
pub(super) const HORIZON: Duration = Duration::from_secs(2);

/// The longest that an answer of the store is expected to take. Who is further away gets its slots too late, and no further
/// ahead.
pub(super) const MOST_LEAD: Duration = Duration::from_secs(1);

/// The way to the far side takes now less, now more time, so that requests come closer together than they left. A part of the
/// burst as large as this share of the shortest window pays for it; where the burst is too small for that, the rate does.
const JITTER: f64 = 0.03;

/// The same where there is less than one request in ten seconds: whoever comes back for its slot then comes by the second.
const SLOW_JITTER: f64 = 0.06;

/// The shortest window in which a far side is expected to count, in seconds. For rates below one a second it is the time between two
/// requests.
const SHORTEST_WINDOW: f64 = 1.0;

/// However slow the store answers, no more than this is kept for it.
const MOST_JITTER: f64 = 0.6;

/// Slots that are kept at most. A key with more permits than that within the horizon has several on each slot.
pub(super) const MOST_SLOTS: usize = 1_000;

/// The slowest that a rate is ever made (ING-4.10-16).
pub(super) const SLOWEST: f64 = 0.1;

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rate {
    pub per_sec: f64,
    pub burst: f64,
}

impl Default for Rate {
    /// The conservative default of a source that declares nothing (ING-4.10-36).
    fn default() -> Rate {
        Rate { per_sec: 1.0, burst: 1.0 }
    }
}

/// Requests in any hour and in any day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Quotas {
    pub hourly: Option<u64>,
    pub daily: Option<u64>,
}

/// All that is declared of a key.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    pub rate: Rate,
    pub quotas: Quotas,
    /// After a rest the rate rises from a third to its full height in this time; zero: at once.
    pub warmup: Duration,
    /// What the rate is divided by when the far side refuses.
    pub demote: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { rate: Rate::default(), quotas: Quotas::default(), warmup: Duration::ZERO, demote: 2.0 }
    }
}

impl Limits {
    /// The lower of each.
    pub(super) fn stricter(&self, other: &Limits) -> Limits {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Limits {
            rate: Rate {
                per_sec: self.rate.per_sec.min(other.rate.per_sec),
                burst: self.rate.burst.min(other.rate.burst),
            },
            quotas: Quotas {
                hourly: least(self.quotas.hourly, other.quotas.hourly),
                daily: least(self.quotas.daily, other.quotas.daily),
            },
            warmup: self.warmup.max(other.warmup),
            demote: self.demote.max(other.demote),
        }
    }
}

/// How slots lie at some rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pace {
    /// Between two slots, in microseconds.
    pub(super) step: i64,
    /// Permits on each.
    pub(super) permits: u32,
    /// How long after its time a slot is still good on arrival at the far side, in microseconds.
    lateness: i64,
    /// Of which so much is for the ways of slots and requests.
    jitter: i64,
}

impl Pace {
    /// In any window of `W` seconds there are `permits + rate × (W + lateness)` permits at most. The lateness is the longest for
    /// which that is no more than `burst + rate × W`; when it would be shorter than the jitter, the rate gives way. `lead` is how
    /// long the store's answers take.
    pub(super) fn of(rate: Rate, per_sec: f64, lead: Duration) -> Pace {
        let (per_sec, burst) = (per_sec.clamp(1e-6, 1e6), rate.burst.max(1.0));
        let within = burst + rate.per_sec.max(per_sec) * HORIZON.as_secs_f64();
        let permits = (within / MOST_SLOTS as f64).ceil().min(burst.floor()).max(1.0);
        let shortest = SHORTEST_WINDOW.max(1.0 / per_sec);
        let jitter = shortest * if shortest > 10.0 { SLOW_JITTER } else { JITTER };
        let jitter = jitter.max((3.0 * lead.as_secs_f64()).min(MOST_JITTER));
        let lateness = (burst - permits) / per_sec;
        let (lateness, per_sec) = match lateness >= jitter {
            true => (lateness, per_sec),
            false => (jitter, (burst - permits + per_sec * shortest) / (shortest + jitter)),
        };
        Pace {
            step: (permits / per_sec * 1e6).ceil() as i64,
            permits: permits as u32,
            lateness: (lateness * 1e6) as i64,
            jitter: (jitter * 1e6) as i64,
        }
    }

    /// Slots up to so long ago can still be handed out.
    pub(super) fn backlog(&self) -> Duration {
        Duration::from_micros(self.lateness.saturating_sub(self.jitter).max(0) as u64)
    }

    /// How long after its time a slot may be used by whoever holds it. Half of the jitter is for the way of the slot to its
    /// holder, half for the way of the request.
    pub(super) fn good_for(&self) -> Duration {
        self.backlog() + Duration::from_micros(self.jitter as u64 / 2)
    }

    pub(super) fn step(&self) -> Duration {
        Duration::from_micros(self.step as u64)
    }

    pub(super) fn per_sec(&self) -> f64 {
        f64::from(self.permits) / self.step as f64 * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_and_rate_bound_every_pace() {
        for per_sec in [0.1, 1.0, 3.0, 50.0, 999.0, 10_000.0] {
            for burst in [1.0, 2.0, 5.0, 100.0, 10_000.0] {
                let pace = Pace::of(Rate { per_sec, burst }, per_sec, Duration::ZERO);
                let (permits, lateness) = (f64::from(pace.permits), pace.lateness as f64 / 1e6);
                for window in [1.0, 10.0, 3_600.0].into_iter().filter(|window| window * per_sec >= 1.0) {
                    let most = permits + pace.per_sec() * (window + lateness);
                    assert!(
                        most <= burst + per_sec * window + 1e-6,
                        "{per_sec}/s, burst {burst}: {most} in {window} s"
                    );
                }
                assert!(pace.per_sec() >= 0.94 * per_sec, "{per_sec}/s, burst {burst}: {}", pace.per_sec());
            }
        }
    }
}
