//! The rows of the tables, in the types of the core.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use patra_core::cookie::CookieUsage;
use patra_core::crawl;
use patra_core::credential::{Binding, CredentialRuntime};
use patra_core::cursor::{CursorName, CursorValue};
use patra_core::paging::Position;
use patra_core::record::{RecordVersion, RejectedRecord};
use patra_core::source::Validators;
use patra_core::state::{
    AuthType, BatchStatus, Direction, JobStatus, Operation, PauseKind, PlanStatus, QuarantineStatus, RunStatus,
    SignalStatus, SliceStatus, TaskStatus, TriggerType, UpdateReason,
};
use patra_core::tx::{AdvanceCause, BatchStats, KeyScope, NewSlice, PauseSubject, Recurrence, RunStats, TaskLineage};
use patra_core::{
    BatchId, CredentialId, CursorId, Fault, Fence, JobId, PauseId, PlanId, RunId, SliceId, SourceId, TaskId, Ts, Window,
};

#[derive(Clone, Debug)]
pub struct Provenance {
    pub id: i64,
    pub provenance_code: String,
    pub name: String,
    pub project_key: Option<String>,
    pub document_hash: String,
    pub created_at: Ts,
    pub updated_at: Ts,
}

#[derive(Clone, Debug)]
pub struct Endpoint {
    pub id: i64,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub role: String,
    pub created_at: Ts,
}

#[derive(Clone, Debug)]
pub struct ScheduleRow {
    pub id: i64,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation: Operation,
    pub reason: Option<UpdateReason>,
    pub when: Recurrence,
    pub next_due_at: Ts,
}

/// Origin of the work, shared by all rows that come from one trigger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation: Operation,
}

#[derive(Clone, Debug)]
pub struct Instance {
    pub id: JobId,
    pub public_id: String,
    pub schedule: Option<i64>,
    /// The source that the job polls.
    pub source: Option<SourceId>,
    /// Whether the job polls many sources.
    pub scrape: bool,
    pub job_type: String,
    pub request_id: Option<String>,
    /// Result of a background job.
    pub result: Option<String>,
    pub started_at: Option<Ts>,
    pub finished_at: Option<Ts>,
    pub trigger_type: TriggerType,
    pub origin: Arc<Origin>,
    pub reason: Option<UpdateReason>,
    pub activity: Option<String>,
    pub window_from: Option<Ts>,
    pub window_to: Option<Ts>,
    pub priority: i32,
    pub params: String,
    pub overrides: String,
    pub parent: Option<JobId>,
    pub root: Option<JobId>,
    /// Position of the fan-out.
    pub place: Option<String>,
    pub status: JobStatus,
    pub not_before: Ts,
    /// Owner and end.
    pub lease: Option<(String, Ts)>,
    pub fence: Fence,
    pub remarks: Option<String>,
    pub plans: Vec<PlanId>,
    pub created_at: Ts,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub id: PlanId,
    pub instance: JobId,
    pub cursor: CursorId,
    pub origin: Arc<Origin>,
    pub window: Option<Window>,
    pub strategy: &'static str,
    pub snapshot_hash: String,
    pub status: PlanStatus,
    pub remarks: String,
    pub created_at: Ts,
}

#[derive(Clone, Debug)]
pub struct Slice {
    pub id: SliceId,
    pub plan: PlanId,
    pub origin: Arc<Origin>,
    pub what: Arc<NewSlice>,
    pub status: SliceStatus,
    pub created_at: Ts,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub id: TaskId,
    pub lineage: TaskLineage,
    pub cursor: CursorId,
    pub origin: Arc<Origin>,
    pub what: Arc<NewSlice>,
    /// Index of its partition.
    pub(super) partition: usize,
    pub credential: Option<CredentialId>,
    pub c_max: u32,
    pub status: TaskStatus,
    /// SUCCEEDED, while nothing shows that no record moved past the reader.
    pub is_unverified: bool,
    /// Whether other tasks replaced this one.
    pub replaced: bool,
    /// The task that this one redrives, and the id of that request.
    pub redrive: Option<(TaskId, String)>,
    /// The source that the task polls, and its host.
    pub poll: Option<(SourceId, String)>,
    /// The completed part of the window of an incomplete task.
    pub done: Option<Window>,
    pub items: u64,
    pub priority: i32,
    pub scheduled_at: Ts,
    /// Owner and end; exactly while DISPATCHED or EXECUTING.
    pub lease: Option<(String, Ts)>,
    pub fence: Fence,
    pub lease_count: u32,
    pub attempts: u32,
    pub suspect: bool,
    pub error: Option<Fault>,
    /// The runs of the task, oldest first.
    pub runs: Vec<RunId>,
    pub created_at: Ts,
    pub started_at: Option<Ts>,
    pub finished_at: Option<Ts>,
}

