//! Coverage: windows of a namespace that are done or in progress.

use patra_core::cursor::{CursorValue, completed_end};
use patra_core::state::{Direction, TaskStatus};
use patra_core::tx::{HISTORY, History};
use patra_core::{PlanId, Ts, Window};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::cursor::Cursor;
use crate::error::Result;
use crate::sql::{maybe_window, time, word};

// Tasks that reach beyond the value, in the order of their groups: tasks of one plan and window are adjacent.
pub(crate) const BEYOND_FORWARD: &str = "
SELECT plan_id, window_from, window_to, status_code, replaced, done_from, done_to
FROM ing_task
WHERE cursor_id = ?1 AND window_to > ?2
ORDER BY window_to, window_from, ordinal, plan_id";

pub(crate) const BEYOND_BACKFILL: &str = "
SELECT plan_id, window_from, window_to, status_code, replaced, done_from, done_to
FROM ing_task
WHERE cursor_id = ?1 AND window_from < ?2 AND operation_code = 'BACKFILL'
ORDER BY window_from, window_to, plan_id";

// Whether any task after a window in that order, other than its own, begins at a time or before.
pub(crate) const REACHES_BACK: &str = "
SELECT EXISTS (
  SELECT 1 FROM ing_task
  WHERE cursor_id = ?1 AND window_to >= ?2 AND window_from <= ?3
    AND NOT (plan_id = ?4 AND window_from = ?5 AND window_to = ?2))";

pub(crate) const NEXT_ORDINAL: &str = "
SELECT ordinal + 1 FROM ing_task
WHERE cursor_id = ?1 AND window_to IS NULL AND window_from IS NULL AND ordinal IS NOT NULL
ORDER BY ordinal DESC
LIMIT 1";

const READ_HISTORY: &str = "
SELECT items, window_to - window_from
FROM ing_task
WHERE cursor_id = ?1 AND window_to IS NOT NULL AND status_code = 'SUCCEEDED' AND params ->> '$.pages' IS NULL
ORDER BY window_to DESC, id DESC
LIMIT ?2";

pub(crate) const NEWEST_PLAN: &str = "
SELECT id FROM ing_plan plan
WHERE cursor_id = ?1 AND EXISTS (SELECT 1 FROM ing_task task WHERE task.plan_id = plan.id AND task.ordinal IS NOT NULL)
ORDER BY id DESC
LIMIT 1";

pub(crate) const SEGMENTS: &str = "
SELECT ordinal, min(last_id), min(replaced) = 0 AND min(replaced OR status_code = 'SUCCEEDED')
FROM ing_task
WHERE cursor_id = ?1 AND window_to IS NULL AND window_from IS NULL AND ordinal >= ?2 AND plan_id = ?3
GROUP BY ordinal
ORDER BY ordinal";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[BEYOND_FORWARD, BEYOND_BACKFILL, REACHES_BACK, NEXT_ORDINAL, READ_HISTORY, NEWEST_PLAN, SEGMENTS];

/// Returns the windows beyond the value that are done or in progress, sorted and distinct.
pub(super) fn covered(db: &Connection, cursor: &Cursor, start: Ts) -> Result<Vec<Window>> {
    let live = |status| status == TaskStatus::Succeeded || !TaskStatus::is_final(status);
    let mut windows = windows(db, cursor, start, live, |_, _, _| Ok(false))?;
    windows.sort_unstable();
    windows.dedup();
    Ok(windows)
}

/// Returns the complete windows beyond the value, up to the first gap that stops the cursor: as many windows follow it
/// as tasks wait, and each task that ends would read them all.
pub(super) fn completed(db: &Connection, cursor: &Cursor, start: Ts) -> Result<Vec<Window>> {
    let is_the_end = |complete: &[Window], plan: PlanId, open: Window| {
        if cursor.direction == Direction::Backfill {
            return Ok(false);
        }
        let end = completed_end(cursor.direction, start, complete);
        let values = params![cursor.id.0, open.to.micros(), end.micros(), plan.0, open.from.micros()];
        let reaches_back: bool = db.prepare_cached(REACHES_BACK)?.query_row(values, |row| row.get(0))?;
        Ok(!reaches_back)
    };
    windows(db, cursor, start, |status| status == TaskStatus::Succeeded, is_the_end)
}

