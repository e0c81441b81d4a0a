//! Events for the world outside. One is written in the transaction of what it tells, and delivered afterwards: at least once,
//! with the same id each time (MAP-C-22).

use std::time::Duration;

use crate::time::Ts;

/// Tries before an event is given up; it stays in the table as FAILED.
pub const MAX_TELLS: u32 = 12;
/// How long ago an event that was delivered or given up is forgotten.
pub const EVENTS_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// When an event is tried again after so many failures: a second, doubling, at most an hour.
pub fn tell_again(tries: u32) -> Duration {
    Duration::from_secs((1_u64 << tries.saturating_sub(1).min(12)).min(3_600))
}

/// Leases PENDING events whose `not_before` has come and whose lease is free or expired, oldest first, at most `limit`; forgets
/// those that ended before now - [`EVENTS_KEPT`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeEvents {
    pub owner: String,
    pub lease: Duration,
    pub limit: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventsTaken {
    pub events: Vec<Event>,
    /// When the next PENDING one may be taken, those just leased included: the earliest of `not_before` or the lease's end.
    pub next: Option<Ts>,
    pub now: Ts,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub id: i64,
    pub project_key: String,
    /// Such as `tweets.collected`.
    pub event_type: String,
    /// JSON, an object.
    pub payload: String,
    pub tries: u32,
    pub created_at: Ts,
}

/// What became of telling an event: DELIVERED, or with an error one try more, PENDING again after [`tell_again`], FAILED once
/// the tries have reached [`MAX_TELLS`]. Nothing when `owner` does not hold it any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettleEvent {
    pub id: i64,
    pub owner: String,
    pub error: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSettled;
