//! Operations on work that is planned or in progress: pause, resume, cancel. Runs themselves set the halt (BREAK) and
//! the advisory pause (ING-5.9, ING-12.2).

use std::fmt;
use std::time::Duration;

use serde_json::json;

use crate::error::{Code, Fault, Level};
use crate::id::{CredentialId, PauseId, PlanId, SliceId, TaskId};
use crate::state::{Operation, PauseKind};

/// The work that a pause covers: all work that matches every field that is set. At least one is set.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PauseSubject {
    pub provenance_code: Option<String>,
    pub endpoint_name: Option<String>,
    pub operation: Option<Operation>,
    pub credential: Option<CredentialId>,
    pub plan: Option<PlanId>,
    pub slice: Option<SliceId>,
    pub task: Option<TaskId>,
}

impl PauseSubject {
    pub fn source(provenance_code: &str) -> PauseSubject {
        PauseSubject { provenance_code: Some(provenance_code.to_owned()), ..PauseSubject::default() }
    }

    pub fn endpoint(provenance_code: &str, endpoint_name: &str) -> PauseSubject {
        PauseSubject { endpoint_name: Some(endpoint_name.to_owned()), ..PauseSubject::source(provenance_code) }
    }

    /// Why stores refuse this subject; `None` when it is valid.
    pub fn invalid_reason(&self) -> Option<&'static str> {
        if *self == PauseSubject::default() {
            return Some("a pause must name what it covers");
        }
        let named = self.endpoint_name.is_some() || self.operation.is_some();
        (named && self.provenance_code.is_none()).then_some("an endpoint or operation must name its provenance")
    }

    /// Whether its provenance, endpoint and operation, as far as they are set, are these. Its other fields do not count.
    pub fn covers(&self, provenance_code: &str, endpoint_name: &str, operation: Operation) -> bool {
        self.provenance_code.as_ref().is_none_or(|code| code == provenance_code)
            && self.endpoint_name.as_ref().is_none_or(|name| name == endpoint_name)
            && self.operation.is_none_or(|own| own == operation)
    }

    /// The subject as `key=value` words: the key of a pause while it lasts.
    pub fn to_text(&self) -> String {
        let mut words = Vec::new();
        let mut word = |name: &str, value: Option<String>| words.extend(value.map(|value| format!("{name}={value}")));
        word("source", self.provenance_code.clone());
        word("endpoint", self.endpoint_name.clone());
        word("operation", self.operation.map(|operation| operation.as_str().to_owned()));
        word("credential", self.credential.map(|id| id.to_string()));
        word("plan", self.plan.map(|id| id.to_string()));
        word("slice", self.slice.map(|id| id.to_string()));
        word("task", self.task.map(|id| id.to_string()));
        words.join(" ")
    }
}

impl fmt::Display for PauseSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// How long an ADVISORY pause lasts at most. The next job is then a try, and sets another pause if it is refused
/// again.
pub const ADVISORY_TTL: Duration = Duration::from_secs(30 * 60);

/// Pauses work. A subject has at most one pause of a kind at a time: repeating the operation changes nothing.
/// `Refused` with [`PauseSubject::invalid_reason`]. [`ClaimJob`](super::ClaimJob) ends the ADVISORY ones that are as
/// old as [`ADVISORY_TTL`].
///
/// While a pause of any kind lasts, a job is not claimed when its provenance, endpoint and operation are covered and
/// the subject names nothing else (a job has no plan, task or credential yet). While a PAUSE or BREAK lasts, a task
/// is not claimed, and [`Renewed`](super::Renewed) asks its executor to return it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PauseWork {
    pub subject: PauseSubject,
    pub kind: PauseKind,
    /// A sentence for the person who looks at it.
    pub reason: String,
    /// A person, the name of a key, or the task whose run halted the work.
    pub by: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkPaused {
    pub pause: PauseId,
    pub existed: bool,
}

/// Ends pauses: the one with this id, or all on exactly this subject. The rows stay, with who ended them and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResumeWork {
    pub target: PauseSelector,
    pub by: String,
}

impl ResumeWork {
    /// Ended an advisory pause: a task of the partition succeeded.
    pub const BY_SUCCESS: &str = "a task that succeeded";
    /// Ended an advisory pause: another manifest of the provenance was applied.
    pub const BY_MANIFEST: &str = "another manifest";
    /// Ended an advisory pause: it reached [`ADVISORY_TTL`].
    pub const BY_TIME: &str = "its time was over";
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PauseSelector {
    Id(PauseId),
    On(PauseSubject),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkResumed {
    pub resumed: u32,
}

/// Cancels work. Cancelling work that has ended, or does not exist, changes nothing; the counts say so.
///
/// Cancelling a job cancels all jobs made from it (those whose parent or root it is): those that are REQUESTED become
/// CANCELLED, their lease is released, [`CancelWork::remarks`] goes to `record_remarks`; and all their plans are
/// cancelled.
///
/// A plan becomes CANCELLED, with its PENDING and READY slices and its tasks, unless it is FAILED, CANCELLED, or
/// READY with all tasks ended. If it was PARTIAL its job is cancelled too, or it would be planned again at once. A
/// slice that is PENDING, or READY with a task that has not ended, becomes CANCELLED, with its tasks.
///
/// Tasks that are QUEUED, DISPATCHED or EXECUTING become CANCELLED: lease columns cleared, `finished_at` set, `error`
/// = [`CancelWork::fault`]. A run that is RUNNING becomes CANCELLED, with the same error and end. Its executor finds
/// the fence gone at the next write. Cancelled windows are not covered: the next job plans them again (G-04).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CancelWork {
    pub target: CancelSubject,
    pub reason: String,
    pub by: String,
}

impl CancelWork {
    /// The error of every task and run that was cancelled.
    pub fn fault(&self) -> Fault {
        Fault::new(Code::TaskConflict, Level::L2, self.sentence())
    }

    /// `record_remarks` of a cancelled job.
    pub fn remarks(&self) -> String {
        json!({ "remark": self.sentence() }).to_string()
    }

    fn sentence(&self) -> String {
        format!("cancelled by {}: {}", self.by, self.reason)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CancelSubject {
    /// By its public id.
    Job(String),
    Plan(PlanId),
    Slice(SliceId),
    Task(TaskId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkCancelled {
    /// The target exists.
    pub found: bool,
    pub jobs: u32,
    pub plans: u32,
    pub slices: u32,
    pub tasks: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_subject_reads_as_words_and_must_not_be_empty() {
        assert!(PauseSubject::default().invalid_reason().is_some());
        let loose = PauseSubject { operation: Some(Operation::Update), ..PauseSubject::default() };
        assert!(loose.invalid_reason().is_some());
        let subject = PauseSubject { operation: Some(Operation::Harvest), ..PauseSubject::endpoint("p", "e") };
        assert_eq!(subject.invalid_reason(), None);
        assert_eq!(subject.to_string(), "source=p endpoint=e operation=HARVEST");
        assert_eq!(PauseSubject { task: Some(TaskId(7)), ..PauseSubject::default() }.to_string(), "task=7");
    }
}
