//! When a simulated process may send: a token bucket with cool-down. It stands for the engine's gate, of which the protocols
//! see nothing but the answer.

use std::time::Duration;

use patra_core::Ts;
use patra_core::gate::Decision;
use patra_core::time::micros;

const PER_SEC: f64 = 4.0;
const BURST: f64 = 2.0;

#[derive(Clone, Debug)]
pub(super) struct Pace {
    tokens: f64,
    filled_at: Ts,
    cooldown_until: Ts,
}

impl Pace {
    pub(super) fn new(now: Ts) -> Pace {
        Pace { tokens: BURST, filled_at: now, cooldown_until: Ts::MIN }
    }

    /// Takes one token, or says when to ask again.
    pub(super) fn acquire(&mut self, now: Ts) -> Decision {
        // A clock that jumps back neither fills nor drains the bucket.
        let gone = now.since(self.filled_at);
        self.filled_at = self.filled_at.max(now);
        self.tokens = (self.tokens + micros(gone) as f64 / 1e6 * PER_SEC).min(BURST);
        if now < self.cooldown_until {
            return Decision::WaitUntil(self.cooldown_until);
        }
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Decision::Allow;
        }
        // From the last filling, not from now: after a jump back, asking before it is caught up would be in vain.
        let wait = Duration::from_secs_f64((1.0 - self.tokens) / PER_SEC);
        Decision::WaitUntil(self.filled_at + wait.max(Duration::from_micros(1)))
    }

    /// The far side asked for silence until then. A shorter wish never shortens a longer one.
    pub(super) fn cool_down(&mut self, until: Ts) {
        self.cooldown_until = self.cooldown_until.max(until);
    }
}
