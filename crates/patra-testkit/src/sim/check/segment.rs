//! UPDATE: the segments of a plan contain all refresh candidates, and a finished segment has checked all of its ids.

use patra_core::Ts;
use patra_core::bounds::{IdSegment, TaskBounds};
use patra_core::cursor::CursorValue;
use patra_core::state::{SignalStatus, TaskStatus};
use patra_core::tx::{CommitBatch, Done, PlanSaved, RefreshCriteria, TxError};

use super::{Broken, Checker};
use crate::memory::{Cursor, MemStore, Task};

impl Checker {
    /// Every refresh candidate of a task has been checked since the task was made.
    pub(super) fn check_segment(&self, mem: &MemStore, task: &Task) -> Result<(), Broken> {
        let segment = segment_of(task)?;
        match self.forgotten(mem, &segment.criteria, task.created_at, |key| segment.range.contains(key)) {
            Some(key) => Err(format!("no gap: task {} succeeded without a look at {key}", task.id)),
            None => Ok(()),
        }
    }

    /// The ranges of a plan have no gap, and no refresh candidate lies behind the last range of a complete plan.
    pub(super) fn check_ranges(&self, mem: &MemStore, saved: &PlanSaved, complete: bool) -> Result<(), Broken> {
        let mut tasks: Vec<_> = mem.tasks.iter().filter(|task| task.lineage.plan == saved.plan).collect();
        tasks.sort_by_key(|task| task.what.segment.as_ref().map(|segment| segment.ordinal));
        let (mut end, mut next) = (None, None);
        for task in &tasks {
            let (segment, ordinal) =
                (segment_of(task)?, task.what.segment.as_ref().map_or(0, |segment| segment.ordinal));
            // Plans of one activity may interleave: their ordinals rise within each plan.
            if segment.range.after != end || next.is_some_and(|next| ordinal < next) {
                return Err(format!(
                    "no gap: segment {ordinal} of plan {} begins behind {:?}",
                    saved.plan, segment.range.after
                ));
            }
            (end, next) = (Some(segment.range.through), Some(ordinal + 1));
        }
        let (true, Some(first), Some(end)) = (complete, tasks.first(), end) else { return Ok(()) };
        let asked = mem.instances[first.lineage.job.0 as usize - 1].created_at;
        match self.forgotten(mem, &segment_of(first)?.criteria, asked, |key| **key > *end) {
            Some(key) => Err(format!("no gap: {key} is in no segment of plan {}", saved.plan)),
            None => Ok(()),
        }
    }

    /// A refresh candidate of `since` that has not been checked from then on.
    fn forgotten(
        &self,
        mem: &MemStore,
        wanted: &RefreshCriteria,
        since: Ts,
        inside: impl Fn(&String) -> bool,
    ) -> Option<String> {
        if since <= self.set_back_from {
            // What was checked after that may bear an earlier time.
            return None;
        }
        let items = || mem.items.iter().filter(|item| item.endpoint_name == "e" && inside(&item.key));
        let item = match wanted {
            RefreshCriteria::Stale { before } => items().find(|item| item.checked_at < *before),
            RefreshCriteria::MappedOtherThan { generation } => {
                items().find(|item| *item.generation != **generation && item.checked_at < since)
            }
            RefreshCriteria::Signalled => {
                let rows =
                    mem.signals.values().filter(|row| row.status == SignalStatus::Open && inside(&row.about.key));
                let row = rows.into_iter().find(|row| row.about.endpoint_name == "e" && row.updated_at < since);
                return row.map(|row| row.about.key.clone());
            }
        };
        item.map(|item| item.key.clone())
    }

    /// A signal of an unavailable record stays open until it is given up.
    pub(super) fn check_tries(&self, mem: &MemStore, now: Ts, op: &CommitBatch) -> Result<(), Broken> {
        for checked in op.checked.iter().filter(|checked| checked.failed.is_some()) {
            let resolved = mem.signals.values().find(|row| {
                row.about.key == checked.key
                    && row.about.endpoint_name == op.stream.endpoint_name
                    && row.status == SignalStatus::Resolved
                    && row.updated_at == now
            });
            if resolved.is_some() {
                return Err(format!("no gap: the signal for {} is resolved, its content was refused", checked.key));
            }
        }
        Ok(())
    }
}

/// A cursor that counts segments lies behind none that is not done.
pub(super) fn within_segments(mem: &MemStore, cursor: &Cursor, mark: &CursorValue) -> Result<(), Broken> {
    let CursorValue::Nth { ordinal, .. } = mark else {
        return Err(format!("{mark:?} of a cursor that counts segments"));
    };
    let own = || mem.tasks.iter().filter(|task| task.cursor == cursor.id);
    let Some(newest) = own().map(|task| task.lineage.plan).max() else { return Ok(()) };
    let open = own().find(|task| {
        let before = task.what.segment.as_ref().is_some_and(|segment| segment.ordinal < *ordinal);
        before && task.lineage.plan == newest && !task.replaced && task.status != TaskStatus::Succeeded
    });
    match open {
        Some(task) => Err(format!("no gap: cursor {} at {mark:?}, task {} is {}", cursor.id, task.id, task.status)),
        None => Ok(()),
    }
}

fn segment_of(task: &Task) -> Result<IdSegment, Broken> {
    let bounds = TaskBounds::of_task(&task.what.task_params).map_err(|error| error.to_string())?;
    bounds.ids.ok_or_else(|| format!("task {} has a segment without ids", task.id))
}

/// Whether the result is that of a new commit, not of a repeated one.
pub(super) fn is_new(result: &Result<Done, TxError>) -> bool {
    result.as_ref().is_ok_and(|done| done.committed().iter().all(|page| !page.replayed))
}
