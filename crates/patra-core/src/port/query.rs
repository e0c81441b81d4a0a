//! The query side: what the CLI, the API and the engine read. Nothing here can write.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;

use super::Boxed;
use super::ahead::Ahead;
use super::load::Load;
pub use super::view::{Cell, CellKind, Column, Condition, Filter, NoSuchFilter, Owner, Row, UnknownStatus, View};
use crate::id::{InstanceId, PlanId, RunId};
use crate::record::{Candidate, Stream, Version};
use crate::registry::{self, DictType};
use crate::state::TriggerStatus;
use crate::time::Ts;
use crate::tx::{IdRange, Scope, TxError, Wanted};

/// Read access to a store. Answers come from a snapshot that may be a moment old.
pub trait Queries: fmt::Debug + Send + Sync {
    /// All that the registry holds of a provenance. One statement, however many endpoints there are (ING-3.7-03).
    fn registry(&self, provenance_code: &str) -> Boxed<'_, Result<Option<Registered>, TxError>>;

    /// The dictionary, types and words in their order.
    fn dictionary(&self) -> Boxed<'_, Result<Vec<DictType>, TxError>>;

    /// A compiled spec by its hash.
    fn snapshot(&self, hash: &str) -> Boxed<'_, Result<Option<String>, TxError>>;

    /// Those of the candidates whose details must be fetched, in the order given: not FETCHED in this version, and not BAD
    /// in this version while their pause lasts. The answer may be a moment old: a detail is then fetched twice, which
    /// changes nothing.
    fn screen(&self, stream: &Stream, candidates: &[Candidate]) -> Boxed<'_, Result<Vec<Candidate>, TxError>>;

    /// The keys of the wanted records of a range, in byte order, from the one behind `after` on (or the range's beginning), at
    /// most `limit`.
    fn wanted(
        &self,
        stream: &Stream,
        wanted: &Wanted,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> Boxed<'_, Result<Vec<String>, TxError>>;

    /// What is stored under these keys, for who wants to know what a commit would do; in the order of the keys, missing ones
    /// left out.
    fn stored(&self, stream: &Stream, keys: &[String]) -> Boxed<'_, Result<Vec<StoredVersion>, TxError>>;

    /// All that the ledger holds of a batch, from the archive when it has been moved there.
    fn evidence(&self, run: RunId, batch_no: u32) -> Boxed<'_, Result<Option<Evidence>, TxError>>;

    /// The answer that was kept for a batch, while it is kept.
    fn raw(&self, run: RunId, batch_no: u32) -> Boxed<'_, Result<Option<RawKept>, TxError>>;

    /// A plan with its slices, tasks, runs and one page of its batches, archived ones included, each level by id.
    fn lineage(&self, plan: PlanId, batches: BatchPage) -> Boxed<'_, Result<Option<Lineage>, TxError>>;

    /// How far a trigger's work has come, by its public id.
    fn progress(&self, public_id: &str) -> Boxed<'_, Result<Option<Progress>, TxError>>;

    /// An API key by its public part.
    fn key(&self, prefix: &str) -> Boxed<'_, Result<Option<Key>, TxError>>;

    /// Rows of one view, newest first unless the view says otherwise.
    fn list(&self, view: View, filter: Filter) -> Boxed<'_, Result<Vec<Row>, TxError>>;

    /// What waits, what is at work, and how far cursors have come.
    fn load(&self) -> Boxed<'_, Result<Load, TxError>>;

    /// When there is something to do, at the cost of a few looks into indexes.
    fn ahead(&self) -> Boxed<'_, Result<Ahead, TxError>>;

    /// A cheap statement that proves the store answers; gives the schema's version.
    fn ping(&self) -> Boxed<'_, Result<u32, TxError>>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredVersion {
    pub key: String,
    pub version: Version,
    pub content_hash: [u8; 16],
    pub generation: String,
}

/// What the black box is made of (ING-14.9): the rows of the tables named, as JSON objects keyed by column, JSON columns
/// nested, times as text.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// `ing_task_run_batch`.
    pub batch: serde_json::Value,
    /// `ing_task_run`.
    pub run: serde_json::Value,
    /// `ing_task`.
    pub task: serde_json::Value,
    /// `ing_plan_slice`.
    pub slice: serde_json::Value,
    /// `ing_plan`.
    pub plan: serde_json::Value,
    /// `ing_cursor_event` of the run, archived ones included, by id.
    pub events: Vec<serde_json::Value>,
    /// `item_quarantine` of the batch, by id.
    pub quarantine: Vec<serde_json::Value>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawKept {
    pub status: u16,
    pub headers: String,
    pub body: Bytes,
    pub expires_at: Ts,
}

/// A plan and what came of it. Every `row` is the row of its table as a JSON object, see [`Evidence`]; batches leave the
/// digests out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Lineage {
    pub trigger: serde_json::Value,
    pub plan: serde_json::Value,
    pub slices: Vec<serde_json::Value>,
    pub tasks: Vec<serde_json::Value>,
    pub runs: Vec<serde_json::Value>,
    pub batches: Vec<serde_json::Value>,
    /// So many batches lie behind these.
    pub batches_left_out: u64,
}

