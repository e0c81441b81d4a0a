//! Request limiter: counts the requests of the current second, and stores the time until which clients must wait. Takes
//! the time as an argument.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::state::lock;

#[derive(Debug, Default)]
pub(super) struct RequestLimiter(Mutex<LimiterTimes>);

#[derive(Debug, Default)]
struct LimiterTimes {
    window_start: Option<Instant>,
    in_window: u64,
    not_before: Option<Instant>,
}

impl RequestLimiter {
    /// Counts a request and returns whether it exceeds `rate_per_sec` (0 for no limit).
    pub(super) fn is_over_limit(&self, now: Instant, rate_per_sec: u64) -> bool {
        if rate_per_sec == 0 {
            return false;
        }
        let mut times = lock(&self.0);
        let same = times.window_start.is_some_and(|start| now.duration_since(start) < Duration::from_secs(1));
        if same {
            times.in_window += 1;
        } else {
            (times.window_start, times.in_window) = (Some(now), 1);
        }
        times.in_window > rate_per_sec
    }

    /// Records that a client must wait.
    pub(super) fn set_not_before(&self, now: Instant, wait: Duration) {
        let mut times = lock(&self.0);
        times.not_before = times.not_before.max(now.checked_add(wait));
    }

    pub(super) fn is_early(&self, now: Instant) -> bool {
        lock(&self.0).not_before.is_some_and(|not_before| now < not_before)
    }

    pub(super) fn reset(&self) {
        *lock(&self.0) = LimiterTimes::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limit_counts_per_second() {
        let (limiter, t) = (RequestLimiter::default(), Instant::now());
        let ms = Duration::from_millis;
        let over = [0, 1, 2, 999, 1000, 1001, 1002].map(|at| limiter.is_over_limit(t + ms(at), 2));
        assert_eq!(over, [false, false, true, true, false, false, true]);
        assert!(!limiter.is_over_limit(t, 0));
    }

    #[test]
    fn early_until_the_latest_retry_after() {
        let (limiter, t) = (RequestLimiter::default(), Instant::now());
        assert!(!limiter.is_early(t));
        limiter.set_not_before(t, Duration::from_secs(2));
        limiter.set_not_before(t, Duration::from_secs(1));
        assert!(limiter.is_early(t + Duration::from_millis(1999)));
        assert!(!limiter.is_early(t + Duration::from_secs(2)));
    }
}
