//! The queue: claiming, renewing and sweeping leases. All times are the database's.

use std::time::Duration;

use crate::id::{CredentialId, CursorId, Fence, InstanceId, PlanId, SliceId, SourceId, TaskId};
use crate::state::Operation;
use crate::time::Ts;
use crate::window::Window;

use super::plan::Inventory;

/// Leases up to `limit` tasks. Each becomes DISPATCHED under `owner` until now + `lease`; its fence and its attempts rise by
/// one. The attempt is counted here, not when it fails, so that a task which kills its process is counted too.
///
/// Polls are not among them, see [`ClaimPolls`](super::ClaimPolls). A task may be leased when it is QUEUED, its `scheduled_at` has come, no PAUSE or BREAK holds it (see
/// [`Hold`](super::Hold)) and its partition (provenance, endpoint, operation) has room. Its turn says so: how many tasks of
/// the partition are DISPATCHED or EXECUTING, whoever holds them, plus how many of those that could be leased too stand
/// before it, by `priority, scheduled_at, id`. The turn must be less than its own `c_max`, and less than the partition's entry
/// in `caps` where there is one.
///
/// The order is `priority`; then the turn, so that no partition waits for another (ING-9.7-01); then `scheduled_at, id`. With
/// `upside_down` the priorities go the other way round, all else equal: the share of the last (G-21).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub owner: String,
    pub limit: u32,
    pub lease: Duration,
    /// Partitions that take less now than they may.
    pub caps: Vec<(Inventory, u32)>,
    pub upside_down: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claimed {
    /// In queue order.
    pub leases: Vec<Lease>,
    pub now: Ts,
}

/// A leased task with all that a run must know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    pub task: TaskId,
    pub fence: Fence,
    pub until: Ts,
    /// Claims since the last committed batch, this one included.
    pub attempts: u32,
    pub lineage: Lineage,
    pub cursor: CursorId,
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation: Operation,
    pub expr_hash: String,
    /// `None` for a segment of ids.
    pub window: Option<Window>,
    /// Normalised execution parameters, JSON; page ranges and segments stand there.
    pub params: String,
    /// The credential that the task was planned with (G-15).
    pub credential: Option<CredentialId>,
    /// It is a poll of this source.
    pub source: Option<SourceId>,
    pub priority: i32,
    /// Since when it could have been leased.
    pub scheduled_at: Ts,
}

impl Lease {
    /// The partition that it belongs to.
    pub fn inventory(&self) -> Inventory {
        Inventory {
            provenance_code: self.provenance_code.clone(),
            endpoint_name: self.endpoint_name.clone(),
            operation: self.operation,
        }
    }
}

/// Where a task comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lineage {
    pub instance: InstanceId,
    pub plan: PlanId,
    pub slice: SliceId,
}

/// What every write of a run carries.
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
    /// The ones that were extended, sorted by task. What is missing is lost.
    pub held: Vec<LeaseRef>,
    /// Those of them that a PAUSE or BREAK holds now: to be given back at the next batch border.
    pub paused: Vec<LeaseRef>,
    pub now: Ts,
}

/// Takes back up to `limit` DISPATCHED or EXECUTING tasks whose lease has expired, or, with `everyone`, all of them: the
/// start of the only process on an embedded database, where every other owner is known to be dead. With `everyone` the
/// leases on triggers that wait for planning and on the refresh of tokens are dropped too.
///
/// The orphan run becomes FAILED with reason `lease_expired`. The task goes back to QUEUED, or becomes FAILED when its
/// attempts have reached `max_attempts`. One guarded statement decides, so a task that finished meanwhile stays finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sweep {
    pub limit: u32,
    pub max_attempts: u32,
    pub everyone: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swept {
    /// Sorted by id.
    pub requeued: Vec<TaskId>,
    pub failed: Vec<TaskId>,
    pub now: Ts,
}
