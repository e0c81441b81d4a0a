//! The states of plan, slice, task, run and batch, and the legal transitions (ingest.md, index B). The CHECK
//! constraints of both databases repeat the names; a test compares them.

use std::fmt;

macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $state:ident = $text:literal -> [$($next:ident),*]),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$note])* #[serde(rename = $text)] $state),* }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$state),*];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$state => $text),* }
            }

            /// The states that may follow this one.
            pub fn next(self) -> &'static [$name] {
                match self { $($name::$state => &[$($name::$next),*]),* }
            }

            pub fn may_become(self, next: $name) -> bool {
                self.next().contains(&next)
            }

            pub fn is_final(self) -> bool {
                self.next().is_empty()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownValue;
            fn from_str(text: &str) -> Result<$name, UnknownValue> {
                Self::ALL.iter().copied().find(|state| state.as_str() == text).ok_or_else(|| UnknownValue {
                    kind: stringify!($name),
                    value: text.to_owned(),
                })
            }
        }
    };
}

/// A value from a row or a request that is not in the dictionary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not a valid {kind}")]
pub struct UnknownValue {
    pub kind: &'static str,
    pub value: String,
}

states! {
    /// `ing_plan.status_code`.
    PlanStatus {
        Draft = "DRAFT" -> [Slicing, Partial, Cancelled],
        Slicing = "SLICING" -> [Ready, Partial, Failed, Cancelled],
        Ready = "READY" -> [Cancelled],
        Partial = "PARTIAL" -> [Slicing, Cancelled],
        Failed = "FAILED" -> [],
        Cancelled = "CANCELLED" -> [],
    }
}

states! {
    /// `ing_plan_slice.status_code`.
    SliceStatus {
        Pending = "PENDING" -> [Ready, Failed, Cancelled],
        Ready = "READY" -> [Partial, Cancelled],
        Partial = "PARTIAL" -> [],
        Failed = "FAILED" -> [],
        Cancelled = "CANCELLED" -> [],
    }
}

states! {
    /// `ing_task.status_code`.
    TaskStatus {
        Queued = "QUEUED" -> [Dispatched, Cancelled],
        Dispatched = "DISPATCHED" -> [Executing, Queued, Failed, Cancelled],
        Executing = "EXECUTING" -> [Succeeded, Failed, Partial, Cancelled, Queued],
        Succeeded = "SUCCEEDED" -> [],
        Failed = "FAILED" -> [],
        Partial = "PARTIAL" -> [],
        Cancelled = "CANCELLED" -> [],
    }
}

states! {
    /// `ing_task_run.status_code`.
    RunStatus {
        Planned = "PLANNED" -> [Running],
        Running = "RUNNING" -> [Succeeded, Partial, Failed, Cancelled],
        Succeeded = "SUCCEEDED" -> [],
        Partial = "PARTIAL" -> [],
        Failed = "FAILED" -> [],
        Cancelled = "CANCELLED" -> [],
    }
}

states! {
    /// `ing_task_run_batch.status_code`.
    BatchStatus {
        Planned = "PLANNED" -> [Running],
        Running = "RUNNING" -> [Succeeded, Skipped, Failed],
        Succeeded = "SUCCEEDED" -> [],
        Skipped = "SKIPPED" -> [],
        Failed = "FAILED" -> [Running],
    }
}

states! {
    /// `ing_schedule_instance.status_code`: progress of planning a job. The outcome of the work is read from its
    /// tasks.
    JobStatus {
        Requested = "REQUESTED" -> [Planned, Finished, Failed, Cancelled],
        Planned = "PLANNED" -> [],
        /// Of a background job, which has no plan.
        Finished = "FINISHED" -> [],
        Failed = "FAILED" -> [],
        Cancelled = "CANCELLED" -> [],
    }
}

states! {
    /// `source.paused_reason`: why a source is inactive (COLL-53).
    PausedReason {
        User = "user" -> [],
        Error = "error" -> [User],
        Gone = "gone" -> [User],
    }
}

states! {
    /// Origin of an interval, weakest first (COLL-20).
    IntervalFrom {
        Default = "default" -> [],
        Environment = "environment" -> [],
        Config = "config" -> [],
        Source = "source" -> [],
    }
}

states! {
    /// `operation_code`: the three ways to collect (ING-6.0-01).
    Operation {
        Harvest = "HARVEST" -> [],
        Backfill = "BACKFILL" -> [],
        Update = "UPDATE" -> [],
    }
}

impl Operation {
    /// Smaller is served first (C-01, G-19).
    pub fn priority(self) -> i32 {
        match self {
            Operation::Harvest => 100,
            Operation::Update => 200,
            Operation::Backfill => 300,
        }
    }
}

impl Operation {
    /// The direction of its cursors (C-15, C-17).
    pub fn direction(self) -> Direction {
        match self {
            Operation::Harvest | Operation::Update => Direction::Forward,
            Operation::Backfill => Direction::Backfill,
        }
    }
}

states! {
    /// `direction_code`: the direction of a cursor. With BACKFILL it is towards the past (C-15).
    Direction {
        Forward = "FORWARD" -> [],
        Backfill = "BACKFILL" -> [],
    }
}

states! {
    /// Why stored records are fetched again (ING-6.3-03).
    UpdateReason {
        /// They were not checked for long.
        Staleness = "STALENESS" -> [],
        /// The mapping rules have changed since.
        ExprChange = "EXPR_CHANGE" -> [],
        /// They were reported as wrong, by the quarantine or by a consumer.
        Signals = "SIGNALS" -> [],
    }
}

