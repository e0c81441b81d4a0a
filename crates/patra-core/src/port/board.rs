//! Queries for boards: sums over the work, never its rows (ING-14.7). Read-only.
//!
//! The transactions that do the work also count it by the minute; the sums come from there, so a board costs the same
//! however long the history is (ING-13.6).

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::BoxFuture;
use crate::error::{Code, Level};
use crate::id::{CursorId, RunId, TaskId};
use crate::state::{Direction, Operation, PauseKind};
use crate::time::Ts;
use crate::tx::{PartitionKey, PauseSubject, TxError};
use crate::window::Window;

/// The finest step in which work is counted.
pub const A_MINUTE: Duration = Duration::from_secs(60);
/// The step that older minutes are merged into.
pub const A_QUARTER: Duration = Duration::from_secs(15 * 60);
/// The step that older quarters of an hour are merged into.
pub const AN_HOUR: Duration = Duration::from_secs(3_600);
/// How long minutes are kept before they are merged into quarters of an hour: a board of a day reads all of its rows.
pub const MINUTES_KEPT: Duration = Duration::from_secs(2 * 3_600);
/// How long quarters of an hour are kept before they are merged into hours.
pub const QUARTERS_KEPT: Duration = Duration::from_secs(2 * 86_400);
/// How long hours are kept (ING-14.11-02).
pub const HOURS_KEPT: Duration = Duration::from_secs(180 * 86_400);
/// Maximum rows of one result: errors, cursors, events of a cursor.
pub const MAX_ROWS: u32 = 200;
/// Maximum steps of one series.
pub const MAX_STEPS: u32 = 1_500;

/// Filters work. Every condition that is set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkFilter {
    pub project_key: Option<String>,
    pub provenance_code: Option<String>,
    pub endpoint_name: Option<String>,
    pub operation: Option<Operation>,
}

/// The queue of one source, endpoint and operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueDepth {
    pub partition: PartitionKey,
    /// QUEUED tasks.
    pub depth: u64,
    /// QUEUED tasks that are due.
    pub due: u64,
    /// Since when the oldest due task waits.
    pub oldest_at: Option<Ts>,
    /// When the first of the other tasks becomes due.
    pub next_at: Option<Ts>,
    /// DISPATCHED and EXECUTING tasks.
    pub active: u64,
    /// Maximum active tasks according to the tasks; 0 when no task sets it.
    pub c_max: u64,
}

/// An active pause that covers a whole source, or one of its endpoints or operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActivePause {
    pub kind: PauseKind,
    pub subject: PauseSubject,
    pub reason: String,
    pub created_at: Ts,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts of the work done. The columns of `ing_minute`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
        pub struct WorkCounts {
            $($(#[$doc])* pub $name: u64),*
        }

        impl WorkCounts {
            /// The columns, in the order of [`WorkCounts::read`].
            pub const COLUMNS: &[&str] = &[$(stringify!($name)),*];

            pub fn add(&mut self, other: &WorkCounts) {
                $(self.$name += other.$name;)*
            }

            /// Reads each number by its index among the columns.
            pub fn read<E>(mut number: impl FnMut(usize) -> Result<u64, E>) -> Result<WorkCounts, E> {
                let mut place = 0..;
                $(let $name = number(place.next().unwrap_or_default())?;)*
                Ok(WorkCounts { $($name),* })
            }
        }
    };
}

counts! {
    /// Runs that started.
    picks,
    /// Runs that ended SUCCEEDED, PARTIAL or FAILED.
    succeeded,
    partial,
    failed,
    /// Committed batches.
    batches,
    /// Pages that could not be read.
    batches_failed,
    /// Total latency of all batches.
    latency_ms,
    inserted,
    updated,
    skipped,
    /// Records that went to quarantine.
    rejected,
    /// Inserted and updated records that were below the cursor.
    late,
    retries,
    /// Responses with status 429.
    throttled,
    /// Permits that the gate granted.
    permits,
    wait_ms,
    retry_after,
    demoted,
    quota_soft,
    quota_hard,
    /// Batches during which a self-healing measure was active.
    qps_downshift,
    page_size_shrink,
    concurrency_down,
    circuit_open,
    /// Tasks that were replaced by narrower ones.
    resliced,
}

impl WorkCounts {
    /// Rates and ratios over a span of time.
    pub fn rates(&self, span: Duration) -> WorkRates {
        let secs = span.as_secs_f64();
        let per_sec = |number: u64| if secs > 0.0 { number as f64 / secs } else { 0.0 };
        let ratio = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        let (ended, pages) = (self.succeeded + self.partial + self.failed, self.batches + self.batches_failed);
        let stored = self.inserted + self.updated;
        WorkRates {
            pick_rate: per_sec(self.picks),
            batch_rate: per_sec(self.batches),
            item_rate: per_sec(stored + self.skipped),
            qps: per_sec(self.permits),
            success_ratio: ratio(self.succeeded, ended),
            failure_ratio: ratio(self.failed, ended),
            avg_batch_latency_ms: ratio(self.latency_ms, pages),
            throttled_ratio: ratio(self.throttled, pages),
            late_ratio: ratio(self.late, stored),
            duplicate_ratio: ratio(self.skipped, stored + self.skipped),
        }
    }
}

/// Rates are per second; a ratio with a denominator of 0 is `None`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct WorkRates {
    pub pick_rate: f64,
    pub batch_rate: f64,
    pub item_rate: f64,
    /// Requests that the gate admitted.
    pub qps: f64,
    pub success_ratio: Option<f64>,
    pub failure_ratio: Option<f64>,
    pub avg_batch_latency_ms: Option<f64>,
    pub throttled_ratio: Option<f64>,
    pub late_ratio: Option<f64>,
    pub duplicate_ratio: Option<f64>,
}

