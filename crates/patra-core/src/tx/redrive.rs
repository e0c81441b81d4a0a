//! Running again what has ended, on purpose (C-64). The far side of replaying: this one writes.

use crate::id::{BatchId, RunId, TaskId};
use crate::paging::Position;
use crate::state::TaskStatus;
use crate::tx::BatchStats;

/// Drives a batch or a task again in production.
///
/// A batch that is SUCCEEDED or SKIPPED, in the ledger or the archive, is read back and nothing is written. Otherwise, also
/// when the run has no such batch, its task is driven again. The same request again finds the task that it made, whatever
/// became of it. Else the task must have ended (`Conflict` while it has not), not been replaced (`Refused`), and its plan must
/// not be FAILED or CANCELLED (`Refused`: nothing would consume it); a task of the same slice is made: QUEUED now, with the
/// same plan, trigger, cursor, window, segment, params, expression, credential, priority and C_max, `redrive_of` = the old
/// one, `redrive_request` = the request and `idempotent_key` = [`Redrive::key`]. The old one is marked as replaced: the new one
/// counts in its place, so a slice has one task that is not replaced. A slice that is CANCELLED is READY again. The new task's
/// first run resumes where the old one's ledger ends ([`Resume`](super::Resume)), and the `checkpoint` of each of its runs
/// carries the replay mark `{"replay":{"task":…,"request":…}}`, the task being the old one (ING-12.6-05).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redrive {
    /// The same id is the same request.
    pub request: String,
    pub what: What,
    pub by: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Batch { run: RunId, batch_no: u32 },
    Task(TaskId),
}

impl Redrive {
    pub fn key(&self, task: TaskId) -> String {
        crate::hash::digest(&["redrive", &self.request, &task.to_string()])
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Redriven {
    NotFound,
    /// The batch had been executed: its old result.
    ReadBack {
        batch: BatchId,
        stats: BatchStats,
        next: Option<Position>,
    },
    Queued {
        task: TaskId,
        existed: bool,
    },
}

/// What a task looks like to who must decide about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskView {
    pub status: TaskStatus,
    pub replaced: bool,
}

impl TaskView {
    /// Whether it can be driven again; `Ok` or the error.
    pub fn redrivable(self) -> Result<(), super::TxError> {
        if !self.status.is_final() {
            return Err(super::TxError::Conflict);
        }
        if self.replaced {
            let reason = "the task was replaced by others: drive those again";
            return Err(super::TxError::Refused(reason.to_owned()));
        }
        Ok(())
    }
}
