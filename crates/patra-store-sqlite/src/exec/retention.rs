//! Retention: old ledger rows move to the archive, and expired rows are deleted.

use patra_core::Ts;
use patra_core::tx::{ArchiveLedger, ExportRecorded, LedgerArchived, RecordExport};
use rusqlite::{Connection, Params, Row, params};

use super::minute;
use crate::error::Result;
use crate::object::object;
use crate::sql::{maybe_time, time};

pub(crate) const READ_BATCHES: &str = "
SELECT batch.*
FROM ing_task_run_batch batch JOIN ing_task task ON task.id = batch.task_id
WHERE batch.created_at < ?1 AND task.status_code IN ('SUCCEEDED', 'FAILED', 'PARTIAL', 'CANCELLED')
ORDER BY batch.created_at, batch.id
LIMIT ?2";

// Events, signals and pauses are read by id, the order of creation: reading stops at the first young one.
const READ_EVENTS: &str = "
SELECT event.*, NOT CASE
    WHEN event.new_numeric IS NOT NULL THEN EXISTS (
      SELECT 1 FROM ing_cursor_event later
      WHERE later.cursor_id = event.cursor_id AND later.new_numeric > event.new_numeric)
    WHEN event.direction_code = 'FORWARD' THEN EXISTS (
      SELECT 1 FROM ing_cursor_event later
      WHERE later.cursor_id = event.cursor_id AND later.new_instant > event.new_instant)
    ELSE EXISTS (
      SELECT 1 FROM ing_cursor_event later
      WHERE later.cursor_id = event.cursor_id AND later.new_instant < event.new_instant)
    END
FROM ing_cursor_event event
ORDER BY event.id";

const READ_SIGNALS: &str = "
SELECT id, created_at, iif(status_code = 'OPEN', NULL, updated_at) FROM ing_signal ORDER BY id";

const READ_HOLDS: &str = "SELECT id, created_at, released_at FROM ing_hold ORDER BY id";

const INSERT: &str = "
INSERT INTO ing_archive
  (kind_code, row_id, schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_no, body, created_at, archived_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

const DELETE_BATCH: &str = "DELETE FROM ing_task_run_batch WHERE id = ?1";

const DELETE_EVENT: &str = "DELETE FROM ing_cursor_event WHERE id = ?1";

const DELETE_SIGNAL: &str = "DELETE FROM ing_signal WHERE id = ?1";

const DELETE_HOLD: &str = "DELETE FROM ing_hold WHERE id = ?1";

const DELETE_RAW: &str = "
DELETE FROM ing_raw
WHERE rowid IN (SELECT rowid FROM ing_raw WHERE expires_at <= ?1 ORDER BY expires_at, run_id, batch_no LIMIT ?2)";

const INSERT_EXPORT: &str = "
INSERT INTO ing_export (run_id, batch_no, created_by, reason, package_hash, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
RETURNING id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    READ_BATCHES,
    READ_EVENTS,
    READ_SIGNALS,
    READ_HOLDS,
    INSERT,
    DELETE_BATCH,
    DELETE_EVENT,
    DELETE_SIGNAL,
    DELETE_HOLD,
    DELETE_RAW,
    INSERT_EXPORT,
];

pub(super) fn archive(db: &Connection, op: ArchiveLedger, now: Ts) -> Result<LedgerArchived> {
    minute::fold(db, now)?;
    let limit = op.limit as usize;
    let batches = old_rows(db, READ_BATCHES, params![op.before.micros(), op.limit], "BATCH", limit, op.before)?;
    let events = old_rows(db, READ_EVENTS, (), "EVENT", limit, op.before)?;
    for row in &batches {
        row.store(db, now)?;
        db.prepare_cached(DELETE_BATCH)?.execute([row.id])?;
    }
    for row in &events {
        row.store(db, now)?;
        db.prepare_cached(DELETE_EVENT)?.execute([row.id])?;
    }
    let raw = db.prepare_cached(DELETE_RAW)?.execute(params![now.micros(), op.limit])?;
    let mut settled = delete_settled(db, READ_HOLDS, DELETE_HOLD, op.before, limit)?;
    settled += delete_settled(db, READ_SIGNALS, DELETE_SIGNAL, op.before, limit)?;
    Ok(LedgerArchived {
        batches: batches.len() as u32,
        events: events.len() as u32,
        raw: raw as u32,
        settled: settled as u32,
    })
}

/// A row for the archive.
struct Old {
    kind: &'static str,
    id: i64,
    /// Schedule, plan, slice, task, run and batch number.
    lineage: [Option<i64>; 6],
    body: String,
    created_at: Ts,
}

fn old_rows(
    db: &Connection,
    sql: &str,
    values: impl Params,
    kind: &'static str,
    limit: usize,
    before: Ts,
) -> Result<Vec<Old>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut old = Vec::new();
    while old.len() < limit
        && let Some(row) = rows.next()?
    {
        let created_at = Ts::from_micros(row.get("created_at")?);
        if created_at >= before {
            break;
        }
        // The value of a cursor is aligned to its newest event, which stays.
        if kind == "EVENT" && row.get(row.as_ref().column_count() - 1)? {
            continue;
        }
        old.push(read_old(row, kind, created_at)?);
    }
    Ok(old)
}

fn read_old(row: &Row<'_>, kind: &'static str, created_at: Ts) -> Result<Old> {
    let columns = ["schedule_instance_id", "plan_id", "slice_id", "task_id", "run_id", "batch_no"];
    let mut lineage = [None; 6];
    for (id, column) in lineage.iter_mut().zip(columns) {
        *id = row.get(column)?;
    }
    Ok(Old { kind, id: row.get("id")?, lineage, body: object(row)?.to_string(), created_at })
}

impl Old {
    fn store(&self, db: &Connection, now: Ts) -> Result<()> {
        let [schedule, plan, slice, task, run, batch_no] = self.lineage;
        let (created_at, archived_at) = (self.created_at.micros(), now.micros());
        db.prepare_cached(INSERT)?.execute(params![
            self.kind,
            self.id,
            schedule,
            plan,
            slice,
            task,
            run,
            batch_no,
            self.body,
            created_at,
            archived_at
        ])?;
        Ok(())
    }
}

/// Deletes rows that were settled before that time, oldest first. A row is read as id, creation time, settlement time.
fn delete_settled(db: &Connection, read: &str, delete: &str, before: Ts, limit: usize) -> Result<usize> {
    let mut old = Vec::new();
    let mut statement = db.prepare_cached(read)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        if time(row, 1)? >= before {
            break;
        }
        if let Some(settled_at) = maybe_time(row, 2)?.filter(|at| *at < before) {
            old.push((settled_at, row.get::<_, i64>(0)?));
        }
    }
    drop(rows);
    old.sort_unstable();
    old.truncate(limit);
    for (_, id) in &old {
        db.prepare_cached(delete)?.execute([id])?;
    }
    Ok(old.len())
}

pub(super) fn record_export(db: &Connection, op: &RecordExport, now: Ts) -> Result<ExportRecorded> {
    let expires_at = op.expires_at.micros();
    let values = params![op.run, op.batch_no, op.by, op.reason, op.package_hash, now.micros(), expires_at];
    let export = db.prepare_cached(INSERT_EXPORT)?.query_row(values, |row| row.get(0))?;
    Ok(ExportRecorded { export })
}
