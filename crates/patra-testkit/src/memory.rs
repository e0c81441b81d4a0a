//! The reference model of the store: plain tables in memory, synchronous, deterministic, without a clock of its own.
//! `patra_core::tx` specifies the operations; this model implements that specification with as little code as possible.
//! It panics rather than make a transition that the state machine does not have.

mod boards;
mod candidate;
mod clean;
mod clock;
mod commit;
mod control;
mod cookie;
mod coverage;
mod crawl;
mod crawls;
mod credential;
mod cursor;
mod due;
mod evidence;
mod fan;
mod gate;
mod json;
mod list;
mod load;
mod missing;
mod outbox;
mod plan;
mod poll;
mod pool;
mod pools;
mod progress;
mod queue;
mod redrive;
mod refresh;
mod registry;
mod retention;
pub mod rows;
mod run;
mod scrape;
mod shared;
mod source;
mod sources;
mod trigger;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use patra_core::port::pool::{CaptureRule, ProjectRow};
use patra_core::port::source::HeartbeatRow;
use patra_core::registry::{DictType, RegistryRow};
use patra_core::tweet::FetchStats;
use patra_core::tx::{Done, PartitionKey, SourceTypeRow, Tx, TxError};
use patra_core::{JobId, PauseId, PlanId, RunId, SliceId, SourceId, TaskId, Ts};

pub use due::Due;
pub use missing::{ItemList, Listed};
pub use outbox::OutboxRow;
pub use pool::UrlRow;
pub use rows::{
    ArchiveRow, Batch, CandidateRow, Cursor, Endpoint, Event, EventLineage, ExportRow, GateRow, Instance, Item,
    ItemStream, KeyRow, Link, Origin, PauseRow, Plan, Provenance, Quarantined, RawRow, Run, ScheduleRow, SignalKey,
    SignalRow, Slice, SourceRow, Task,
};
pub use rows::{CredentialRow, CredentialState, ExecutionRow, NoteRow, WaitingNote};
pub use shared::SharedMem;

/// All tables. A row's id is its index in the table plus one, except where rows are removed: in the registry, and in
/// maps. Archived ledger rows stay in the table, marked.
///
/// The tables are open so that invariants can be checked on them; writing to them from outside breaks the indexes.
#[derive(Clone, Debug, Default)]
pub struct MemStore {
    pub provenances: Vec<Provenance>,
    pub endpoints: Vec<Endpoint>,
    /// The sections of each provenance, sorted: the columns `config` of all tables.
    pub sections: BTreeMap<String, Vec<RegistryRow>>,
    pub dictionary: Vec<DictType>,
    pub schedules: Vec<ScheduleRow>,
    pub snapshots: BTreeMap<String, String>,
    pub instances: Vec<Instance>,
    pub plans: Vec<Plan>,
    pub slices: Vec<Slice>,
    pub tasks: Vec<Task>,
    pub runs: Vec<Run>,
    pub batches: Vec<Batch>,
    pub cursors: Vec<Cursor>,
    pub events: Vec<Event>,
    pub streams: Vec<ItemStream>,
    pub items: Vec<Item>,
    pub lists: Vec<ItemList>,
    /// By the index of the list and the id of the item.
    pub listed: BTreeMap<(usize, i64), Listed>,
    pub quarantine: Vec<Quarantined>,
    pub candidates: Vec<CandidateRow>,
    pub keys: Vec<KeyRow>,
    pub credentials: Vec<CredentialRow>,
    pub credential_states: Vec<CredentialState>,
    pub holds: BTreeMap<PauseId, PauseRow>,
    pub gates: Vec<GateRow>,
    pub signals: BTreeMap<i64, SignalRow>,
    pub raw: BTreeMap<(RunId, u32), RawRow>,
    pub archive: Vec<ArchiveRow>,
    pub exports: Vec<ExportRow>,
    pub sources: Vec<SourceRow>,
    pub source_types: BTreeMap<String, SourceTypeRow>,
    /// The sources in which an item was found.
    pub links: BTreeMap<(SourceId, i64), Link>,
    pub beats: BTreeMap<String, HeartbeatRow>,
    pub settings: BTreeMap<String, String>,
    pub executions: Vec<ExecutionRow>,
    /// `crawl_candidate`.
    pub waiting_notes: Vec<WaitingNote>,
    pub notes: Vec<NoteRow>,
    /// Succeeded and failed requests by platform and minute.
    pub crawl_minutes: BTreeMap<(String, Ts), (u64, u64)>,
    /// By alert and subject.
    pub alerts: BTreeMap<(String, String), patra_core::alert::AlertView>,
    /// Projects other than `default`, which always exists.
    pub projects: BTreeMap<String, ProjectRow>,
    pub urls: Vec<UrlRow>,
    /// Capture rules by project and job type.
    pub capture_rules: BTreeMap<(String, String), CaptureRule>,
    /// `source_stats`.
    pub fetch_stats: BTreeMap<SourceId, FetchStats>,
    pub outbox: BTreeMap<i64, OutboxRow>,
    /// `ing_clock`.
    pub seen_at: Option<Ts>,
    forgotten: Forgotten,
    index: Index,
}

