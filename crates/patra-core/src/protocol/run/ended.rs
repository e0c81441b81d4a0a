//! How a run went, for whoever started it.

use crate::cursor::Mark;
use crate::error::Fault;
use crate::state::TaskStatus;
use crate::tx::{RunStats, TxError};

/// How it went.
#[derive(Clone, PartialEq, Debug)]
pub struct Ended {
    pub outcome: Outcome,
    pub stats: RunStats,
    /// Where the cursor was moved to by this run.
    pub cursor: Option<Mark>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// The run is closed and the task in this state. The error says why, where there is one.
    Closed(TaskStatus, Option<Fault>),
    /// Narrower windows, so many, have taken the place of the task.
    Split(usize),
    /// The plan was cancelled before the run began.
    Cancelled,
    /// The lease was lost; nothing was written after that.
    Lost,
    /// The store refused to open or close the run: a bug or a damaged database. The sweep takes the task back.
    Stuck(TxError),
}
