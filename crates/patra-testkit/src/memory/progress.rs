//! Progress of a trigger.

use std::collections::BTreeSet;

use patra_core::port::query::JobProgress;
use patra_core::state::{BatchStatus, JobStatus, TaskStatus};
use patra_core::{JobId, Ts};

use super::{MemStore, place};

impl MemStore {
    pub fn progress(&self, public_id: &str, now: Ts) -> Option<JobProgress> {
        let id = *self.index.instance_by_public_id.get(public_id)?;
        let trigger = &self.instances[place(id.0)];
        let mut progress = JobProgress {
            job: id,
            project_key: trigger.origin.project_key.clone(),
            job_type: trigger.job_type.clone(),
            in_progress: trigger.is_background_job() && trigger.lease.as_ref().is_some_and(|(_, until)| *until > now),
            result: trigger.result.clone(),
            request_id: trigger.request_id.clone(),
            created_at: trigger.created_at,
            started_at: trigger.started_at,
            finished_at: trigger.finished_at,
            job_status: trigger.status,
            remarks: trigger.remarks.clone(),
            partitions: 0,
            partitions_waiting: 0,
            partitions_failed: 0,
            partitions_open: 0,
            tasks_queued: 0,
            tasks_active: 0,
            tasks_succeeded: 0,
            tasks_unverified: 0,
            tasks_partial: 0,
            tasks_split: 0,
            tasks_failed: 0,
            tasks_cancelled: 0,
            fault: None,
            batches: 0,
            inserted: 0,
            updated: 0,
            skipped: 0,
            out_of_window: 0,
            filtered: 0,
            rejected: 0,
            retries: 0,
            throttled: 0,
        };
        let own = |instance: JobId| instance == id || self.instances[place(instance.0)].root == Some(id);
        let (mut open, mut first, mut last, mut newest) = (BTreeSet::new(), None, None, None);
        for task in self.tasks.iter().filter(|task| own(task.lineage.job)) {
            first = [first, task.started_at].into_iter().flatten().min();
            last = last.max(task.finished_at);
            if !task.status.is_final() {
                open.insert(task.lineage.job);
            }
            progress.tasks_unverified += u64::from(task.is_unverified);
            let count = match task.status {
                _ if task.replaced => &mut progress.tasks_split,
                TaskStatus::Queued => &mut progress.tasks_queued,
                TaskStatus::Dispatched | TaskStatus::Executing => &mut progress.tasks_active,
                TaskStatus::Succeeded => &mut progress.tasks_succeeded,
                TaskStatus::Partial => &mut progress.tasks_partial,
                TaskStatus::Failed => &mut progress.tasks_failed,
                TaskStatus::Cancelled => &mut progress.tasks_cancelled,
            };
            *count += 1;
            if matches!(task.status, TaskStatus::Failed | TaskStatus::Partial) && !task.replaced {
                newest = newest.max(Some((task.finished_at, task.id)));
            }
        }
        let fault = newest.and_then(|(_, task)| self.tasks[place(task.0)].error.as_ref());
        progress.fault = fault.and_then(|error| serde_json::to_value(error).ok());
        let committed =
            |batch: &&super::Batch| own(batch.lineage.job) && batch.status == BatchStatus::Succeeded && !batch.archived;
        for batch in self.batches.iter().filter(committed) {
            progress.batches += 1;
            progress.inserted += u64::from(batch.stats.inserted);
            progress.updated += u64::from(batch.stats.updated);
            progress.skipped += u64::from(batch.stats.skipped);
            progress.out_of_window += u64::from(batch.stats.skipped_by.out_of_window);
            progress.filtered += u64::from(batch.stats.skipped_by.filtered);
            progress.rejected += u64::from(batch.stats.failed);
            progress.retries += u64::from(batch.stats.retry_count);
            progress.throttled += u64::from(batch.stats.throttled_count);
        }
        for child in self.instances.iter().filter(|row| row.root == Some(id)) {
            progress.partitions += 1;
            let waiting = child.status == JobStatus::Requested;
            progress.partitions_waiting += u64::from(waiting);
            progress.partitions_failed += u64::from(child.status == JobStatus::Failed);
            progress.partitions_open += u64::from(!waiting && open.contains(&child.id));
        }
        progress.started_at = progress.started_at.or(first);
        progress.finished_at = progress.finished_at.or(last.filter(|_| progress.is_finished()));
        Some(progress)
    }
}
