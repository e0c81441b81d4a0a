//! Saves plans: slices and queued tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patra_core::state::{JobStatus, Operation, PlanStatus, SliceStatus, TaskStatus};
use patra_core::tx::{NewPlan, NewSlice, PartitionKey, PlanSaved, PlanTarget, SavePlan, TaskLineage, TxError};
use patra_core::{CredentialId, CursorId, Fence, PlanId, SliceId, SourceId, TaskId, Ts, Window};

use super::coverage::reach;
use super::{Cursor, MemStore, Namespace, Origin, Partition, Plan, Slice, Task, next_id, place, refused};

/// A task that is to be queued.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub lineage: TaskLineage,
    pub cursor: CursorId,
    pub origin: Arc<Origin>,
    pub what: Arc<NewSlice>,
    pub priority: i32,
    pub c_max: u32,
    pub credential: Option<CredentialId>,
    pub redrive: Option<(TaskId, String)>,
    pub poll: Option<(SourceId, String)>,
}

impl Task {
    /// The work of the task as a draft, for the tasks that replace it.
    pub(super) fn draft(&self) -> Draft {
        Draft {
            lineage: self.lineage,
            cursor: self.cursor,
            origin: self.origin.clone(),
            what: self.what.clone(),
            priority: self.priority,
            c_max: self.c_max,
            credential: self.credential,
            redrive: None,
            poll: None,
        }
    }
}

impl MemStore {
    pub(super) fn save_plan(&mut self, now: Ts, op: &SavePlan) -> Result<PlanSaved, TxError> {
        let trigger = self.leased_trigger(op.job, op.fence)?;
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
            let draft = Draft {
                lineage: TaskLineage { job: op.job, plan, slice },
                cursor,
                origin: origin.clone(),
                what,
                priority: op.priority,
                c_max: op.c_max,
                credential: op.credential,
                redrive: None,
                poll: None,
            };
            match self.put_task(now, now, draft) {
                Some(_) => created += 1,
                None => existing += 1,
            }
        }
        self.end_slicing(now, op, plan);
        Ok(PlanSaved { plan, cursor, created, existing })
    }

    fn check_target(&self, op: &SavePlan) -> Result<(), TxError> {
        match &op.target {
            PlanTarget::New(NewPlan { window: Some(window), .. }) if window.from >= window.to => {
                refused("an empty plan window")
            }
            PlanTarget::New(_) => Ok(()),
            PlanTarget::Existing(plan) => self
                .plans
                .get(place(plan.0))
                .filter(|row| row.instance == op.job && row.status == PlanStatus::Partial)
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
                by: None,
                observed_max: None,
                lineage: None,
                version: 0,
                epoch: 0,
                created_at: now,
                updated_at: now,
            });
            self.index.namespaces.push(Namespace::default());
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
            instance: op.job,
            cursor,
            origin: origin.clone(),
            window: new.window,
            strategy: new.strategy,
            snapshot_hash: new.snapshot_hash.clone(),
            status: PlanStatus::Draft,
            remarks: new.remarks.clone(),
            created_at: now,
        });
        self.index.slices.push(BTreeMap::new());
        self.instances[place(op.job.0)].plans.push(id);
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

    /// `None` if a task with this key exists.
    pub(super) fn put_task(&mut self, now: Ts, scheduled_at: Ts, draft: Draft) -> Option<TaskId> {
        let Draft { lineage, cursor, origin, what, priority, c_max, credential, redrive, poll } = draft;
        if self.index.task_by_key.contains_key(&what.task_key) {
            return None;
        }
        let id = TaskId(next_id(&self.tasks));
        self.index.task_by_key.insert(what.task_key.clone(), id);
        // A poll has no cursor.
        if let Some(row) = self.cursors.get(place(cursor.0)) {
            let (direction, namespace) = (row.direction(), &mut self.index.namespaces[place(cursor.0)]);
            namespace.windows.extend(what.window.map(|window| (reach(direction, window), id)));
            namespace.segments.extend(what.segment.as_ref().map(|segment| (segment.ordinal, id)));
        }
        let partition = self.partition(&origin);
        let row = &mut self.index.partitions[partition];
        row.most = row.most.max(c_max);
        let task = Task {
            id,
            lineage,
            cursor,
            origin,
            what,
            partition,
            credential,
            c_max,
            status: TaskStatus::Queued,
            is_unverified: false,
            replaced: false,
            redrive,
            poll,
            done: None,
            items: 0,
            priority,
            scheduled_at,
            lease: None,
            fence: Fence(0),
            lease_count: 0,
            attempts: 0,
            suspect: false,
            error: None,
            runs: Vec::new(),
            created_at: now,
            started_at: None,
            finished_at: None,
        };
        self.index.enqueue(&task);
        self.tasks.push(task);
        Some(id)
    }

    fn partition(&mut self, origin: &Origin) -> usize {
        let Origin { provenance_code, endpoint_name, operation, .. } = origin;
        self.find_partition(provenance_code, endpoint_name, *operation).unwrap_or_else(|| {
            let (provenance_code, endpoint_name) = (provenance_code.clone(), endpoint_name.clone());
            let of = PartitionKey { provenance_code, endpoint_name, operation: *operation };
            self.index.partitions.push(Partition { of, queue: BTreeSet::new(), held: 0, most: 0 });
            self.index.partitions.len() - 1
        })
    }

    pub(super) fn find_partition(&self, provenance: &str, endpoint: &str, operation: Operation) -> Option<usize> {
        let same = |of: &PartitionKey| {
            of.operation == operation && of.endpoint_name == endpoint && of.provenance_code == provenance
        };
        self.index.partitions.iter().position(|partition| same(&partition.of))
    }

    /// From the earliest beginning to the latest end of a plan's slices.
    pub(super) fn sliced(&self, plan: PlanId) -> Option<Window> {
        let slices = self.index.slices[place(plan.0)].values();
        let windows = slices.filter_map(|slice| self.slices[place(slice.0)].what.window);
        windows.reduce(|all, one| Window { from: all.from.min(one.from), to: all.to.max(one.to) })
    }

    fn end_slicing(&mut self, now: Ts, op: &SavePlan, plan: PlanId) {
        self.set_plan(plan, PlanStatus::Slicing);
        if op.complete {
            self.set_plan(plan, PlanStatus::Ready);
            self.close_trigger(op.job, JobStatus::Planned);
        } else {
            self.set_plan(plan, PlanStatus::Partial);
            let trigger = &mut self.instances[place(op.job.0)];
            trigger.lease = None;
            trigger.not_before = now + op.resume_delay;
        }
    }

    pub fn set_plan(&mut self, plan: PlanId, status: PlanStatus) {
        let row = &mut self.plans[place(plan.0)];
        assert!(row.status.may_become(status), "plan {plan} must not go from {} to {status}", row.status);
        row.status = status;
    }
}