impl Lineage {
    /// Where the next page of batches begins, if there is one.
    pub fn next_after(&self) -> Option<i64> {
        self.batches.last().filter(|_| self.batches_left_out > 0)?["id"].as_i64()
    }
}

/// Batches with a greater id than the last one seen, from 0 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchPage {
    pub after: i64,
    /// At most [`BatchPage::MAX`].
    pub limit: u32,
}

impl BatchPage {
    pub const MAX: u32 = 10_000;
}

impl Default for BatchPage {
    fn default() -> BatchPage {
        BatchPage { after: 0, limit: BatchPage::MAX }
    }
}

/// A provenance as the registry had it at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registered {
    pub document_hash: String,
    /// Sorted.
    pub rows: Vec<registry::Row>,
}

/// What became of one trigger. Sums run over all its tasks and those of its partitions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Progress {
    pub instance: InstanceId,
    pub project_key: String,
    pub job_type: String,
    /// Of a chore: somebody is at it.
    pub under_way: bool,
    /// Of a chore that has ended well, JSON.
    pub result: Option<String>,
    pub request_id: Option<String>,
    pub created_at: Ts,
    /// Of a chore, or of the first task.
    pub started_at: Option<Ts>,
    /// Of a chore, or of the last task once all have ended.
    pub finished_at: Option<Ts>,
    pub trigger_status: TriggerStatus,
    pub remarks: Option<String>,
    /// Triggers that were made of this one, one per partition.
    pub partitions: u64,
    /// Those of them that wait for planning.
    pub partitions_waiting: u64,
    /// Those that could not be planned.
    pub partitions_failed: u64,
    /// Those that are planned and have tasks which have not ended.
    pub partitions_open: u64,
    pub tasks_queued: u64,
    /// DISPATCHED or EXECUTING.
    pub tasks_active: u64,
    pub tasks_succeeded: u64,
    pub tasks_partial: u64,
    /// Replaced by tasks with narrower windows, which are counted in their place.
    pub tasks_split: u64,
    pub tasks_failed: u64,
    pub tasks_cancelled: u64,
    /// What the newest of the failed tasks failed of: the row's `error`.
    #[serde(skip)]
    pub fault: Option<serde_json::Value>,
    /// Committed batches, and the sums of their statistics.
    pub batches: u64,
    pub inserted: u64,
    pub updated: u64,
    pub skipped: u64,
    pub rejected: u64,
    pub retries: u64,
    pub throttled: u64,
}

impl Progress {
    pub fn tasks(&self) -> u64 {
        self.tasks_queued + self.tasks_active + self.tasks_ended()
    }

    pub fn tasks_ended(&self) -> u64 {
        self.tasks_succeeded + self.tasks_partial + self.tasks_failed + self.tasks_cancelled
    }

    /// Partitions with nothing left to do.
    pub fn partitions_ended(&self) -> u64 {
        self.partitions.saturating_sub(self.partitions_waiting + self.partitions_open)
    }

    /// Planning is over, of every partition too, and every task has ended.
    pub fn is_finished(&self) -> bool {
        let planned = self.trigger_status.is_final() && self.partitions_waiting == 0;
        planned && self.tasks_queued + self.tasks_active == 0
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    pub prefix: String,
    pub hash: String,
    pub scope: Scope,
    /// See [`CreateKey`](crate::tx::CreateKey).
    pub projects: Vec<String>,
    pub shared: bool,
    pub revoked: bool,
}
