//! Retry delays: exponential back-off with jitter (ING-4.11-03, ING-12.3-01).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// Attempts and delays of one batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    pub max_attempts: u32,
    pub min_delay_ms: u64,
    pub max_delay_ms: u64,
    /// Growth of the delay in percent: 200 doubles it.
    pub multiplier_percent: u32,
    pub jitter_percent: u32,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            max_attempts: 5,
            min_delay_ms: 100,
            max_delay_ms: 30_000,
            multiplier_percent: 200,
            jitter_percent: 20,
        }
    }
}

impl RetryPolicy {
    /// The wait before attempt `attempt + 1`, when `attempt` (from 1) has failed.
    pub fn delay(&self, attempt: u32, rng: &mut Rng) -> Duration {
        let mut millis = u128::from(self.min_delay_ms);
        for _ in 1..attempt.min(64) {
            millis = (millis * u128::from(self.multiplier_percent) / 100).min(u128::from(self.max_delay_ms));
        }
        let micros = millis.min(u128::from(self.max_delay_ms)) as u64 * 1000;
        let spread = micros / 100 * u64::from(self.jitter_percent.min(100));
        // Jitter goes both ways, so the mean stays the configured delay.
        Duration::from_micros(micros - spread / 2 + rng.below(spread + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-4.11-03, ING-12.3-01, ING-2.3-04
    #[test]
    fn default_backoff_doubles_from_100_ms_to_30_s_with_20_percent_jitter() {
        let (policy, mut rng) = (RetryPolicy::default(), Rng::new(1));
        for (attempt, middle) in [(1, 100), (2, 200), (3, 400), (4, 800), (9, 25_600), (10, 30_000), (60, 30_000)] {
            for _ in 0..100 {
                let delay = policy.delay(attempt, &mut rng).as_millis();
                assert!((middle * 9 / 10..=middle * 11 / 10).contains(&delay), "attempt {attempt}: {delay} ms");
            }
        }
        assert_eq!(policy.max_attempts, 5);
    }
}
