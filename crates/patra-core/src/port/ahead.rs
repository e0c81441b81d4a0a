//! What lies ahead: when there will be something to do, for parts that have nothing to do now.

use crate::time::Ts;

/// For each part the first moment at which it may find something; one that has passed: it may find it now. `None`: whatever
/// waits, it is nothing for this part.
///
/// It may find nothing then: holds, C_max and what others do are not looked at. Before then it finds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahead {
    pub now: Ts,
    /// A schedule falls due.
    pub schedule: Option<Ts>,
    /// A trigger may be taken: its time has come, and no planner has it. Or advice that holds triggers back gets too old.
    pub trigger: Option<Ts>,
    pub chore: Option<Ts>,
    /// A task that is no poll may be claimed.
    pub task: Option<Ts>,
    pub poll: Option<Ts>,
    /// The lease of a task or poll runs out.
    pub lease: Option<Ts>,
}
