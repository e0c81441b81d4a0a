//! Polls: queueing, claiming by host, the sources of their items, and the effects of their ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use patra_core::source::{FETCH_NOW_PRIORITY, PollOutcome, URGENT_PRIORITIES};
use patra_core::state::{JobStatus, Operation, PlanStatus, TaskStatus};
use patra_core::tx::{
    ClaimPolls, ClaimedTasks, CommitBatch, EndRun, HurryPoll, NewPoll, NewSlice, PollHurried, PollsQueued, QueuePolls,
    TaskLineage, UnfitPoll, job_type,
};
use patra_core::{CursorId, Fence, JobId, PlanId, SourceId, TaskId, Ts, hash};

use super::plan::Draft;
use super::scrape::ScrapeStart;
use super::{Instance, Link, MemStore, Origin, Plan, next_id, place};

/// The cursor id of polls, which move no cursor.
const NO_CURSOR: CursorId = CursorId(0);

impl MemStore {
    pub(super) fn queue_polls(&mut self, now: Ts, op: &QueuePolls) -> PollsQueued {
        let job = match op.job.as_ref().map(|job| self.begin_scrape(now, job, &op.polls)) {
            None => None,
            Some(ScrapeStart::Started(instance)) => Some(instance),
            Some(ScrapeStart::Existing(tasks)) => return PollsQueued { tasks, busy: None, now },
            Some(ScrapeStart::Busy(busy)) => {
                return PollsQueued { tasks: vec![None; op.polls.len()], busy: Some(busy), now };
            }
        };
        for (hash, body) in &op.snapshots {
            self.snapshots.entry(hash.clone()).or_insert_with(|| body.clone());
        }
        let tasks = op.polls.iter().map(|poll| self.queue_poll(now, poll, job)).collect();
        op.unfit.iter().for_each(|poll| self.fail_poll(now, poll));
        PollsQueued { tasks, busy: None, now }
    }

    fn fail_poll(&mut self, now: Ts, poll: &UnfitPoll) {
        let id = poll.source;
        let Some(row) = self.live_source(id).filter(|row| row.poll_count == poll.poll_count) else { return };
        let interval = self.interval(row).duration();
        if self.poll_of(id).is_none() {
            let row = &mut self.sources[place(id.0)];
            row.poll_count += 1;
            let outcome = PollOutcome::Failed { reason: &poll.reason, counted: true, gone: false };
            row.state.after(id.0, &outcome, interval, now);
            self.settle_source(now, id);
        }
    }

    fn queue_poll(&mut self, now: Ts, poll: &NewPoll, job: Option<JobId>) -> Option<TaskId> {
        let row = self.live_source(poll.source).filter(|row| row.poll_count == poll.poll_count)?;
        if self.poll_of(poll.source).is_some() {
            return None;
        }
        let interval = self.interval(row).duration();
        let origin = Arc::new(Origin {
            project_key: row.project_key.clone(),
            provenance_code: poll.provenance_code.clone(),
            endpoint_name: poll.endpoint_name.clone(),
            operation: Operation::Harvest,
        });
        let row = &mut self.sources[place(poll.source.0)];
        row.poll_count += 1;
        row.state.next_due_at = row.state.next_due_at.map(|_| now + interval);
        let public_id = format!("source-{}-{}", poll.source, poll.poll_count);
        let what = Arc::new(NewSlice {
            window: None,
            segment: None,
            spec: poll.slice_spec(),
            signature: poll.expr_hash.clone(),
            expr_snapshot: "{}".into(),
            expr_hash: poll.expr_hash.clone(),
            task_params: poll.params.clone(),
            task_key: hash::digest(&["poll", &public_id]),
        });
        let instance = self.plan_poll(now, poll, public_id, &origin);
        let row = &mut self.instances[place(instance.0)];
        (row.parent, row.root) = (job, job);
        let plan = PlanId(next_id(&self.plans) - 1);
        let slice = self.put_slice(now, plan, &origin, &what);
        let draft = Draft {
            lineage: TaskLineage { job: instance, plan, slice },
            cursor: NO_CURSOR,
            origin,
            what,
            priority: poll.priority,
            c_max: 0,
            credential: poll.credential,
            redrive: None,
            poll: Some((poll.source, poll.host.clone())),
        };
        self.put_task(now, poll.at.max(now), draft)
    }

    /// The trigger of a poll, and its plan.
    fn plan_poll(&mut self, now: Ts, poll: &NewPoll, public_id: String, origin: &Arc<Origin>) -> JobId {
        let (instance, plan) = (JobId(next_id(&self.instances)), PlanId(next_id(&self.plans)));
        self.index.instance_by_public_id.insert(public_id.clone(), instance);
        self.instances.push(Instance {
            id: instance,
            public_id,
            schedule: None,
            source: Some(poll.source),
            scrape: false,
            job_type: job_type(&poll.provenance_code, &poll.endpoint_name).to_owned(),
            request_id: None,
            result: None,
            started_at: None,
            finished_at: None,
            trigger_type: poll.trigger_type,
            origin: origin.clone(),
            reason: None,
            activity: None,
            window_from: None,
            window_to: None,
            priority: poll.priority,
            params: "{}".into(),
            overrides: "{}".into(),
            parent: None,
            root: None,
            place: None,
            status: JobStatus::Planned,
            not_before: now,
            lease: None,
            fence: Fence(0),
            remarks: None,
            plans: vec![plan],
            created_at: now,
        });
        self.plans.push(Plan {
            id: plan,
            instance,
            cursor: NO_CURSOR,
            origin: origin.clone(),
            window: None,
            strategy: "SINGLE",
            snapshot_hash: poll.snapshot_hash.clone(),
            status: PlanStatus::Ready,
            remarks: String::new(),
            created_at: now,
        });
        self.index.slices.push(BTreeMap::new());
        instance
    }

