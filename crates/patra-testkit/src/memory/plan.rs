//! What the planner reads of a namespace, and how a plan becomes slices and queued tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use patra_core::cursor::Name;
use patra_core::state::{PlanStatus, SliceStatus, TaskStatus, TriggerStatus};
use patra_core::tx::{Coverage, Lineage, NewPlan, NewSlice, PlanSaved, PlanTarget, ReadCoverage, SavePlan, TxError};
use patra_core::{CursorId, Fence, PlanId, SliceId, TaskId, Ts, Window};

use super::{Cursor, MemStore, Origin, Plan, Slice, Task, next_id, place, refused};

impl MemStore {
    pub(super) fn read_coverage(&self, now: Ts, op: &ReadCoverage) -> Coverage {
        let queued = self.index.queue.iter().filter(|(_, _, task)| {
            let origin = &self.tasks[place(task.0)].origin;
            origin.provenance_code == op.cursor.provenance_code
                && origin.endpoint_name == op.cursor.endpoint_name
                && origin.operation == op.cursor.operation
        });
        let queued = queued.count() as u32;
        let Some(at) = self.find_cursor(&op.cursor) else {
            return Coverage { cursor: None, origin: None, value: None, epoch: 0, covered: Vec::new(), queued, now };
        };
        let cursor = &self.cursors[at];
        let held = [TaskStatus::Queued, TaskStatus::Dispatched, TaskStatus::Executing, TaskStatus::Succeeded];
        let mut covered = self.windows_beyond(cursor, &held);
        covered.sort_unstable();
        Coverage {
            cursor: Some(cursor.id),
            origin: Some(cursor.began),
            value: cursor.value,
            epoch: cursor.epoch,
            covered,
            queued,
            now,
        }
    }

    /// Windows of tasks in one of these states that end beyond the cursor's value, or its origin.
    pub(super) fn windows_beyond(&self, cursor: &Cursor, states: &[TaskStatus]) -> Vec<Window> {
        let start = cursor.value.unwrap_or(cursor.began);
        let beyond = (Bound::Excluded((start, TaskId(i64::MAX))), Bound::Unbounded);
        self.index.tasks_by_cursor[place(cursor.id.0)]
            .range(beyond)
            .map(|(_, task)| &self.tasks[place(task.0)])
            .filter(|task| states.contains(&task.status))
            .map(|task| task.what.window)
            .collect()
    }

    /// By `uk_cursor_ns`: the endpoint stands beside the identity, not in it.
    fn find_cursor(&self, name: &Name) -> Option<usize> {
        self.cursors.iter().position(|row| {
            row.name.provenance_code == name.provenance_code
                && row.name.operation == name.operation
                && row.name.cursor_key == name.cursor_key
                && row.name.scope == name.scope
                && row.name.namespace_key == name.namespace_key
        })
    }

    pub(super) fn save_plan(&mut self, now: Ts, op: &SavePlan) -> Result<PlanSaved, TxError> {
        let trigger = self.leased_trigger(op.instance, op.fence)?;
        let origin = Arc::new(Origin { project_key: op.project_key.clone(), ..(*trigger.origin).clone() });
        let found = self.find_cursor(&op.cursor);
        if found.map_or(0, |at| self.cursors[at].epoch) != op.epoch {
            return Err(TxError::Conflict);
        }
        self.check_target(op)?;
        let cursor = self.touch_cursor(now, op, found);
        let plan = match &op.target {
            PlanTarget::New(new) => self.insert_plan(now, op, cursor, &origin, new),
            PlanTarget::Existing(plan) => *plan,
        };
        let (mut created, mut existing) = (0, 0);
        for new in &op.slices {
            let what = Arc::new(new.clone());
            let slice = self.put_slice(now, plan, &origin, &what);
            let lineage = Lineage { instance: op.instance, plan, slice };
            if self.put_task(now, lineage, cursor, &origin, what, op.priority) {
                if let Some(task) = self.tasks.last_mut() {
                    task.credential = op.credential;
                }
                created += 1;
            } else {
                existing += 1;
            }
        }
        self.end_slicing(now, op, plan);
        Ok(PlanSaved { plan, cursor, created, existing })
    }

