//! Cursor moves: the event first, then the value, each in its own transaction (ING-13.2-03).

use serde_json::json;

use super::TxError;
use crate::cursor::CursorValue;
use crate::id::{CursorId, RunId, TaskId};
use crate::state::{Direction, Operation};
use crate::time::Ts;
use crate::window::Window;

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

/// Lets a TIME cursor pass a window that stays incomplete, because a person says so: appends the cursor event for its
/// far end, with [`AcceptGap::remarks`]. The value follows with [`AdvanceCursor`], like after any other event.
///
/// The window must begin where the cursor stands or before it, so that no other gap is passed, and it must not reach
/// beyond now; otherwise `Refused`. When the cursor, or an event, is already past the window, nothing is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcceptGap {
    pub cursor: CursorId,
    pub window: Window,
    pub reason: String,
    /// A person, or the name of a key.
    pub by: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GapAccepted {
    /// Nothing was written: the cursor is past the window.
    pub existed: bool,
}

impl AcceptGap {
    /// Why stores refuse this operation; `None` when it is valid.
    pub fn invalid_reason(&self, now: Ts) -> Option<&'static str> {
        if self.window.from >= self.window.to {
            return Some("the gap must end after it begins");
        }
        if self.window.to > now {
            return Some("the gap must not reach into the future");
        }
        let unnamed = self.reason.trim().is_empty() || self.by.trim().is_empty();
        unnamed.then_some("a gap is accepted with a reason and a name")
    }

    /// The value that the cursor may move to; `None` if it is past the window. `reached` is how far everything is
    /// complete, or was accepted before.
    pub fn target(&self, direction: Direction, reached: Ts) -> Result<Option<CursorValue>, TxError> {
        let Window { from, to } = self.window;
        let (near, far) = if direction == Direction::Forward { (from, to) } else { (to, from) };
        let here = CursorValue::At(reached);
        if !CursorValue::At(far).is_beyond(Some(&here), direction) {
            return Ok(None);
        }
        if CursorValue::At(near).is_beyond(Some(&here), direction) {
            let reason = format!(
                "the cursor stands at {reached}, and another gap lies between it and {near}: accept from {reached}"
            );
            return Err(TxError::Refused(reason));
        }
        Ok(Some(CursorValue::At(far)))
    }

    /// `record_remarks` of the event.
    pub fn remarks(&self) -> String {
        let (from, to) = (self.window.from.to_string(), self.window.to.to_string());
        json!({ "reason": "ACCEPTED_GAP", "from": from, "to": to, "why": self.reason, "by": self.by }).to_string()
    }
}