#[derive(Clone, Debug)]
pub struct Run {
    pub id: RunId,
    pub task: TaskId,
    pub attempt_no: i64,
    pub status: RunStatus,
    /// The run and batch from which the run resumed.
    pub resumed_from: Option<(RunId, u32)>,
    pub stats: Option<RunStats>,
    pub error: Option<Fault>,
    pub batches: Vec<BatchId>,
    pub created_at: Ts,
    pub finished_at: Option<Ts>,
}

#[derive(Clone, Debug)]
pub struct Batch {
    pub id: BatchId,
    pub run: RunId,
    pub task: TaskId,
    pub lineage: TaskLineage,
    pub expr_hash: String,
    pub idempotent_key: String,
    pub batch_no: u32,
    pub position: Position,
    pub next: Option<Position>,
    pub before_token: Option<String>,
    pub page_size: u32,
    pub status: BatchStatus,
    pub stats: BatchStats,
    pub request_digest: String,
    pub response_digest: String,
    pub error: Option<Fault>,
    pub created_at: Ts,
    /// Whether the row has left the ledger.
    pub archived: bool,
}

#[derive(Clone, Debug)]
pub struct Cursor {
    pub id: CursorId,
    pub name: CursorName,
    /// Start of the namespace; `None` for a cursor that counts segments.
    pub began: Option<Ts>,
    pub value: Option<CursorValue>,
    /// Value of the newest event.
    pub target: Option<CursorValue>,
    /// The run that caused the newest event.
    pub by: Option<RunId>,
    pub observed_max: Option<Ts>,
    /// Lineage of the advance that set the value.
    pub lineage: Option<EventLineage>,
    pub version: i64,
    pub epoch: i64,
    pub created_at: Ts,
    pub updated_at: Ts,
}

#[derive(Clone, Debug)]
pub struct Event {
    pub id: i64,
    pub cursor: CursorId,
    pub previous: Option<CursorValue>,
    pub value: CursorValue,
    pub observed_max: Option<Ts>,
    pub cause: Option<AdvanceCause>,
    pub lineage: Option<EventLineage>,
    pub remarks: String,
    pub created_at: Ts,
    /// Whether the row has left the table.
    pub archived: bool,
}

/// Lineage of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventLineage {
    pub of: TaskLineage,
    pub task: TaskId,
    pub run: RunId,
    pub batch_no: u32,
    pub expr_hash: String,
}

/// The part of an item's identity that is not its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemStream {
    pub project_key: String,
    pub provenance_code: String,
    pub dedup_scope: String,
}

#[derive(Clone, Debug)]
pub struct Item {
    pub id: i64,
    /// Index in `streams`.
    pub stream: usize,
    pub key: String,
    pub endpoint_name: String,
    pub kind: String,
    pub version: RecordVersion,
    /// Its mapping, and the time of the last check.
    pub generation: Arc<str>,
    pub checked_at: Ts,
    pub content_hash: [u8; 16],
    pub fields: String,
    pub payload: ByteString,
    pub run: RunId,
    pub batch_no: u32,
    pub created_at: Ts,
    pub stored_at: Ts,
    /// Time at which its content was removed.
    pub emptied_at: Option<Ts>,
    /// Time since which no list has it.
    pub missing_since: Option<Ts>,
}

/// The link of an item to a source in which it was found.
#[derive(Clone, Debug)]
pub struct Link {
    pub project_key: String,
    pub kind: String,
    pub fetched_at: Ts,
}

#[derive(Clone, Debug)]
pub struct SourceRow {
    pub id: SourceId,
    pub project_key: String,
    pub r#type: String,
    pub name: String,
    pub config: String,
    pub source_key: String,
    /// Interval of the source itself.
    pub minutes: Option<u32>,
    pub is_public: bool,
    pub is_deleted: bool,
    pub state: patra_core::source::SourceState,
    pub poll_count: i64,
    pub validators: Option<Validators>,
    pub created_at: Ts,
    pub updated_at: Ts,
}

