//! Redrive of ended tasks.

use std::sync::Arc;

use patra_core::state::{BatchStatus, PlanStatus, SliceStatus};
use patra_core::tx::{NewSlice, RedriveTarget, RedriveWork, Redriven, TaskView, TxError};
use patra_core::{TaskId, Ts};

use super::plan::Draft;
use super::{MemStore, place, refused};

impl MemStore {
    pub(super) fn redrive(&mut self, now: Ts, op: &RedriveWork) -> Result<Redriven, TxError> {
        let id = match op.target {
            RedriveTarget::Task(task) => task,
            RedriveTarget::Batch { run, batch_no } => {
                let there = |row: &&super::Run| !self.forgotten.runs.contains(&row.id);
                let Some(row) = self.runs.get(place(run.0)).filter(there) else { return Ok(Redriven::NotFound) };
                let batches = row.batches.iter().map(|batch| &self.batches[place(batch.0)]);
                let executed = [BatchStatus::Succeeded, BatchStatus::Skipped];
                let mut executed = batches.filter(|batch| executed.contains(&batch.status));
                if let Some(batch) = executed.find(|batch| batch.batch_no == batch_no) {
                    let (stats, next) = (batch.stats, batch.next.clone());
                    return Ok(Redriven::ReadBack { batch: batch.id, stats, next });
                }
                row.task
            }
        };
        let there = |task: &&super::Task| !self.forgotten.tasks.contains(&task.id);
        let Some(task) = self.tasks.get(place(id.0)).filter(there) else { return Ok(Redriven::NotFound) };
        let key = op.key(id);
        if let Some(task) = self.index.task_by_key.get(&key) {
            return Ok(Redriven::Queued { task: *task, existed: true });
        }
        if task.poll.is_some() {
            return refused("the task is a poll: poll its source again");
        }
        TaskView { status: task.status, replaced: task.replaced }.redrivable()?;
        let plan = self.plans[place(task.lineage.plan.0)].status;
        if matches!(plan, PlanStatus::Failed | PlanStatus::Cancelled) {
            return refused(format!("the task's plan is {plan}: trigger the work again"));
        }
        let what = Arc::new(NewSlice { task_key: key, ..(*task.what).clone() });
        let draft = Draft { what, redrive: Some((id, op.request.clone())), ..task.draft() };
        Ok(self.drive_again(now, id, draft))
    }

    fn drive_again(&mut self, now: Ts, old: TaskId, draft: Draft) -> Redriven {
        let slice = &mut self.slices[place(draft.lineage.slice.0)];
        if slice.status == SliceStatus::Cancelled {
            slice.status = SliceStatus::Ready;
        }
        self.tasks[place(old.0)].replaced = true;
        let task = self.put_task(now, now, draft).unwrap_or(old);
        Redriven::Queued { task, existed: false }
    }
}
