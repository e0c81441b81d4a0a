//! A trigger that becomes one trigger per partition, and the parent records that name partitions.

use std::time::Duration;

use serde_json::json;

use crate::hash::digest;
use crate::id::{Fence, InstanceId};
use crate::params::{self, Params};

/// Most partitions that one trigger makes.
pub const MAX_PARTITIONS: u32 = 100_000;

/// Most triggers that one [`FanOut`] makes.
pub const MAX_CHILDREN: usize = 500;

/// So many children may wait for planning; while they do, their trigger makes no more.
pub const MAX_WAITING: u32 = 2_000;

/// Most records that one [`ReadParents`] gives.
pub const MAX_PARENTS: u32 = 500;

/// Makes the next children of a trigger.
///
/// In one transaction: the trigger must be REQUESTED and leased under `fence` (else `Fenced`). Each child is inserted
/// unless its `public_id` exists: REQUESTED, with schedule, type, project, provenance, endpoint, operation, window,
/// priority and overrides of the trigger, with `parent_id` = the trigger and `root_id` = the trigger's root, or itself.
/// More than `limit` children in all are `Refused`. `place` is kept for who takes the trigger next. With `complete` the
/// trigger becomes PLANNED with [`FanOut::remarks`]; without, it stays REQUESTED, its lease given back, `not_before` =
/// now, or now + `wait` when [`MAX_WAITING`] or more of its children are REQUESTED.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FanOut {
    pub instance: InstanceId,
    pub fence: Fence,
    /// At most [`MAX_CHILDREN`], one per public id.
    pub children: Vec<Child>,
    /// How far the partitions have been gone through, as JSON; whoever enumerates them writes and reads it.
    pub place: String,
    /// Values that name no partition because they do not fit, all pages together.
    pub skipped: u32,
    pub complete: bool,
    pub limit: u32,
    pub wait: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Child {
    pub public_id: String,
    /// Canonical JSON, see [`crate::params`].
    pub params: String,
}

impl Child {
    /// The child of a trigger for one partition: the same partition is the same child.
    pub fn of(parent: &str, partition: &Params) -> Child {
        let params = params::to_text(partition);
        let hash = digest(&["partition", &params]);
        // Past the version; 80 bits tell 100,000 partitions apart.
        Child { public_id: format!("{parent}/{}", &hash[3..23]), params }
    }
}

impl FanOut {
    /// `record_remarks` of a trigger that has made all its children.
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

    /// Why a trigger with this many children is refused.
    pub fn too_many(&self) -> String {
        format!("more than {} partitions: bind some of them with params, or narrow the list", self.limit)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FannedOut {
    pub created: u32,
    /// Those that were there already.
    pub existing: u32,
    /// All of the trigger's, these included.
    pub children: u32,
}

/// Records of an endpoint by key, from the one behind `after` on, at most `limit` and at most [`MAX_PARENTS`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadParents {
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub dedup_scope: String,
    pub after: Option<String>,
    pub limit: u32,
    /// Whether the payload is needed; without it, it stays empty.
    pub payload: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parent {
    pub key: String,
    pub payload: String,
    /// `ing_task.params` of the task that stored the record last: they say of which partition it is.
    pub task_params: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_one_child_of_its_trigger() {
        let partition = |user: &str| Params::from([("user".into(), user.into())]);
        let child = Child::of("run-1", &partition("7"));
        assert_eq!(child.params, r#"{"user":"7"}"#);
        assert_eq!(child.public_id.len(), "run-1/".len() + 20);
        assert_eq!(child, Child::of("run-1", &partition("7")));
        assert_ne!(child.public_id, Child::of("run-1", &partition("8")).public_id);
        assert_ne!(child.public_id, Child::of("run-2", &partition("7")).public_id);
    }

    #[test]
    fn the_remark_counts_what_was_made_and_what_was_left_out() {
        let fan = |skipped| FanOut {
            instance: InstanceId(1),
            fence: Fence(1),
            children: Vec::new(),
            place: "{}".into(),
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