#[derive(Clone, Debug)]
pub struct Quarantined {
    pub id: i64,
    pub task: TaskId,
    pub run: RunId,
    pub batch_no: u32,
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub what: RejectedRecord,
    pub request_digest: String,
    pub status: QuarantineStatus,
    pub created_at: Ts,
}

/// Identity of a signalled record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SignalKey {
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub key: String,
}

#[derive(Clone, Debug)]
pub struct SignalRow {
    pub id: i64,
    pub about: SignalKey,
    /// Whether the quarantine made the signal, not a reader of the records.
    pub from_quarantine: bool,
    pub reason: String,
    pub created_by: String,
    pub status: SignalStatus,
    pub tries: u32,
    pub last_error: Option<String>,
    pub created_at: Ts,
    pub updated_at: Ts,
}

#[derive(Clone, Debug)]
pub struct GateRow {
    pub key: String,
    pub state: patra_core::gate::GateState,
    pub updated_at: Ts,
}

#[derive(Clone, Debug)]
pub struct PauseRow {
    pub id: PauseId,
    pub kind: PauseKind,
    pub subject: PauseSubject,
    pub reason: String,
    pub created_by: String,
    pub created_at: Ts,
    /// Who resumed it, and when.
    pub released: Option<(String, Ts)>,
}

/// The stored response of a batch.
#[derive(Clone, Debug)]
pub struct RawRow {
    pub status: u16,
    pub headers: String,
    pub body: Bytes,
    pub created_at: Ts,
    pub expires_at: Ts,
}

/// An archived ledger row.
#[derive(Clone, Debug)]
pub struct ArchiveRow {
    pub id: i64,
    /// `BATCH` or `EVENT`.
    pub kind: &'static str,
    pub row: i64,
    pub lineage: Option<EventLineage>,
    pub body: String,
    pub created_at: Ts,
    pub archived_at: Ts,
}

#[derive(Clone, Debug)]
pub struct ExportRow {
    pub id: i64,
    pub run: i64,
    pub batch_no: u32,
    pub created_by: String,
    pub reason: String,
    pub package_hash: String,
    pub created_at: Ts,
    pub expires_at: Ts,
}

#[derive(Clone, Debug)]
pub struct KeyRow {
    pub id: i64,
    pub prefix: String,
    pub hash: String,
    pub name: String,
    pub scope: KeyScope,
    pub projects: Vec<String>,
    pub shared: bool,
    pub created_at: Ts,
    pub revoked_at: Option<Ts>,
}

/// An id whose details are fetched separately.
#[derive(Clone, Debug)]
pub struct CandidateRow {
    pub id: i64,
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub candidate: patra_core::record::DetailCandidate,
    pub bad: Option<String>,
    pub tries: u32,
    pub expires_at: Option<Ts>,
    pub updated_at: Ts,
}

/// One version of a credential.
#[derive(Clone, Debug)]
pub struct CredentialRow {
    pub id: CredentialId,
    pub binding: Binding,
    pub version: i64,
    pub auth_type: AuthType,
    pub priority: i32,
    pub sealed: String,
    pub key_id: String,
    /// Daily limit of a cookie.
    pub daily_limit: Option<u32>,
    pub created_at: Ts,
    pub updated_at: Ts,
    pub revoked_at: Option<Ts>,
}

/// Runtime state of a credential.
#[derive(Clone, Debug)]
pub struct CredentialState {
    pub id: i64,
    pub credential: CredentialId,
    pub what: CredentialRuntime,
    /// Usage of a cookie; its limit is that of the definition.
    pub usage: CookieUsage,
    pub key_id: Option<String>,
    /// Owner and end of the lease on the refresh.
    pub lease: Option<(String, Ts)>,
    pub fence: Fence,
    /// The fence under which the token was stored.
    pub stored: Fence,
}

#[derive(Clone, Debug)]
pub struct ExecutionRow {
    pub project_key: String,
    pub what: crawl::Execution,
}

/// A note candidate, waiting or finished.
#[derive(Clone, Debug)]
pub struct WaitingNote {
    pub project_key: String,
    pub what: crawl::CrawlCandidate,
}

#[derive(Clone, Debug)]
pub struct NoteRow {
    pub project_key: String,
    pub what: crawl::CrawlNote,
}

impl Cursor {
    pub fn direction(&self) -> Direction {
        self.name.operation.direction()
    }

    /// Start of the part that is checked next: the value, or the origin of a cursor over time.
    pub fn start(&self) -> Option<Ts> {
        self.value.as_ref().map_or(self.began, CursorValue::instant)
    }
}
