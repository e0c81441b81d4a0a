//! The rows of the tables, in the types of the core.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use patra_core::credential::{Binding, State};
use patra_core::cursor::Name;
use patra_core::paging::Position;
use patra_core::record::{Rejected, Version};
use patra_core::state::{
    AuthType, BatchStatus, Operation, PlanStatus, RunStatus, SliceStatus, TaskStatus, TriggerStatus, TriggerType,
};
use patra_core::tx::{BatchStats, Lineage, NewSlice, RunStats, Scope};
use patra_core::{
    BatchId, CredentialId, CursorId, Fault, Fence, InstanceId, PlanId, RunId, SliceId, TaskId, Ts, Window,
};

#[derive(Clone, Debug)]
pub struct Provenance {
    pub id: i64,
    pub provenance_code: String,
    pub name: String,
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
    pub every: Duration,
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
    pub id: InstanceId,
    pub public_id: String,
    pub schedule: Option<i64>,
    pub trigger_type: TriggerType,
    pub origin: Arc<Origin>,
    pub window_from: Option<Ts>,
    pub window_to: Option<Ts>,
    pub priority: i32,
    pub params: String,
    pub overrides: String,
    pub parent: Option<InstanceId>,
    pub root: Option<InstanceId>,
    /// How far it has made its children.
    pub place: Option<String>,
    pub status: TriggerStatus,
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
    pub instance: InstanceId,
    pub cursor: CursorId,
    pub origin: Arc<Origin>,
    pub window: Window,
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
    pub lineage: Lineage,
    pub cursor: CursorId,
    pub origin: Arc<Origin>,
    pub what: Arc<NewSlice>,
    pub credential: Option<CredentialId>,
    pub status: TaskStatus,
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
    pub lineage: Lineage,
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
}

#[derive(Clone, Debug)]
pub struct Cursor {
    pub id: CursorId,
    pub name: Name,
    /// Where the namespace began.
    pub began: Ts,
    pub value: Option<Ts>,
    /// The value of its newest event.
    pub target: Option<Ts>,
    pub version: i64,
    pub epoch: i64,
    pub created_at: Ts,
    pub updated_at: Ts,
}

#[derive(Clone, Debug)]
pub struct Event {
    pub id: i64,
    pub cursor: CursorId,
    pub previous: Option<Ts>,
    pub value: Ts,
    pub observed_max: Option<Ts>,
    pub cause: Option<(TaskId, RunId)>,
    pub created_at: Ts,
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
    pub version: Version,
    pub content_hash: [u8; 16],
    pub fields: String,
    pub payload: Bytes,
    pub run: RunId,
    pub batch_no: u32,
    pub created_at: Ts,
    pub stored_at: Ts,
}

#[derive(Clone, Debug)]
pub struct Quarantined {
    pub id: i64,
    pub task: TaskId,
    pub run: RunId,
    pub batch_no: u32,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub what: Rejected,
    pub created_at: Ts,
}

#[derive(Clone, Debug)]
pub struct KeyRow {
    pub id: i64,
    pub prefix: String,
    pub hash: String,
    pub name: String,
    pub scope: Scope,
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
    pub candidate: patra_core::record::Candidate,
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
    pub created_at: Ts,
    pub revoked_at: Option<Ts>,
}

/// Its runtime half.
#[derive(Clone, Debug)]
pub struct CredentialState {
    pub id: i64,
    pub credential: CredentialId,
    pub what: State,
    pub key_id: Option<String>,
    /// Owner and end of the lease on the refresh.
    pub lease: Option<(String, Ts)>,
    pub fence: Fence,
    /// The fence under which the token was stored.
    pub stored: Fence,
}