/// Deleted rows of old polls. Their batches are marked as archived.
#[derive(Clone, Debug, Default)]
struct Forgotten {
    instances: BTreeSet<JobId>,
    plans: BTreeSet<PlanId>,
    slices: BTreeSet<SliceId>,
    tasks: BTreeSet<TaskId>,
    runs: BTreeSet<RunId>,
}

/// Lookups that a database would keep in indexes.
#[derive(Clone, Debug, Default)]
struct Index {
    provenance_ids: i64,
    endpoint_ids: i64,
    schedule_ids: i64,
    hold_ids: i64,
    signal_ids: i64,
    event_ids: i64,
    instance_by_public_id: BTreeMap<String, JobId>,
    /// REQUESTED triggers.
    waiting: BTreeSet<JobId>,
    task_by_key: BTreeMap<String, TaskId>,
    partitions: Vec<Partition>,
    /// QUEUED polls.
    polls: BTreeSet<(Ts, TaskId)>,
    /// DISPATCHED and EXECUTING tasks by the end of their lease.
    leased: BTreeSet<(Ts, TaskId)>,
    /// Per plan: slices by signature.
    slices: Vec<BTreeMap<String, SliceId>>,
    /// The tasks of each cursor.
    namespaces: Vec<Namespace>,
    batch_keys: BTreeSet<String>,
    /// Index in `items` by key, per stream.
    items: Vec<BTreeMap<String, usize>>,
    /// Active pauses.
    holds: BTreeSet<PauseId>,
    /// OPEN signals.
    signals: BTreeMap<SignalKey, i64>,
    /// Indexes of SIGNALLED rows of the quarantine.
    signalled: BTreeMap<SignalKey, Vec<usize>>,
}

/// The tasks that share a concurrency limit.
#[derive(Clone, Debug)]
struct Partition {
    of: PartitionKey,
    /// QUEUED tasks in the order in which they are claimed.
    queue: BTreeSet<(i32, Ts, TaskId)>,
    /// DISPATCHED and EXECUTING tasks.
    held: u32,
    /// The highest concurrency limit of its tasks.
    most: u32,
}

/// The tasks of a cursor.
#[derive(Clone, Debug, Default)]
struct Namespace {
    /// Tasks by the end of their windows in the cursor's direction, see [`coverage::reach`].
    windows: BTreeSet<(Ts, TaskId)>,
    /// Segments of ids, by ordinal.
    segments: BTreeSet<(i64, TaskId)>,
}

