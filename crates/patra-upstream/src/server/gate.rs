//! Who may come when: the requests of the current second, and the time before which clients were told to stay away.
//! Takes the time as an argument.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::state::lock;

#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Times>);

#[derive(Debug, Default)]
struct Times {
    window_start: Option<Instant>,
    in_window: u64,
    not_before: Option<Instant>,
}

impl Gate {
    /// Counts a request; whether it is beyond `rate_per_sec` (0 for no limit).
    pub(super) fn is_over(&self, now: Instant, rate_per_sec: u64) -> bool {
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

    /// Remembers that somebody was told to wait.
    pub(super) fn tell(&self, now: Instant, wait: Duration) {
        let mut times = lock(&self.0);
        times.not_before = times.not_before.max(now.checked_add(wait));
    }

    pub(super) fn is_early(&self, now: Instant) -> bool {
        lock(&self.0).not_before.is_some_and(|not_before| now < not_before)
    }

    pub(super) fn reset(&self) {
        *lock(&self.0) = Times::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lets_so_many_through() {
        let (gate, t) = (Gate::default(), Instant::now());
        let ms = Duration::from_millis;
        let over = [0, 1, 2, 999, 1000, 1001, 1002].map(|at| gate.is_over(t + ms(at), 2));
        assert_eq!(over, [false, false, true, true, false, false, true]);
        assert!(!gate.is_over(t, 0));
    }

    #[test]
    fn early_until_the_latest_time_told() {
        let (gate, t) = (Gate::default(), Instant::now());
        assert!(!gate.is_early(t));
        gate.tell(t, Duration::from_secs(2));
        gate.tell(t, Duration::from_secs(1));
        assert!(gate.is_early(t + Duration::from_millis(1999)));
        assert!(!gate.is_early(t + Duration::from_secs(2)));
    }
}