    fn check_target(&self, op: &SavePlan) -> Result<(), TxError> {
        match &op.target {
            PlanTarget::New(new) if new.window.from >= new.window.to => refused("an empty plan window"),
            PlanTarget::New(_) => Ok(()),
            PlanTarget::Existing(plan) => self
                .plans
                .get(place(plan.0))
                .filter(|row| row.instance == op.instance && row.status == PlanStatus::Partial)
                .map(|_| ())
                .ok_or(TxError::Conflict),
        }
    }

    fn touch_cursor(&mut self, now: Ts, op: &SavePlan, found: Option<usize>) -> CursorId {
        let at = found.unwrap_or_else(|| {
            self.cursors.push(Cursor {
                id: CursorId(next_id(&self.cursors)),
                name: op.cursor.clone(),
                began: op.origin,
                value: None,
                target: None,
                version: 0,
                epoch: 0,
                created_at: now,
                updated_at: now,
            });
            self.index.tasks_by_cursor.push(BTreeSet::new());
            self.cursors.len() - 1
        });
        self.cursors[at].epoch += 1;
        self.cursors[at].id
    }

    fn insert_plan(&mut self, now: Ts, op: &SavePlan, cursor: CursorId, origin: &Arc<Origin>, new: &NewPlan) -> PlanId {
        if !self.snapshots.contains_key(&new.snapshot_hash) {
            self.snapshots.insert(new.snapshot_hash.clone(), new.snapshot_body.clone());
        }
        let id = PlanId(next_id(&self.plans));
        self.plans.push(Plan {
            id,
            instance: op.instance,
            cursor,
            origin: origin.clone(),
            window: new.window,
            snapshot_hash: new.snapshot_hash.clone(),
            status: PlanStatus::Draft,
            remarks: new.remarks.clone(),
            created_at: now,
        });
        self.index.slices.push(BTreeMap::new());
        self.instances[place(op.instance.0)].plans.push(id);
        id
    }

    pub(super) fn put_slice(&mut self, now: Ts, plan: PlanId, origin: &Arc<Origin>, what: &Arc<NewSlice>) -> SliceId {
        let known = &mut self.index.slices[place(plan.0)];
        if let Some(slice) = known.get(&what.signature) {
            return *slice;
        }
        let id = SliceId(next_id(&self.slices));
        known.insert(what.signature.clone(), id);
        self.slices.push(Slice {
            id,
            plan,
            origin: origin.clone(),
            what: what.clone(),
            status: SliceStatus::Ready,
            created_at: now,
        });
        id
    }

    /// False when a task with this key exists.
    pub(super) fn put_task(
        &mut self,
        now: Ts,
        lineage: Lineage,
        cursor: CursorId,
        origin: &Arc<Origin>,
        what: Arc<NewSlice>,
        priority: i32,
    ) -> bool {
        if self.index.task_by_key.contains_key(&what.task_key) {
            return false;
        }
        let id = TaskId(next_id(&self.tasks));
        self.index.task_by_key.insert(what.task_key.clone(), id);
        self.index.tasks_by_cursor[place(cursor.0)].insert((what.window.to, id));
        self.index.queue.insert((priority, now, id));
        self.tasks.push(Task {
            id,
            lineage,
            cursor,
            origin: origin.clone(),
            what,
            credential: None,
            status: TaskStatus::Queued,
            priority,
            scheduled_at: now,
            lease: None,
            fence: Fence(0),
            lease_count: 0,
            attempts: 0,
            error: None,
            runs: Vec::new(),
            created_at: now,
            started_at: None,
            finished_at: None,
        });
        true
    }

    fn end_slicing(&mut self, now: Ts, op: &SavePlan, plan: PlanId) {
        self.set_plan(plan, PlanStatus::Slicing);
        if op.complete {
            self.set_plan(plan, PlanStatus::Ready);
            self.close_trigger(op.instance, TriggerStatus::Planned);
        } else {
            self.set_plan(plan, PlanStatus::Partial);
            let trigger = &mut self.instances[place(op.instance.0)];
            trigger.lease = None;
            trigger.not_before = now + op.resume_delay;
        }
    }

    fn set_plan(&mut self, plan: PlanId, status: PlanStatus) {
        let row = &mut self.plans[place(plan.0)];
        assert!(row.status.may_become(status), "plan {plan} must not go from {} to {status}", row.status);
        row.status = status;
    }

    /// Cancels a plan, as a person would. There is no operation for it yet, but runs must already respect it.
    pub fn cancel_plan(&mut self, plan: PlanId) {
        self.set_plan(plan, PlanStatus::Cancelled);
    }
}
