//! Redrive: running a batch or task again in production (C-64). Unlike a replay, it writes.

use crate::id::{BatchId, RunId, TaskId};
use crate::paging::Position;
use crate::state::TaskStatus;
use crate::tx::BatchStats;

/// Drives a batch or a task again in production.
///
/// A batch that is SUCCEEDED or SKIPPED, in the ledger or the archive, is read back and nothing is written.
/// Otherwise, also when the run has no such batch, its task is driven again. The same request again finds the task
/// that it made, whatever became of it. Else the task must have ended (`Conflict` while it has not), not been
/// replaced (`Refused`), and its plan must not be FAILED or CANCELLED (`Refused`: nothing would consume it).
///
/// A new task of the same slice is made: QUEUED now, with the same plan, job, cursor, window, segment, params,
/// expression, credential, priority and C_max, `redrive_of` = the old task, `redrive_request` = the request and
/// `idempotent_key` = [`RedriveWork::key`]. The old one is marked as replaced, so a slice has one task that is not
/// replaced. A slice that is CANCELLED is READY again. The new task's first run resumes where the old one's ledger
/// ends ([`ResumePoint`](super::ResumePoint)), and the `checkpoint` of each of its runs carries the replay mark
/// `{"replay":{"task":…,"request":…}}` with the old task (ING-12.6-05).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedriveWork {
    /// The same id is the same request.
    pub request: String,
    pub target: RedriveTarget,
    pub by: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedriveTarget {
    Batch { run: RunId, batch_no: u32 },
    Task(TaskId),
}

impl RedriveWork {
    pub fn key(&self, task: TaskId) -> String {
        crate::hash::digest(&["redrive", &self.request, &task.to_string()])
    }
}

#[expect(clippy::large_enum_variant, reason = "a result is made once and read once")]
#[derive(Clone, PartialEq, Debug)]
pub enum Redriven {
    NotFound,
    /// The batch was executed before: its old result.
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

/// The part of a task that decides whether it can be driven again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskView {
    pub status: TaskStatus,
    pub replaced: bool,
}

impl TaskView {
    /// Whether the task can be driven again; `Ok` or the error.
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
