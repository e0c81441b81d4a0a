//! Fan-out of a trigger into one trigger per partition, and the records that name partitions.

use std::ops::Bound;

use patra_core::state::JobStatus;
use patra_core::tx::{
    ChildJob, FanOut, FannedOut, MAX_PARENTS, MAX_WAITING, ParentRecord, ReadParents, RequestJob, TxError,
};
use patra_core::{JobId, Ts};

use super::{ItemStream, MemStore, place, refused};

impl MemStore {
    pub(super) fn fan_out(&mut self, now: Ts, op: &FanOut) -> Result<FannedOut, TxError> {
        let trigger = self.leased_trigger(op.job, op.fence)?.clone();
        let known = |child: &&ChildJob| self.index.instance_by_public_id.contains_key(&child.public_id);
        let existing = op.children.iter().filter(known).count();
        let created = op.children.len() - existing;
        let children = self.children(op.job).count() + created;
        if children > op.limit as usize {
            return refused(op.too_many());
        }
        for child in &op.children {
            let fire = RequestJob {
                public_id: child.public_id.clone(),
                trigger_type: trigger.trigger_type,
                project_key: trigger.origin.project_key.clone(),
                provenance_code: trigger.origin.provenance_code.clone(),
                endpoint_name: trigger.origin.endpoint_name.clone(),
                operation: trigger.origin.operation,
                reason: trigger.reason,
                activity: trigger.activity.clone(),
                window_from: trigger.window_from,
                window_to: trigger.window_to,
                priority: trigger.priority,
                params: child.params.clone(),
                overrides: trigger.overrides.clone(),
            };
            let made = self.insert_trigger(now, &fire, trigger.schedule);
            if !made.existed {
                let row = &mut self.instances[place(made.job.0)];
                (row.parent, row.root) = (Some(op.job), trigger.root.or(Some(op.job)));
            }
        }
        let waiting = self.children(op.job).filter(|child| self.index.waiting.contains(child)).count();
        let row = &mut self.instances[place(op.job.0)];
        (row.place, row.lease) = (Some(op.position.clone()), None);
        if op.complete {
            row.remarks = Some(op.remarks(children as u32));
            self.close_trigger(op.job, JobStatus::Planned);
        } else {
            row.not_before = if waiting >= MAX_WAITING as usize { now + op.wait } else { now };
        }
        Ok(FannedOut { created: created as u32, existing: existing as u32, children: children as u32 })
    }

    fn children(&self, parent: JobId) -> impl Iterator<Item = JobId> {
        self.instances.iter().filter(move |row| row.parent == Some(parent)).map(|row| row.id)
    }

    pub(super) fn read_parents(&self, op: &ReadParents) -> Vec<ParentRecord> {
        let stream = ItemStream {
            project_key: op.project_key.clone(),
            provenance_code: op.provenance_code.clone(),
            dedup_scope: op.dedup_scope.clone(),
        };
        let Some(at) = self.streams.iter().position(|known| *known == stream) else { return Vec::new() };
        let from = op.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.index.items[at].range((from, Bound::Unbounded)).map(|(_, at)| &self.items[*at]);
        let own = rows.filter(|item| item.endpoint_name == op.endpoint_name && item.missing_since.is_none());
        own.take(op.limit.min(MAX_PARENTS) as usize)
            .map(|item| ParentRecord {
                key: item.key.clone(),
                payload: if op.payload { item.payload.to_string() } else { String::new() },
                task_params: self.task_of(item.run).map(|task| task.what.task_params.clone()),
            })
            .collect()
    }

    /// Notes have no run.
    fn task_of(&self, run: patra_core::RunId) -> Option<&super::Task> {
        self.runs.get(place(run.0)).map(|run| &self.tasks[place(run.task.0)])
    }
}
