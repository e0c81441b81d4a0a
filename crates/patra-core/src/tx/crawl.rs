//! Named locks and notes, for external orchestrators and for our own. Each operation is a conditional write: the
//! second caller is refused.

use std::time::Duration;

use super::pool::{Capture, Captured};
use crate::crawl::{CandidateAttempt, CrawlCandidate, Execution};
use crate::state::ExecutionStatus;
use crate::time::Ts;

/// Maximum notes in one [`AddCandidates`], and records in one [`ClaimCandidates`].
pub const MAX_CANDIDATES: usize = 1_000;

/// Requests the lock of a workflow (CRAWL-110..113). Executions of it that are not alive ([`crate::crawl::is_alive`])
/// become `timeout` first. Repeated with the same id while that one is running, the result is the same; an id that
/// was used otherwise is `Refused`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcquireExecution {
    pub project_key: String,
    pub workflow_name: String,
    /// Unique.
    pub execution_id: String,
    pub timeout: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExecutionAcquired {
    Granted(Execution),
    /// Another execution holds the lock.
    Held(Execution),
}

/// Renews a lock (CRAWL-114..116), and `locked_at` of every record that it still holds. An execution that is not
/// alive any more becomes `timeout`, and the lock is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeepExecution {
    /// Only an execution of this project; `None` for any.
    pub project_key: Option<String>,
    pub execution_id: String,
    /// `None` leaves the stored counts.
    pub items_processed: Option<u64>,
    pub items_failed: Option<u64>,
    pub timeout: Duration,
}

/// Releases the lock as `completed` or `failed`; another status is `Refused`. An execution that is not alive any more
/// becomes `timeout`, and the lock is lost. One that has already ended with the same status stays, and nothing is
/// written.
///
/// Frees the records that the execution still holds, by [`crate::crawl::after_release`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndExecution {
    /// Only an execution of this project; `None` for any.
    pub project_key: Option<String>,
    pub execution_id: String,
    pub status: ExecutionStatus,
    pub items_processed: Option<u64>,
    pub items_failed: Option<u64>,
    pub timeout: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExecutionKept {
    Kept(Execution),
    Lost(Execution),
    Unknown,
}

/// Adds notes as `pending`, at most [`MAX_CANDIDATES`]. Known notes stay as they are, except that a `pending` one
/// takes the new tokens, if there are any. A note that is listed twice is known the second time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddCandidates {
    pub project_key: String,
    pub platform: String,
    pub candidates: Vec<NewCandidate>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewCandidate {
    pub note_id: String,
    pub note_url: String,
    pub source_keyword: Option<String>,
    /// A JSON object, or the same sealed; `{}` for none.
    pub tokens: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CandidatesAdded {
    pub created: u64,
    pub existing: u64,
}

/// Locks `pending` notes of its project for a live execution, oldest first, at most [`MAX_CANDIDATES`]
/// (CRAWL-117..122). An execution that is not alive any more becomes `timeout`, and the lock is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimCandidates {
    /// Only an execution of this project; `None` for any.
    pub project_key: Option<String>,
    pub execution_id: String,
    pub limit: u32,
    /// `None` for any platform.
    pub platform: Option<String>,
    pub timeout: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CandidatesClaimed {
    Claimed(Vec<CrawlCandidate>),
    Lost(Execution),
    Unknown,
}

/// Records that a note could not be fetched (CRAWL-37, 38). Written only when the caller holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailCandidate {
    pub project_key: String,
    pub execution_id: String,
    pub platform: String,
    pub note_id: String,
    pub error_code: String,
    pub attempt: CandidateAttempt,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CandidateFailed {
    Failed(Box<CrawlCandidate>),
    /// This execution does not hold the note; the holder, if there is one.
    NotHeld(Option<String>),
    Unknown,
}

/// Makes `failed` notes `pending` again, with no attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequeueCandidates {
    pub project_key: String,
    pub platform: String,
    /// One note, all of a keyword, or all.
    pub note_id: Option<String>,
    pub source_keyword: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CandidatesRequeued {
    pub requeued: u64,
}

/// Stores a note once, and makes its candidate `collected`, whoever holds it, whether or not the note was known
/// (CRAWL-123..128). A candidate that was `collected` stays as it is.
///
/// The note is an item of kind and scope `note`, keyed by [`crate::crawl::idempotency_key`]; the fields for later
/// steps are in `item_note`. It belongs to no run: run and batch are 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteNote {
    pub project_key: String,
    pub platform: String,
    pub note: NewNote,
    pub attempt: CandidateAttempt,
    /// URLs for the pool, where capture is enabled.
    pub capture: Option<Capture>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewNote {
    pub note_id: String,
    /// `None`: the candidate's URL.
    pub note_url: Option<String>,
    /// The common fields, as a JSON object: `title`, `content`, `author`, `published_at`.
    pub fields: String,
    /// The whole result, as JSON.
    pub payload: String,
    /// [`crate::hash::content_hash`] of the payload.
    pub content_hash: [u8; 16],
    pub published_at: Option<Ts>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoteWritten {
    /// Id of the item.
    pub id: i64,
    pub created: bool,
    pub captured: Captured,
}

/// Releases locks whose holder is dead (CRAWL-130..132): executions that are not alive become `timeout`; records that
/// were locked for as long follow [`crate::crawl::after_failure`]; cookies whose cooling has ended become `active`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recover {
    pub timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Recovered {
    pub executions_timed_out: u64,
    pub records_requeued: u64,
    pub records_failed: u64,
    pub cookies_reactivated: u64,
}
