//! What the far side said and the store has not heard yet. However long the store is away, it is no more than this.

use crate::gate::Signal;
use crate::time::Ts;

/// Times are those of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct News {
    /// When what was refused last had left, in the time of the store.
    refused: Option<Ts>,
    silent_until: Option<Ts>,
    remaining: Option<Remaining>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Remaining {
    count: u64,
    limit: Option<u64>,
    resets_at: Ts,
}

impl News {
    pub(super) fn add(&mut self, signal: Signal, now: Ts) {
        match signal {
            Signal::Refused { sent } => self.refused = self.refused.max(Some(sent)),
            Signal::RetryAfter(wait) => self.silent_until = self.silent_until.max(Some(now + wait)),
            // Only the newest count matters.
            Signal::Remaining { remaining: count, limit, resets_in } => {
                self.remaining = Some(Remaining { count, limit, resets_at: now + resets_in });
            }
        }
    }

    /// This, and then what came later.
    pub(super) fn followed_by(self, later: News) -> News {
        News {
            refused: self.refused.max(later.refused),
            silent_until: self.silent_until.max(later.silent_until),
            remaining: later.remaining.or(self.remaining),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == News::default()
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.refused.is_some() || self.silent_until.is_some() || self.remaining.is_some_and(|of| of.count == 0)
    }

    /// As they are told. What is over by now is nobody's concern.
    pub(super) fn signals(&self, now: Ts) -> Vec<Signal> {
        let refused = self.refused.map(|sent| Signal::Refused { sent });
        let silence = self.silent_until.map(|until| until.since(now)).filter(|wait| !wait.is_zero());
        let remaining = self.remaining.filter(|of| of.resets_at > now).map(|of| Signal::Remaining {
            remaining: of.count,
            limit: of.limit,
            resets_in: of.resets_at.since(now),
        });
        [refused, silence.map(Signal::RetryAfter), remaining].into_iter().flatten().collect()
    }
}
