//! Chores: jobs of the ledger that need no far side and no plan, such as extracting URLs from documents. They are rows of
//! `ing_schedule_instance` under the provenance [`CHORES`], which no planner takes.

use std::time::Duration;

use crate::id::{Fence, InstanceId};

/// The provenance of chores.
pub const CHORES: &str = "resource_pool";

/// Puts a chore into the ledger: REQUESTED, type API, operation HARVEST, endpoint = `job_type`. The same `public_id` again is
/// the same chore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskChore {
    pub public_id: String,
    pub project_key: String,
    pub job_type: String,
    /// JSON, an object.
    pub params: String,
    pub request_id: Option<String>,
}

/// Leases the oldest chore in REQUESTED whose lease is free or expired. The fence rises by one; `started_at` is set the first
/// time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeChore {
    pub owner: String,
    pub lease: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChoreTaken {
    pub instance: InstanceId,
    pub fence: Fence,
    pub public_id: String,
    pub project_key: String,
    pub job_type: String,
    pub params: String,
}

/// Extends the lease on a chore, or ends it: `done` is the result (FINISHED, `result` set) or an error (FAILED,
/// `record_remarks` = `{"error": …}`), either with `finished_at`. `Fenced` when the lease is gone or the chore is not REQUESTED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeepChore {
    pub instance: InstanceId,
    pub fence: Fence,
    pub lease: Duration,
    pub done: Option<Result<String, String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChoreKept;