struct TaskRow {
    plan: PlanId,
    window: Window,
    status: TaskStatus,
    replaced: bool,
    done: Option<Window>,
}

fn read_task(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    Ok(TaskRow {
        plan: PlanId(row.get(0)?),
        window: Window { from: time(row, 1)?, to: time(row, 2)? },
        status: word(row, 3)?,
        replaced: row.get(4)?,
        done: maybe_window(row, 5)?,
    })
}

/// Windows in which all tasks of the plan count, except replaced ones, and the done parts of tasks that ended short.
/// Stops at the first that does not count and is the end of the range of interest, given those before it.
fn windows(
    db: &Connection,
    cursor: &Cursor,
    start: Ts,
    counts: impl Fn(TaskStatus) -> bool,
    is_the_end: impl Fn(&[Window], PlanId, Window) -> Result<bool>,
) -> Result<Vec<Window>> {
    let beyond = match cursor.direction {
        Direction::Forward => BEYOND_FORWARD,
        Direction::Backfill => BEYOND_BACKFILL,
    };
    let mut statement = db.prepare_cached(beyond)?;
    let mut windows = Vec::new();
    let mut group: Option<(PlanId, Window, bool)> = None;
    let mut asked = false;
    for task in statement.query_map(params![cursor.id.0, start.micros()], read_task)? {
        let TaskRow { plan, window, status, replaced, done } = task?;
        let short = status.is_final() && status != TaskStatus::Succeeded;
        windows.extend(done.filter(|done| short && lies_beyond(done, cursor.direction, start)));
        if replaced {
            continue;
        }
        match &mut group {
            Some((of, same, all)) if (*of, *same) == (plan, window) => *all &= counts(status),
            _ => {
                if let Some((of, open, false)) = group
                    && !std::mem::replace(&mut asked, true)
                    && is_the_end(&windows, of, open)?
                {
                    return Ok(windows);
                }
                windows.extend(whole(group.take()));
                group = Some((plan, window, counts(status)));
            }
        }
    }
    windows.extend(whole(group));
    Ok(windows)
}

fn whole(group: Option<(PlanId, Window, bool)>) -> Option<Window> {
    group.and_then(|(_, window, all)| all.then_some(window))
}

fn lies_beyond(window: &Window, direction: Direction, start: Ts) -> bool {
    match direction {
        Direction::Forward => window.to > start,
        Direction::Backfill => window.from < start,
    }
}

pub(super) fn next_ordinal(db: &Connection, cursor: &Cursor) -> Result<i64> {
    let next = db.prepare_cached(NEXT_ORDINAL)?.query_row([cursor.id.0], |row| row.get(0)).optional()?;
    Ok(next.unwrap_or(0))
}

pub(super) fn history(db: &Connection, cursor: &Cursor) -> Result<History> {
    let mut history = History::default();
    let mut statement = db.prepare_cached(READ_HISTORY)?;
    let rows = statement.query_map(params![cursor.id.0, HISTORY], |row| {
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    for row in rows {
        let (items, span) = row?;
        history.items += items;
        history.span += std::time::Duration::from_micros(span);
    }
    Ok(history)
}

/// Returns the last of the consecutively complete segments of the newest plan, from the value on.
pub(super) fn completed_segments(db: &Connection, cursor: &Cursor) -> Result<Option<CursorValue>> {
    let newest = db.prepare_cached(NEWEST_PLAN)?.query_row([cursor.id.0], |row| row.get::<_, i64>(0)).optional()?;
    let Some(plan) = newest else { return Ok(None) };
    let value = match &cursor.value {
        Some(CursorValue::Nth { ordinal, .. }) => *ordinal,
        _ => 0,
    };
    let mut statement = db.prepare_cached(SEGMENTS)?;
    let mut rows = statement.query(params![cursor.id.0, value, plan])?;
    let mut reached = None;
    while let Some(row) = rows.next()? {
        // Missing ordinals belong to another plan.
        if !row.get(2)? {
            break;
        }
        reached = Some(CursorValue::Nth { ordinal: row.get::<_, i64>(0)? + 1, last: row.get(1)? });
    }
    Ok(reached)
}
