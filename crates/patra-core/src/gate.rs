//! Arithmetic of the rate gate. Pure: every request needs a permit from the [`GateState`] of its key.
//!
//! A key's permits are *slots* on a time line, one interval apart. A request leaves on a slot of its own, at its time
//! or a little later, never before. The burst limits how much later: as many requests may leave together as there are
//! unused slots behind them, and no more. Slots can be granted ahead of time, to any process, in any order. A slot
//! that is never used, by a process that died or had nothing to send, is lost and does no harm. Therefore a crash
//! needs no cleanup, and the upstream never sees more than burst + rate × time, whoever holds which slot.
//!
//! ```text
//!   ──┬────┬────┬────┬────┬────┬────┬────┬────►   one slot each 1/rate
//!     used free used lost now  A    B    A        A and B: granted ahead, to be used at their time
//!          └ still usable, within the burst
//! ```

mod aimd;
mod bucket;
mod limits;
mod permit_cache;
mod provider;
mod quota;
mod request;
mod slots;
mod state;
mod view;

pub use bucket::Bucket;
pub use limits::{GateLimits, Quotas, Rate};
pub use permit_cache::{Permit, PermitCache, PermitResult};
pub use quota::QuotaStatus;
pub use request::{GateReply, GateRequest, GateSignal};
pub use slots::{ReturnedSlot, Slot};
pub use state::GateState;
pub use view::{GateMember, GateView, ProviderQuota, RequestBudget};

use crate::time::Ts;

/// Whether a request may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateDecision {
    Allow,
    WaitUntil(Ts),
}

/// Why a key grants no permit now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GateRefusal {
    /// The next slot is later than the caller's deadline.
    OverDeadline,
    /// The upstream asked for a pause (Retry-After).
    Cooldown,
    /// The upstream's own window is used up until it ends.
    Provider,
    /// The quota is almost used up; the rest is reserved for important requests.
    QuotaSoft,
    /// The quota is used up.
    QuotaHard,
}

impl GateRefusal {
    pub fn as_str(self) -> &'static str {
        match self {
            GateRefusal::OverDeadline => "OVER_DEADLINE",
            GateRefusal::Cooldown => "COOLDOWN",
            GateRefusal::Provider => "PROVIDER",
            GateRefusal::QuotaSoft => "QUOTA_SOFT",
            GateRefusal::QuotaHard => "QUOTA_HARD",
        }
    }
}

/// Times in a stored state are microseconds, because there are many of them.
mod micros {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::time::Ts;

    pub(super) fn serialize<S: Serializer>(at: &Ts, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(at.micros())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ts, D::Error> {
        i64::deserialize(deserializer).map(Ts::from_micros)
    }
}
