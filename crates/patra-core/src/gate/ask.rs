//! What is asked of a key, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use super::Why;
use super::slots::Slot;
use super::view::View;
use crate::time::Ts;

/// What the far side's answers say about the pace (ING-4.10-08). A good answer needs no word: time alone raises the rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Signal {
    /// 429, or a failure that passes, of a request that left at `sent`.
    Refused { sent: Ts },
    /// Silence for so long.
    RetryAfter(Duration),
    /// What remains of the far side's own window, and when that ends.
    Remaining { remaining: u64, limit: Option<u64>, resets_in: Duration },
}

/// "So many permits, please."
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ask {
    /// Who asks: one process on behalf of one class. Empty: nobody, only to tell something.
    pub member: String,
    /// Classes share a key by their weights, the members of a class share its part evenly.
    pub class: String,
    pub weight: u32,
    /// Permits for requests that wait, and for those that are to come within the horizon.
    pub now: u32,
    pub ahead: u32,
    /// Permits that the member still has.
    pub held: u32,
    /// How much of its share the member makes use of.
    pub percent: u32,
    /// May use what little is left of a quota.
    pub first: bool,
    /// How long it would wait for the first.
    pub deadline: Duration,
    /// How long the answer is on its way.
    pub lead: Duration,
    pub returned: Vec<Slot>,
    pub signals: Vec<Signal>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    pub now: Ts,
    pub slots: Vec<Slot>,
    /// How long after its time each may be used.
    pub good_for: Duration,
    /// Why there is none, and until when asking is in vain.
    pub refused: Option<(Why, Ts)>,
    /// What others hold has lost its ground: they must be told.
    pub news: bool,
    pub view: Arc<View>,
}
