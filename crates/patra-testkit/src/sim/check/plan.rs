//! Plans and the tasks that they are made of: nothing is planned twice, nothing is left out, and a cursor lies within
//! what is complete.

use patra_core::bounds::TaskBounds;
use patra_core::cursor::{CursorValue, completed_end};
use patra_core::paging::Verification;
use patra_core::state::{Direction, TaskStatus};
use patra_core::tx::{Done, PlanTarget, RunEnd, Tx, TxError};
use patra_core::{CursorId, Ts, Window};

use super::segment::within_segments;
use super::{Broken, Checker};
use crate::memory::{Cursor, MemStore, Task};
use crate::sim::api::MockApi;

impl Checker {
    /// The tasks that replace a task together cover its window.
    pub(super) fn check_split(&self, mem: &MemStore, tx: &Tx) -> Result<(), Broken> {
        let Tx::EndRun(op) = tx else { return Ok(()) };
        let (RunEnd::Split { .. }, at) = (&op.end, op.lease.task.0 as usize - 1) else { return Ok(()) };
        let (task, new) = (&mem.tasks[at], &mem.tasks[self.tasks.len()..]);
        let Some(window) = task.what.window.filter(|_| self.tasks[at].status != task.status) else { return Ok(()) };
        let parts: Vec<Window> = new.iter().filter_map(|task| task.what.window).chain(task.done).collect();
        match window.minus(&parts).first() {
            Some(gap) => Err(format!("no gap: nothing takes the place of {gap:?} of task {}", task.id)),
            None => check_page_ranges(new),
        }
    }

    /// The completed part of an incomplete window is stored completely.
    pub(super) fn check_done(&self, mem: &MemStore, now: Ts, tx: &Tx, api: &MockApi) -> Result<(), Broken> {
        let Tx::EndRun(op) = tx else { return Ok(()) };
        let (Some(done), at) = (op.done, op.lease.task.0 as usize - 1) else { return Ok(()) };
        let task = &mem.tasks[at];
        if task.done != Some(done) || self.tasks[at].status == task.status {
            return Ok(());
        }
        if task.what.window.is_none_or(|window| done.from < window.from || window.to < done.to) {
            return Err(format!("done: task {} has done {done:?}, which is not its own", task.id));
        }
        self.check_no_gap(mem, api, now, None, (done.from, done.to), false)
    }

    /// Two tasks never cover the same part of a namespace, unless one of them has failed.
    pub(super) fn check_new_task(&self, mem: &MemStore, tx: &Tx, task: &Task) -> Result<(), Broken> {
        let cursor = &mem.cursors[task.cursor.0 as usize - 1];
        let part = |window: Option<Window>| match (window, cursor.began, cursor.direction()) {
            (Some(Window { from, to }), Some(began), Direction::Forward) => Window::new(from.max(began), to),
            (Some(Window { from, to }), Some(began), Direction::Backfill) => Window::new(from, to.min(began)),
            _ => None,
        };
        let Some(own) = part(task.what.window) else { return Ok(()) };
        let overlaps = |other| part(other).is_some_and(|theirs| theirs.from < own.to && own.from < theirs.to);
        for other in mem.tasks.iter().filter(|other| other.id < task.id && other.cursor == task.cursor) {
            let alive = !is_dead(other) && !is_sibling(other, task) && !in_dead_company(mem, other);
            if alive && overlaps(other.what.window) {
                return Err(format!("no double work: tasks {} and {} cover the same time", other.id, task.id));
            }
            if is_dead(other) && matches!(tx, Tx::SavePlan(_)) && overlaps(other.done) {
                return Err(format!("no double work: task {} reads what {} has done", task.id, other.id));
            }
        }
        Ok(())
    }

    /// A plan that is complete leaves nothing of its window out.
    pub(super) fn check_plan(&self, mem: &MemStore, tx: &Tx, result: &Result<Done, TxError>) -> Result<(), Broken> {
        let (Tx::SavePlan(op), Ok(Done::SavePlan(saved))) = (tx, result) else { return Ok(()) };
        if op.slices.is_empty() && matches!(op.target, PlanTarget::New(_)) {
            return Err(format!("plans have work: plan {} is empty", saved.plan));
        }
        let plan = &mem.plans[saved.plan.0 as usize - 1];
        let Some(window) = plan.window else { return self.check_ranges(mem, saved, op.complete) };
        if !op.complete {
            return Ok(());
        }
        let cursor = &mem.cursors[saved.cursor.0 as usize - 1];
        let own = mem.tasks.iter().filter(|task| task.cursor == saved.cursor);
        // Windows that failed after the request are left to a later trigger.
        let asked = mem.instances[op.job.0 as usize - 1].created_at;
        let counts =
            |task: &&Task| task.lineage.plan == saved.plan || !is_dead(task) || task.finished_at >= Some(asked);
        let mut parts: Vec<Window> = own.clone().filter(counts).filter_map(|task| task.what.window).collect();
        parts.extend(own.filter_map(|task| task.done));
        parts.extend(
            cursor.start().zip(cursor.began).and_then(|(one, other)| Window::new(one.min(other), one.max(other))),
        );
        match window.minus(&parts).first() {
            Some(gap) => Err(format!("no gap: plan {} is complete without {gap:?}", saved.plan)),
            None => Ok(()),
        }
    }
}

