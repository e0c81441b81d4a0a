//! What people do to work that is planned or under way: hold it, let it go on, cancel it. The fuse and the advisory pause
//! are holds that runs set (ING-5.9, ING-12.2).

use std::fmt;
use std::time::Duration;

use serde_json::json;

use crate::error::{Code, Fault, Level};
use crate::id::{CredentialId, HoldId, PlanId, SliceId, TaskId};
use crate::state::{HoldKind, Operation};

/// What a hold covers: everything for which all parts that are set agree. At least one is set.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Subject {
    pub provenance_code: Option<String>,
    pub endpoint_name: Option<String>,
    pub operation: Option<Operation>,
    pub credential: Option<CredentialId>,
    pub plan: Option<PlanId>,
    pub slice: Option<SliceId>,
    pub task: Option<TaskId>,
}

impl Subject {
    pub fn source(provenance_code: &str) -> Subject {
        Subject { provenance_code: Some(provenance_code.to_owned()), ..Subject::default() }
    }

    pub fn endpoint(provenance_code: &str, endpoint_name: &str) -> Subject {
        Subject { endpoint_name: Some(endpoint_name.to_owned()), ..Subject::source(provenance_code) }
    }

    /// Why no store accepts it.
    pub fn flaw(&self) -> Option<&'static str> {
        if *self == Subject::default() {
            return Some("a hold must say what it holds");
        }
        let named = self.endpoint_name.is_some() || self.operation.is_some();
        (named && self.provenance_code.is_none()).then_some("an endpoint or operation must name its provenance")
    }

    /// One text for each, as `key=value` words: what a hold is known by while it lasts.
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

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// How long an ADVISORY hold lasts at most: then the next trigger is a try, and sets another one if it is refused again.
pub const ADVICE_LASTS: Duration = Duration::from_secs(30 * 60);

/// Stops work. One hold of a kind per subject lasts at a time: asking again changes nothing. `Refused` with
/// [`Subject::flaw`]. [`TakeTrigger`](super::TakeTrigger) ends the ADVISORY ones that are as old as
/// [`ADVICE_LASTS`].
///
/// While a hold lasts: a trigger is not taken when its provenance, endpoint and operation are covered by one that names
/// nothing else (any kind; a trigger has no plan, task or credential yet); with PAUSE and BREAK a task is not claimed, and
/// [`Renewed`](super::Renewed) tells its executor to give it back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    pub subject: Subject,
    pub kind: HoldKind,
    /// A sentence for who looks.
    pub reason: String,
    /// Who: a person, a key's name, or the task whose run blew the fuse.
    pub by: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    pub hold: HoldId,
    pub existed: bool,
}

/// Ends holds: the one with this id, or all on exactly this subject. They are kept, with who released them and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Release {
    pub which: Which,
    pub by: String,
}

impl Release {
    /// Who ends an advisory pause by itself: a task of the partition that succeeded.
    pub const BY_SUCCESS: &str = "a task that succeeded";
    /// Another manifest of the provenance.
    pub const BY_MANIFEST: &str = "another manifest";
    /// It was old enough.
    pub const BY_TIME: &str = "its time was over";
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    Hold(HoldId),
    On(Subject),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Released {
    pub released: u32,
}

/// Ends work for good. Cancelling what has ended, or is not there, changes nothing and is told by the counts.
///
/// With a trigger go all triggers made of it (those whose parent or root it is): of all these, the ones that are REQUESTED
/// become CANCELLED, lease given back, [`Cancel::remarks`] in `record_remarks`; and all their plans are cancelled. A plan
/// becomes CANCELLED unless it is FAILED, CANCELLED, or READY and all its tasks have ended, with its PENDING and READY slices and
/// its tasks; was it PARTIAL, its trigger goes with it, or it would be planned anew at once. A slice that is PENDING, or READY with
/// a task that has not ended, becomes CANCELLED, with its tasks. Tasks that are QUEUED, DISPATCHED or EXECUTING become CANCELLED: lease columns cleared, `finished_at` set, `error` =
/// [`Cancel::fault`]; a run that is RUNNING becomes CANCELLED, with the same error and end. Whoever worked on one finds its
/// fence gone at the next write. Windows that are cancelled are not covered: the next trigger plans them again (G-04).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cancel {
    pub target: Target,
    pub reason: String,
    pub by: String,
}

impl Cancel {
    /// What stands at everything that was cancelled.
    pub fn fault(&self) -> Fault {
        Fault::new(Code::TaskConflict, Level::L2, self.sentence())
    }

    /// `record_remarks` of a trigger.
    pub fn remarks(&self) -> String {
        json!({ "remark": self.sentence() }).to_string()
    }

    fn sentence(&self) -> String {
        format!("cancelled by {}: {}", self.by, self.reason)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// By its public id.
    Trigger(String),
    Plan(PlanId),
    Slice(SliceId),
    Task(TaskId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cancelled {
    /// It exists.
    pub found: bool,
    pub triggers: u32,
    pub plans: u32,
    pub slices: u32,
    pub tasks: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_reads_as_words_and_must_name_something() {
        assert!(Subject::default().flaw().is_some());
        let loose = Subject { operation: Some(Operation::Update), ..Subject::default() };
        assert!(loose.flaw().is_some());
        let subject = Subject { operation: Some(Operation::Harvest), ..Subject::endpoint("p", "e") };
        assert_eq!(subject.flaw(), None);
        assert_eq!(subject.to_string(), "source=p endpoint=e operation=HARVEST");
        assert_eq!(Subject { task: Some(TaskId(7)), ..Subject::default() }.to_string(), "task=7");
    }
}
