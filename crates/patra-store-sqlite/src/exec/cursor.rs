//! Cursors: identified by namespace, with their events and their value.

use patra_core::cursor::{CursorName, CursorValue, completed_end};
use patra_core::state::{Direction, Operation};
use patra_core::tx::{AcceptGap, AdvanceCursor, AdvanceRecorded, CursorMoved, GapAccepted, RecordAdvance, TxError};
use patra_core::{CursorId, RunId, Ts};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::cover;
use crate::error::{Error, Result};
use crate::sql::{maybe_time, word};

const FIND: &str = "
SELECT id, operation_code, direction_code, origin_instant, normalized_instant, normalized_numeric, cursor_value,
  plan_epoch, version
FROM ing_cursor
WHERE project_key = ?1 AND provenance_code = ?2 AND operation_code = ?3 AND cursor_key = ?4
  AND namespace_scope_code = ?5 AND namespace_key = ?6";

const READ: &str = "
SELECT id, operation_code, direction_code, origin_instant, normalized_instant, normalized_numeric, cursor_value,
  plan_epoch, version
FROM ing_cursor
WHERE id = ?1";

const INSERT: &str = "
INSERT INTO ing_cursor
  (project_key, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
   cursor_type_code, direction_code, origin_instant, created_at, updated_at)
VALUES (?10, ?1, ?2, ?3, ?4, ?5, ?6, iif(?8 IS NULL, 'ID', 'TIME'), ?7, ?8, ?9, ?9)
ON CONFLICT (project_key, provenance_code, operation_code, cursor_key, namespace_scope_code, namespace_key) DO NOTHING";

const RAISE_EPOCH: &str = "
UPDATE ing_cursor SET plan_epoch = plan_epoch + 1
WHERE project_key = ?1 AND provenance_code = ?2 AND operation_code = ?3 AND cursor_key = ?4
  AND namespace_scope_code = ?5 AND namespace_key = ?6 AND plan_epoch = ?7
RETURNING id";

pub(crate) const READ_HARVESTED: &str = "
SELECT normalized_instant
FROM ing_cursor
WHERE provenance_code = ?1 AND operation_code = 'HARVEST' AND endpoint_name = ?2 AND cursor_key = ?3
  AND +project_key = ?4
ORDER BY normalized_instant DESC
LIMIT 1";

// The furthest event, per direction and kind.
pub(crate) const LAST_FORWARD: &str = "
SELECT new_instant, new_numeric, new_value, run_id FROM ing_cursor_event
WHERE cursor_id = ?1 ORDER BY new_instant DESC LIMIT 1";

pub(crate) const LAST_BACKFILL: &str = "
SELECT new_instant, new_numeric, new_value, run_id FROM ing_cursor_event
WHERE cursor_id = ?1 ORDER BY new_instant LIMIT 1";

pub(crate) const LAST_NUMERIC: &str = "
SELECT new_instant, new_numeric, new_value, run_id FROM ing_cursor_event
WHERE cursor_id = ?1 ORDER BY new_numeric DESC LIMIT 1";

const INSERT_EVENT: &str = "
INSERT INTO ing_cursor_event
  (cursor_id, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
   direction_code, prev_value, new_value, prev_instant, new_instant, prev_numeric, new_numeric, observed_max_value,
   schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_no, expr_hash, record_remarks, idempotent_key,
   created_at)
SELECT cursor.id, cursor.provenance_code, cursor.endpoint_name, cursor.operation_code, cursor.cursor_key,
   cursor.namespace_scope_code, cursor.namespace_key, cursor.direction_code, cursor.cursor_value, ?2,
   cursor.normalized_instant, ?3, cursor.normalized_numeric, ?4, ?5,
   task.schedule_instance_id, task.plan_id, task.slice_id, ?6, ?7, ?8, task.expr_hash, ?9, ?10, ?11
FROM ing_cursor cursor LEFT JOIN ing_task task ON task.id = ?6
WHERE cursor.id = ?1";

// The event that a value is aligned to: the first one that reaches it.
pub(crate) const REACHES_FORWARD: &str = "
SELECT id, observed_max_value FROM ing_cursor_event
WHERE cursor_id = ?1 AND new_instant >= ?2 ORDER BY new_instant LIMIT 1";

pub(crate) const REACHES_BACKFILL: &str = "
SELECT id, observed_max_value FROM ing_cursor_event
WHERE cursor_id = ?1 AND new_instant <= ?2 ORDER BY new_instant DESC LIMIT 1";

pub(crate) const REACHES_NUMERIC: &str = "
SELECT id, observed_max_value FROM ing_cursor_event
WHERE cursor_id = ?1 AND new_numeric >= ?2 ORDER BY new_numeric LIMIT 1";

const READ_OBSERVED: &str = "SELECT observed_max_value FROM ing_cursor WHERE id = ?1";

const MOVE: &str = "
UPDATE ing_cursor
SET cursor_value = ?4, normalized_instant = ?5, normalized_numeric = ?6, observed_max_value = ?7,
    (schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_no, expr_hash) =
      (SELECT schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_no, expr_hash
       FROM ing_cursor_event WHERE id = ?3),
    version = version + 1, updated_at = ?8
