//! Named locks and notes, for orchestrators outside and for our own. Each is a conditional write: whoever comes second is
//! told so.

use std::time::Duration;

use super::pool::{Capture, Captured};
use crate::crawl::{Candidate, Execution, Tried};
use crate::state::ExecutionStatus;
use crate::time::Ts;

/// Notes in one [`AddCandidates`], and records in one [`ClaimCandidates`], at most.
pub const MAX_CANDIDATES: usize = 1_000;

/// Asks for the lock of a workflow (CRAWL-110..113). Executions of it that are not alive ([`crate::crawl::is_alive`]) become
/// `timeout` first. Repeated with the same id while that one is running, the answer is the same; an id that was used otherwise
/// is `Refused`.
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
    /// Somebody else has it.
    Held(Execution),
}

/// A sign of life (CRAWL-114..116): renews the lock and `locked_at` of every record that it still holds. One that is not
/// alive any more becomes `timeout`, and is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeepExecution {
    /// `None`: of any; else one of another project is not there.
    pub project_key: Option<String>,
    pub execution_id: String,
    /// `None`: as they are.
    pub items_processed: Option<u64>,
    pub items_failed: Option<u64>,
    pub timeout: Duration,
}

/// Gives the lock back as `completed` or `failed`; another status is `Refused`. One that is not alive any more becomes `timeout`, and is lost. One that
/// has ended with the same status already is kept, and nothing is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndExecution {
    /// `None`: of any; else one of another project is not there.
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

/// Adds notes as `pending`, at most [`MAX_CANDIDATES`]; those that are known stay as they are, but a `pending` one gets the
/// new tokens, if there are any. A note that is named twice is known the second time.
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

/// Locks `pending` notes of its project for a live execution, the oldest first, at most [`MAX_CANDIDATES`] (CRAWL-117..122).
/// One that is not alive any more becomes `timeout`, and is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimCandidates {
    /// `None`: of any; else one of another project is not there.
    pub project_key: Option<String>,
    pub execution_id: String,
    pub limit: u32,
    /// `None`: of any.
    pub platform: Option<String>,
    pub timeout: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CandidatesClaimed {
    Claimed(Vec<Candidate>),
    Lost(Execution),
    Unknown,
}

/// A note could not be fetched (CRAWL-37, 38). Only for whoever holds it: otherwise nothing is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailCandidate {
    pub project_key: String,
    pub execution_id: String,
    pub platform: String,
    pub note_id: String,
    pub error_code: String,
    pub tried: Tried,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CandidateFailed {
    Failed(Box<Candidate>),
    /// It is not held by this execution; by whom, if by any.
    NotHeld(Option<String>),
    Unknown,
}

/// Makes `failed` notes `pending` again, as if never tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequeueCandidates {
    pub project_key: String,
    pub platform: String,
    /// One, or all of a keyword, or all.
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
/// The note is an item of kind and scope `note`, keyed by [`crate::crawl::idempotency_key`]; what later steps need of it is
/// in `item_note`. No run has made it: run and batch are 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteNote {
    pub project_key: String,
    pub platform: String,
    pub note: NewNote,
    pub tried: Tried,
    /// URLs for the pool, where somebody wants them.
    pub capture: Option<Capture>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewNote {
    pub note_id: String,
    /// `None`: the candidate's.
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
    /// Of the item.
    pub id: i64,
    pub created: bool,
    pub captured: Captured,
}

/// Takes back what the dead hold (CRAWL-130..132): executions that are not alive become `timeout`; records that were locked
/// for as long follow [`crate::crawl::after_failure`]; cookies whose cooling has ended become `active`.
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