/// Counts of one step of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SeriesStep {
    /// Start of the step.
    pub at: Ts,
    #[serde(flatten)]
    pub counts: WorkCounts,
}

/// One kind of error, with its last occurrence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TopError {
    #[serde(flatten)]
    pub partition: PartitionKey,
    pub level: Level,
    #[serde(rename = "error_code")]
    pub code: Code,
    pub errors: u64,
    pub message: String,
    pub last_at: Ts,
    pub task_id: TaskId,
    pub run_id: RunId,
    /// `None` when no page failed.
    pub batch_no: Option<u32>,
}

/// Current value of a cursor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Watermark {
    #[serde(rename = "cursor_id")]
    pub cursor: CursorId,
    pub project_key: String,
    #[serde(flatten)]
    pub partition: PartitionKey,
    #[serde(rename = "namespace_scope_code")]
    pub scope: String,
    #[serde(rename = "namespace_key")]
    pub namespace: String,
    #[serde(rename = "direction_code")]
    pub direction: Direction,
    #[serde(rename = "cursor_value")]
    pub value: Option<String>,
    /// Set for a cursor over time.
    #[serde(rename = "normalized_instant")]
    pub instant: Option<Ts>,
    pub updated_at: Ts,
}

impl Watermark {
    /// How far a HARVEST cursor is behind now.
    pub fn lag(&self, now: Ts) -> Option<Duration> {
        self.instant.filter(|_| self.partition.operation == Operation::Harvest).map(|at| now.since(at))
    }
}

/// Filters cursors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CursorFilter {
    pub work: WorkFilter,
    /// Scope and key of a namespace.
    pub namespace: Option<String>,
    /// At most [`MAX_ROWS`].
    pub limit: u32,
}

/// One move of a cursor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CursorStep {
    pub id: i64,
    #[serde(rename = "cursor_id")]
    pub cursor: CursorId,
    #[serde(rename = "prev_value")]
    pub from: Option<String>,
    #[serde(rename = "new_value")]
    pub to: String,
    pub observed_max_value: Option<String>,
    /// Late records of the run.
    pub late: u64,
    pub run_id: Option<RunId>,
    pub batch_no: Option<u32>,
    pub created_at: Ts,
}

/// Responses of an upstream with one status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct HttpStatusCount {
    /// 0 when there was no response.
    pub status: u16,
    pub batches: u64,
}

pub trait BoardQueries: fmt::Debug + Send + Sync {
    /// Queued and active tasks now, by source, endpoint and operation, unordered; and the database's clock.
    fn queued(&self, filter: WorkFilter) -> BoxFuture<'_, Result<(Vec<QueueDepth>, Ts), TxError>>;

    /// Active pauses that name no plan, slice, task or credential, oldest first, at most [`MAX_ROWS`].
    fn active_pauses(&self) -> BoxFuture<'_, Result<Vec<ActivePause>, TxError>>;

    /// Counts of the minutes that begin in a window, by source, endpoint and operation, unordered. Minutes older than
    /// [`MINUTES_KEPT`] are in the first minute of their quarter of an hour, those older than [`QUARTERS_KEPT`] in
    /// the first of their hour.
    fn counts(
        &self,
        filter: WorkFilter,
        window: Window,
    ) -> BoxFuture<'_, Result<Vec<(PartitionKey, WorkCounts)>, TxError>>;

    /// Counts in steps of this many minutes, aligned to 1970; steps without work are omitted. At most [`MAX_STEPS`],
    /// the first ones.
    fn series(
        &self,
        filter: WorkFilter,
        window: Window,
        minutes: u32,
    ) -> BoxFuture<'_, Result<Vec<SeriesStep>, TxError>>;

    /// The most frequent errors of a window, of one level or of all, the newer of equals first; at most `limit` and
    /// [`MAX_ROWS`]. An error is a run that failed, or stopped short at a page that could not be read; for L3, a
    /// record in quarantine.
    fn errors(
        &self,
        filter: WorkFilter,
        level: Option<Level>,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<TopError>, TxError>>;

    /// Cursors, the furthest behind first, those without a time last.
    fn watermarks(&self, filter: CursorFilter) -> BoxFuture<'_, Result<Vec<Watermark>, TxError>>;

    /// Moves of a cursor within a window, newest first, at most `limit` and [`MAX_ROWS`].
    fn advances(&self, cursor: CursorId, window: Window, limit: u32)
    -> BoxFuture<'_, Result<Vec<CursorStep>, TxError>>;

    /// Responses of the upstream to a run, by status.
    fn statuses(&self, run: RunId) -> BoxFuture<'_, Result<Vec<HttpStatusCount>, TxError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-11.10-03
    #[test]
    fn ratio_without_data_is_none() {
        let counts = WorkCounts {
            picks: 120,
            succeeded: 6,
            partial: 2,
            failed: 2,
            batches: 8,
            batches_failed: 2,
            latency_ms: 5_000,
            inserted: 60,
            updated: 20,
            skipped: 20,
            late: 8,
            throttled: 1,
            ..WorkCounts::default()
        };
        let rates = counts.rates(A_MINUTE);
        assert_eq!((rates.pick_rate, rates.success_ratio, rates.failure_ratio), (2.0, Some(0.6), Some(0.2)));
        assert_eq!((rates.avg_batch_latency_ms, rates.throttled_ratio), (Some(500.0), Some(0.1)));
        assert_eq!((rates.late_ratio, rates.duplicate_ratio), (Some(0.1), Some(0.2)));
        assert_eq!(WorkCounts::default().rates(Duration::ZERO), WorkRates::default());
    }
}
