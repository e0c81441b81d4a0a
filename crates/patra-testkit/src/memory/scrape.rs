//! Jobs that poll many sources, and the counts and events of successful polls.

use std::sync::Arc;

use patra_core::state::{BatchStatus, JobStatus, Operation, TaskStatus, TriggerType};
use patra_core::tx::{EndRun, NewPoll, OpenPoll, PollEnd, ScrapeConflict, ScrapeJob};
use patra_core::{Fence, JobId, SourceId, TaskId, Ts};

use super::{Instance, MemStore, Origin, next_id, place};

/// Result of starting a job.
pub(super) enum ScrapeStart {
    Started(JobId),
    /// The job was started before, with these tasks.
    Existing(Vec<Option<TaskId>>),
    Busy(ScrapeConflict),
}

impl MemStore {
    pub(super) fn begin_scrape(&mut self, now: Ts, job: &ScrapeJob, polls: &[NewPoll]) -> ScrapeStart {
        if let Some(root) = self.index.instance_by_public_id.get(&job.public_id).copied() {
            let task = |poll: &NewPoll| {
                let own = |task: &&super::Task| {
                    let of = task.poll.as_ref().is_some_and(|(source, _)| *source == poll.source);
                    of && self.instances[place(task.lineage.job.0)].root == Some(root)
                };
                self.tasks.iter().rev().find(own).map(|task| task.id)
            };
            return ScrapeStart::Existing(polls.iter().map(task).collect());
        }
        let (mut busy, mut changed, mut waiting, mut left_out) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for poll in polls {
            if let Some(task) = self.poll_of(poll.source).map(|task| &self.tasks[place(task.0)]) {
                let trigger = &self.instances[place(task.lineage.job.0)];
                let root = trigger.root.map(|root| &self.instances[place(root.0)]);
                let open = OpenPoll {
                    queued: task.status == TaskStatus::Queued,
                    began: task.lease_count > 0,
                    job: root.map(|root| root.trigger_type),
                };
                let by = root.unwrap_or(trigger).public_id.clone();
                if job.replaces(open) {
                    waiting.push(trigger.public_id.clone());
                } else if job.leaves_out(open) {
                    left_out.push((poll.source, by));
                } else {
                    busy.push((poll.source, by));
                }
            }
            if self.live_source(poll.source).is_none_or(|row| row.poll_count != poll.poll_count) {
                changed.push((poll.source, String::new()));
            }
        }
        if left_out.len() == polls.len() {
            busy.append(&mut left_out);
        }
        if job.trigger_type == TriggerType::Schedule && changed.len() + left_out.len() < polls.len() {
            changed.clear();
        }
        if let Some(busy) = name(busy).or_else(|| name(changed)) {
            return ScrapeStart::Busy(busy);
        }
        for trigger in waiting {
            self.cancel(now, &job.cancel_replaced(trigger.clone()));
            // A replaced poll leaves its job, which goes on without it.
            if let Some(id) = self.index.instance_by_public_id.get(&trigger).copied() {
                let row = &mut self.instances[place(id.0)];
                (row.parent, row.root) = (None, None);
            }
        }
        ScrapeStart::Started(self.insert_scrape(now, job))
    }

    fn insert_scrape(&mut self, now: Ts, job: &ScrapeJob) -> JobId {
        let id = JobId(next_id(&self.instances));
        self.index.instance_by_public_id.insert(job.public_id.clone(), id);
        self.instances.push(Instance {
            id,
            public_id: job.public_id.clone(),
            schedule: None,
            source: None,
            scrape: true,
            job_type: job.job_type.clone(),
            request_id: job.request_id.clone(),
            result: None,
            started_at: None,
            finished_at: None,
            trigger_type: job.trigger_type,
            origin: Arc::new(Origin {
                project_key: job.project_key.clone(),
                provenance_code: job.provenance_code.clone(),
                endpoint_name: job.endpoint_name.clone(),
                operation: Operation::Harvest,
            }),
            reason: None,
            activity: None,
            window_from: None,
            window_to: None,
            priority: 0,
            params: job.params.clone(),
            overrides: "{}".into(),
            parent: None,
            root: None,
            place: None,
            status: JobStatus::Planned,
            not_before: now,
            lease: None,
            fence: Fence(0),
            remarks: None,
            plans: Vec::new(),
            created_at: now,
        });
        id
    }

    pub(super) fn count_and_emit(&mut self, now: Ts, op: &EndRun, poll: &PollEnd) {
        let committed =
            self.batches.iter().filter(|row| row.task == op.lease.task && row.status == BatchStatus::Succeeded);
        let (mut fetched, mut new) = (0, 0);
        for row in committed.filter(|row| !row.archived) {
            fetched += row.stats.inserted + row.stats.updated + row.stats.skipped;
            new += row.stats.inserted;
        }
        if poll.counted {
            let stats = self.fetch_stats.entry(poll.source).or_default();
            *stats = stats.after(fetched, new, now).reaching(poll.newest.as_ref());
        }
        if !poll.emit || new == 0 {
            return;
        }
        let task = &self.tasks[place(op.lease.task.0)];
        let trigger = &self.instances[place(task.lineage.job.0)];
        let job = trigger.root.map_or(trigger, |root| &self.instances[place(root.0)]).public_id.clone();
        let config: serde_json::Value =
            serde_json::from_str(&self.sources[place(poll.source.0)].config).unwrap_or_default();
        let stored = self.items.iter().filter(|item| task.runs.contains(&item.run));
        let mut keys: Vec<_> = stored.map(|item| item.key.clone()).collect();
        keys.sort_unstable();
        let event = poll.event(op.run, &trigger.origin.project_key, &job, config["username"].as_str(), &keys);
        self.put_event(now, event);
    }
}

/// The job with the busy source of the smallest id, and all its sources.
fn name(mut found: Vec<(SourceId, String)>) -> Option<ScrapeConflict> {
    found.sort_unstable();
    let public_id = found.first()?.1.clone();
    let sources = found.into_iter().filter(|(_, by)| *by == public_id).map(|(source, _)| source).collect();
    Some(ScrapeConflict { public_id, sources })
}