WHERE id = ?1 AND version = ?2";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    FIND,
    READ,
    INSERT,
    RAISE_EPOCH,
    READ_HARVESTED,
    LAST_FORWARD,
    LAST_BACKFILL,
    LAST_NUMERIC,
    INSERT_EVENT,
    REACHES_FORWARD,
    REACHES_BACKFILL,
    REACHES_NUMERIC,
    READ_OBSERVED,
    MOVE,
];

pub(super) struct Cursor {
    pub(super) id: CursorId,
    pub(super) operation: Operation,
    pub(super) direction: Direction,
    /// `None` if the cursor counts segments.
    pub(super) origin: Option<Ts>,
    pub(super) value: Option<CursorValue>,
    pub(super) epoch: i64,
    version: i64,
}

impl Cursor {
    /// Start of the completed part; `None` if the cursor counts segments.
    pub(super) fn start(&self) -> Option<Ts> {
        self.value.as_ref().and_then(CursorValue::instant).or(self.origin)
    }
}

fn read_cursor(row: &Row<'_>) -> rusqlite::Result<Cursor> {
    Ok(Cursor {
        id: CursorId(row.get(0)?),
        operation: word(row, 1)?,
        direction: word(row, 2)?,
        origin: maybe_time(row, 3)?,
        value: read_mark(row, 4)?,
        epoch: row.get(7)?,
        version: row.get(8)?,
    })
}

