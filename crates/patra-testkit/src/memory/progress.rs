//! How far the work of one trigger has come.

use patra_core::port::query::Progress;
use patra_core::state::{BatchStatus, TaskStatus};

use super::{MemStore, place};

impl MemStore {
    pub fn progress(&self, public_id: &str) -> Option<Progress> {
        let id = *self.index.instance_by_public_id.get(public_id)?;
        let trigger = &self.instances[place(id.0)];
        let mut progress = Progress {
            instance: id,
            trigger_status: trigger.status,
            remarks: trigger.remarks.clone(),
            tasks_queued: 0,
            tasks_active: 0,
            tasks_succeeded: 0,
            tasks_partial: 0,
            tasks_failed: 0,
            tasks_cancelled: 0,
            batches: 0,
            inserted: 0,
            updated: 0,
            skipped: 0,
            rejected: 0,
            retries: 0,
            throttled: 0,
        };
        for task in self.tasks.iter().filter(|task| task.lineage.instance == id) {
            let count = match task.status {
                TaskStatus::Queued => &mut progress.tasks_queued,
                TaskStatus::Dispatched | TaskStatus::Executing => &mut progress.tasks_active,
                TaskStatus::Succeeded => &mut progress.tasks_succeeded,
                TaskStatus::Partial => &mut progress.tasks_partial,
                TaskStatus::Failed => &mut progress.tasks_failed,
                TaskStatus::Cancelled => &mut progress.tasks_cancelled,
            };
            *count += 1;
        }
        let committed = |batch: &&super::Batch| batch.lineage.instance == id && batch.status == BatchStatus::Succeeded;
        for batch in self.batches.iter().filter(committed) {
            progress.batches += 1;
            progress.inserted += u64::from(batch.stats.inserted);
            progress.updated += u64::from(batch.stats.updated);
            progress.skipped += u64::from(batch.stats.skipped);
            progress.rejected += u64::from(batch.stats.failed);
            progress.retries += u64::from(batch.stats.retry_count);
            progress.throttled += u64::from(batch.stats.throttled_count);
        }
        Some(progress)
    }
}
