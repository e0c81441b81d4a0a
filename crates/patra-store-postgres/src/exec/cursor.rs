//! Cursors: how far the completed part of a namespace reaches, and moving the value after its event.

use patra_core::cursor::{CursorValue, completed_end};
use patra_core::state::{Direction, Operation};
use patra_core::tx::{AcceptGap, AdvanceCursor, AdvanceRecorded, CursorMoved, GapAccepted, RecordAdvance};
use patra_core::{RunId, Ts, Window};
use tokio_postgres::Row;

use super::cover::tasks_beyond;
use crate::error::{Fail, refused};
use crate::json::Json;
use crate::pool::{Session, pipeline};
use crate::time::{Time, maybe};

macro_rules! cursor_row {
    () => {
        "
SELECT normalized_instant, normalized_numeric, cursor_value, origin_instant, version, direction_code, operation_code
FROM ing_cursor WHERE id = $1"
    };
}

const READ: &str = cursor_row!();

const NOW: &str = "SELECT clock_timestamp()";

const LOCK: &str = concat!(cursor_row!(), " FOR UPDATE");

/// The furthest event in the direction of the cursor.
const FURTHEST: &str = "
SELECT new_instant, new_numeric, new_value, run_id FROM (
  (SELECT e.new_instant, e.new_numeric, e.new_value, e.run_id FROM ing_cursor_event e
   WHERE e.cursor_id = $1 AND e.direction_code = 'FORWARD' AND e.new_instant IS NOT NULL
   ORDER BY e.cursor_id DESC, e.new_instant DESC LIMIT 1)
  UNION ALL
  (SELECT e.new_instant, e.new_numeric, e.new_value, e.run_id FROM ing_cursor_event e
   WHERE e.cursor_id = $1 AND e.direction_code = 'BACKFILL' AND e.new_instant IS NOT NULL
   ORDER BY e.cursor_id, e.new_instant LIMIT 1)
  UNION ALL
  (SELECT e.new_instant, e.new_numeric, e.new_value, e.run_id FROM ing_cursor_event e
   WHERE e.cursor_id = $1 AND e.new_numeric IS NOT NULL
   ORDER BY e.cursor_id DESC, e.new_numeric DESC LIMIT 1)
) AS furthest";

