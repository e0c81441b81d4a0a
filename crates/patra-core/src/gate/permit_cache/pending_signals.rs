//! Signals of the upstream that the store does not know yet. Their size is bounded, however long the store is away.

use crate::gate::GateSignal;
use crate::time::Ts;

/// Times are those of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct PendingSignals {
    /// When the last refused request was sent, in the store's time.
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

impl PendingSignals {
    pub(super) fn add(&mut self, signal: GateSignal, now: Ts) {
        match signal {
            GateSignal::Refused { sent } => self.refused = self.refused.max(Some(sent)),
            GateSignal::RetryAfter(wait) => self.silent_until = self.silent_until.max(Some(now + wait)),
            // Only the newest count matters.
            GateSignal::Remaining { remaining: count, limit, resets_in } => {
                self.remaining = Some(Remaining { count, limit, resets_at: now + resets_in });
            }
        }
    }

    /// These signals, then later ones.
    pub(super) fn followed_by(self, later: PendingSignals) -> PendingSignals {
        PendingSignals {
            refused: self.refused.max(later.refused),
            silent_until: self.silent_until.max(later.silent_until),
            remaining: later.remaining.or(self.remaining),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == PendingSignals::default()
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.refused.is_some() || self.silent_until.is_some() || self.remaining.is_some_and(|of| of.count == 0)
    }

    /// The signals to send; expired ones are dropped.
    pub(super) fn signals(&self, now: Ts) -> Vec<GateSignal> {
        let refused = self.refused.map(|sent| GateSignal::Refused { sent });
        let silence = self.silent_until.map(|until| until.since(now)).filter(|wait| !wait.is_zero());
        let remaining = self.remaining.filter(|of| of.resets_at > now).map(|of| GateSignal::Remaining {
            remaining: of.count,
            limit: of.limit,
            resets_in: of.resets_at.since(now),
        });
        [refused, silence.map(GateSignal::RetryAfter), remaining].into_iter().flatten().collect()
    }
}
