//! Fan-out of a job into one child job per partition, and the parent records that name partitions.

use std::time::Duration;

use serde_json::json;

use crate::hash::digest;
use crate::id::{Fence, JobId};
use crate::params::{self, Params};

/// Maximum partitions of one job.
pub const MAX_PARTITIONS: u32 = 100_000;

/// Maximum child jobs of one [`FanOut`].
pub const MAX_CHILDREN: usize = 500;

/// A job creates no more children while this many of them wait for planning.
pub const MAX_WAITING: u32 = 2_000;

/// Maximum records of one [`ReadParents`].
pub const MAX_PARENTS: u32 = 500;

/// Creates the next child jobs of a job.
///
/// In one transaction: the job must be REQUESTED and leased under `fence` (else `Fenced`). Each child is inserted
/// unless its `public_id` exists: REQUESTED, with schedule, type, project, provenance, endpoint, operation, window,
/// priority and overrides of the job, with `parent_id` = the job and `root_id` = the job's root, or itself. More than
/// `limit` children in all are `Refused`. `position` is kept for the next claim of the job. With `complete` the job
/// becomes PLANNED with [`FanOut::remarks`]; without, it stays REQUESTED, its lease is released, and `not_before` =
/// now, or now + `wait` when [`MAX_WAITING`] or more of its children are REQUESTED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FanOut {
    pub job: JobId,
    pub fence: Fence,
    /// At most [`MAX_CHILDREN`], one per public id.
    pub children: Vec<ChildJob>,
    /// How far the partitions have been enumerated, as JSON; only the enumerator reads it.
    pub position: String,
    /// Values that are not valid partitions, over all pages.
    pub skipped: u32,
    pub complete: bool,
    pub limit: u32,
    pub wait: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChildJob {
    pub public_id: String,
    /// Canonical JSON, see [`crate::params`].
    pub params: String,
}

impl ChildJob {
    /// The child of a job for one partition: the same partition is the same child.
    pub fn of(parent: &str, partition: &Params) -> ChildJob {
        let params = params::to_text(partition);
        let hash = digest(&["partition", &params]);
        // Skips the version prefix; 80 bits keep 100,000 partitions apart.
        ChildJob { public_id: format!("{parent}/{}", &hash[3..23]), params }
    }
}

impl FanOut {
    /// `record_remarks` of a job that has created all its children.
    pub fn remarks(&self, children: u32) -> String {
        let mut remark = match children {
            0 => "there is no partition to read: no record of the parent names one".to_owned(),
            1 => "one partition".to_owned(),
            many => format!("{many} partitions"),
        };
        if self.skipped > 0 {
            remark.push_str(&format!("; {} values fit no partition and were left out", self.skipped));
        }
        json!({ "remark": remark, "partitions": children, "skipped": self.skipped }).to_string()
    }

    /// Why a job with this many children is refused.
    pub fn too_many(&self) -> String {
        format!("more than {} partitions: bind some of them with params, or narrow the list", self.limit)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FannedOut {
    pub created: u32,
    /// Children that existed already.
    pub existing: u32,
    /// All children of the job, including these.
    pub children: u32,
}

/// Records of an endpoint by key, starting behind `after`, at most `limit` and at most [`MAX_PARENTS`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadParents {
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub dedup_scope: String,
    pub after: Option<String>,
    pub limit: u32,
    /// Whether to return the payload; otherwise it is empty.
    pub payload: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParentRecord {
    pub key: String,
    pub payload: String,
    /// `ing_task.params` of the task that stored the record last: they name its partition.
    pub task_params: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_is_one_child_of_its_job() {
        let partition = |user: &str| Params::from([("user".into(), user.into())]);
        let child = ChildJob::of("run-1", &partition("7"));
        assert_eq!(child.params, r#"{"user":"7"}"#);
        assert_eq!(child.public_id.len(), "run-1/".len() + 20);
        assert_eq!(child, ChildJob::of("run-1", &partition("7")));
        assert_ne!(child.public_id, ChildJob::of("run-1", &partition("8")).public_id);
        assert_ne!(child.public_id, ChildJob::of("run-2", &partition("7")).public_id);
    }

    #[test]
    fn fan_out_remarks_count_children_and_skipped_values() {
        let fan = |skipped| FanOut {
            job: JobId(1),
            fence: Fence(1),
            children: Vec::new(),
            position: "{}".into(),
            skipped,
            complete: true,
            limit: 5,
            wait: Duration::ZERO,
        };
        let remark = |skipped, children| {
            let remarks: serde_json::Value = serde_json::from_str(&fan(skipped).remarks(children)).unwrap();
            remarks["remark"].as_str().unwrap().to_owned()
        };
        assert_eq!(remark(0, 12), "12 partitions");
        assert_eq!(remark(3, 1), "one partition; 3 values fit no partition and were left out");
        assert!(remark(0, 0).starts_with("there is no partition to read"));
        assert!(fan(0).too_many().starts_with("more than 5 partitions"));
    }
}
