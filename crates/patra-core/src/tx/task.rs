//! The queue: claiming, renewing and sweeping leases. All times are the database's.

use std::time::Duration;

use crate::id::{CredentialId, CursorId, Fence, JobId, PlanId, SliceId, SourceId, TaskId};
use crate::state::Operation;
use crate::time::Ts;
use crate::window::Window;

use super::plan::PartitionKey;

/// Leases up to `limit` tasks. Each becomes DISPATCHED under `owner` until now + `lease`; its fence and its attempts
/// rise by one. The attempt is counted here, not when it fails, so that a task which kills its process is counted
/// too. [`Sweep`] takes back the attempts of tasks that only lost their process.
///
/// Polls are excluded, see [`ClaimPolls`](super::ClaimPolls). A task may be leased when it is QUEUED, its
/// `scheduled_at` has come, no PAUSE or BREAK covers it (see [`PauseWork`](super::PauseWork)) and its partition
/// (provenance, endpoint, operation) has room. Its rank decides: the number of the partition's tasks that are
/// DISPATCHED or EXECUTING, whoever holds them, plus the number of leasable tasks before it, by `priority,
/// scheduled_at, id`. The rank must be less than its own `c_max`, and less than the partition's entry in `caps` where
/// there is one.
///
/// With `only`, tasks of other partitions are not leased: they wait for a process that takes them.
///
/// The order is `priority`; then the rank, so that no partition waits for another (ING-9.7-01); then `scheduled_at,
/// id`. With `reverse_priority` the order of the priorities is reversed, all else equal, so that the last ones get a
/// share (G-21).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimTasks {
    pub owner: String,
    pub limit: u32,
    pub lease: Duration,
    /// Partitions that run fewer tasks for now than their `c_max`.
    pub caps: Vec<(PartitionKey, u32)>,
    pub reverse_priority: bool,
    pub only: Option<PartitionKey>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedTasks {
    /// In queue order.
    pub leases: Vec<Lease>,
    pub now: Ts,
}

/// A leased task with everything that a run needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    pub task: TaskId,
    pub fence: Fence,
    pub until: Ts,
    /// Claims since the last committed batch, this one included.
    pub attempts: u32,
    /// The task was running when its process died, and has committed nothing since.
    pub suspect: bool,
    pub lineage: TaskLineage,
    pub cursor: CursorId,
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation: Operation,
    pub expr_hash: String,
    /// `None` for a segment of ids.
    pub window: Option<Window>,
    /// Normalised execution parameters, JSON, including page ranges and segments.
    pub params: String,
    /// The credential that the task was planned with (G-15).
    pub credential: Option<CredentialId>,
    /// Set for a poll of this source.
    pub source: Option<SourceId>,
    pub priority: i32,
    /// Since when the task could have been leased.
    pub scheduled_at: Ts,
}

impl Lease {
    /// The partition that the task belongs to.
    pub fn inventory(&self) -> PartitionKey {
        PartitionKey {
            provenance_code: self.provenance_code.clone(),
            endpoint_name: self.endpoint_name.clone(),
            operation: self.operation,
        }
    }
}

/// Job, plan and slice of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskLineage {
    pub job: JobId,
    pub plan: PlanId,
    pub slice: SliceId,
}

/// Identifies the lease in every write of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeaseRef {
    pub task: TaskId,
    pub fence: Fence,
}

impl From<&Lease> for LeaseRef {
    fn from(lease: &Lease) -> LeaseRef {
        LeaseRef { task: lease.task, fence: lease.fence }
    }
}

/// Extends the leases that still stand (DISPATCHED or EXECUTING, same owner and fence, not expired) to now + `lease`
/// and counts the renewal in `lease_count`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renew {
    pub owner: String,
    pub leases: Vec<LeaseRef>,
    pub lease: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renewed {
    /// Leases that were extended, sorted by task. A missing one is lost.
    pub held: Vec<LeaseRef>,
    /// Extended leases that a PAUSE or BREAK covers now: to be returned at the next batch boundary.
    pub paused: Vec<LeaseRef>,
    pub now: Ts,
}

/// Takes back up to `limit` DISPATCHED or EXECUTING tasks whose lease has expired, or, with `all_owners`, all of
/// them: at the start of the only process on an embedded database every other owner is known to be dead. With
/// `all_owners` the leases on jobs that wait for planning, on the refresh of tokens and on outbox events are dropped
/// too.
///
/// Before that, a sweep notices that the store's clock was set back since the last one, and moves what waits with it
/// ([`ClockStep`](crate::ClockStep)): due times of tasks, jobs, schedules, sources and events, leases, and times since
/// which something is so. A store of one process may do this as soon as the clock steps, in both directions.
///
/// The orphan run becomes FAILED with reason `lease_expired`. A process that dies takes all its tasks with it, and one
/// of them at most is the cause. So an EXECUTING task becomes a suspect, and its attempt is taken back. Suspects run one
/// at a time in each process, so the attempt of one that is EXECUTING stands: the task becomes FAILED when its attempts
/// have reached `max_attempts`. A DISPATCHED task did nothing, so its attempt is taken back too. The attempt of a poll
/// always stands. A suspect is cleared by progress. Except for those that become FAILED, tasks go back to QUEUED.
///
/// One guarded statement decides, so a task that finished meanwhile stays finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sweep {
    pub limit: u32,
    pub max_attempts: u32,
    pub all_owners: bool,
    /// No lease is granted for longer. When the clock was set back, one that ends later has run out before.
    pub longest_lease: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swept {
    /// Sorted by id.
    pub requeued: Vec<TaskId>,
    pub failed: Vec<TaskId>,
    pub now: Ts,
}
