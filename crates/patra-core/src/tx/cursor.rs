//! Event first, value after, each in its own transaction (ING-13.2-03).

use crate::id::{CursorId, RunId, TaskId};
use crate::time::Ts;

/// Computes the contiguous completed prefix of the namespace (windows of its SUCCEEDED tasks, from the value or, without
/// one, from the origin) and appends a cursor event when it lies beyond the newest event. The cursor row is locked
/// first, so two callers cannot write the same step twice; `(cursor, new value)` is the event's idempotency key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordAdvance {
    pub cursor: CursorId,
    /// Whose end led here, for the event's lineage.
    pub cause: Option<(TaskId, RunId)>,
    pub observed_max: Option<Ts>,
}

/// Where the cursor stands and where its events allow it to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advance {
    pub value: Option<Ts>,
    /// The newest event's value; `None` when there is none yet.
    pub target: Option<Ts>,
    pub version: i64,
}

/// Moves the value to `to` when the row's version is `version`, the value is missing or smaller, and an event with this
/// value or a greater one exists; bumps the version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdvanceCursor {
    pub cursor: CursorId,
    pub to: Ts,
    pub version: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CursorMoved {
    pub moved: bool,
}
