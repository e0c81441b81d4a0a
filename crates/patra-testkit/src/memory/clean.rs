//! Deletion of old rows.

use bytestring::ByteString;
use patra_core::tx::{ExpiredPurged, PurgeExpired, TaskLineage};
use patra_core::{TaskId, Ts};

use super::{Instance, MemStore, Task, place};

impl MemStore {
    pub(super) fn clean(&mut self, now: Ts, op: &PurgeExpired) -> ExpiredPurged {
        let limit = op.limit as usize;
        let items = op.keep.map_or(0, |keep| self.empty_items(now, now - keep, limit));
        let before = now - op.keep_ledger;
        let old = |task: &&Task| {
            let ended = task.finished_at.is_some_and(|at| at < before);
            let of_job = self.instances[place(task.lineage.job.0)].root.is_some();
            task.poll.is_some() && ended && !of_job && !self.forgotten.tasks.contains(&task.id)
        };
        let mut old: Vec<_> = self.tasks.iter().filter(old).map(|task| (task.finished_at, task.id)).collect();
        old.sort_unstable();
        old.truncate(limit);
        for (_, id) in &old {
            self.forget_poll(*id);
        }
        let jobs = self.forget_jobs(now - op.keep_jobs, limit);
        ExpiredPurged { items, polls: old.len() as u32, jobs }
    }

    /// Removes old background jobs first, then jobs that poll, together at most `limit`.
    fn forget_jobs(&mut self, before: Ts, limit: usize) -> u32 {
        let there = |row: &&Instance| !self.forgotten.instances.contains(&row.id);
        let ended = self.instances.iter().filter(there).filter(|row| row.is_background_job() && row.status.is_final());
        let old = ended.filter(|row| row.finished_at.is_some_and(|at| at < before));
        let mut background_jobs: Vec<_> = old.map(|row| (row.finished_at, row.id)).collect();
        background_jobs.sort_unstable();
        background_jobs.truncate(limit);
        let polled = |job: &&Instance| {
            let own = |task: &&Task| self.instances[place(task.lineage.job.0)].root == Some(job.id);
            let mut polls = self.tasks.iter().filter(own);
            job.scrape && job.created_at < before && polls.all(|task| task.finished_at.is_some_and(|at| at < before))
        };
        let scrapes = self.instances.iter().filter(there).filter(polled).map(|row| row.id);
        let scrapes: Vec<_> = scrapes.take(limit - background_jobs.len()).collect();
        for job in &scrapes {
            let own = |task: &&Task| self.instances[place(task.lineage.job.0)].root == Some(*job);
            let polls: Vec<_> = self.tasks.iter().filter(own).map(|task| task.id).collect();
            polls.into_iter().for_each(|poll| self.forget_poll(poll));
        }
        let jobs = background_jobs.len() + scrapes.len();
        for id in background_jobs.into_iter().map(|(_, id)| id).chain(scrapes) {
            self.index.instance_by_public_id.remove(&self.instances[place(id.0)].public_id);
            self.forgotten.instances.insert(id);
        }
        jobs as u32
    }

    fn empty_items(&mut self, now: Ts, before: Ts, limit: usize) -> u32 {
        let old = self.links.iter().filter(|(_, link)| link.kind == "article" && link.fetched_at < before);
        let mut old: Vec<_> = old.map(|((_, item), link)| (link.fetched_at, *item)).collect();
        old.sort_unstable();
        old.truncate(limit);
        let mut emptied = 0;
        for (_, id) in old {
            let item = &mut self.items[place(id)];
            if item.emptied_at.is_none() {
                (item.fields, item.payload, item.emptied_at) = (String::new(), ByteString::new(), Some(now));
                emptied += 1;
            }
            self.links.retain(|(_, item), _| *item != id);
        }
        emptied
    }

    fn forget_poll(&mut self, id: TaskId) {
        let task = &self.tasks[place(id.0)];
        let TaskLineage { job: instance, plan, slice } = task.lineage;
        self.index.task_by_key.remove(&task.what.task_key);
        self.index.instance_by_public_id.remove(&self.instances[place(instance.0)].public_id);
        for run in &task.runs {
            for batch in &self.runs[place(run.0)].batches {
                let batch = &mut self.batches[place(batch.0)];
                batch.archived = true;
                self.index.batch_keys.remove(&batch.idempotent_key);
                self.raw.remove(&(*run, batch.batch_no));
            }
            self.forgotten.runs.insert(*run);
        }
        self.forgotten.instances.insert(instance);
        self.forgotten.plans.insert(plan);
        self.forgotten.slices.insert(slice);
        self.forgotten.tasks.insert(id);
    }
}
