//! Cursor moves: the event first, then the value, each in its own transaction (ING-13.2-03).

use serde_json::json;

use crate::cursor::CursorValue;
use crate::id::{CursorId, RunId, TaskId};
use crate::state::{Direction, Operation};
use crate::time::Ts;

/// Computes how far the namespace is complete and appends a cursor event when that lies beyond the newest event. The
/// event is written under a lock of the cursor's row, so two callers cannot write the same step twice; `(cursor, new
/// value)` is the event's idempotency key.
///
/// TIME: [`crate::cursor::completed_end`] in the cursor's direction, from the value or, without one, from the origin,
/// over the windows that are complete. A window is complete when every task of the plan with exactly this window that
/// was not replaced is SUCCEEDED (a window may be read in several page ranges); the done parts of tasks that ended
/// short count too.
///
/// ID: the segments of the namespace's newest plan that has any, by `ordinal`, from the value on, as long as their
/// tasks, without those that were replaced, are SUCCEEDED one after the other; earlier plans are behind it. Plans in
/// parts may take turns, so the numbers between two segments of a plan may belong to another plan. The new value is
/// that of the last segment: its ordinal + 1, its last id.
///
/// The event's `record_remarks` are [`RecordAdvance::remarks`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordAdvance {
    pub cursor: CursorId,
    /// The run whose end caused the advance, for the event's lineage.
    pub cause: Option<AdvanceCause>,
    pub observed_max: Option<Ts>,
}

impl RecordAdvance {
    pub fn remarks(&self, operation: Operation) -> String {
        let (batch_no, late) = self.cause.map_or((None, 0), |cause| (Some(cause.batch_no), cause.late));
        json!({ "reason": operation.as_str(), "batchNo": batch_no, "lateArrival": late }).to_string()
    }
}

/// The end of a run. Schedule, plan, slice and expression are read from the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdvanceCause {
    pub task: TaskId,
    pub run: RunId,
    /// The run's last batch.
    pub batch_no: u32,
    /// Records of the run that came late (G-13), for `record_remarks`.
    pub late: u32,
}

/// Current value of the cursor, and the value that its events allow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdvanceRecorded {
    pub direction: Direction,
    pub value: Option<CursorValue>,
    /// The furthest event's value; `None` when there is none yet.
    pub target: Option<CursorValue>,
    /// The run that the event names as its cause, and that moves the value unless it dies. `None` when a planner
    /// recorded the event.
    pub by: Option<RunId>,
    pub version: i64,
}

/// Moves the value to `to` when the row's version is `version`, the value is missing or `to` lies beyond it, and an
/// event with this value or one beyond it exists; increments the version. Lineage (with `expr_hash` and `batch_no`)
/// and `observed_max_value` are copied from the nearest such event; the latter only upwards. A value on the wrong
/// side of the origin is `Refused`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdvanceCursor {
    pub cursor: CursorId,
    pub to: CursorValue,
    pub version: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CursorMoved {
    pub moved: bool,
}
