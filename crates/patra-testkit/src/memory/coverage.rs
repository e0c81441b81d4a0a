//! The windows of a namespace that are done or in progress, and its completed prefix.

use std::collections::BTreeMap;
use std::ops::Bound;

use patra_core::bounds::TaskBounds;
use patra_core::cursor::{CursorName, CursorValue};
use patra_core::state::{Direction, Operation, TaskStatus};
use patra_core::tx::{Coverage, HISTORY, History, ReadCoverage};
use patra_core::{TaskId, Ts, Window};

use super::{Cursor, MemStore, Task, place};

/// Tasks in these states cover their windows.
const COVERING: &[TaskStatus] =
    &[TaskStatus::Queued, TaskStatus::Dispatched, TaskStatus::Executing, TaskStatus::Succeeded];

/// The end of a window in a direction; a greater value is further.
pub(super) fn reach(direction: Direction, window: Window) -> Ts {
    match direction {
        Direction::Forward => window.to,
        Direction::Backfill => mirrored(window.from),
    }
}

fn mirrored(at: Ts) -> Ts {
    Ts::from_micros(at.micros().saturating_neg())
}

impl MemStore {
    pub(super) fn read_coverage(&self, now: Ts, op: &ReadCoverage) -> Coverage {
        let CursorName { provenance_code, endpoint_name, operation, .. } = &op.cursor;
        let partition = self.find_partition(provenance_code, endpoint_name, *operation);
        let mut coverage = Coverage {
            cursor: None,
            origin: None,
            value: None,
            epoch: 0,
            covered: Vec::new(),
            next_ordinal: 0,
            queued: partition.map_or(0, |at| self.index.partitions[at].queue.len() as u32),
            history: History::default(),
            harvested: self.harvested(&op.cursor),
            now,
        };
        let Some(at) = self.find_cursor(&op.cursor) else { return coverage };
        let cursor = &self.cursors[at];
        coverage.cursor = Some(cursor.id);
        coverage.origin = cursor.began;
        coverage.value = cursor.value.clone();
        coverage.epoch = cursor.epoch;
        coverage.covered = self.windows_beyond(cursor, COVERING);
        coverage.next_ordinal = self.index.namespaces[at].segments.last().map_or(0, |(ordinal, _)| ordinal + 1);
        coverage.history = self.history(at);
        coverage
    }

    /// Windows beyond the cursor's value, or its origin, all tasks of which are in one of these states, and done parts
    /// there. Sorted, each once.
    pub(super) fn windows_beyond(&self, cursor: &Cursor, states: &[TaskStatus]) -> Vec<Window> {
        let Some(start) = cursor.start() else { return Vec::new() };
        let direction = cursor.direction();
        let start = reach(direction, Window { from: start, to: start });
        let beyond = (Bound::Excluded((start, TaskId(i64::MAX))), Bound::Unbounded);
        let tasks = self.index.namespaces[place(cursor.id.0)].windows.range(beyond);
        let (mut groups, mut windows) = (BTreeMap::new(), Vec::new());
        for task in tasks.map(|(_, task)| &self.tasks[place(task.0)]) {
            let Some(window) = task.what.window else { continue };
            if !task.replaced {
                *groups.entry((task.lineage.plan, window)).or_insert(true) &= states.contains(&task.status);
            }
            windows.extend(task.done_part().filter(|done| reach(direction, *done) > start));
        }
        windows.extend(groups.into_iter().filter(|(_, all)| *all).map(|((_, window), _)| window));
        windows.sort_unstable();
        windows.dedup();
        windows
    }

    /// Lookup by `uk_cursor_ns`: the endpoint is not part of the identity.
    pub(super) fn find_cursor(&self, name: &CursorName) -> Option<usize> {
        self.cursors.iter().position(|row| {
            row.name.project_key == name.project_key
                && row.name.provenance_code == name.provenance_code
                && row.name.operation == name.operation
                && row.name.cursor_key == name.cursor_key
                && row.name.scope == name.scope
                && row.name.namespace_key == name.namespace_key
        })
    }

    /// The position of the harvest of the same namespace.
    fn harvested(&self, name: &CursorName) -> Option<Ts> {
        let same = |row: &&Cursor| {
            row.name.operation == Operation::Harvest
                && row.name.project_key == name.project_key
                && row.name.provenance_code == name.provenance_code
                && row.name.endpoint_name == name.endpoint_name
                && row.name.cursor_key == name.cursor_key
        };
        let values =
            self.cursors.iter().filter(same).filter_map(|row| row.value.as_ref().and_then(CursorValue::instant));
        (name.operation == Operation::Backfill).then(|| values.max()).flatten()
    }

    fn history(&self, cursor: usize) -> History {
        let completed = |(_, id): &(Ts, TaskId)| {
            let task = &self.tasks[place(id.0)];
            let pages = || TaskBounds::of_task(&task.what.task_params).is_ok_and(|bounds| bounds.pages.is_some());
            let window = task.what.window.filter(|_| task.status == TaskStatus::Succeeded)?;
            (!pages()).then_some((window, task))
        };
        let tasks = self.index.namespaces[cursor].windows.iter().rev().filter_map(completed);
        let last: Vec<_> = match self.cursors[cursor].direction() {
            Direction::Forward => tasks.take(HISTORY as usize).collect(),
            // The index is ordered by the other end.
            Direction::Backfill => {
                let mut all: Vec<_> = tasks.collect();
                all.sort_by_key(|(window, task)| std::cmp::Reverse((window.to, task.id)));
                all.truncate(HISTORY as usize);
                all
            }
        };
        History {
            items: last.iter().map(|(_, task)| task.items).sum(),
            span: last.iter().map(|(window, _)| window.width()).sum(),
        }
    }
}

impl Task {
    /// The completed part of a window whose task ended early.
    fn done_part(&self) -> Option<Window> {
        let short = matches!(self.status, TaskStatus::Partial | TaskStatus::Failed | TaskStatus::Cancelled);
        self.done.filter(|_| short)
    }
}
