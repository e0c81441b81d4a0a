//! Pauses and cancellations.

use patra_core::state::{JobStatus, PauseKind, PlanStatus, RunStatus, SliceStatus, TaskStatus};
use patra_core::tx::{
    CancelSubject, CancelWork, PauseSelector, PauseSubject, PauseWork, ResumeWork, TxError, WorkCancelled, WorkPaused,
    WorkResumed,
};
use patra_core::{JobId, PauseId, PlanId, SliceId, TaskId, Ts};

use super::{MemStore, Origin, PauseRow, Task, place, refused};

impl Origin {
    pub(super) fn is_covered(&self, by: &PauseSubject) -> bool {
        by.covers(&self.provenance_code, &self.endpoint_name, self.operation)
    }
}

impl MemStore {
    pub(super) fn hold(&mut self, now: Ts, op: &PauseWork) -> Result<WorkPaused, TxError> {
        if let Some(flaw) = op.subject.invalid_reason() {
            return refused(flaw);
        }
        let same = |row: &&PauseRow| row.kind == op.kind && row.subject == op.subject;
        if let Some(row) = self.lasting().find(same) {
            return Ok(WorkPaused { pause: row.id, existed: true });
        }
        self.index.hold_ids += 1;
        let id = PauseId(self.index.hold_ids);
        self.index.holds.insert(id);
        let row = PauseRow {
            id,
            kind: op.kind,
            subject: op.subject.clone(),
            reason: op.reason.clone(),
            created_by: op.by.clone(),
            created_at: now,
            released: None,
        };
        self.holds.insert(id, row);
        Ok(WorkPaused { pause: id, existed: false })
    }

    pub(super) fn release(&mut self, now: Ts, op: &ResumeWork) -> WorkResumed {
        self.release_where(now, &op.by, |row| match &op.target {
            PauseSelector::Id(id) => row.id == *id,
            PauseSelector::On(subject) => row.subject == *subject,
        })
    }

    pub(super) fn release_where(&mut self, now: Ts, by: &str, meant: impl Fn(&PauseRow) -> bool) -> WorkResumed {
        let ended: Vec<_> = self.lasting().filter(|row| meant(row)).map(|row| row.id).collect();
        for id in &ended {
            self.index.holds.remove(id);
            if let Some(row) = self.holds.get_mut(id) {
                row.released = Some((by.to_owned(), now));
            }
        }
        WorkResumed { resumed: ended.len() as u32 }
    }

    /// A successful task ends the advisory pause of its partition.
    pub(super) fn end_advice(&mut self, now: Ts, task: TaskId) {
        if self.index.holds.is_empty() {
            return;
        }
        let origin = self.tasks[place(task.0)].origin.clone();
        let partition = PauseSubject {
            operation: Some(origin.operation),
            ..PauseSubject::endpoint(&origin.provenance_code, &origin.endpoint_name)
        };
        let ends = |row: &PauseRow| row.kind == PauseKind::Advisory && row.subject == partition;
        self.release_where(now, ResumeWork::BY_SUCCESS, ends);
    }

    pub(super) fn lasting(&self) -> impl Iterator<Item = &PauseRow> {
        self.index.holds.iter().filter_map(|id| self.holds.get(id))
    }

    /// The pauses that apply to tasks: advice stops planning only.
    pub(super) fn stops(&self) -> Vec<&PauseRow> {
        self.lasting().filter(|row| row.kind != PauseKind::Advisory).collect()
    }

    /// The pauses that apply to triggers, which have no plan, task or credential yet.
    pub(super) fn trigger_stops(&self) -> Vec<&PauseSubject> {
        let plain = |subject: &&PauseSubject| {
            let PauseSubject { credential, plan, slice, task, .. } = subject;
            credential.is_none() && plan.is_none() && slice.is_none() && task.is_none()
        };
        self.lasting().map(|row| &row.subject).filter(plain).collect()
    }

