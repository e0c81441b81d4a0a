//! Opening and closing the run of a leased task.

use std::sync::Arc;

use patra_core::paging::Position;
use patra_core::state::{BatchStatus, PlanStatus, RunStatus, SliceStatus, TaskStatus};
use patra_core::tx::{
    BatchFailure, BatchStats, EndRun, NewSlice, ResumePoint, RunEnd, RunEnded, RunStarted, StartRun, TaskLineage,
    TxError,
};
use patra_core::{BatchId, RunId, TaskId, Ts};

use super::plan::Draft;
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
            self.cancel_start(now, id, attempt_no);
            return Ok(RunStarted::Cancelled);
        }
        let snapshot_hash = plan.snapshot_hash.clone();
        let slice_signature_hash = task.what.signature.clone();
        let resume = self.last_batch(task);
        let opened = task.runs.last().copied().filter(|run| self.runs[place(run.0)].attempt_no == attempt_no);
        let run = match opened {
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
        let source = self.tasks[place(id.0)].poll.as_ref().map(|(source, _)| *source);
        let known = source.and_then(|source| self.sources[place(source.0)].validators.clone()).map(Box::new);
        Ok(RunStarted::Go { run, attempt_no, snapshot_hash, slice_signature_hash, resume, validators: known })
    }

    fn cancel_start(&mut self, now: Ts, task: TaskId, attempt_no: i64) {
        self.set_task(task, TaskStatus::Cancelled, None);
        let row = &mut self.tasks[place(task.0)];
        row.finished_at = Some(now);
        // A repeated start may find its own run open.
        let open = row.runs.last().copied().filter(|run| {
            let run = &self.runs[place(run.0)];
            run.attempt_no == attempt_no && run.status == RunStatus::Running
        });
        if let Some(run) = open {
            self.set_run(run, RunStatus::Cancelled);
            self.runs[place(run.0)].finished_at = Some(now);
        }
    }

    /// The highest committed batch of the latest run that committed any, of this task or of the task that it redrives.
    fn last_batch(&self, task: &Task) -> Option<ResumePoint> {
        let own = task.runs.iter().rev().find_map(|run| {
            let committed = self.runs[place(run.0)].batches.iter().map(|batch| &self.batches[place(batch.0)]);
            let in_ledger = committed.filter(|batch| batch.status == BatchStatus::Succeeded && !batch.archived);
            let last = in_ledger.max_by_key(|batch| batch.batch_no)?;
            let BatchStats { total, taken, walk, .. } = last.stats;
            Some(ResumePoint {
                run: *run,
                batch_no: last.batch_no,
                next: last.next.clone(),
                total,
                taken,
                walk: walk.map(Box::new),
            })
        });
        own.or_else(|| self.last_batch(&self.tasks[place(task.redrive.as_ref()?.0.0)]))
    }

    pub(super) fn end_run(&mut self, now: Ts, op: &EndRun) -> Result<RunEnded, TxError> {
        let there = |task: &&Task| !self.forgotten.tasks.contains(&task.id);
        let Some(task) = self.tasks.get(place(op.lease.task.0)).filter(there) else { return Err(TxError::Fenced) };
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
        if let Some(hold) = &op.pause {
            self.hold(now, hold)?;
        }
        if let Some(failure) = &op.failure {
            self.insert_failure(now, op, failure);
        }
        self.close_run(now, op);
        let task_status = self.release_task(now, op);
        self.tasks[place(op.lease.task.0)].is_unverified = op.is_unverified();
        self.end_poll(now, op, task_status);
        match &op.end {
            RunEnd::Split { slices, .. } => self.replace_slice(now, op.lease.task, slices),
            RunEnd::Succeeded => self.end_advice(now, op.lease.task),
            _ => {}
        }
        Ok(RunEnded { task_status })
    }

    /// Replaces the task's slice with narrower ones.
    fn replace_slice(&mut self, now: Ts, task: TaskId, slices: &[NewSlice]) {
        let task = &mut self.tasks[place(task.0)];
        task.replaced = true;
        let form = task.draft();
        let slice = &mut self.slices[place(form.lineage.slice.0)];
        if slice.status == SliceStatus::Ready {
            slice.status = SliceStatus::Partial;
        }
        for new in slices {
            let what = Arc::new(new.clone());
            let slice = self.put_slice(now, form.lineage.plan, &form.origin, &what);
            let lineage = TaskLineage { slice, ..form.lineage };
            self.put_task(now, now, Draft { lineage, what, ..form.clone() });
        }
    }

    /// A failure row never prevents the end of a run: without a token its only unique key is that of the batch number,
    /// and that is taken if the page was committed after all and only the result was lost.
    fn insert_failure(&mut self, now: Ts, op: &EndRun, failure: &BatchFailure) {
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
            archived: false,
        };
        self.runs[place(op.run.0)].batches.push(row.id);
        self.batches.push(row);
        if let Some(raw) = &failure.raw {
            self.keep_raw(now, op.run, failure.batch_no, raw);
        }
    }

    fn close_run(&mut self, now: Ts, op: &EndRun) {
        let committed = |batch: &BatchId| self.batches[place(batch.0)].status == BatchStatus::Succeeded;
        let (status, error) = match &op.end {
            RunEnd::Succeeded => (RunStatus::Succeeded, None),
            RunEnd::Partial { error } | RunEnd::Split { error, .. } => (RunStatus::Partial, Some(error)),
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
            RunEnd::Partial { error } | RunEnd::Split { error, .. } => (TaskStatus::Partial, Some(error)),
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
        task.items += u64::from(op.stats.ret_count);
        task.done = op.done.or(task.done);
        self.set_task(id, status, None);
        status
    }

    pub(super) fn set_run(&mut self, run: RunId, status: RunStatus) {
        let row = &mut self.runs[place(run.0)];
        assert!(row.status.may_become(status), "run {run} must not go from {} to {status}", row.status);
        row.status = status;
    }
}
