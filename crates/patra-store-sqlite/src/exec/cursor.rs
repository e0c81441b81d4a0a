//! Cursors: found by namespace, recorded as events, moved as a value.

use patra_core::cursor::{Name, completed_prefix};
use patra_core::state::Operation;
use patra_core::tx::{Advance, AdvanceCursor, CursorMoved, RecordAdvance, TxError};
use patra_core::{CursorId, Ts, Window};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::{Error, Result};
use crate::sql::{maybe_time, time};

const FIND: &str = "
SELECT id, origin_instant, normalized_instant, plan_epoch, version
FROM ing_cursor
WHERE provenance_code = ?1 AND operation_code = ?2 AND cursor_key = ?3
  AND namespace_scope_code = ?4 AND namespace_key = ?5";

const READ: &str = "
SELECT id, origin_instant, normalized_instant, plan_epoch, version
FROM ing_cursor
WHERE id = ?1";

const INSERT: &str = "
INSERT INTO ing_cursor
  (provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
   cursor_type_code, direction_code, origin_instant, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'TIME', ?7, ?8, ?9, ?9)
ON CONFLICT (provenance_code, operation_code, cursor_key, namespace_scope_code, namespace_key) DO NOTHING";

const RAISE_EPOCH: &str = "
UPDATE ing_cursor SET plan_epoch = plan_epoch + 1
WHERE provenance_code = ?1 AND operation_code = ?2 AND cursor_key = ?3
  AND namespace_scope_code = ?4 AND namespace_key = ?5 AND plan_epoch = ?6
RETURNING id";

pub(crate) const READ_SUCCEEDED: &str = "
SELECT window_from, window_to
FROM ing_task
WHERE cursor_id = ?1 AND window_to > ?2 AND status_code = 'SUCCEEDED'";

pub(crate) const READ_NEWEST_EVENT: &str = "SELECT max(new_instant) FROM ing_cursor_event WHERE cursor_id = ?1";

const INSERT_EVENT: &str = "
INSERT INTO ing_cursor_event
  (cursor_id, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
   direction_code, prev_value, new_value, prev_instant, new_instant, observed_max_value, task_id, run_id,
   idempotent_key, created_at)
SELECT id, provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
  direction_code, cursor_value, ?2, normalized_instant, ?3, ?4, ?5, ?6, ?7, ?8
FROM ing_cursor
WHERE id = ?1";

const MOVE: &str = "
UPDATE ing_cursor
SET cursor_value = ?4, normalized_instant = ?2, version = version + 1, updated_at = ?5
WHERE id = ?1 AND version = ?3 AND (normalized_instant IS NULL OR normalized_instant < ?2)
  AND EXISTS (SELECT 1 FROM ing_cursor_event WHERE cursor_id = ?1 AND new_instant >= ?2)";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[FIND, READ, INSERT, RAISE_EPOCH, READ_SUCCEEDED, READ_NEWEST_EVENT, INSERT_EVENT, MOVE];

pub(super) struct Cursor {
    pub(super) id: CursorId,
    pub(super) origin: Ts,
    pub(super) value: Option<Ts>,
    pub(super) epoch: i64,
    version: i64,
}

impl Cursor {
    /// Where the completed prefix begins.
    fn start(&self) -> Ts {
        self.value.unwrap_or(self.origin)
    }
}

fn read_cursor(row: &Row<'_>) -> rusqlite::Result<Cursor> {
    Ok(Cursor {
        id: CursorId(row.get(0)?),
        origin: time(row, 1)?,
        value: maybe_time(row, 2)?,
        epoch: row.get(3)?,
        version: row.get(4)?,
    })
}

/// The cursor of a namespace. The endpoint is no part of its identity (C-22).
pub(super) fn find(db: &Connection, name: &Name) -> Result<Option<Cursor>> {
    let key = params![
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

/// Makes the cursor if it is missing and raises its epoch; `Conflict` when another plan has raised it since `epoch`.
pub(super) fn next_epoch(db: &Connection, name: &Name, origin: Ts, epoch: i64, now: Ts) -> Result<CursorId> {
    let direction = if name.operation == Operation::Backfill { "BACKFILL" } else { "FORWARD" };
    db.prepare_cached(INSERT)?.execute(params![
        name.provenance_code,
        name.endpoint_name,
        name.operation.as_str(),
        name.cursor_key,
        name.scope.as_str(),
        name.namespace_key,
        direction,
        origin.micros(),
        now.micros(),
    ])?;
    let key = params![
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

/// Windows of the cursor's tasks that reach beyond its value, or its origin.
pub(super) fn windows(db: &Connection, sql: &'static str, cursor: &Cursor) -> Result<Vec<Window>> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map(params![cursor.id.0, cursor.start().micros()], |row| {
        Ok(Window { from: time(row, 0)?, to: time(row, 1)? })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn record_advance(db: &Connection, op: RecordAdvance, now: Ts) -> Result<Advance> {
    let cursor = read(db, op.cursor)?;
    let newest = db.prepare_cached(READ_NEWEST_EVENT)?.query_row([op.cursor.0], |row| maybe_time(row, 0))?;
    let start = cursor.start();
    let prefix = completed_prefix(start, &windows(db, READ_SUCCEEDED, &cursor)?);
    let mut target = newest;
    if prefix > newest.unwrap_or(start).max(start) {
        db.prepare_cached(INSERT_EVENT)?.execute(params![
            op.cursor.0,
            prefix.to_string(),
            prefix.micros(),
            op.observed_max.map(|at| at.to_string()),
            op.cause.map(|(task, _)| task.0),
            op.cause.map(|(_, run)| run.0),
            format!("{}:{}", op.cursor, prefix.micros()),
            now.micros(),
        ])?;
        target = Some(prefix);
    }
    Ok(Advance { value: cursor.value, target, version: cursor.version })
}

pub(super) fn advance(db: &Connection, op: AdvanceCursor, now: Ts) -> Result<CursorMoved> {
    read(db, op.cursor)?;
    let values = params![op.cursor.0, op.to.micros(), op.version, op.to.to_string(), now.micros()];
    let moved = db.prepare_cached(MOVE)?.execute(values)?;
    Ok(CursorMoved { moved: moved == 1 })
}