    pub(super) fn cancel(&mut self, now: Ts, op: &CancelWork) -> WorkCancelled {
        let mut done = WorkCancelled::default();
        match &op.target {
            CancelSubject::Job(public_id) => {
                let Some(id) = self.index.instance_by_public_id.get(public_id).copied() else { return done };
                done.found = true;
                let family = |row: &&super::Instance| row.id == id || row.parent == Some(id) || row.root == Some(id);
                let family: Vec<_> = self.instances.iter().filter(family).map(|row| row.id).collect();
                for member in family {
                    self.cancel_trigger(now, op, member, &mut done);
                    for plan in self.instances[place(member.0)].plans.clone() {
                        self.cancel_plan(now, op, plan, &mut done);
                    }
                }
            }
            CancelSubject::Plan(plan) if place(plan.0) < self.plans.len() && !self.forgotten.plans.contains(plan) => {
                done.found = true;
                self.cancel_plan(now, op, *plan, &mut done);
            }
            CancelSubject::Slice(slice)
                if place(slice.0) < self.slices.len() && !self.forgotten.slices.contains(slice) =>
            {
                done.found = true;
                let pending = self.slices[place(slice.0)].status == SliceStatus::Pending;
                if pending || self.has_open_task(|task| task.lineage.slice == *slice) {
                    self.cancel_slice(now, op, *slice, &mut done);
                }
            }
            CancelSubject::Task(task) if place(task.0) < self.tasks.len() && !self.forgotten.tasks.contains(task) => {
                done.found = true;
                self.cancel_task(now, op, *task, &mut done);
            }
            CancelSubject::Plan(_) | CancelSubject::Slice(_) | CancelSubject::Task(_) => {}
        }
        done
    }

    fn has_open_task(&self, meant: impl Fn(&Task) -> bool) -> bool {
        self.tasks.iter().any(|task| !task.status.is_final() && meant(task))
    }

    fn cancel_trigger(&mut self, now: Ts, op: &CancelWork, id: JobId, done: &mut WorkCancelled) {
        let row = &mut self.instances[place(id.0)];
        if row.status == JobStatus::Requested {
            row.remarks = Some(op.remarks());
            row.finished_at = row.is_background_job().then_some(now).or(row.finished_at);
            self.close_trigger(id, JobStatus::Cancelled);
            done.jobs += 1;
        }
    }

    fn cancel_plan(&mut self, now: Ts, op: &CancelWork, id: PlanId, done: &mut WorkCancelled) {
        let row = &self.plans[place(id.0)];
        let over = row.status == PlanStatus::Ready && !self.has_open_task(|task| task.lineage.plan == id);
        if over || !row.status.may_become(PlanStatus::Cancelled) {
            return;
        }
        if row.status == PlanStatus::Partial {
            self.cancel_trigger(now, op, row.instance, done);
        }
        self.set_plan(id, PlanStatus::Cancelled);
        done.plans += 1;
        for slice in self.index.slices[place(id.0)].clone().into_values() {
            self.cancel_slice(now, op, slice, done);
        }
    }

    fn cancel_slice(&mut self, now: Ts, op: &CancelWork, id: SliceId, done: &mut WorkCancelled) {
        let row = &mut self.slices[place(id.0)];
        if !row.status.may_become(SliceStatus::Cancelled) {
            return;
        }
        row.status = SliceStatus::Cancelled;
        done.slices += 1;
        let tasks: Vec<_> = self.tasks.iter().filter(|task| task.lineage.slice == id).map(|task| task.id).collect();
        for task in tasks {
            self.cancel_task(now, op, task, done);
        }
    }

    fn cancel_task(&mut self, now: Ts, op: &CancelWork, id: TaskId, done: &mut WorkCancelled) {
        if self.tasks[place(id.0)].status.is_final() {
            return;
        }
        self.set_task(id, TaskStatus::Cancelled, None);
        let task = &mut self.tasks[place(id.0)];
        (task.error, task.finished_at) = (Some(op.fault()), Some(now));
        let open = task.runs.last().copied().filter(|run| self.runs[place(run.0)].status == RunStatus::Running);
        if let Some(run) = open {
            self.set_run(run, RunStatus::Cancelled);
            let row = &mut self.runs[place(run.0)];
            (row.error, row.finished_at) = (Some(op.fault()), Some(now));
        }
        done.tasks += 1;
    }
}

impl PauseRow {
    pub(super) fn covers(&self, task: &Task) -> bool {
        let PauseSubject { credential, plan, slice, task: one, .. } = &self.subject;
        task.origin.is_covered(&self.subject)
            && credential.is_none_or(|id| task.credential == Some(id))
            && plan.is_none_or(|id| task.lineage.plan == id)
            && slice.is_none_or(|id| task.lineage.slice == id)
            && one.is_none_or(|id| task.id == id)
    }
}
