//! Background jobs: jobs that need no upstream and no plan, such as extracting URLs from documents. They are rows of
//! `ing_schedule_instance` under the provenance [`BACKGROUND_JOBS`], which no planner claims.

use std::time::Duration;

use crate::id::{Fence, JobId};

/// The provenance of background jobs.
pub const BACKGROUND_JOBS: &str = "resource_pool";

/// Requests a background job: REQUESTED, type API, operation HARVEST, endpoint = `job_type`. The same `public_id`
/// again is the same job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestBackgroundJob {
    pub public_id: String,
    pub project_key: String,
    pub job_type: String,
    /// JSON, an object.
    pub params: String,
    pub request_id: Option<String>,
}

/// Leases the oldest background job in REQUESTED whose lease is free or expired. The fence rises by one; `started_at`
/// is set the first time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimBackgroundJob {
    pub owner: String,
    pub lease: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedBackgroundJob {
    pub job: JobId,
    pub fence: Fence,
    pub public_id: String,
    pub project_key: String,
    pub job_type: String,
    pub params: String,
}

/// Renews the lease of a background job, or ends the job: `done` is the result (FINISHED, `result` set) or an error
/// (FAILED, `record_remarks` = `{"error": …}`), either with `finished_at`. `Fenced` when the lease is gone or the job
/// is not REQUESTED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateBackgroundJob {
    pub job: JobId,
    pub fence: Fence,
    pub lease: Duration,
    pub done: Option<Result<String, String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackgroundJobUpdated;