/// Ranges of pages begin with the first, leave none out, and the last is open.
fn check_page_ranges(tasks: &[Task]) -> Result<(), Broken> {
    if !tasks.iter().any(has_pages) {
        return Ok(());
    }
    let mut next = Some(0);
    for task in tasks {
        let bounds = TaskBounds::of_task(&task.what.task_params).map_err(|error| error.to_string())?;
        let Some(pages) = bounds.pages else { return Err(format!("task {} has no pages", task.id)) };
        if next.is_none_or(|next| pages.from > next) {
            return Err(format!("no gap: task {} begins at page {}, not at {next:?}", task.id, pages.from));
        }
        next = pages.to.map(|to| to + 1);
    }
    match next {
        Some(next) => Err(format!("no gap: nobody reads page {next}")),
        None => Ok(()),
    }
}

fn is_dead(task: &Task) -> bool {
    matches!(task.status, TaskStatus::Failed | TaskStatus::Partial | TaskStatus::Cancelled)
}

/// Ranges of the pages of one window.
fn is_sibling(one: &Task, other: &Task) -> bool {
    one.lineage.plan == other.lineage.plan && one.what.window == other.what.window && has_pages(one) && has_pages(other)
}

fn has_pages(task: &Task) -> bool {
    task.what.task_params.contains("\"pages\":")
}

/// Whether another range of the same window has failed, so that the window is read again as a whole.
fn in_dead_company(mem: &MemStore, task: &Task) -> bool {
    has_pages(task) && mem.tasks.iter().any(|other| is_dead(other) && !other.replaced && is_sibling(task, other))
}

/// The complete windows of a namespace: those whose tasks have all succeeded, and completed parts.
pub(in crate::sim) fn completed(mem: &MemStore, cursor: CursorId) -> Vec<Window> {
    let own = || mem.tasks.iter().filter(move |task| task.cursor == cursor);
    let mut windows = Vec::new();
    for task in own() {
        if is_dead(task) {
            windows.extend(task.done);
        }
        let open = |other: &Task| {
            !other.replaced && other.status != TaskStatus::Succeeded && other.what.window == task.what.window
        };
        if task.status == TaskStatus::Succeeded
            && !task.replaced
            && !own().any(|other| other.lineage.plan == task.lineage.plan && open(other))
        {
            windows.extend(task.what.window);
        }
    }
    windows
}

/// Whether a slice with this instant succeeded unverified: a record may have moved past its reader unnoticed.
pub(super) fn is_unverified(mem: &MemStore, at: Ts, lookback: std::time::Duration) -> bool {
    mem.tasks.iter().filter(|task| task.status == TaskStatus::Succeeded).any(|task| {
        let covers = task.what.window.is_some_and(|window| window.from - lookback <= at && at < window.to);
        let last = task.runs.last().and_then(|run| mem.runs[run.0 as usize - 1].stats.as_ref());
        covers && last.is_some_and(|stats| stats.verification == Some(Verification::Unverified))
    })
}

/// Position of a cursor value, in the direction of the cursor.
pub(super) fn reach(cursor: &Cursor, mark: &CursorValue) -> i64 {
    match (mark, cursor.direction()) {
        (CursorValue::At(at), Direction::Forward) => at.micros(),
        (CursorValue::At(at), Direction::Backfill) => -at.micros(),
        (CursorValue::Nth { ordinal, .. }, _) => *ordinal,
    }
}

/// A cursor or its event never lies beyond the completed prefix.
pub(super) fn within_prefix(mem: &MemStore, cursor: usize, mark: &CursorValue) -> Result<(), Broken> {
    let row = &mem.cursors[cursor];
    let Some(began) = row.began else { return within_segments(mem, row, mark) };
    let prefix = CursorValue::At(completed_end(row.direction(), began, &completed(mem, row.id)));
    if reach(row, mark) > reach(row, &prefix) {
        return Err(format!("no gap: cursor {} at {mark:?}, beyond its completed prefix {prefix:?}", row.id));
    }
    Ok(())
}
