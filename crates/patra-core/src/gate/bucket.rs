//! A token bucket for one process, without stored state.

use std::time::Duration;

use super::{GateDecision, Rate};
use crate::time::{Ts, micros};

#[derive(Clone, Debug)]
pub struct Bucket {
    rate: Rate,
    tokens: f64,
    filled_at: Ts,
    cooldown_until: Ts,
}

impl Bucket {
    /// Starts with a full bucket.
    pub fn new(rate: Rate, now: Ts) -> Bucket {
        Bucket { rate, tokens: rate.burst, filled_at: now, cooldown_until: Ts::MIN }
    }

    /// Takes one token, or returns when to retry.
    pub fn acquire(&mut self, now: Ts) -> GateDecision {
        self.fill(now);
        if now < self.cooldown_until {
            return GateDecision::WaitUntil(self.cooldown_until);
        }
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return GateDecision::Allow;
        }
        let wait = Duration::from_secs_f64((1.0 - self.tokens) / self.rate.per_sec.max(0.001));
        // Counts from the last refill, not from now: after a clock has jumped back nothing is refilled until it has
        // caught up, and a retry before that would fail.
        GateDecision::WaitUntil(self.filled_at + wait.max(Duration::from_micros(1)))
    }

    /// The upstream asked for a pause until this time. A shorter pause never shortens a longer one.
    pub fn cool_down(&mut self, until: Ts) {
        self.cooldown_until = self.cooldown_until.max(until);
    }

    fn fill(&mut self, now: Ts) {
        // A clock that jumps back neither fills nor drains the bucket.
        let gone = now.since(self.filled_at);
        self.filled_at = self.filled_at.max(now);
        self.tokens = (self.tokens + micros(gone) as f64 / 1e6 * self.rate.per_sec).min(self.rate.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Ts {
        Ts::from_micros(millis * 1000)
    }

    #[test]
    fn a_full_bucket_allows_a_burst_and_then_the_rate() {
        let mut bucket = Bucket::new(Rate { per_sec: 10.0, burst: 3.0 }, at(0));
        for _ in 0..3 {
            assert_eq!(bucket.acquire(at(0)), GateDecision::Allow);
        }
        assert_eq!(bucket.acquire(at(0)), GateDecision::WaitUntil(at(100)));
        assert_eq!(bucket.acquire(at(100)), GateDecision::Allow);
        assert!(matches!(bucket.acquire(at(101)), GateDecision::WaitUntil(_)));
    }

    #[test]
    fn cool_down_blocks_a_full_bucket_and_is_never_shortened() {
        let mut bucket = Bucket::new(Rate { per_sec: 10.0, burst: 3.0 }, at(0));
        bucket.cool_down(at(5_000));
        bucket.cool_down(at(1_000));
        assert_eq!(bucket.acquire(at(4_999)), GateDecision::WaitUntil(at(5_000)));
        assert_eq!(bucket.acquire(at(5_000)), GateDecision::Allow);
    }

    #[test]
    fn no_window_of_one_second_sees_more_than_burst_plus_rate() {
        let mut bucket = Bucket::new(Rate { per_sec: 5.0, burst: 2.0 }, at(0));
        let sent: Vec<i64> = (0..20_000).filter(|ms| bucket.acquire(at(*ms)) == GateDecision::Allow).collect();
        for (first, start) in sent.iter().enumerate() {
            assert!(sent[first..].iter().take_while(|ms| **ms < start + 1000).count() <= 7);
        }
        assert!(sent.len() >= 100);
    }

    #[test]
    fn a_clock_that_jumps_back_grants_nothing() {
        let mut bucket = Bucket::new(Rate { per_sec: 1.0, burst: 1.0 }, at(10_000));
        assert_eq!(bucket.acquire(at(10_000)), GateDecision::Allow);
        // One wait that lasts until the clock has caught up, instead of thousands of short ones.
        assert_eq!(bucket.acquire(at(0)), GateDecision::WaitUntil(at(11_000)));
        assert_eq!(bucket.acquire(at(10_500)), GateDecision::WaitUntil(at(11_000)));
        assert_eq!(bucket.acquire(at(11_000)), GateDecision::Allow);
    }
}
