//! One attempt at a task: opening it, committing pages, closing it. Every operation is fenced.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::control::PauseWork;
use super::missing::PassPage;
use super::plan::NewSlice;
use super::pool::{Capture, Captured};
use super::refresh::CheckedRecord;
use super::source::PollEnd;
use super::task::{LeaseRef, TaskLineage};
use crate::error::Fault;
use crate::id::{BatchId, RunId, SourceId};
use crate::paging::{Position, Verification, WalkProgress};
use crate::record::{CandidateMark, HeldMemory, Record, RecordStream, RejectedRecord};
use crate::source::Validators;
use crate::state::TaskStatus;
use crate::time::Ts;
use crate::window::Window;

/// Opens the run of a leased task.
///
/// `Fenced` unless the task is DISPATCHED or EXECUTING under this fence. When the plan is FAILED or CANCELLED, or the
/// slice is FAILED or CANCELLED, the task becomes CANCELLED and no run is made (C-48). Otherwise the task becomes
/// EXECUTING (`started_at` is set the first time) and a run is inserted with `attempt_no` = fence, RUNNING; a run
/// that exists under this fence is returned again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartRun {
    pub lease: LeaseRef,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunStarted {
    Go {
        run: RunId,
        attempt_no: i64,
        snapshot_hash: String,
        slice_signature_hash: String,
        resume: Option<ResumePoint>,
        /// Validators of the source of a poll, from its last poll.
        validators: Option<Box<Validators>>,
    },
    Cancelled,
}

/// The last batch of the unbroken SUCCEEDED sequence over all runs of the task (C-36): the highest batch of the
/// latest run that committed any; for a redriven task that has committed nothing, the resume point of the task that
/// it replaces. Only the ledger counts. Stored in the new run's `checkpoint` as `resumedFrom`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResumePoint {
    pub run: RunId,
    pub batch_no: u32,
    /// Position to continue at; `None` when that batch was the last of the slice.
    pub next: Option<Position>,
    /// That batch's [`BatchStats::total`].
    pub total: Option<u64>,
    /// That batch's [`BatchStats::taken`].
    pub taken: Option<u64>,
    /// That batch's [`BatchStats::walk`].
    pub walk: Option<Box<WalkProgress>>,
}

/// Commits one page: ledger row, records, quarantine, in one transaction.
///
/// `Fenced` unless the task is EXECUTING under this fence. When `(run, batch_no)` is SUCCEEDED already, nothing is
/// written and the old numbers are returned with `replayed` ("read old, do not rewrite"). Records are inserted, or
/// replace the stored one when their version is greater, or are skipped; with `refresh` an equal version replaces too
/// when the generation or the content differs (C-62); see [`PassPage`] for records without an update time. Inserted and replaced records take `generation` and
/// `refresh_checked_at` = now. With `progress` the task's attempts go to 0.
///
/// A rejected record with a key gets an OPEN signal, unless there is one, and is SIGNALLED in the quarantine; without
/// a key it is OPEN there. After that, a record that is inserted or replaces resolves the OPEN signal for its key, if
/// the quarantine made it, and the SIGNALLED rows for its key. `checked` is applied last, see [`CheckedRecord`].
/// Signals and quarantine rows are found by the stream's project, provenance and endpoint, and the key.
#[derive(Clone, PartialEq, Debug)]
pub struct CommitBatch {
    pub lease: LeaseRef,
    pub lineage: TaskLineage,
    pub run: RunId,
    /// From 1, without gaps within a run.
    pub batch_no: u32,
    pub expr_hash: String,
    pub idempotent_key: String,
    /// Value of `uk_run_before_tok`: the position's token, made distinct where an upstream repeats it (C-37).
    pub before_token: Option<String>,
    pub position: Position,
    /// `None`: this was the last page.
    pub next: Option<Position>,
    pub page_size: u32,
    pub stream: Arc<RecordStream>,
    /// The source of a poll: each record, stored now or before, becomes one of its items.
    pub source: Option<SourceId>,
    /// One per key, sorted by key.
    pub records: Vec<Record>,
    pub rejected: Vec<RejectedRecord>,
    /// Ids whose details this batch settled, sorted by id, without duplicates. Written to `ing_candidate`: FETCHED
    /// with its version, or BAD with the reason, one more try, and the time until which it is skipped
    /// ([`crate::record::bad_id_pause`]).
    pub marks: Vec<CandidateMark>,
    /// The slice has advanced. A page that leads back to itself has not: if it counted, a task whose details are
    /// never available would be tried for ever.
    pub progress: bool,
    /// Records that an UPDATE checked, sorted by key, without duplicates.
    pub checked: Vec<CheckedRecord>,
    /// Mapping generation of the records.
    pub generation: Arc<str>,
    /// Write the events of [`CommitBatch::events`] for the stored records.
    pub emit: bool,
    pub refresh: bool,
    /// Set where the slice reads a whole list; no record of it is late.
    pub pass: Option<PassPage>,
    /// The upstream's response, kept for replays.
    pub raw: Option<RawResponse>,
    /// `inserted`, `updated` and `late` are 0 here, `skipped` counts the records that were dropped before the commit;
    /// the store adds its part.
    pub stats: BatchStats,
    /// JSON, redacted.
    pub request_digest: String,
    pub response_digest: String,
    /// URLs for the pool, where capture is enabled.
    pub capture: Option<Capture>,
    /// Memory that the page holds until it is stored.
    pub memory: HeldMemory,
}