/// Windows with only SUCCEEDED tasks, and the done parts of those that ended short. Forward, each row carries the end
/// of the first open window too. Windows behind that one are left out unless all are requested: there are as many as
/// tasks wait, and each task that ends would read them.
const COMPLETED: &str = concat!(
    "
WITH c AS (
  SELECT id, direction_code, coalesce(normalized_instant, origin_instant) AS start FROM ing_cursor WHERE id = $1
),
open AS (
  SELECT t.window_to FROM ing_task t
  WHERE (SELECT direction_code FROM c) = 'FORWARD' AND t.cursor_id = $1 AND t.window_to > (SELECT start FROM c)
    AND t.replaced = 0 AND t.status_code <> 'SUCCEEDED'
  ORDER BY t.window_to
  LIMIT 1
),
tasks AS (",
    tasks_beyond!(
        "
    AND t.window_from <= CASE WHEN $2 THEN 'infinity' ELSE coalesce((SELECT window_to FROM open), 'infinity') END"
    ),
    ")
SELECT window_from, window_to, (SELECT window_to FROM open) FROM tasks
WHERE replaced = 0
GROUP BY plan_id, window_from, window_to
HAVING bool_and(status_code = 'SUCCEEDED')
UNION
SELECT done_from, done_to, (SELECT window_to FROM open) FROM tasks
WHERE done_from IS NOT NULL AND status_code IN ('PARTIAL', 'FAILED', 'CANCELLED')"
);

/// Segments of the newest plan that has any, from the value on, each with whether all its tasks are SUCCEEDED.
const SEGMENTS: &str = "
SELECT t.ordinal, coalesce(bool_and(t.status_code = 'SUCCEEDED') FILTER (WHERE t.replaced = 0), false), max(t.last_id)
FROM ing_cursor c
JOIN ing_task t ON t.cursor_id = c.id AND t.window_to IS NULL AND t.window_from IS NULL
  AND t.ordinal >= coalesce(c.normalized_numeric, 0)
WHERE c.id = $1 AND t.plan_id = (
  SELECT p.id FROM ing_plan p
  WHERE p.cursor_id = $1 AND EXISTS (SELECT 1 FROM ing_task n WHERE n.plan_id = p.id AND n.ordinal IS NOT NULL)
  ORDER BY p.id DESC
  LIMIT 1)
GROUP BY t.ordinal
ORDER BY t.ordinal";

const RECORD: &str = "
INSERT INTO ing_cursor_event (cursor_id, provenance_code, endpoint_name, operation_code, cursor_key,
  namespace_scope_code, namespace_key, direction_code, prev_value, new_value, prev_instant, new_instant, prev_numeric,
  new_numeric, observed_max_value, schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_no, expr_hash,
  record_remarks, idempotent_key, created_at)
SELECT c.id, c.provenance_code, c.endpoint_name, c.operation_code, c.cursor_key,
  c.namespace_scope_code, c.namespace_key, c.direction_code, c.cursor_value, $2, c.normalized_instant, $3,
  c.normalized_numeric, $4, $5, t.schedule_instance_id, t.plan_id, t.slice_id, $6, $7, $8, t.expr_hash,
  $9, $10, clock_timestamp()
FROM ing_cursor c LEFT JOIN ing_task t ON t.id = $6
WHERE c.id = $1
ON CONFLICT (idempotent_key) DO NOTHING";

/// The nearest event at or beyond the value, which is the value's origin.
macro_rules! advance {
    ($column:literal, $onward:literal, $events:literal) => {
        concat!(
            "
UPDATE ing_cursor c
SET cursor_value = $2, ",
            $column,
            " = $3, version = c.version + 1, updated_at = clock_timestamp(),
  schedule_instance_id = e.schedule_instance_id, plan_id = e.plan_id, slice_id = e.slice_id, task_id = e.task_id,
  run_id = e.run_id, batch_no = e.batch_no, expr_hash = e.expr_hash,
  observed_max_value = greatest(c.observed_max_value, e.observed_max_value)
FROM (",
            $events,
            ") AS e
WHERE c.id = $1 AND c.version = $4 AND (c.",
            $column,
            " IS NULL OR ",
            $onward,
            ")
RETURNING c.id"
        )
    };
}

const ADVANCE_TIME: &str = advance!(
    "normalized_instant",
    "CASE c.direction_code WHEN 'FORWARD' THEN c.normalized_instant < $3 ELSE c.normalized_instant > $3 END",
    "
  (SELECT * FROM ing_cursor_event
   WHERE cursor_id = $1 AND direction_code = 'FORWARD' AND new_instant >= $3 ORDER BY new_instant LIMIT 1)
  UNION ALL
  (SELECT * FROM ing_cursor_event
   WHERE cursor_id = $1 AND direction_code = 'BACKFILL' AND new_instant <= $3 ORDER BY new_instant DESC LIMIT 1)"
);

const ADVANCE_SEGMENTS: &str = advance!(
    "normalized_numeric",
    "c.normalized_numeric < $3",
    "SELECT * FROM ing_cursor_event WHERE cursor_id = $1 AND new_numeric >= $3 ORDER BY new_numeric LIMIT 1"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[READ, LOCK, FURTHEST, COMPLETED, SEGMENTS, RECORD, ADVANCE_TIME, ADVANCE_SEGMENTS];

pub(super) async fn record_advance(session: &Session, op: RecordAdvance) -> Result<AdvanceRecorded, Fail> {
    let [read, lock, furthest, completed, segments] =
        session.prepare([READ, LOCK, FURTHEST, COMPLETED, SEGMENTS]).await?;
    let id = op.cursor.0;
    // When many tasks end at once, few move the cursor. A task that does not move it skips the lock; a task that ends
    // later sees this one too.
    let ((), row, event, near, ()) = pipeline!(
        session.begin_looking_ahead(),
        session.opt(&read, &[&id]),
        session.opt(&furthest, &[&id]),
        session.rows(&completed, &[&id, &false]),
        session.commit(),
    )?;
    let progress = CursorProgress::read(op, row, event.as_ref(), &near)?;
    if let Some(end) = progress.end_of_windows
        && !progress.leads_beyond_open
        && !progress.is_beyond_all(&CursorValue::At(end))
    {
        return Ok(progress.advance);
    }
    // Events and tasks are read by statements that start after the lock was taken, so they see every earlier move.
    let ((), row, event, near) = pipeline!(
        session.begin_derived(),
        session.opt(&lock, &[&id]),
        session.opt(&furthest, &[&id]),
        session.rows(&completed, &[&id, &false]),
    )?;
    let mut progress = CursorProgress::read(op, row, event.as_ref(), &near)?;
    let complete = match progress.start {
        Some(start) if progress.leads_beyond_open => {
            let all = windows(&session.rows(&completed, &[&id, &true]).await?)?;
            Some(CursorValue::At(completed_end(progress.advance.direction, start, &all)))
        }
        Some(_) => progress.end_of_windows.map(CursorValue::At),
        None => completed_segments(&session.rows(&segments, &[&id]).await?)?,
    };
    if let Some(mark) = complete.filter(|mark| progress.is_beyond_all(mark)) {
        append(session, op, op.remarks(progress.operation), &mark).await?;
        (progress.advance.target, progress.advance.by) = (Some(mark), op.cause.map(|cause| cause.run));
    }
    session.commit().await?;
    Ok(progress.advance)
}

pub(super) async fn accept_gap(session: &Session, op: &AcceptGap) -> Result<GapAccepted, Fail> {
    let [now, lock, furthest, completed] = session.prepare([NOW, LOCK, FURTHEST, COMPLETED]).await?;
    let id = op.cursor.0;
    session.begin().await?;
    let now = session.one(&now, &[]).await?.try_get::<_, Time>(0)?.0;
    if let Some(flaw) = op.invalid_reason(now) {
        return Err(refused(flaw));
    }
    let row = session.opt(&lock, &[&id]).await?;
    let event = session.opt(&furthest, &[&id]).await?;
    let rows = session.rows(&completed, &[&id, &true]).await?;
    let advance = RecordAdvance { cursor: op.cursor, cause: None, observed_max: None };
    let progress = CursorProgress::read(advance, row, event.as_ref(), &rows)?;
    let (Some(start), direction) = (progress.start, progress.advance.direction) else {
        return Err(refused(format!("cursor {} counts segments, not times", op.cursor)));
    };
    let accepted = progress.advance.target.as_ref().and_then(CursorValue::instant);
    let marks = accepted.into_iter().chain(progress.end_of_windows);
    let reached = marks.fold(start, |far, mark| {
        if CursorValue::At(mark).is_beyond(Some(&CursorValue::At(far)), direction) { mark } else { far }
    });
    let target = op.target(direction, reached).map_err(Fail::from)?;
    if let Some(mark) = &target {
        append(session, advance, op.remarks(), mark).await?;
    }
    session.commit().await?;
    Ok(GapAccepted { existed: target.is_none() })
}

/// A cursor, its furthest event, and how far the windows beyond it are complete.
struct CursorProgress {
    advance: AdvanceRecorded,
    operation: Operation,
    /// Start of the completed part; `None` if the cursor counts segments.
    start: Option<Ts>,
    end_of_windows: Option<Ts>,
    /// The furthest event lies beyond an open window, so more may follow.
    leads_beyond_open: bool,
}

impl CursorProgress {
    fn read(op: RecordAdvance, row: Option<Row>, event: Option<&Row>, near: &[Row]) -> Result<CursorProgress, Fail> {
        let row = row.ok_or_else(|| refused(format!("there is no cursor {}", op.cursor)))?;
        let direction: Direction = row.try_get::<_, &str>(5)?.parse()?;
        let value = read_mark(&row)?;
        let start = value.as_ref().map_or(maybe(&row, 3)?, CursorValue::instant);
        let windows = windows(near)?;
        let end_of_windows = start.map(|start| completed_end(direction, start, &windows));
        let open = near.first().map(|row| maybe(row, 2)).transpose()?.flatten();
        let leads_beyond_open = end_of_windows.zip(open).is_some_and(|(end, open)| end > open);
        let target = event.map(read_mark).transpose()?.flatten();
        let by = event.map(|row| row.try_get::<_, Option<i64>>(3)).transpose()?.flatten().map(RunId);
        Ok(CursorProgress {
            advance: AdvanceRecorded { direction, value, target, by, version: row.try_get(4)? },
            operation: row.try_get::<_, &str>(6)?.parse()?,
            start,
            end_of_windows,
            leads_beyond_open,
        })
    }

    /// No event reaches this value yet.
    fn is_beyond_all(&self, mark: &CursorValue) -> bool {
        let AdvanceRecorded { direction, value, target, .. } = &self.advance;
        let start = self.start.map(CursorValue::At);
        mark.is_beyond(start.as_ref().or(value.as_ref()), *direction) && mark.is_beyond(target.as_ref(), *direction)
    }
}

fn windows(rows: &[Row]) -> Result<Vec<Window>, Fail> {
    rows.iter().map(|row| Ok(Window { from: row.try_get::<_, Time>(0)?.0, to: row.try_get::<_, Time>(1)?.0 })).collect()
}

/// Returns the last ordinal up to which segments are complete. Missing ordinals belong to another plan.
fn completed_segments(rows: &[Row]) -> Result<Option<CursorValue>, Fail> {
    let mut mark = None;
    for row in rows {
        let (place, done): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
        if !done {
            break;
        }
        mark = Some(CursorValue::Nth { ordinal: place + 1, last: row.try_get(2)? });
    }
    Ok(mark)
}

async fn append(session: &Session, op: RecordAdvance, remarks: String, mark: &CursorValue) -> Result<(), Fail> {
    let [record] = session.prepare([RECORD]).await?;
    let (instant, numeric) = match mark {
        CursorValue::At(at) => (Some(Time(*at)), None),
        CursorValue::Nth { ordinal, .. } => (None, Some(*ordinal)),
    };
    let place = instant.map_or(numeric.unwrap_or_default(), |Time(at)| at.micros());
    let (task, run) = (op.cause.map(|cause| cause.task.0), op.cause.map(|cause| cause.run.0));
    let batch_no = op.cause.map(|cause| i64::from(cause.batch_no));
    let observed = op.observed_max.map(|at| at.to_string());
    let (remarks, key) = (Json(remarks), format!("{}:{place}", op.cursor));
    session
        .write(
            &record,
            &[&op.cursor.0, &mark.to_text(), &instant, &numeric, &observed, &task, &run, &batch_no, &remarks, &key],
        )
        .await?;
    Ok(())
}

/// A value as its three columns: instant, number and text.
fn read_mark(row: &Row) -> Result<Option<CursorValue>, Fail> {
    mark_at(row, 0)
}

pub(super) fn mark_at(row: &Row, at: usize) -> Result<Option<CursorValue>, Fail> {
    if let Some(instant) = maybe(row, at)? {
        return Ok(Some(CursorValue::At(instant)));
    }
    let Some(ordinal) = row.try_get::<_, Option<i64>>(at + 1)? else { return Ok(None) };
    Ok(Some(CursorValue::Nth { ordinal, last: row.try_get::<_, Option<String>>(at + 2)?.unwrap_or_default() }))
}

pub(super) async fn advance(session: &Session, op: &AdvanceCursor) -> Result<CursorMoved, Fail> {
    let [time, segments] = session.prepare([ADVANCE_TIME, ADVANCE_SEGMENTS]).await?;
    let (id, text) = (op.cursor.0, op.to.to_text());
    let moved = async {
        match &op.to {
            CursorValue::At(at) => session.rows(&time, &[&id, &text, &Time(*at), &op.version]).await,
            CursorValue::Nth { ordinal, .. } => session.rows(&segments, &[&id, &text, ordinal, &op.version]).await,
        }
    };
    let ((), rows, ()) = pipeline!(session.begin_derived(), moved, session.commit())?;
    Ok(CursorMoved { moved: !rows.is_empty() })
}
