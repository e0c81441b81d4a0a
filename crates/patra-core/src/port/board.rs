//! What boards show: sums over the work, never its rows (ING-14.7). Read-only.
//!
//! The sums come from what is counted by the minute inside the transactions that do the work, so a board costs the same
//! however long the history is (ING-13.6).

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::Boxed;
use crate::error::{Code, Level};
use crate::id::{CursorId, RunId, TaskId};
use crate::state::{Direction, HoldKind, Operation};
use crate::time::Ts;
use crate::tx::{Inventory, Subject, TxError};
use crate::window::Window;

/// What work is counted by, at least: a series has no finer steps.
pub const A_MINUTE: Duration = Duration::from_secs(60);
/// What the minutes of a while ago are put together to.
pub const A_QUARTER: Duration = Duration::from_secs(15 * 60);
/// And quarters, when they are old.
pub const AN_HOUR: Duration = Duration::from_secs(3_600);
/// How long work stays counted by the minute; then by the quarter of an hour: a board of a day reads all of its rows.
pub const MINUTES_KEPT: Duration = Duration::from_secs(2 * 3_600);
/// How long by the quarter; then by the hour.
pub const QUARTERS_KEPT: Duration = Duration::from_secs(2 * 86_400);
/// And how long that (ING-14.11-02).
pub const HOURS_KEPT: Duration = Duration::from_secs(180 * 86_400);
/// Rows of one answer, at most: errors, cursors, events of a cursor.
pub const MAX_ROWS: u32 = 200;
/// Steps of one series, at most.
pub const MAX_STEPS: u32 = 1_500;

/// Which work. Every condition that is set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    pub project_key: Option<String>,
    pub provenance_code: Option<String>,
    pub endpoint_name: Option<String>,
    pub operation: Option<Operation>,
}

/// The queue of one source, endpoint and operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queued {
    pub of: Inventory,
    /// QUEUED tasks.
    pub depth: u64,
    /// Those of them whose time has come.
    pub due: u64,
    /// Since when the first of them waits.
    pub oldest_at: Option<Ts>,
    /// When the first of the others comes.
    pub next_at: Option<Ts>,
    /// DISPATCHED and EXECUTING tasks.
    pub active: u64,
    /// So many may be under way at once, as the tasks say; 0 where nothing is said.
    pub c_max: u64,
}

/// A hold that lasts and covers everything of a source, or of an endpoint or operation of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    pub kind: HoldKind,
    pub subject: Subject,
    pub reason: String,
    pub created_at: Ts,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What was done, in numbers. The columns of `ing_minute`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64),*
        }

        impl Counts {
            /// The columns, in the order of [`Counts::from_array`].
            pub const COLUMNS: &[&str] = &[$(stringify!($name)),*];

            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }

            /// Reads each number from its place among the columns.
            pub fn read<E>(mut number: impl FnMut(usize) -> Result<u64, E>) -> Result<Counts, E> {
                let mut place = 0..;
                $(let $name = number(place.next().unwrap_or_default())?;)*
                Ok(Counts { $($name),* })
            }
        }
    };
}

counts! {
    /// Runs that began.
    picks,
    /// Runs that ended SUCCEEDED, PARTIAL or FAILED.
    succeeded,
    partial,
    failed,
    /// Committed batches.
    batches,
    /// Pages that could not be read.
    batches_failed,
    /// Of all batches together.
    latency_ms,
    inserted,
    updated,
    skipped,
    /// Records that went to quarantine.
    rejected,
    /// Of the inserted and updated: those that lay below the cursor.
    late,
    retries,
    /// Answers 429.
    throttled,
    /// Permits that the gate gave.
    permits,
    wait_ms,
    retry_after,
    demoted,
    quota_soft,
    quota_hard,
    /// Batches with which the program did something about its own troubles.
    qps_downshift,
    page_size_shrink,
    concurrency_down,
    circuit_open,
    /// Tasks that narrower ones took the place of.
    resliced,
}

