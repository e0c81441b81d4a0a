//! Current rate: halved when the upstream refuses, raised again in small steps (ING-4.10-15, ING-4.10-16).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::{GateLimits, SLOWEST};
use crate::time::Ts;

/// Time between two raises, and between a refusal and the first raise.
pub(super) const COOL_DOWN: Duration = Duration::from_secs(30);

/// Requests sent this soon after the rate was lowered are refused for the same reason: one incident lowers the rate
/// once.
const SETTLE: Duration = Duration::from_secs(5);

/// One raise, as a share of the declared rate.
const RAISE: f64 = 0.05;

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Aimd {
    /// Share of the declared rate.
    share: f64,
    #[serde(with = "super::micros")]
    changed_at: Ts,
    /// When it was last lowered.
    #[serde(with = "super::micros")]
    lowered_at: Ts,
}

impl Aimd {
    pub(super) const FULL: Aimd = Aimd { share: 1.0, changed_at: Ts::MIN, lowered_at: Ts::MIN };

    pub(super) fn per_sec(&self, limits: &GateLimits) -> f64 {
        let most = limits.rate.per_sec;
        (most * self.share.min(1.0)).max(SLOWEST.min(most))
    }

    /// Applies the raises that are due.
    pub(super) fn tick(&mut self, now: Ts) {
        let raises = now.since(self.changed_at).as_secs() / COOL_DOWN.as_secs();
        if self.share < 1.0 && raises > 0 {
            self.share = (self.share + RAISE * raises as f64).min(1.0);
            self.changed_at = self.changed_at + COOL_DOWN * raises.min(u64::from(u32::MAX)) as u32;
        }
    }

    pub(super) fn shift(&mut self, micros: i64) {
        self.changed_at = self.changed_at.shifted(micros);
        // The earliest time stands for "never".
        if self.lowered_at != Ts::MIN {
            self.lowered_at = self.lowered_at.shifted(micros);
        }
    }

    /// Lowers the rate: the upstream refused a request that was sent at `sent`.
    pub(super) fn lower(&mut self, limits: &GateLimits, sent: Ts, now: Ts) -> bool {
        if self.lowered_at != Ts::MIN && sent <= self.lowered_at + SETTLE {
            return false;
        }
        self.share = self.per_sec(limits) / limits.demote.max(1.0) / limits.rate.per_sec;
        (self.changed_at, self.lowered_at) = (now, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Rate;

    // covers: ING-4.10-15, ING-4.10-16, ING-4.10-44, ING-1.3-05
    #[test]
    fn rate_falls_at_once_and_rises_slowly() {
        let limits = GateLimits { rate: Rate { per_sec: 10.0, burst: 10.0 }, ..GateLimits::default() };
        let mut aimd = Aimd::FULL;
        let at = Ts::from_secs;
        assert!(aimd.lower(&limits, at(100), at(101)));
        assert_eq!(aimd.per_sec(&limits), 5.0);
        assert!(!aimd.lower(&limits, at(100), at(102)), "it left before the rate fell");
        assert!(!aimd.lower(&limits, at(105), at(106)), "or right after");
        assert!(aimd.lower(&limits, at(107), at(107)));
        assert_eq!(aimd.per_sec(&limits), 2.5);
        aimd.tick(at(136));
        assert_eq!(aimd.per_sec(&limits), 2.5);
        aimd.tick(at(137));
        assert!((aimd.per_sec(&limits) - 3.0).abs() < 1e-9);
        aimd.tick(at(137 + 90));
        assert!((aimd.per_sec(&limits) - 4.5).abs() < 1e-9);
        aimd.tick(at(100_000));
        assert_eq!(aimd.per_sec(&limits), 10.0);
        for sent in 0..20 {
            aimd.lower(&limits, at(200_000 + 6 * sent), at(200_000 + 6 * sent));
        }
        assert_eq!(aimd.per_sec(&limits), 0.1);
    }
}