states! {
    /// `ing_hold.kind_code`: why work is paused.
    PauseKind {
        /// A person paused it: nothing is planned and nothing is claimed.
        Pause = "PAUSE" -> [],
        /// A halt: an L4 error stopped it, until a person has looked (ING-12.2-07).
        Break = "BREAK" -> [],
        /// An L2 error points at the request: nothing more is planned. Ends by itself when a task of the partition
        /// succeeds, another manifest is applied or half an hour has passed (C-40).
        Advisory = "ADVISORY" -> [],
    }
}

states! {
    /// `item_quarantine.status_code` (C-61).
    QuarantineStatus {
        Open = "OPEN" -> [Signalled, Resolved, Abandoned],
        /// A signal requests the record again.
        Signalled = "SIGNALLED" -> [Resolved, Abandoned],
        Resolved = "RESOLVED" -> [],
        Abandoned = "ABANDONED" -> [],
    }
}

states! {
    /// `ing_signal.status_code`.
    SignalStatus {
        Open = "OPEN" -> [Resolved, Abandoned],
        Resolved = "RESOLVED" -> [],
        Abandoned = "ABANDONED" -> [],
    }
}

states! {
    /// `trigger_type_code`: what requested the job.
    TriggerType {
        Schedule = "SCHEDULE" -> [],
        Manual = "MANUAL" -> [],
        Api = "API" -> [],
    }
}

states! {
    /// `reg_prov_credential.type_code`: how requests to an upstream are authenticated (ING-4.2-01, MAP-X-20).
    AuthType {
        ApiKey = "API_KEY" -> [],
        Bearer = "BEARER" -> [],
        Basic = "BASIC" -> [],
        OAuth2 = "OAUTH2" -> [],
        Cookie = "COOKIE" -> [],
        Session = "SESSION" -> [],
        Custom = "CUSTOM" -> [],
    }
}

states! {
    /// `reg_prov_credential.status_code`.
    CredentialStatus {
        Active = "ACTIVE" -> [Revoked],
        Revoked = "REVOKED" -> [],
    }
}

states! {
    /// `ing_credential_state.status_code`: whether the upstream accepted the credential the last time.
    TokenStatus {
        Active = "ACTIVE" -> [Rejected],
        Rejected = "REJECTED" -> [Active],
    }
}

states! {
    /// `ing_credential_state.cookie_code`: status of a cookie's account (CRAWL-05). The program itself only ends
    /// cooling.
    CookieStatus {
        Active = "active" -> [Cooling, Invalid],
        Cooling = "cooling" -> [Active, Invalid, Banned],
        Invalid = "invalid" -> [],
        Banned = "banned" -> [],
    }
}

states! {
    /// `ing_execution.status`: status of a named lock (CRAWL-46).
    ExecutionStatus {
        Running = "running" -> [Completed, Failed, Timeout],
        Completed = "completed" -> [],
        Failed = "failed" -> [],
        Timeout = "timeout" -> [],
    }
}

states! {
    /// `crawl_candidate.status` (CRAWL-29). A person may requeue a failed one.
    CandidateStatus {
        Pending = "pending" -> [Processing, Collected],
        Processing = "processing" -> [Pending, Collected, Failed],
        Collected = "collected" -> [],
        Failed = "failed" -> [Pending, Collected],
    }
}

states! {
    /// `alert_state.level` (CRAWL-156..158).
    AlertLevel {
        P0 = "P0" -> [],
        P1 = "P1" -> [],
        P2 = "P2" -> [],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-5.3-10, ING-5.3-17, ING-7.9-01, ING-7.9-02, ING-7.9-04, ING-7.9-05, ING-7.9-06
    // covers: ING-7.2-04, ING-13.3-09
    #[test]
    fn only_the_settled_transitions_are_legal() {
        assert!(PlanStatus::Draft.may_become(PlanStatus::Slicing));
        for end in [PlanStatus::Ready, PlanStatus::Partial, PlanStatus::Failed] {
            assert!(PlanStatus::Slicing.may_become(end));
        }
        assert!(PlanStatus::Partial.may_become(PlanStatus::Slicing));
        assert!(!PlanStatus::Ready.may_become(PlanStatus::Slicing));
        assert!(SliceStatus::Pending.may_become(SliceStatus::Ready));
        assert!(SliceStatus::Pending.may_become(SliceStatus::Failed));
        assert!(SliceStatus::Ready.may_become(SliceStatus::Partial));
        assert!(TaskStatus::Executing.may_become(TaskStatus::Queued));
        assert!(!TaskStatus::Succeeded.may_become(TaskStatus::Queued));
        assert!(RunStatus::Running.may_become(RunStatus::Partial));
        assert!(BatchStatus::Failed.may_become(BatchStatus::Running));
        assert!(TaskStatus::Cancelled.is_final() && !TaskStatus::Queued.is_final());
    }

    #[test]
    fn every_state_reads_back_from_its_name() {
        for state in TaskStatus::ALL {
            assert_eq!(state.as_str().parse(), Ok(*state));
        }
        assert_eq!("DONE".parse::<TaskStatus>().unwrap_err().to_string(), "`DONE` is not a valid TaskStatus");
    }

    // covers: ING-8.3-03, ING-4.15-04
    #[test]
    fn harvest_goes_before_update_and_update_before_backfill() {
        assert!(Operation::Harvest.priority() < Operation::Update.priority());
        assert!(Operation::Update.priority() < Operation::Backfill.priority());
    }
}