impl Counts {
    /// The same in proportion.
    pub fn rates(&self, span: Duration) -> Rates {
        let secs = span.as_secs_f64();
        let per_sec = |number: u64| if secs > 0.0 { number as f64 / secs } else { 0.0 };
        let ratio = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        let (ended, pages) = (self.succeeded + self.partial + self.failed, self.batches + self.batches_failed);
        let stored = self.inserted + self.updated;
        Rates {
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

/// Rates are per second; a ratio of nothing is `None`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Rates {
    pub pick_rate: f64,
    pub batch_rate: f64,
    pub item_rate: f64,
    /// Requests that the gate let out.
    pub qps: f64,
    pub success_ratio: Option<f64>,
    pub failure_ratio: Option<f64>,
    pub avg_batch_latency_ms: Option<f64>,
    pub throttled_ratio: Option<f64>,
    pub late_ratio: Option<f64>,
    pub duplicate_ratio: Option<f64>,
}

/// What was done in one step of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Step {
    /// Where it begins.
    pub at: Ts,
    #[serde(flatten)]
    pub counts: Counts,
}

/// One kind of error, with the place where it was met last.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TopError {
    #[serde(flatten)]
    pub of: Inventory,
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

/// Where a cursor stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Watermark {
    #[serde(rename = "cursor_id")]
    pub cursor: CursorId,
    pub project_key: String,
    #[serde(flatten)]
    pub of: Inventory,
    #[serde(rename = "namespace_scope_code")]
    pub scope: String,
    #[serde(rename = "namespace_key")]
    pub namespace: String,
    #[serde(rename = "direction_code")]
    pub direction: Direction,
    #[serde(rename = "cursor_value")]
    pub value: Option<String>,
    /// Of a cursor over time.
    #[serde(rename = "normalized_instant")]
    pub instant: Option<Ts>,
    pub updated_at: Ts,
}

impl Watermark {
    /// How far a cursor that follows the present lies behind it.
    pub fn lag(&self, now: Ts) -> Option<Duration> {
        self.instant.filter(|_| self.of.operation == Operation::Harvest).map(|at| now.since(at))
    }
}

/// Which cursors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CursorAsk {
    pub about: About,
    /// Scope and key of a namespace.
    pub namespace: Option<String>,
    /// At most [`MAX_ROWS`].
    pub limit: u32,
}

/// A step of a cursor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Advanced {
    pub id: i64,
    #[serde(rename = "cursor_id")]
    pub cursor: CursorId,
    #[serde(rename = "prev_value")]
    pub from: Option<String>,
    #[serde(rename = "new_value")]
    pub to: String,
    pub observed_max_value: Option<String>,
    /// Records of the run that came late.
    pub late: u64,
    pub run_id: Option<RunId>,
    pub batch_no: Option<u32>,
    pub created_at: Ts,
}

/// Answers of a far side with one status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct HttpStatus {
    /// 0 where no answer came.
    pub status: u16,
    pub batches: u64,
}

pub trait Boards: fmt::Debug + Send + Sync {
    /// What is queued and under way now, by source, endpoint and operation, in no order; and the database's clock.
    fn queued(&self, about: About) -> Boxed<'_, Result<(Vec<Queued>, Ts), TxError>>;

    /// Holds that last and name no plan, slice, task or credential, oldest first, at most [`MAX_ROWS`].
    fn held(&self) -> Boxed<'_, Result<Vec<Held>, TxError>>;

    /// What was done within the minutes that begin in a window, by source, endpoint and operation, in no order. What is
    /// older than [`MINUTES_KEPT`] lies in the first minute of its quarter of an hour, than [`QUARTERS_KEPT`] of its hour.
    fn counts(&self, about: About, window: Window) -> Boxed<'_, Result<Vec<(Inventory, Counts)>, TxError>>;

    /// The same in steps of so many minutes, which are counted from 1970; those without any work are left out. At most
    /// [`MAX_STEPS`], the first ones.
    fn series(&self, about: About, window: Window, minutes: u32) -> Boxed<'_, Result<Vec<Step>, TxError>>;

    /// The most frequent errors of a window, of one level or of all, the newer of equals first; at most `limit` and
    /// [`MAX_ROWS`]. An error is a run that failed, or stopped short at a page that could not be read; of L3, a record in
    /// quarantine.
    fn errors(
        &self,
        about: About,
        level: Option<Level>,
        window: Window,
        limit: u32,
    ) -> Boxed<'_, Result<Vec<TopError>, TxError>>;

    /// Cursors, those first that lie furthest back, and without a time last.
    fn watermarks(&self, ask: CursorAsk) -> Boxed<'_, Result<Vec<Watermark>, TxError>>;

    /// Steps of a cursor within a window, newest first, at most `limit` and [`MAX_ROWS`].
    fn advances(&self, cursor: CursorId, window: Window, limit: u32) -> Boxed<'_, Result<Vec<Advanced>, TxError>>;

    /// What the far side answered to a run, by status.
    fn statuses(&self, run: RunId) -> Boxed<'_, Result<Vec<HttpStatus>, TxError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-11.10-03
    #[test]
    fn ratios_are_of_what_there_was_and_none_of_nothing() {
        let counts = Counts {
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
            ..Counts::default()
        };
        let rates = counts.rates(A_MINUTE);
        assert_eq!((rates.pick_rate, rates.success_ratio, rates.failure_ratio), (2.0, Some(0.6), Some(0.2)));
        assert_eq!((rates.avg_batch_latency_ms, rates.throttled_ratio), (Some(500.0), Some(0.1)));
        assert_eq!((rates.late_ratio, rates.duplicate_ratio), (Some(0.1), Some(0.2)));
        assert_eq!(Counts::default().rates(Duration::ZERO), Rates::default());
    }
}
