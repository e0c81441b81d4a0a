//! The queue: the next task, the leases, and their expiry.

use patra_core::state::{RunStatus, TaskStatus};
use patra_core::tx::{ClaimTasks, ClaimedTasks, Lease, LeaseRef, Renew, Renewed, Sweep, Swept};
use patra_core::{Code, Fault, TaskId, Ts};

use super::{Index, MemStore, Partition, PauseRow, Task, place};

impl MemStore {
    pub(super) fn claim(&mut self, now: Ts, op: &ClaimTasks) -> ClaimedTasks {
        let stops = self.stops();
        let mut next = Vec::new();
        let wanted = |partition: &&Partition| op.only.as_ref().is_none_or(|only| *only == partition.of);
        for partition in self.index.partitions.iter().filter(wanted).filter(|partition| !partition.queue.is_empty()) {
            self.candidates(now, op, partition, &stops, &mut next);
        }
        next.sort_unstable();
        next.truncate(op.limit as usize);
        let until = now + op.lease;
        let leases = next.into_iter().map(|candidate| self.dispatch(candidate.task, &op.owner, until)).collect();
        ClaimedTasks { leases, now }
    }

    /// The first tasks of a partition that may be leased, with their turns.
    fn candidates(
        &self,
        now: Ts,
        op: &ClaimTasks,
        partition: &Partition,
        stops: &[&PauseRow],
        next: &mut Vec<Candidate>,
    ) {
        let cap = op.caps.iter().find(|(of, _)| *of == partition.of).map_or(u32::MAX, |(_, cap)| *cap);
        let room = cap.min(partition.most);
        let (mut turn, mut left) = (partition.held, op.limit);
        let mut priority = None;
        while let Some(found) = partition.next_priority(priority, op.reverse_priority) {
            priority = Some(found);
            let first = (found, Ts::MIN, TaskId(i64::MIN));
            for &(_, scheduled_at, id) in partition.queue.range(first..=(found, now, TaskId(i64::MAX))) {
                if turn >= room || left == 0 {
                    return;
                }
                let task = &self.tasks[place(id.0)];
                if stops.iter().any(|hold| hold.covers(task)) {
                    continue;
                }
                if turn < task.c_max {
                    let priority = if op.reverse_priority { -i64::from(found) } else { found.into() };
                    next.push(Candidate { priority, turn, scheduled_at, task: id });
                    left -= 1;
                }
                turn += 1;
            }
        }
    }

    pub(super) fn dispatch(&mut self, id: TaskId, owner: &str, until: Ts) -> Lease {
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
            suspect: task.suspect,
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
            source: task.poll.as_ref().map(|(source, _)| *source),
            priority: task.priority,
            scheduled_at: task.scheduled_at,
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
        let stops = self.stops();
        let stopped = |lease: &&LeaseRef| stops.iter().any(|hold| hold.covers(&self.tasks[place(lease.task.0)]));
        let paused = held.iter().filter(stopped).copied().collect();
        Renewed { held, paused, now }
    }

    pub(super) fn sweep(&mut self, now: Ts, op: Sweep) -> Swept {
        self.follow_clock(now, op.longest_lease);
        if op.all_owners {
            for id in &self.index.waiting {
                self.instances[place(id.0)].lease = None;
            }
            self.free_refreshes();
            self.free_events();
        }
        let expired = |(until, _): &&(Ts, TaskId)| op.all_owners || *until <= now;
        let mut dead: Vec<_> =
            self.index.leased.iter().take_while(expired).take(op.limit as usize).map(|(_, id)| *id).collect();
        dead.sort_unstable();
        let (mut requeued, mut failed) = (Vec::new(), Vec::new());
        for id in dead {
            let error = Fault::transient(Code::LockLost, "lease_expired");
            self.close_orphan(now, id, &error);
            let task = &mut self.tasks[place(id.0)];
            task.error = Some(error);
            let was_executing = task.status == TaskStatus::Executing;
            let counts = was_executing && task.suspect || task.poll.is_some();
            if !counts {
                task.attempts = task.attempts.saturating_sub(1);
                task.suspect |= was_executing;
            }
            if counts && task.attempts >= op.max_attempts {
                task.finished_at = Some(now);
                self.set_task(id, TaskStatus::Failed, None);
                failed.push(id);
            } else {
                self.set_task(id, TaskStatus::Queued, None);
                requeued.push(id);
            }
        }
        if op.all_owners {
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

    /// The task, if it is leased under this fence. Expiry alone does not end a lease: only a sweep or a new claim does.
    pub(super) fn leased_task(&self, lease: LeaseRef) -> Option<&Task> {
        self.tasks.get(place(lease.task.0)).filter(|task| task.fence == lease.fence && task.lease.is_some())
    }

    /// The only way a task changes its state, so that the indexes follow.
    pub fn set_task(&mut self, id: TaskId, status: TaskStatus, lease: Option<(String, Ts)>) {
        let task = &mut self.tasks[place(id.0)];
        assert!(task.status.may_become(status), "task {id} must not go from {} to {status}", task.status);
        let holds = matches!(status, TaskStatus::Dispatched | TaskStatus::Executing);
        assert_eq!(holds, lease.is_some(), "a lease goes with DISPATCHED and EXECUTING, not with {status}");
        if task.status == TaskStatus::Queued {
            self.index.dequeue(task);
        }
        let partition = &mut self.index.partitions[task.partition];
        if let Some((_, until)) = &task.lease {
            self.index.leased.remove(&(*until, id));
            partition.held -= 1;
        }
        if let Some((_, until)) = &lease {
            self.index.leased.insert((*until, id));
            partition.held += 1;
        }
        task.status = status;
        task.lease = lease;
        if status == TaskStatus::Queued {
            self.index.enqueue(task);
        }
    }
}

/// Polls have a queue of their own.
impl Index {
    pub(super) fn enqueue(&mut self, task: &Task) {
        match task.poll {
            Some(_) => self.polls.insert((task.scheduled_at, task.id)),
            None => self.partitions[task.partition].queue.insert((task.priority, task.scheduled_at, task.id)),
        };
    }

    pub(super) fn dequeue(&mut self, task: &Task) {
        match task.poll {
            Some(_) => self.polls.remove(&(task.scheduled_at, task.id)),
            None => self.partitions[task.partition].queue.remove(&(task.priority, task.scheduled_at, task.id)),
        };
    }
}

/// A task that may be leased. The order of the fields is the order of the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Candidate {
    priority: i64,
    turn: u32,
    scheduled_at: Ts,
    task: TaskId,
}

impl Partition {
    /// The priority that is served after `last`, or first.
    fn next_priority(&self, last: Option<i32>, upside_down: bool) -> Option<i32> {
        let lowest = |priority| (priority, Ts::MIN, TaskId(i64::MIN));
        let found = match (last, upside_down) {
            (None, false) => self.queue.first(),
            (None, true) => self.queue.last(),
            (Some(last), false) => self.queue.range(lowest(last.checked_add(1)?)..).next(),
            (Some(last), true) => self.queue.range(..lowest(last)).next_back(),
        };
        found.map(|(priority, _, _)| *priority)
    }
}
