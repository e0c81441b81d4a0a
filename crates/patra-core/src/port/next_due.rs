//! When work becomes due, for parts of the engine that have nothing to do now.

use crate::time::Ts;

/// For each part, the earliest time at which it may find work; a time that has passed means now. `None`: nothing
/// waits for this part.
///
/// Pauses, C_max and other processes are not considered, so a part may find nothing at that time. Before that time it
/// finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextDue {
    pub now: Ts,
    /// A schedule becomes due.
    pub schedule: Option<Ts>,
    /// A job may be claimed: it is due, and no planner holds it. Or an advisory pause expires.
    pub job: Option<Ts>,
    pub background_job: Option<Ts>,
    /// A task other than a poll may be claimed.
    pub task: Option<Ts>,
    pub poll: Option<Ts>,
    /// The lease of a task or poll expires.
    pub lease: Option<Ts>,
}
