//! Event first, value after, each in its own transaction (ING-13.2-03).

use serde_json::json;

use crate::cursor::Mark;
use crate::id::{CursorId, RunId, TaskId};
use crate::state::{Direction, Operation};
use crate::time::Ts;

/// Computes how far the namespace is complete and appends a cursor event when that lies beyond the newest event. It
/// is written under a lock of the cursor's row, so two callers cannot write the same step twice; `(cursor, new value)` is the event's
/// idempotency key.
///
/// TIME: [`crate::cursor::completed_end`] in the cursor's direction, from the value or, without one, from the origin, over
/// the windows that are complete: those of which every task of the plan that has this very window, and was not replaced,
/// is SUCCEEDED (a window may be read in several page ranges), and the done parts of tasks that ended short.
///
/// ID: the segments of the namespace's newest plan that has any, by `ordinal`, from the value on, as far as one after the other
/// their tasks, those that were replaced apart, are SUCCEEDED; earlier plans are behind it. Plans in parts may take turns, so
/// the numbers between two segments of a plan may be another's. The mark is the last of them: its ordinal + 1, its last id.
///
/// The event's `record_remarks` are [`RecordAdvance::remarks`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordAdvance {
    pub cursor: CursorId,
    /// Whose end led here, for the event's lineage.
    pub cause: Option<Cause>,
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
pub struct Cause {
    pub task: TaskId,
    pub run: RunId,
    /// The run's last batch.
    pub batch_no: u32,
    /// Records of the run that came late (G-13), for `record_remarks`.
    pub late: u32,
}

/// Where the cursor stands and where its events allow it to go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advance {
    pub direction: Direction,
    pub value: Option<Mark>,
    /// The furthest event's value; `None` when there is none yet.
    pub target: Option<Mark>,
    /// The run that the event names as its cause, and that moves the value unless it dies. None has caused a planner's.
    pub by: Option<RunId>,
    pub version: i64,
}

/// Moves the value to `to` when the row's version is `version`, the value is missing or `to` lies beyond it, and an event
/// with this value or one beyond it exists; bumps the version. Lineage (`expr_hash` and `batch_no` too) and
/// `observed_max_value` are taken from that event, of several the nearest; the latter only upwards. A value on the wrong side
/// of the origin is `Refused`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdvanceCursor {
    pub cursor: CursorId,
    pub to: Mark,
    pub version: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CursorMoved {
    pub moved: bool,
}
