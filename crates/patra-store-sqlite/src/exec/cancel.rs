//! Cancelling work: triggers, plans, slices and tasks, each with everything below it.

use patra_core::tx::{CancelSubject, CancelWork, WorkCancelled};
use patra_core::{PlanId, SliceId, TaskId, Ts};
use rusqlite::{Connection, Params, params};

use crate::error::Result;

const READ_TRIGGER: &str = "SELECT id FROM ing_schedule_instance WHERE public_id = ?1";

const READ_MADE: &str = "
SELECT id FROM ing_schedule_instance WHERE parent_id = ?1
UNION
SELECT id FROM ing_schedule_instance WHERE root_id = ?1";

const CANCEL_TRIGGER: &str = "
UPDATE ing_schedule_instance
SET status_code = 'CANCELLED', lease_owner = NULL, leased_until = NULL, record_remarks = ?2,
    finished_at = iif(provenance_code = 'resource_pool', ?3, finished_at)
WHERE id = ?1 AND status_code = 'REQUESTED'";

const READ_PLANS: &str = "SELECT id FROM ing_plan WHERE schedule_instance_id = ?1";

const HAS_PLAN: &str = "SELECT id FROM ing_plan WHERE id = ?1";

const READ_PLANNING: &str = "SELECT schedule_instance_id FROM ing_plan WHERE id = ?1 AND status_code = 'PARTIAL'";

const CANCEL_PLAN: &str = "
UPDATE ing_plan SET status_code = 'CANCELLED'
WHERE id = ?1 AND (status_code IN ('DRAFT', 'SLICING', 'PARTIAL')
  OR status_code = 'READY' AND EXISTS (
    SELECT 1 FROM ing_task WHERE plan_id = ?1 AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')))";

const CANCEL_SLICES: &str = "
UPDATE ing_plan_slice SET status_code = 'CANCELLED'
WHERE plan_id = ?1 AND status_code IN ('PENDING', 'READY')";

const HAS_SLICE: &str = "SELECT id FROM ing_plan_slice WHERE id = ?1";

const CANCEL_SLICE: &str = "
UPDATE ing_plan_slice SET status_code = 'CANCELLED'
WHERE id = ?1 AND (status_code = 'PENDING'
  OR status_code = 'READY' AND EXISTS (
    SELECT 1 FROM ing_task WHERE slice_id = ?1 AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')))";

const TASKS_OF_PLAN: &str = "
SELECT id FROM ing_task WHERE plan_id = ?1 AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')";

const TASKS_OF_SLICE: &str = "
SELECT id FROM ing_task WHERE slice_id = ?1 AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')";

const HAS_TASK: &str = "SELECT id FROM ing_task WHERE id = ?1";

const CANCEL_TASK: &str = "
UPDATE ing_task
SET status_code = 'CANCELLED', lease_owner = NULL, leased_until = NULL, finished_at = ?2, error = ?3
WHERE id = ?1 AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')";

const CANCEL_RUNS: &str = "
UPDATE ing_task_run
SET status_code = 'CANCELLED', finished_at = ?2, error = ?3
WHERE task_id = ?1 AND status_code IN ('PLANNED', 'RUNNING')";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    READ_TRIGGER,
    READ_MADE,
    CANCEL_TRIGGER,
    READ_PLANS,
    HAS_PLAN,
    READ_PLANNING,
    CANCEL_PLAN,
    CANCEL_SLICES,
    HAS_SLICE,
    CANCEL_SLICE,
    TASKS_OF_PLAN,
    TASKS_OF_SLICE,
    HAS_TASK,
    CANCEL_TASK,
    CANCEL_RUNS,
];

pub(super) fn cancel(db: &Connection, op: &CancelWork, now: Ts) -> Result<WorkCancelled> {
    let error = serde_json::to_string(&op.fault())?;
    let mut work = Work { db, now, error, remarks: op.remarks(), done: WorkCancelled::default() };
    match &op.target {
        CancelSubject::Job(public_id) => {
            for trigger in work.ids(READ_TRIGGER, [public_id])? {
                work.done.found = true;
                let made = work.ids(READ_MADE, [trigger])?;
                [trigger].into_iter().chain(made).try_for_each(|trigger| work.trigger(trigger))?;
            }
        }
        CancelSubject::Plan(plan) if work.has(HAS_PLAN, plan.0)? => work.plan(*plan)?,
        CancelSubject::Slice(slice) if work.has(HAS_SLICE, slice.0)? => work.slice(*slice)?,
        CancelSubject::Task(task) if work.has(HAS_TASK, task.0)? => work.task(*task)?,
        CancelSubject::Plan(_) | CancelSubject::Slice(_) | CancelSubject::Task(_) => {}
    }
    Ok(work.done)
}

struct Work<'a> {
    db: &'a Connection,
    now: Ts,
    error: String,
    remarks: String,
    done: WorkCancelled,
}

impl Work<'_> {
    fn ids(&self, sql: &str, values: impl Params) -> Result<Vec<i64>> {
        let mut statement = self.db.prepare_cached(sql)?;
        Ok(statement.query_map(values, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
    }

    fn has(&mut self, sql: &str, id: i64) -> Result<bool> {
        self.done.found = !self.ids(sql, [id])?.is_empty();
        Ok(self.done.found)
    }

    fn change(&self, sql: &str, values: impl Params) -> Result<u32> {
        Ok(self.db.prepare_cached(sql)?.execute(values)? as u32)
    }

    fn trigger(&mut self, trigger: i64) -> Result<()> {
        self.done.jobs += self.change(CANCEL_TRIGGER, params![trigger, self.remarks, self.now.micros()])?;
        for plan in self.ids(READ_PLANS, [trigger])? {
            self.plan(PlanId(plan))?;
        }
        Ok(())
    }

    fn plan(&mut self, plan: PlanId) -> Result<()> {
        let planning = self.ids(READ_PLANNING, [plan.0])?;
        if self.change(CANCEL_PLAN, [plan.0])? == 0 {
            return Ok(());
        }
        self.done.plans += 1;
        for trigger in planning {
            self.done.jobs += self.change(CANCEL_TRIGGER, params![trigger, self.remarks, self.now.micros()])?;
        }
        self.done.slices += self.change(CANCEL_SLICES, [plan.0])?;
        for task in self.ids(TASKS_OF_PLAN, [plan.0])? {
            self.task(TaskId(task))?;
        }
        Ok(())
    }

    fn slice(&mut self, slice: SliceId) -> Result<()> {
        if self.change(CANCEL_SLICE, [slice.0])? == 0 {
            return Ok(());
        }
        self.done.slices += 1;
        for task in self.ids(TASKS_OF_SLICE, [slice.0])? {
            self.task(TaskId(task))?;
        }
        Ok(())
    }

    fn task(&mut self, task: TaskId) -> Result<()> {
        let values = params![task.0, self.now.micros(), self.error];
        let cancelled = self.change(CANCEL_TASK, values)?;
        if cancelled > 0 {
            self.change(CANCEL_RUNS, values)?;
        }
        self.done.tasks += cancelled;
        Ok(())
    }
}