/// A response of the upstream as received, for `ing_raw`: one per batch. Kept until now + `keep`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawResponse {
    pub status: u16,
    /// JSON array of `[name, value]`, redacted.
    pub headers: String,
    /// Compressed; only the writer of the body reads it.
    pub body: Bytes,
    pub keep: Duration,
}

/// `ing_task_run_batch.stats` (ING-14.3-03). Later fields are omitted when they are empty, and may be missing in rows
/// of older versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchStats {
    pub items_count: u32,
    pub inserted: u32,
    pub updated: u32,
    pub skipped: u32,
    pub failed: u32,
    pub latency_ms: u32,
    pub retry_count: u32,
    #[serde(rename = "429Count")]
    pub throttled_count: u32,
    pub has_next: bool,
    pub http: HttpStats,
    /// Inserted and updated records of a HARVEST whose update time was below the cursor's value when they were
    /// committed (G-13).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u32,
    #[serde(default, skip_serializing_if = "SelfHealing::is_none")]
    pub self_healing: SelfHealing,
    #[serde(default, skip_serializing_if = "RateStats::is_none")]
    pub rate: RateStats,
    /// The part of `skipped` that was dropped before the commit on purpose, by reason. The rest are records that the
    /// store has already.
    #[serde(default, skip_serializing_if = "SkipReasons::is_none")]
    pub skipped_by: SkipReasons,
    /// Total records of the slice as the upstream reports it, except with tokens: if a later run sees another, records
    /// may have moved past the position where it resumes (G-23).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Records that the task has taken including this page, where it has a record limit: a later run continues this
    /// count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<u64>,
    /// State of the completeness checks after this page: a later run continues them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk: Option<WalkProgress>,
}

/// Records that were read and are not stored, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SkipReasons {
    /// The update time is outside the slice's window, and the upstream does not filter by time.
    pub out_of_window: u32,
    /// `record.filter` excludes them.
    pub filtered: u32,
}

impl SkipReasons {
    pub fn total(&self) -> u32 {
        self.out_of_window.saturating_add(self.filtered)
    }

    pub fn is_none(&self) -> bool {
        *self == SkipReasons::default()
    }

    pub fn add(&mut self, other: &SkipReasons) {
        self.out_of_window = self.out_of_window.saturating_add(other.out_of_window);
        self.filtered = self.filtered.saturating_add(other.filtered);
    }
}

/// How the gate affected the batch or run (ING-4.10-34, C-53).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateStats {
    pub permits_total: u32,
    pub wait_total_ms: u64,
    pub retry_after_hits: u32,
    /// Responses that lowered the rate.
    pub demote_events: u32,
    pub quota_soft_hits: u32,
    pub quota_hard_hits: u32,
}

