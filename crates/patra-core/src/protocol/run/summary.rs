//! Summary of a run for its caller.

use crate::cursor::CursorValue;
use crate::error::Fault;
use crate::state::TaskStatus;
use crate::tx::{RunStats, TxError};

#[derive(Clone, PartialEq, Debug)]
pub struct RunSummary {
    pub outcome: RunOutcome,
    pub stats: RunStats,
    /// The value that this run moved the cursor to.
    pub cursor: Option<CursorValue>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum RunOutcome {
    /// The run is closed and the task in this state. The error is the reason, where there is one.
    Closed(TaskStatus, Option<Fault>),
    /// This many narrower windows have replaced the task.
    Split(usize),
    /// The plan was cancelled before the run started.
    Cancelled,
    /// The lease was lost; nothing was written after that.
    Lost,
    /// The store refused to open or close the run: a bug or a damaged database. The sweeper takes the task back.
    Stuck(TxError),
}