/// A value as instant, number and text.
fn read_mark(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<CursorValue>> {
    if let Some(instant) = maybe_time(row, at)? {
        return Ok(Some(CursorValue::At(instant)));
    }
    let ordinal: Option<i64> = row.get(at + 1)?;
    ordinal.map(|ordinal| Ok(CursorValue::Nth { ordinal, last: row.get(at + 2)? })).transpose()
}

/// Finds the cursor of a namespace. The endpoint is not part of its identity (C-22).
pub(super) fn find(db: &Connection, name: &CursorName) -> Result<Option<Cursor>> {
    let key = params![
        name.project_key,
        name.provenance_code,
        name.operation.as_str(),
        name.cursor_key,
        name.scope.as_str(),
        name.namespace_key
    ];
    Ok(db.prepare_cached(FIND)?.query_row(key, read_cursor).optional()?)
}

fn read(db: &Connection, id: CursorId) -> Result<Cursor> {
    let cursor = db.prepare_cached(READ)?.query_row([id.0], read_cursor).optional()?;
    cursor.ok_or_else(|| Error::refused(format!("there is no cursor {id}")))
}

/// Harvest position of the stream that a backfill completes.
pub(super) fn harvested(db: &Connection, name: &CursorName) -> Result<Option<Ts>> {
    if name.operation != Operation::Backfill {
        return Ok(None);
    }
    let key = params![name.provenance_code, name.endpoint_name, name.cursor_key, name.project_key];
    Ok(db.prepare_cached(READ_HARVESTED)?.query_row(key, |row| maybe_time(row, 0)).optional()?.flatten())
}

/// Creates the cursor if it is missing and raises its epoch. Fails with `Conflict` if another plan has raised it since
/// `epoch`.
pub(super) fn next_epoch(
    db: &Connection,
    name: &CursorName,
    origin: Option<Ts>,
    epoch: i64,
    now: Ts,
) -> Result<CursorId> {
    db.prepare_cached(INSERT)?.execute(params![
        name.provenance_code,
        name.endpoint_name,
        name.operation.as_str(),
        name.cursor_key,
        name.scope.as_str(),
        name.namespace_key,
        name.operation.direction().as_str(),
        origin.map(Ts::micros),
        now.micros(),
        name.project_key,
    ])?;
    let key = params![
        name.project_key,
        name.provenance_code,
        name.operation.as_str(),
        name.cursor_key,
        name.scope.as_str(),
        name.namespace_key,
        epoch
    ];
    let raised = db.prepare_cached(RAISE_EPOCH)?.query_row(key, |row| row.get(0).map(CursorId)).optional()?;
    raised.ok_or_else(|| TxError::Conflict.into())
}

pub(super) fn record_advance(db: &Connection, op: RecordAdvance, now: Ts) -> Result<AdvanceRecorded> {
    let cursor = read(db, op.cursor)?;
    let (mut target, mut by) = newest_event(db, &cursor)?;
    let reached = reached(db, &cursor)?;
    if let Some(mark) = reached.filter(|mark| {
        mark.is_beyond(target.as_ref(), cursor.direction) && mark.is_beyond(cursor.value.as_ref(), cursor.direction)
    }) {
        insert_event(db, &cursor, &op, &op.remarks(cursor.operation), &mark, now)?;
        (target, by) = (Some(mark), op.cause.map(|cause| cause.run));
    }
    Ok(AdvanceRecorded { direction: cursor.direction, value: cursor.value, target, by, version: cursor.version })
}

/// Returns the value of the furthest event, and the run that caused it.
fn newest_event(db: &Connection, cursor: &Cursor) -> Result<(Option<CursorValue>, Option<RunId>)> {
    let furthest = match (cursor.origin, cursor.direction) {
        (None, _) => LAST_NUMERIC,
        (Some(_), Direction::Forward) => LAST_FORWARD,
        (Some(_), Direction::Backfill) => LAST_BACKFILL,
    };
    let read = |row: &Row<'_>| Ok((read_mark(row, 0)?, row.get::<_, Option<i64>>(3)?.map(RunId)));
    Ok(db.prepare_cached(furthest)?.query_row([cursor.id.0], read).optional()?.unwrap_or_default())
}

pub(super) fn accept_gap(db: &Connection, op: &AcceptGap, now: Ts) -> Result<GapAccepted> {
    if let Some(flaw) = op.invalid_reason(now) {
        return Err(Error::refused(flaw));
    }
    let cursor = read(db, op.cursor)?;
    let Some(start) = cursor.start() else {
        return Err(Error::refused(format!("cursor {} counts segments, not times", op.cursor)));
    };
    let (newest, complete) = (newest_event(db, &cursor)?.0, reached(db, &cursor)?);
    let marks = newest.into_iter().chain(complete);
    let reached = marks.fold(CursorValue::At(start), |far, mark| match mark.is_beyond(Some(&far), cursor.direction) {
        true => mark,
        false => far,
    });
    let target = op.target(cursor.direction, reached.instant().unwrap_or(start))?;
    if let Some(mark) = &target {
        let advance = RecordAdvance { cursor: op.cursor, cause: None, observed_max: None };
        insert_event(db, &cursor, &advance, &op.remarks(), mark, now)?;
    }
    Ok(GapAccepted { existed: target.is_none() })
}

/// Returns how far the namespace is complete; `None` if not even its beginning is.
fn reached(db: &Connection, cursor: &Cursor) -> Result<Option<CursorValue>> {
    let Some(start) = cursor.start() else { return cover::completed_segments(db, cursor) };
    let end = completed_end(cursor.direction, start, &cover::completed(db, cursor, start)?);
    Ok((end != start).then_some(CursorValue::At(end)))
}

fn insert_event(
    db: &Connection,
    cursor: &Cursor,
    op: &RecordAdvance,
    remarks: &str,
    mark: &CursorValue,
    now: Ts,
) -> Result<()> {
    let (instant, number) = parts(mark);
    let place = instant.or(number).unwrap_or_default();
    db.prepare_cached(INSERT_EVENT)?.execute(params![
        cursor.id.0,
        mark.to_text(),
        instant,
        number,
        op.observed_max.map(|at| at.to_string()),
        op.cause.map(|cause| cause.task.0),
        op.cause.map(|cause| cause.run.0),
        op.cause.map(|cause| cause.batch_no),
        remarks,
        format!("{}:{place}", cursor.id),
        now.micros(),
    ])?;
    Ok(())
}

/// Splits a value into `normalized_instant` and `normalized_numeric`.
fn parts(mark: &CursorValue) -> (Option<i64>, Option<i64>) {
    match mark {
        CursorValue::At(at) => (Some(at.micros()), None),
        CursorValue::Nth { ordinal, .. } => (None, Some(*ordinal)),
    }
}

pub(super) fn advance(db: &Connection, op: &AdvanceCursor, now: Ts) -> Result<CursorMoved> {
    let cursor = read(db, op.cursor)?;
    let event = reaching_event(db, &cursor, &op.to)?;
    let onward = cursor.version == op.version && op.to.is_beyond(cursor.value.as_ref(), cursor.direction);
    let Some((event, observed)) = event.filter(|_| onward) else { return Ok(CursorMoved { moved: false }) };
    let known: Option<String> = db.prepare_cached(READ_OBSERVED)?.query_row([op.cursor.0], |row| row.get(0))?;
    let (instant, number) = parts(&op.to);
    let moved = db.prepare_cached(MOVE)?.execute(params![
        op.cursor.0,
        op.version,
        event,
        op.to.to_text(),
        instant,
        number,
        greater(known, observed),
        now.micros(),
    ])?;
    Ok(CursorMoved { moved: moved == 1 })
}

/// Finds the event that allows this value: its id and the greatest time that was observed with it.
fn reaching_event(db: &Connection, cursor: &Cursor, to: &CursorValue) -> Result<Option<(i64, Option<String>)>> {
    let (sql, place) = match (to, cursor.origin, cursor.direction) {
        (CursorValue::At(at), Some(_), Direction::Forward) => (REACHES_FORWARD, at.micros()),
        (CursorValue::At(at), Some(_), Direction::Backfill) => (REACHES_BACKFILL, at.micros()),
        (CursorValue::Nth { ordinal, .. }, None, _) => (REACHES_NUMERIC, *ordinal),
        // The value is of the other kind.
        _ => return Ok(None),
    };
    let event = db.prepare_cached(sql)?.query_row([cursor.id.0, place], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(event.optional()?)
}

/// Returns the later of two times. An unreadable one loses.
fn greater(known: Option<String>, new: Option<String>) -> Option<String> {
    let at = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<Ts>().ok());
    if at(&new) > at(&known) { new } else { known.or(new) }
}