impl RateStats {
    pub fn add(&mut self, other: &RateStats) {
        self.permits_total = self.permits_total.saturating_add(other.permits_total);
        self.wait_total_ms = self.wait_total_ms.saturating_add(other.wait_total_ms);
        self.retry_after_hits = self.retry_after_hits.saturating_add(other.retry_after_hits);
        self.demote_events = self.demote_events.saturating_add(other.demote_events);
        self.quota_soft_hits = self.quota_soft_hits.saturating_add(other.quota_soft_hits);
        self.quota_hard_hits = self.quota_hard_hits.saturating_add(other.quota_hard_hits);
    }

    fn is_none(&self) -> bool {
        *self == RateStats::default()
    }
}

/// Measures taken against an upstream in trouble while this batch was read (ING-12.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelfHealing {
    /// Fewer requests a second.
    pub qps_downshift: bool,
    /// Smaller pages.
    pub page_size_shrink: bool,
    /// Fewer tasks at once.
    pub concurrency_down: bool,
    /// The request waited for an open circuit.
    pub circuit_open: bool,
}

impl SelfHealing {
    pub fn is_none(&self) -> bool {
        *self == SelfHealing::default()
    }

    pub fn add(&mut self, other: SelfHealing) {
        self.qps_downshift |= other.qps_downshift;
        self.page_size_shrink |= other.page_size_shrink;
        self.concurrency_down |= other.concurrency_down;
        self.circuit_open |= other.circuit_open;
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HttpStats {
    pub status: u16,
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchCommitted {
    pub batch: BatchId,
    pub stats: BatchStats,
    /// The batch was committed before.
    pub replayed: bool,
    pub captured: Captured,
}

/// Closes a run. `Fenced` unless the task is EXECUTING under this fence; for a run that is closed already under this
/// fence, the task's current status is returned again.
///
/// The task's `items` rise by `stats.ret_count`, its done part becomes `done` when that is set, and `pause` is set as
/// by [`PauseWork`](super::PauseWork). A task that succeeds ends the ADVISORY pause on exactly its partition, by
/// [`ResumeWork::BY_SUCCESS`](super::ResumeWork::BY_SUCCESS). Without a `failure` no raw response is stored.
#[derive(Clone, PartialEq, Debug)]
pub struct EndRun {
    pub lease: LeaseRef,
    pub lineage: TaskLineage,
    pub run: RunId,
    pub end: RunEnd,
    pub stats: RunStats,
    /// The batch that could not be completed, for the ledger: a FAILED row.
    pub failure: Option<BatchFailure>,
    /// The part of the window that is complete although the task is not; set only where records are known to come in order.
    pub done: Option<Window>,
    /// The halt (BREAK), or the advisory pause.
    pub pause: Option<PauseWork>,
    /// A counted requeue at or above this many attempts fails the task.
    pub max_attempts: u32,
    /// Set for a poll.
    pub poll: Option<PollEnd>,
}

impl EndRun {
    /// Whether the slice was read to its end, while nothing shows that it is complete.
    pub fn is_unverified(&self) -> bool {
        let by = self.stats.verification;
        self.end == RunEnd::Succeeded && by.is_some_and(|by| !by.is_complete())
    }
}

/// How a run ends, and the next state of its task. Lease columns are cleared in every case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// Run and task SUCCEEDED, `finished_at` set.
    Succeeded,
    /// Run and task PARTIAL: a cap or a budget stopped the reading before the end.
    Partial { error: Fault },
    /// Run, task and slice become PARTIAL and the task is marked as replaced: these slices, which together with the
    /// done part are its window, replace it. Each is inserted unless `(plan, signature)` exists, with its task unless
    /// the key exists, QUEUED now, with plan, job, cursor, credential, priority and C_max of this one (C-26, G-26).
    Split { error: Fault, slices: Vec<NewSlice> },
    /// Run and task FAILED.
    Failed { error: Fault },
    /// The task goes back to QUEUED, visible again at now + `delay`. A `counted` one is a failed attempt: the run is
    /// FAILED, and the task too once its attempts have reached `max_attempts`. Otherwise it is a deferral (C-11): the
    /// run is PARTIAL if it committed a batch, else CANCELLED, and the attempt is not counted.
    Requeue { delay: Duration, error: Fault, counted: bool },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchFailure {
    pub batch_no: u32,
    pub expr_hash: String,
    pub idempotent_key: String,
    pub position: Position,
    pub page_size: u32,
    pub error: Fault,
    pub stats: BatchStats,
    pub request_digest: String,
    pub response_digest: String,
    pub raw: Option<RawResponse>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunEnded {
    pub task_status: TaskStatus,
}

impl RunEnd {
    pub fn error(&self) -> Option<&Fault> {
        match self {
            RunEnd::Succeeded => None,
            RunEnd::Partial { error }
            | RunEnd::Split { error, .. }
            | RunEnd::Failed { error }
            | RunEnd::Requeue { error, .. } => Some(error),
        }
    }
}

/// `ing_task_run.stats` (ING-14.3-02): the sum over the run's batches.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStats {
    pub req_count: u32,
    pub ret_count: u32,
    pub inserted: u32,
    pub updated: u32,
    pub skipped: u32,
    pub failed: u32,
    pub retry_count: u32,
    #[serde(rename = "429Count")]
    pub throttled_count: u32,
    pub avg_latency_ms: u32,
    pub max_latency_ms: u32,
    pub pages_visited: u32,
    pub has_next_last: bool,
    /// Largest update time seen, for the cursor event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_max: Option<Ts>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u32,
    /// The rate was lowered during the run.
    #[serde(default)]
    pub rate_adjusted: bool,
    #[serde(default, rename = "circuit_open", skip_serializing_if = "std::ops::Not::not")]
    pub circuit_open: bool,
    #[serde(default, skip_serializing_if = "SelfHealing::is_none")]
    pub self_healing: SelfHealing,
    #[serde(default, skip_serializing_if = "RateStats::is_none")]
    pub rate: RateStats,
    #[serde(default, skip_serializing_if = "SkipReasons::is_none")]
    pub skipped_by: SkipReasons,
    /// What the completeness of a slice that was read to its end is known by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Records that this run has marked as missing.
    #[serde(default, skip_serializing_if = "is_none")]
    pub missing: u64,
    /// Why a complete pass has marked no missing records, where it should have.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub missing_unmarked: String,
    /// Other remarks, such as why the window was split.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remarks: String,
}

impl RunStats {
    pub fn add(&mut self, batch: &BatchStats) {
        self.ret_count += batch.items_count;
        self.inserted += batch.inserted;
        self.updated += batch.updated;
        self.skipped += batch.skipped;
        self.skipped_by.add(&batch.skipped_by);
        self.failed += batch.failed;
        self.retry_count += batch.retry_count;
        self.throttled_count += batch.throttled_count;
        let before = u64::from(self.avg_latency_ms) * u64::from(self.pages_visited);
        self.pages_visited += 1;
        self.avg_latency_ms = ((before + u64::from(batch.latency_ms)) / u64::from(self.pages_visited)) as u32;
        self.max_latency_ms = self.max_latency_ms.max(batch.latency_ms);
        self.has_next_last = batch.has_next;
        self.late += batch.late;
        self.heal(batch.self_healing);
    }

    pub fn heal(&mut self, healing: SelfHealing) {
        self.self_healing.add(healing);
        self.rate_adjusted |= healing.qps_downshift;
        self.circuit_open |= healing.circuit_open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-14.3-02, ING-14.3-03, ING-14.3-04, ING-0.1-02
    #[test]
    fn run_statistics_are_the_sum_of_the_batches_under_the_documented_names() {
        let batch = BatchStats {
            items_count: 100,
            inserted: 71,
            updated: 28,
            skipped: 1,
            latency_ms: 520,
            ..Default::default()
        };
        let mut run = RunStats::default();
        run.add(&batch);
        run.add(&BatchStats { latency_ms: 480, has_next: true, throttled_count: 3, ..batch });
        assert_eq!(run.ret_count, run.inserted + run.updated + run.skipped + run.failed);
        assert_eq!((run.avg_latency_ms, run.max_latency_ms, run.pages_visited, run.has_next_last), (500, 520, 2, true));
        let json = serde_json::to_value(&run).unwrap();
        assert_eq!(json["429Count"], 3);
        assert_eq!(json["pagesVisited"], 2);
    }
}
