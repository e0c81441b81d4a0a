//! Opening and closing the run of a leased task.

use patra_core::paging::Position;
use patra_core::state::{BatchStatus, PlanStatus, RunStatus, SliceStatus, TaskStatus};
use patra_core::tx::{EndRun, Failure, Resume, RunEnd, RunEnded, RunStarted, StartRun, TxError};
use patra_core::{BatchId, RunId, Ts};

use super::{Batch, MemStore, Run, Task, next_id, place, refused};

impl MemStore {
    pub(super) fn start_run(&mut self, now: Ts, op: StartRun) -> Result<RunStarted, TxError> {
        let task = self.leased_task(op.lease).ok_or(TxError::Fenced)?;
        let (id, lineage, lease, attempt_no) = (task.id, task.lineage, task.lease.clone(), op.lease.fence.0);
        let plan = &self.plans[place(lineage.plan.0)];
        let slice = self.slices[place(lineage.slice.0)].status;
        if matches!(plan.status, PlanStatus::Failed | PlanStatus::Cancelled)
            || matches!(slice, SliceStatus::Failed | SliceStatus::Cancelled)
        {
            self.set_task(id, TaskStatus::Cancelled, None);
            self.tasks[place(id.0)].finished_at = Some(now);
            return Ok(RunStarted::Cancelled);
        }
        let snapshot_hash = plan.snapshot_hash.clone();
        let resume = self.last_batch(task);
        let known = task.runs.last().copied().filter(|run| self.runs[place(run.0)].attempt_no == attempt_no);
        let run = match known {
            Some(run) => run,
            None => {
                self.set_task(id, TaskStatus::Executing, lease);
                let task = &mut self.tasks[place(id.0)];
                task.started_at = task.started_at.or(Some(now));
                let run = RunId(next_id(&self.runs));
                task.runs.push(run);
                self.runs.push(Run {
                    id: run,
                    task: id,
                    attempt_no,
                    status: RunStatus::Running,
                    resumed_from: resume.as_ref().map(|resume| (resume.run, resume.batch_no)),
                    stats: None,
                    error: None,
                    batches: Vec::new(),
                    created_at: now,
                    finished_at: None,
                });
                run
            }
        };
        Ok(RunStarted::Go { run, attempt_no, snapshot_hash, resume })
    }

    /// The highest committed batch of the latest run that committed any.
    fn last_batch(&self, task: &Task) -> Option<Resume> {
        task.runs.iter().rev().find_map(|run| {
            let committed = self.runs[place(run.0)].batches.iter().map(|batch| &self.batches[place(batch.0)]);
            let last = committed.filter(|batch| batch.status == BatchStatus::Succeeded).max_by_key(|b| b.batch_no)?;
            Some(Resume { run: *run, batch_no: last.batch_no, next: last.next.clone() })
        })
    }

    pub(super) fn end_run(&mut self, now: Ts, op: &EndRun) -> Result<RunEnded, TxError> {
        let Some(task) = self.tasks.get(place(op.lease.task.0)) else { return Err(TxError::Fenced) };
        let Some(run) = self.runs.get(place(op.run.0)).filter(|run| run.task == task.id) else {
            return Err(TxError::Fenced);
        };
        if run.attempt_no == op.lease.fence.0 && run.status.is_final() {
            return Ok(RunEnded { task_status: task.status });
        }
        if self.leased_task(op.lease).is_none_or(|task| task.status != TaskStatus::Executing) {
            return Err(TxError::Fenced);
        }
        if run.attempt_no != op.lease.fence.0 {
            return refused(format!("run {} is not of fence {}", run.id, op.lease.fence));
        }
        if let Some(failure) = &op.failure {
            self.insert_failure(now, op, failure);
        }
        self.close_run(now, op);
        Ok(RunEnded { task_status: self.release_task(now, op) })
    }

    /// A failure never stands in the way of the end: without a token it meets no unique key but the batch number's, and
    /// that one is taken when the page was committed after all and only the answer was lost.
    fn insert_failure(&mut self, now: Ts, op: &EndRun, failure: &Failure) {
        let run = &self.runs[place(op.run.0)];
        let taken = run.batches.iter().any(|batch| self.batches[place(batch.0)].batch_no == failure.batch_no);
        if taken || !self.index.batch_keys.insert(failure.idempotent_key.clone()) {
            return;
        }
        let row = Batch {
            id: BatchId(next_id(&self.batches)),
            run: op.run,
            task: op.lease.task,
            lineage: op.lineage,
            expr_hash: failure.expr_hash.clone(),
            idempotent_key: failure.idempotent_key.clone(),
            batch_no: failure.batch_no,
            position: failure.position.clone(),
            next: None::<Position>,
            before_token: None,
            page_size: failure.page_size,
            status: BatchStatus::Failed,
            stats: failure.stats,
            request_digest: failure.request_digest.clone(),
            response_digest: failure.response_digest.clone(),
            error: Some(failure.error.clone()),
            created_at: now,
        };
        self.runs[place(op.run.0)].batches.push(row.id);
        self.batches.push(row);
    }

    fn close_run(&mut self, now: Ts, op: &EndRun) {
        let committed = |batch: &BatchId| self.batches[place(batch.0)].status == BatchStatus::Succeeded;
        let (status, error) = match &op.end {
            RunEnd::Succeeded => (RunStatus::Succeeded, None),
            RunEnd::Partial { error } => (RunStatus::Partial, Some(error)),
            RunEnd::Failed { error } | RunEnd::Requeue { error, counted: true, .. } => (RunStatus::Failed, Some(error)),
            RunEnd::Requeue { error, .. } if self.runs[place(op.run.0)].batches.iter().any(committed) => {
                (RunStatus::Partial, Some(error))
            }
            RunEnd::Requeue { error, .. } => (RunStatus::Cancelled, Some(error)),
        };
        self.set_run(op.run, status);
        let run = &mut self.runs[place(op.run.0)];
        run.error = error.cloned();
        run.stats = Some(op.stats.clone());
        run.finished_at = Some(now);
    }

    fn release_task(&mut self, now: Ts, op: &EndRun) -> TaskStatus {
        let id = op.lease.task;
        let task = &mut self.tasks[place(id.0)];
        let (status, error) = match &op.end {
            RunEnd::Succeeded => (TaskStatus::Succeeded, None),
            RunEnd::Partial { error } => (TaskStatus::Partial, Some(error)),
            RunEnd::Failed { error } => (TaskStatus::Failed, Some(error)),
            RunEnd::Requeue { error, counted: true, .. } if task.attempts >= op.max_attempts => {
                (TaskStatus::Failed, Some(error))
            }
            RunEnd::Requeue { delay, error, counted } => {
                task.scheduled_at = now + *delay;
                task.attempts = task.attempts.saturating_sub(u32::from(!counted));
                (TaskStatus::Queued, Some(error))
            }
        };
        task.error = error.cloned();
        task.finished_at = status.is_final().then_some(now);
        self.set_task(id, status, None);
        status
    }

    pub(super) fn set_run(&mut self, run: RunId, status: RunStatus) {
        let row = &mut self.runs[place(run.0)];
        assert!(row.status.may_become(status), "run {run} must not go from {} to {status}", row.status);
        row.status = status;
    }
}