    /// The poll of a source that has not ended.
    pub(super) fn poll_of(&self, source: SourceId) -> Option<TaskId> {
        let own = |task: &&super::Task| task.poll.as_ref().is_some_and(|(of, _)| *of == source);
        self.tasks.iter().filter(own).find(|task| !task.status.is_final()).map(|task| task.id)
    }

    pub(super) fn hurry_poll(&mut self, now: Ts, op: HurryPoll) -> PollHurried {
        let task = self.poll_of(op.source);
        if let Some(id) = task
            && self.tasks[place(id.0)].status == TaskStatus::Queued
        {
            let task = &mut self.tasks[place(id.0)];
            self.index.dequeue(task);
            task.scheduled_at = task.scheduled_at.min(now);
            task.priority = task.priority.min(FETCH_NOW_PRIORITY);
            self.index.enqueue(task);
        }
        PollHurried { task }
    }

    pub(super) fn claim_polls(&mut self, now: Ts, op: &ClaimPolls) -> ClaimedTasks {
        let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
        for (_, id) in &self.index.leased {
            if let Some((_, host)) = &self.tasks[place(id.0)].poll {
                *hosts.entry(host).or_default() += 1;
            }
        }
        let stops = self.stops();
        let mut picked = Vec::new();
        let due: Vec<_> = self.index.polls.range(..=(now, TaskId(i64::MAX))).map(|(_, id)| *id).collect();
        let turn = |id: &TaskId| {
            let priority = self.tasks[place(id.0)].priority;
            URGENT_PRIORITIES.iter().position(|urgent| *urgent == priority).unwrap_or(URGENT_PRIORITIES.len())
        };
        let in_turn = (0..=URGENT_PRIORITIES.len()).flat_map(|at| due.iter().copied().filter(move |id| turn(id) == at));
        for id in in_turn {
            let task = &self.tasks[place(id.0)];
            let Some((_, host)) = &task.poll else { continue };
            let held = hosts.entry(host).or_default();
            if picked.len() < op.limit as usize && *held < op.per_host && !stops.iter().any(|hold| hold.covers(task)) {
                *held += 1;
                picked.push(id);
            }
        }
        let until = now + op.lease;
        ClaimedTasks { leases: picked.into_iter().map(|id| self.dispatch(id, &op.owner, until)).collect(), now }
    }

    /// Records the state of a poll's task.
    pub(super) fn end_poll(&mut self, now: Ts, op: &EndRun, status: TaskStatus) {
        let Some(poll) = &op.poll else { return };
        let reason = op.end.error().map(|fault| fault.message.as_str()).unwrap_or_default();
        let outcome = match status {
            TaskStatus::Succeeded | TaskStatus::Partial => {
                PollOutcome::Fetched { news: op.stats.inserted + op.stats.updated > 0, flaw: poll.flaw.as_deref() }
            }
            TaskStatus::Failed => PollOutcome::Failed { reason, counted: !poll.offline, gone: poll.gone },
            _ => return,
        };
        let Some(row) = self.live_source(poll.source) else { return };
        let interval = self.interval(row).duration();
        let row = &mut self.sources[place(poll.source.0)];
        row.state.after(poll.source.0, &outcome, interval, now);
        if let Some(validators) = &poll.validators {
            row.validators = Some(validators.clone());
        }
        self.settle_source(now, poll.source);
        if let (PollOutcome::Fetched { .. }, Some(url)) = (&outcome, &poll.moved_to) {
            self.move_source(poll.source, url);
        }
        if let PollOutcome::Fetched { .. } = outcome {
            self.count_and_emit(now, op, poll);
        }
    }

    fn move_source(&mut self, id: SourceId, url: &str) {
        let row = &self.sources[place(id.0)];
        let key = format!("{} {url}", row.r#type);
        let mut config: serde_json::Value = serde_json::from_str(&row.config).unwrap_or_default();
        if !config["url"].is_string() || self.source_by_key(&row.project_key, &key).is_some() {
            return;
        }
        config["url"] = url.into();
        let row = &mut self.sources[place(id.0)];
        (row.config, row.source_key) = (hash::canonical(&config), key);
    }

    /// Links the records of a page, stored now or before, to the source.
    pub(super) fn link(&mut self, now: Ts, op: &CommitBatch) {
        let (Some(source), Some(stream)) = (op.source, self.find_stream(&op.stream)) else { return };
        for record in &op.records {
            let Some(at) = self.index.items[stream].get(&record.key) else { continue };
            let item = &self.items[*at];
            if item.emptied_at.is_none() {
                let link =
                    || Link { project_key: op.stream.project_key.clone(), kind: item.kind.clone(), fetched_at: now };
                self.links.entry((source, item.id)).or_insert_with(link);
            }
        }
    }
}
