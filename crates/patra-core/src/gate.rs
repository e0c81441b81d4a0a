//! The rate gate's arithmetic. Pure: whoever holds the [`State`] of a key asks before every request.
//!
//! A key's permits lie on a line of time, as *slots* one interval apart. A request leaves on a slot of its own, at its time or
//! a little later, never before. How much later is what the burst allows: so many requests may come together as there are
//! unused slots behind them, and no more. Slots can be handed out ahead of time, to anybody, in any order; what is never used,
//! by a process that died or by one that had nothing to send, is lost and does no harm. That is why nothing has to be cleaned up
//! after a crash, and why the far side never sees more than burst + rate × time, whoever holds which slot.
//!
//! ```text
//!   ──┬────┬────┬────┬────┬────┬────┬────┬────►   one slot each 1/rate
//!     used free used lost now  A    B    A        A and B: handed out ahead, to be used there
//!          └ still good, within the burst
//! ```

mod aimd;
mod ask;
mod bucket;
mod limits;
mod provider;
mod purse;
mod quota;
mod slots;
mod state;
mod view;

pub use ask::{Answer, Ask, Signal};
pub use bucket::Bucket;
pub use limits::{Limits, Quotas, Rate};
pub use purse::{Permit, Purse, Try};
pub use quota::Standing;
pub use slots::Slot;
pub use state::State;
pub use view::{Budget, Member, Provider, View};

use crate::time::Ts;

/// The answer to "may I send?".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    Allow,
    WaitUntil(Ts),
}

/// Why a key gives nothing now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Why {
    /// The next slot is further away than the asker would wait.
    OverDeadline,
    /// The far side asked for silence.
    Cooldown,
    /// The far side says that nothing is left until its window ends.
    Provider,
    /// Little of the quota is left, and it is kept for what matters more.
    QuotaSoft,
    /// Nothing of the quota is left.
    QuotaHard,
}

impl Why {
    pub fn as_str(self) -> &'static str {
        match self {
            Why::OverDeadline => "OVER_DEADLINE",
            Why::Cooldown => "COOLDOWN",
            Why::Provider => "PROVIDER",
            Why::QuotaSoft => "QUOTA_SOFT",
            Why::QuotaHard => "QUOTA_HARD",
        }
    }
}

/// Times in a stored state: microseconds, because there are many of them.
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
