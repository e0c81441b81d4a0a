//! The queue: which task is next, who holds which lease, and whose lease has run out.

use patra_core::state::{PlanStatus, RunStatus, TaskStatus};
use patra_core::tx::{Claim, Claimed, Lease, LeaseRef, Renew, Renewed, Sweep, Swept};
use patra_core::{Code, Fault, TaskId, Ts};

use super::{MemStore, Task, place};

impl MemStore {
    pub(super) fn claim(&mut self, now: Ts, op: &Claim) -> Claimed {
        let next = self.next_tasks(now, op.limit as usize);
        let until = now + op.lease;
        let leases = next.into_iter().map(|task| self.dispatch(task, &op.owner, until)).collect();
        Claimed { leases, now }
    }

    /// The first `limit` tasks of the queue whose time has come.
    fn next_tasks(&self, now: Ts, limit: usize) -> Vec<TaskId> {
        let mut next = Vec::new();
        let mut from = (i32::MIN, Ts::MIN, TaskId(i64::MIN));
        'priorities: while next.len() < limit {
            for &(priority, scheduled_at, id) in self.index.queue.range(from..) {
                if scheduled_at > now {
                    // The rest of this priority lies ahead too: go to the next one.
                    let Some(lower) = priority.checked_add(1) else { break 'priorities };
                    from = (lower, Ts::MIN, TaskId(i64::MIN));
                    continue 'priorities;
                }
                if self.is_consumable(id) {
                    next.push(id);
                }
                if next.len() == limit {
                    break;
                }
            }
            break;
        }
        next
    }

    fn is_consumable(&self, id: TaskId) -> bool {
        let plan = self.tasks[place(id.0)].lineage.plan;
        matches!(self.plans[place(plan.0)].status, PlanStatus::Ready | PlanStatus::Partial)
    }

    fn dispatch(&mut self, id: TaskId, owner: &str, until: Ts) -> Lease {
        self.set_task(id, TaskStatus::Dispatched, Some((owner.to_owned(), until)));
        let task = &mut self.tasks[place(id.0)];
        task.fence.0 += 1;
        task.attempts += 1;
        task.lease_count += 1;
        Lease {
            task: id,
            fence: task.fence,
            until,
            attempts: task.attempts,
            lineage: task.lineage,
            cursor: task.cursor,
            project_key: task.origin.project_key.clone(),
            provenance_code: task.origin.provenance_code.clone(),
            endpoint_name: task.origin.endpoint_name.clone(),
            operation: task.origin.operation,
            expr_hash: task.what.expr_hash.clone(),
            window: task.what.window,
            params: task.what.task_params.clone(),
            credential: task.credential,
        }
    }

    pub(super) fn renew(&mut self, now: Ts, op: &Renew) -> Renewed {
        let until = now + op.lease;
        let mut held = Vec::with_capacity(op.leases.len());
        for lease in &op.leases {
            let Some(task) = self.tasks.get_mut(place(lease.task.0)) else { continue };
            let Some((owner, end)) = &mut task.lease else { continue };
            if task.fence != lease.fence || *owner != op.owner || *end <= now || held.contains(lease) {
                continue;
            }
            self.index.leased.remove(&(*end, task.id));
            self.index.leased.insert((until, task.id));
            *end = until;
            task.lease_count += 1;
            held.push(*lease);
        }
        held.sort_unstable();
        Renewed { held, now }
    }

    pub(super) fn sweep(&mut self, now: Ts, op: Sweep) -> Swept {
        if op.everyone {
            for id in &self.index.waiting {
                self.instances[place(id.0)].lease = None;
            }
            self.free_refreshes();
        }
        let expired = |(until, _): &&(Ts, TaskId)| op.everyone || *until <= now;
        let mut dead: Vec<_> =
            self.index.leased.iter().take_while(expired).take(op.limit as usize).map(|(_, id)| *id).collect();
        dead.sort_unstable();
        let (mut requeued, mut failed) = (Vec::new(), Vec::new());
        for id in dead {
            let error = Fault::transient(Code::LockLost, "lease_expired");
            self.close_orphan(now, id, &error);
            let task = &mut self.tasks[place(id.0)];
            task.error = Some(error);
            if task.attempts >= op.max_attempts {
                task.finished_at = Some(now);
                self.set_task(id, TaskStatus::Failed, None);
                failed.push(id);
            } else {
                self.set_task(id, TaskStatus::Queued, None);
                requeued.push(id);
            }
        }
        if op.everyone {
            self.drop_trigger_leases();
        }
        Swept { requeued, failed, now }
    }

    fn close_orphan(&mut self, now: Ts, task: TaskId, error: &Fault) {
        let Some(run) = self.tasks[place(task.0)].runs.last().copied() else { return };
        if self.runs[place(run.0)].status == RunStatus::Running {
            self.set_run(run, RunStatus::Failed);
            let row = &mut self.runs[place(run.0)];
            row.error = Some(error.clone());
            row.finished_at = Some(now);
        }
    }

    /// The task when it is held under this fence. Expiry alone takes nothing away: only a sweep or a new claim does.
    pub(super) fn leased_task(&self, lease: LeaseRef) -> Option<&Task> {
        self.tasks.get(place(lease.task.0)).filter(|task| task.fence == lease.fence && task.lease.is_some())
    }

    /// The only way a task changes its state, so that the indexes follow.
    pub(super) fn set_task(&mut self, id: TaskId, status: TaskStatus, lease: Option<(String, Ts)>) {
        let task = &mut self.tasks[place(id.0)];
        assert!(task.status.may_become(status), "task {id} must not go from {} to {status}", task.status);
        let holds = matches!(status, TaskStatus::Dispatched | TaskStatus::Executing);
        assert_eq!(holds, lease.is_some(), "a lease goes with DISPATCHED and EXECUTING, not with {status}");
        if task.status == TaskStatus::Queued {
            self.index.queue.remove(&(task.priority, task.scheduled_at, id));
        }
        if let Some((_, until)) = &task.lease {
            self.index.leased.remove(&(*until, id));
        }
        if let Some((_, until)) = &lease {
            self.index.leased.insert((*until, id));
        }
        task.status = status;
        task.lease = lease;
        if status == TaskStatus::Queued {
            self.index.queue.insert((task.priority, task.scheduled_at, id));
        }
    }
}
