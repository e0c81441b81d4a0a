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

/// Who asked for what: shared by all rows that come from one trigger.
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
    /// The source that it polls.
    pub source: Option<SourceId>,
    /// A job that polls many.
    pub scrape: bool,
    pub job_type: String,
    pub request_id: Option<String>,
    /// Of a chore.
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
    /// How far it has made its children.
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
    /// Place in the index of partitions.
    pub(super) partition: usize,
    pub credential: Option<CredentialId>,
    pub c_max: u32,
    pub status: TaskStatus,
    /// Others count in its place.
    pub replaced: bool,
    /// The task that this one drives again, and the request that asked for it.
    pub redrive: Option<(TaskId, String)>,
    /// The source that it polls, and the host that it asks.
    pub poll: Option<(SourceId, String)>,
    /// The part of the window that is complete although the task is not.
    pub done: Option<Window>,
    pub items: u64,
    pub priority: i32,
    pub scheduled_at: Ts,
    /// Owner and end; exactly while DISPATCHED or EXECUTING.
    pub lease: Option<(String, Ts)>,
    pub fence: Fence,
    pub lease_count: u32,
    pub attempts: u32,
    pub error: Option<Fault>,
    /// Every run, oldest first.
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
    /// The run and batch that it resumed from.
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
    /// It is no longer in the ledger.
    pub archived: bool,
}

#[derive(Clone, Debug)]
pub struct Cursor {
    pub id: CursorId,
    pub name: CursorName,
    /// Where the namespace began; none of a cursor that counts segments.
    pub began: Option<Ts>,
    pub value: Option<CursorValue>,
    /// The value of its newest event.
    pub target: Option<CursorValue>,
    /// The run that led there.
    pub by: Option<RunId>,
    pub observed_max: Option<Ts>,
    /// Of the advance that the value comes from.
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
    /// It is no longer in its table.
    pub archived: bool,
}

/// Where an event comes from.
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
    /// Place in `streams`.
    pub stream: usize,
    pub key: String,
    pub endpoint_name: String,
    pub kind: String,
    pub version: RecordVersion,
    /// Which mapping made it, and when it was looked at last.
    pub generation: Arc<str>,
    pub checked_at: Ts,
    pub content_hash: [u8; 16],
    pub fields: String,
    pub payload: ByteString,
    pub run: RunId,
    pub batch_no: u32,
    pub created_at: Ts,
    pub stored_at: Ts,
    /// Since when its content is gone.
    pub emptied_at: Option<Ts>,
}

/// An item was found in a source.
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
    /// Its own interval.
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

/// What a signal is about.
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
    /// The quarantine made it; else a reader of the records.
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
pub struct HoldRow {
    pub id: PauseId,
    pub kind: PauseKind,
    pub subject: PauseSubject,
    pub reason: String,
    pub created_by: String,
    pub created_at: Ts,
    /// Who and when.
    pub released: Option<(String, Ts)>,
}

/// The answer that was kept for a batch.
#[derive(Clone, Debug)]
pub struct RawRow {
    pub status: u16,
    pub headers: String,
    pub body: Bytes,
    pub created_at: Ts,
    pub expires_at: Ts,
}

/// A row that left the ledger.
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

/// An id whose content is fetched apart.
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
    /// Of a cookie.
    pub daily_limit: Option<u32>,
    pub created_at: Ts,
    pub updated_at: Ts,
    pub revoked_at: Option<Ts>,
}

/// Its runtime half.
#[derive(Clone, Debug)]
pub struct CredentialState {
    pub id: i64,
    pub credential: CredentialId,
    pub what: CredentialRuntime,
    /// Of a cookie; its limit is the definition's.
    pub wear: CookieUsage,
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

/// A note that waits for its details, or had its turn.
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

    /// Where the completed part begins that is looked at next: the value, or the origin of a cursor over time.
    pub fn start(&self) -> Option<Ts> {
        self.value.as_ref().map_or(self.began, CursorValue::instant)
    }
}
