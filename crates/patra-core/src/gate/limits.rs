//! Declared limits of a key, and the slot spacing that follows from them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How far ahead slots are granted. A process that dies takes at most this much of the rate with it.
pub(super) const HORIZON: Duration = Duration::from_secs(2);

/// Maximum expected round trip to the store. A slower process gets its slots too late, and no further ahead.
pub(super) const MOST_LEAD: Duration = Duration::from_secs(1);

/// Network latency to the upstream varies, so requests arrive closer together than they left. A part of the burst as
/// large as this share of the shortest window covers that; where the burst is too small, the rate is lowered.
const JITTER: f64 = 0.03;

/// How far ahead slots are granted for less than one request in ten seconds: callers then wait in whole seconds.
const SLOW_JITTER: f64 = 0.06;

/// The shortest window in which an upstream is expected to count, in seconds. For rates below one a second it is the
/// time between two requests.
const SHORTEST_WINDOW: f64 = 1.0;

/// Maximum jitter reserve, however slow the store is.
const MOST_JITTER: f64 = 0.6;

/// Maximum slots that are stored. A key with more permits than that within the horizon has several on each slot.
pub(super) const MOST_SLOTS: usize = 1_000;

/// The lowest rate that demotion can reach (ING-4.10-16).
pub(super) const SLOWEST: f64 = 0.1;

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rate {
    pub per_sec: f64,
    pub burst: f64,
}

impl Default for Rate {
    /// The conservative default of a source that declares no rate (ING-4.10-36).
    fn default() -> Rate {
        Rate { per_sec: 1.0, burst: 1.0 }
    }
}

impl Rate {
    /// The rate with at least this much time between two requests.
    #[must_use]
    pub fn spaced(self, least: Duration) -> Rate {
        match least.is_zero() {
            true => self,
            false => Rate { per_sec: self.per_sec.min(1.0 / least.as_secs_f64()), burst: 1.0 },
        }
    }
}

/// Maximum requests in any hour and in any day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Quotas {
    pub hourly: Option<u64>,
    pub daily: Option<u64>,
}

/// Declared limits of a key.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct GateLimits {
    pub rate: Rate,
    pub quotas: Quotas,
    /// After an idle period the rate rises from a third to its full value in this time; zero: at once.
    pub warmup: Duration,
    /// The rate is divided by this when the upstream refuses.
    pub demote: f64,
}

impl Default for GateLimits {
    fn default() -> GateLimits {
        GateLimits { rate: Rate::default(), quotas: Quotas::default(), warmup: Duration::ZERO, demote: 2.0 }
    }
}

impl GateLimits {
    /// The lower of each limit.
    pub(super) fn stricter(&self, other: &GateLimits) -> GateLimits {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        GateLimits {
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

/// Spacing of slots at some rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct SlotSpacing {
    /// Time between two slots, in microseconds.
    pub(super) step: i64,
    /// Permits on each slot.
    pub(super) permits: u32,
    /// How long after its time a slot is still valid on arrival at the upstream, in microseconds.
    lateness: i64,
    /// The part of the lateness that is reserved for the latency of replies and requests.
    jitter: i64,
}

impl SlotSpacing {
    /// In any window of `W` seconds there are `permits + rate × (W + lateness)` permits at most. The lateness is the
    /// longest for which that is no more than `burst + rate × W`; when it would be shorter than the jitter, the rate
    /// is lowered. `lead` is the round trip to the store.
    pub(super) fn of(rate: Rate, per_sec: f64, lead: Duration) -> SlotSpacing {
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
        SlotSpacing {
            step: (permits / per_sec * 1e6).ceil() as i64,
            permits: permits as u32,
            lateness: (lateness * 1e6) as i64,
            jitter: (jitter * 1e6) as i64,
        }
    }

    /// Slots up to this old can still be granted.
    pub(super) fn backlog(&self) -> Duration {
        Duration::from_micros(self.lateness.saturating_sub(self.jitter).max(0) as u64)
    }

    /// How long after its time a slot may be used by its holder. Half of the jitter covers the reply with the slot,
    /// half the request.
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
                let pace = SlotSpacing::of(Rate { per_sec, burst }, per_sec, Duration::ZERO);
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