impl MemStore {
    /// Runs one transaction at the database's time `now`. An error leaves everything as it was.
    pub fn apply(&mut self, now: Ts, tx: &Tx) -> Result<Done, TxError> {
        Ok(match tx {
            Tx::ApplyProvenance(op) => Done::ApplyProvenance(self.apply_provenance(now, op)?),
            Tx::RemoveProvenance(op) => Done::RemoveProvenance(self.remove_provenance(op)),
            Tx::SyncDictionary(op) => Done::SyncDictionary(self.sync_dictionary(op)?),
            Tx::RequestJob(op) => Done::RequestJob(self.fire(now, op)),
            Tx::FireDue(op) => Done::FireDue(self.fire_due(now, *op)),
            Tx::ClaimJob(op) => Done::ClaimJob(self.take_trigger(now, op).map(Box::new)),
            Tx::SettleJob(op) => Done::SettleJob(self.settle_trigger(now, op)?),
            Tx::FanOut(op) => Done::FanOut(self.fan_out(now, op)?),
            Tx::ReadParents(op) => Done::ReadParents(self.read_parents(op)),
            Tx::ReadCoverage(op) => Done::ReadCoverage(self.read_coverage(now, op)),
            Tx::ReadSegments(op) => Done::ReadSegments(self.read_segments(now, op)),
            Tx::SavePlan(op) => Done::SavePlan(self.save_plan(now, op)?),
            Tx::ClaimTasks(op) => Done::ClaimTasks(self.claim(now, op)),
            Tx::Renew(op) => Done::Renew(self.renew(now, op)),
            Tx::StartRun(op) => Done::StartRun(self.start_run(now, *op)?),
            Tx::CommitBatch(op) => Done::CommitBatch(self.commit_batch(now, op)?),
            Tx::CommitBatches(ops) => Done::CommitBatches(self.commit_batches(now, ops)?),
            Tx::MarkMissing(op) => Done::MarkMissing(self.mark_missing(now, op)?),
            Tx::EndRun(op) => Done::EndRun(self.end_run(now, op)?),
            Tx::RecordAdvance(op) => Done::RecordAdvance(self.record_advance(now, *op)?),
            Tx::AdvanceCursor(op) => Done::AdvanceCursor(self.advance_cursor(now, op)?),
            Tx::AcceptGap(op) => Done::AcceptGap(self.accept_gap(now, op)?),
            Tx::SaveSources(op) => Done::SaveSources(self.save_sources(now, op)),
            Tx::ChangeSource(op) => Done::ChangeSource(self.change_source(now, op)?),
            Tx::SyncTypes(op) => Done::SyncTypes(self.sync_types(now, op)),
            Tx::QueuePolls(op) => Done::QueuePolls(self.queue_polls(now, op)),
            Tx::HurryPoll(op) => Done::HurryPoll(self.hurry_poll(now, *op)),
            Tx::ClaimPolls(op) => Done::ClaimPolls(self.claim_polls(now, op)),
            Tx::Heartbeat(op) => Done::Heartbeat(self.beat(now, op)),
            Tx::PurgeExpired(op) => Done::PurgeExpired(self.clean(now, op)),
            Tx::SaveSetting(op) => Done::SaveSetting(self.configure(op)),
            Tx::RequestPermits(op) => Done::RequestPermits(self.ask_gate(now, op)),
            Tx::Sweep(op) => Done::Sweep(self.sweep(now, *op)),
            Tx::PauseWork(op) => Done::PauseWork(self.hold(now, op)?),
            Tx::ResumeWork(op) => Done::ResumeWork(self.release(now, op)),
            Tx::CancelWork(op) => Done::CancelWork(self.cancel(now, op)),
            Tx::RedriveWork(op) => Done::RedriveWork(self.redrive(now, op)?),
            Tx::SignalRecords(op) => Done::SignalRecords(self.signal(now, op)?),
            Tx::AbandonRecord(op) => Done::AbandonRecord(self.abandon(now, op)),
            Tx::ArchiveLedger(op) => Done::ArchiveLedger(self.archive(now, *op)),
            Tx::RecordExport(op) => Done::RecordExport(self.record_export(now, op)),
            Tx::CreateKey(op) => Done::CreateKey(self.create_key(now, op)),
            Tx::RevokeKey(op) => Done::RevokeKey(self.revoke_key(now, op)),
            Tx::SaveCredential(op) => Done::SaveCredential(self.save_credential(now, op)?),
            Tx::RevokeCredential(op) => Done::RevokeCredential(self.revoke_credential(now, op)),
            Tx::LeaseRefresh(op) => Done::LeaseRefresh(self.lease_refresh(now, op)),
            Tx::StoreToken(op) => Done::StoreToken(self.store_token(now, op)?),
            Tx::FailRefresh(op) => Done::FailRefresh(self.fail_refresh(now, op)),
            Tx::MarkCredential(op) => Done::MarkCredential(self.mark_credential(now, op)),
            Tx::SaveCookie(op) => Done::SaveCookie(self.save_cookie(now, op)?),
            Tx::PickCookie(op) => Done::PickCookie(self.pick_cookie(now, op)),
            Tx::RecordCookieOutcome(op) => Done::RecordCookieOutcome(self.judge_cookie(now, op)),
            Tx::ReactivateCookie(op) => Done::ReactivateCookie(self.reactivate_cookie(now, op)),
            Tx::Reseal(op) => Done::Reseal(self.reseal(now, op)?),
            Tx::AcquireExecution(op) => Done::AcquireExecution(self.acquire(now, op)?),
            Tx::KeepExecution(op) => Done::KeepExecution(self.keep_execution(now, op)),
            Tx::EndExecution(op) => Done::EndExecution(self.end_execution(now, op)?),
            Tx::AddCandidates(op) => Done::AddCandidates(self.add_candidates(now, op)?),
            Tx::ClaimCandidates(op) => Done::ClaimCandidates(self.claim_candidates(now, op)),
            Tx::FailCandidate(op) => Done::FailCandidate(self.fail_candidate(now, op)),
            Tx::RequeueCandidates(op) => Done::RequeueCandidates(self.requeue_candidates(now, op)),
            Tx::WriteNote(op) => Done::WriteNote(self.write_note(now, op)),
            Tx::Recover(op) => Done::Recover(self.recover(now, *op)),
            Tx::CountCrawls(op) => Done::CountCrawls(self.count_crawls(now, op)),
            Tx::WatchAlert(op) => Done::WatchAlert(self.watch_alert(now, op)),
            Tx::CreateProject(op) => Done::CreateProject(self.create_project(now, op)),
            Tx::AddUrls(op) => Done::AddUrls(self.add_urls(now, op)?),
            Tx::ConfigureCapture(op) => Done::ConfigureCapture(self.configure_capture(now, op)?),
            Tx::PutDocument(op) => Done::PutDocument(self.put_document(now, op)),
            Tx::RequestBackgroundJob(op) => Done::RequestBackgroundJob(self.request_background_job(now, op)),
            Tx::ClaimBackgroundJob(op) => Done::ClaimBackgroundJob(self.claim_background_job(now, op).map(Box::new)),
            Tx::ClaimEvents(op) => Done::ClaimEvents(self.take_events(now, op)),
            Tx::RetryEvents(op) => Done::RetryEvents(self.retry_events(now, op)),
            Tx::SettleEvent(op) => Done::SettleEvent(self.settle_event(now, op)),
            Tx::UpdateBackgroundJob(op) => Done::UpdateBackgroundJob(self.update_background_job(now, op)?),
        })
    }
}

/// The index of a row in its table.
fn place(id: i64) -> usize {
    usize::try_from(id - 1).unwrap_or(usize::MAX)
}

/// The id of the next row of a table.
fn next_id<T>(table: &[T]) -> i64 {
    table.len() as i64 + 1
}

fn refused<T>(what: impl Into<String>) -> Result<T, TxError> {
    Err(TxError::Refused(what.into()))
}
