//! Requests to the gate for a key, and its replies.

use std::sync::Arc;
use std::time::Duration;

use super::GateRefusal;
use super::slots::{ReturnedSlot, Slot};
use super::view::GateView;
use crate::time::Ts;

/// What the upstream's responses say about the rate (ING-4.10-08). Success needs no signal: time alone raises the
/// rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum GateSignal {
    /// Status 429 or a transient failure of a request sent at `sent`.
    Refused { sent: Ts },
    /// The upstream asked for a pause of this length.
    RetryAfter(Duration),
    /// The upstream's own window: what remains, and when it ends.
    Remaining { remaining: u64, limit: Option<u64>, resets_in: Duration },
}

/// A request for permits.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GateRequest {
    /// The member that requests: one process on behalf of one class. Empty: only signals are reported.
    pub member: String,
    /// Classes share a key by their weights; the members of a class share its part evenly.
    pub class: String,
    pub weight: u32,
    /// Permits for requests that wait, and (`prefetch`) for those expected within the horizon.
    pub now: u32,
    pub prefetch: u32,
    /// Permits that the member has cached.
    pub cached: u32,
    /// How much of its share the member uses, in percent.
    pub percent: u32,
    /// May use the reserve of a quota.
    pub first: bool,
    /// Maximum wait for the first permit.
    pub deadline: Duration,
    /// How long the reply takes to arrive.
    pub lead: Duration,
    pub returned: Vec<ReturnedSlot>,
    pub signals: Vec<GateSignal>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct GateReply {
    pub now: Ts,
    pub slots: Vec<Slot>,
    /// How long after its time each slot may be used.
    pub good_for: Duration,
    /// Why there are no slots, and until when a retry is useless.
    pub refused: Option<(GateRefusal, Ts)>,
    /// Slots that others hold have become void: they must be notified.
    pub notify_others: bool,
    pub view: Arc<GateView>,
}
