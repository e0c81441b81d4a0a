//! The query side of a store, for the CLI, the API and the engine. Read-only.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;

use super::BoxFuture;
use super::load::StoreLoad;
use super::next_due::NextDue;
pub use super::view::{
    Cell, CellKind, NoSuchFilter, RowOwner, UnknownStatus, View, ViewColumn, ViewCondition, ViewFilter, ViewRow,
};
use crate::id::{JobId, PlanId, RunId};
use crate::record::{DetailCandidate, RecordStream, RecordVersion};
use crate::registry::{self, DictType};
use crate::state::JobStatus;
use crate::time::Ts;
use crate::tx::{IdRange, KeyScope, RefreshCriteria, TxError};

/// Read access to a store. Results come from a snapshot that may be a moment old.
pub trait Queries: fmt::Debug + Send + Sync {
    /// All registry rows of a provenance. One statement, however many endpoints there are (ING-3.7-03).
    fn registry(&self, provenance_code: &str) -> BoxFuture<'_, Result<Option<RegisteredProvenance>, TxError>>;

    /// The dictionary: types and items in their order.
    fn dictionary(&self) -> BoxFuture<'_, Result<Vec<DictType>, TxError>>;

    /// A compiled spec by its hash.
    fn snapshot(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, TxError>>;

    /// Candidates whose details must be fetched, in the order given: not FETCHED in this version, and not BAD in this
    /// version while their pause lasts. The result may be a moment old: a detail is then fetched twice, which changes
    /// nothing.
    fn screen(
        &self,
        stream: &RecordStream,
        candidates: &[DetailCandidate],
    ) -> BoxFuture<'_, Result<Vec<DetailCandidate>, TxError>>;

    /// Keys of the records of a range that match the criteria, in byte order, starting behind `after` (or at the
    /// beginning of the range), at most `limit`.
    fn ids_to_refresh(
        &self,
        stream: &RecordStream,
        criteria: &RefreshCriteria,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<String>, TxError>>;

    /// Stored versions of these keys, to predict the effect of a commit; in the order of the keys, missing ones
    /// omitted.
    fn stored(&self, stream: &RecordStream, keys: &[String]) -> BoxFuture<'_, Result<Vec<StoredVersion>, TxError>>;

    /// All ledger rows of a batch, from the archive when it was moved there.
    fn evidence(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<BatchEvidence>, TxError>>;

    /// The raw response of a batch, while it is kept.
    fn raw(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<StoredRawResponse>, TxError>>;

    /// A plan with its slices, tasks, runs and one page of its batches, archived ones included, each level by id.
    fn lineage(&self, plan: PlanId, batches: BatchPage) -> BoxFuture<'_, Result<Option<PlanLineage>, TxError>>;

    /// Progress of a job, by its public id.
    fn progress(&self, public_id: &str) -> BoxFuture<'_, Result<Option<JobProgress>, TxError>>;

    /// An API key by its public part.
    fn key(&self, prefix: &str) -> BoxFuture<'_, Result<Option<StoredApiKey>, TxError>>;

    /// Rows of one view, newest first unless the view says otherwise.
    fn list(&self, view: View, filter: ViewFilter) -> BoxFuture<'_, Result<Vec<ViewRow>, TxError>>;

    /// Queued and running work, and the progress of cursors.
    fn load(&self) -> BoxFuture<'_, Result<StoreLoad, TxError>>;

    /// When work becomes due, at the cost of a few index lookups.
    fn next_due(&self) -> BoxFuture<'_, Result<NextDue, TxError>>;

    /// A cheap statement that checks the connection; returns the schema's version.
    fn ping(&self) -> BoxFuture<'_, Result<u32, TxError>>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredVersion {
    pub key: String,
    pub version: RecordVersion,
    pub content_hash: [u8; 16],
    pub generation: String,
}

/// Content of a diagnostic bundle (ING-14.9): the rows of the tables named, as JSON objects keyed by column, JSON
/// columns nested, times as text.
#[derive(Clone, PartialEq, Debug)]
pub struct BatchEvidence {
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
pub struct StoredRawResponse {
    pub status: u16,
    pub headers: String,
    pub body: Bytes,
    pub expires_at: Ts,
}

/// A plan with everything made from it. Every value is a row of its table as a JSON object, see [`BatchEvidence`];
/// batches omit the digests.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PlanLineage {
    #[serde(rename = "trigger")]
    pub job: serde_json::Value,
    pub plan: serde_json::Value,
    pub slices: Vec<serde_json::Value>,
    pub tasks: Vec<serde_json::Value>,
    pub runs: Vec<serde_json::Value>,
    pub batches: Vec<serde_json::Value>,
    /// Batches that follow after these.
    pub batches_left_out: u64,
}

impl PlanLineage {
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
pub struct RegisteredProvenance {
    pub document_hash: String,
    /// Sorted.
    pub rows: Vec<registry::RegistryRow>,
}

/// Progress of one job. Sums cover all its tasks and those of its partitions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct JobProgress {
    #[serde(rename = "instance")]
    pub job: JobId,
    pub project_key: String,
    pub job_type: String,
    /// Whether a process is working on it; for background jobs.
    #[serde(rename = "under_way")]
    pub in_progress: bool,
    /// Result of a finished background job, JSON.
    pub result: Option<String>,
    pub request_id: Option<String>,
    pub created_at: Ts,
    /// Start of a background job, or of the first task.
    pub started_at: Option<Ts>,
    /// End of a background job, or of the last task once all have ended.
    pub finished_at: Option<Ts>,
    #[serde(rename = "trigger_status")]
    pub job_status: JobStatus,
    pub remarks: Option<String>,
    /// Child jobs, one per partition.
    pub partitions: u64,
    /// Child jobs that wait for planning.
    pub partitions_waiting: u64,
    /// Child jobs that could not be planned.
    pub partitions_failed: u64,
    /// Child jobs that are planned and have tasks which have not ended.
    pub partitions_open: u64,
    pub tasks_queued: u64,
    /// DISPATCHED or EXECUTING.
    pub tasks_active: u64,
    pub tasks_succeeded: u64,
    pub tasks_partial: u64,
    /// The part of `tasks_succeeded` whose slices were read to the end, while nothing shows that no record moved past
    /// the reader.
    pub tasks_unverified: u64,
    /// Replaced by tasks with narrower windows, which are counted instead.
    pub tasks_split: u64,
    pub tasks_failed: u64,
    pub tasks_cancelled: u64,
    /// Error of the task that ended FAILED or PARTIAL last: the row's `error`.
    #[serde(skip)]
    pub fault: Option<serde_json::Value>,
    /// Committed batches, and the sums of their statistics.
    pub batches: u64,
    pub inserted: u64,
    pub updated: u64,
    pub skipped: u64,
    /// The part of `skipped` that is outside its window; see [`SkipReasons`](crate::tx::SkipReasons).
    pub out_of_window: u64,
    /// The part of `skipped` that the manifest filters out.
    pub filtered: u64,
    pub rejected: u64,
    pub retries: u64,
    pub throttled: u64,
}

impl JobProgress {
    /// Records that the store had already.
    pub fn unchanged(&self) -> u64 {
        self.skipped.saturating_sub(self.out_of_window + self.filtered)
    }

    pub fn tasks(&self) -> u64 {
        self.tasks_queued + self.tasks_active + self.tasks_ended()
    }

    pub fn tasks_ended(&self) -> u64 {
        self.tasks_succeeded + self.tasks_partial + self.tasks_failed + self.tasks_cancelled
    }

    /// Child jobs with nothing left to do.
    pub fn partitions_ended(&self) -> u64 {
        self.partitions.saturating_sub(self.partitions_waiting + self.partitions_open)
    }

    /// Planning has ended for the job and every partition, and every task has ended.
    pub fn is_finished(&self) -> bool {
        let planned = self.job_status.is_final() && self.partitions_waiting == 0;
        planned && self.tasks_queued + self.tasks_active == 0
    }

    /// Tasks and partitions of the job that failed, in whole or in part.
    pub fn failures(&self) -> u64 {
        self.tasks_failed + self.tasks_partial + self.partitions_failed
    }

    /// Whether a failed job has done a part of its work.
    pub fn is_partial(&self) -> bool {
        self.failures() > 0 && self.tasks_succeeded + self.tasks_partial > 0
    }

    /// The words of [`JobProgress::status_word`] (POOL-97).
    pub const STATUS_WORDS: [&'static str; 5] = ["queued", "running", "finished", "failed", "cancelled"];

    /// The status of the whole job in one word. A job is `failed` when it could not be planned or any part of it
    /// failed, even if other parts succeeded: see [`JobProgress::is_partial`].
    pub fn status_word(&self) -> &'static str {
        match self.job_status {
            JobStatus::Finished => "finished",
            JobStatus::Failed => "failed",
            JobStatus::Cancelled => "cancelled",
            JobStatus::Requested if self.in_progress => "running",
            JobStatus::Requested => "queued",
            JobStatus::Planned if self.is_finished() => match () {
                () if self.failures() > 0 => "failed",
                () if self.tasks_cancelled > 0 => "cancelled",
                () => "finished",
            },
            JobStatus::Planned if self.tasks_active + self.tasks_ended() > 0 => "running",
            JobStatus::Planned => "queued",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredApiKey {
    pub prefix: String,
    pub hash: String,
    pub scope: KeyScope,
    /// See [`CreateKey`](crate::tx::CreateKey).
    pub projects: Vec<String>,
    pub shared: bool,
    pub revoked: bool,
}
