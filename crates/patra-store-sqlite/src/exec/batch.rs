//! Commits a page: its records, quarantine, marks and signals, with its ledger row. The hot path.

use std::str;

use patra_core::record::{Record, RejectedRecord};
use patra_core::tx::{BatchCommitted, BatchStats, Captured, CommitBatch, LeaseRef, StoredRecord, TxError};
use patra_core::{BatchId, Ts};
use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::{candidate, ledger, missing, outbox, poll, pool, scope, signal};
use crate::error::{Error, Result};
use crate::sql::maybe_time;

// Returns the value of the cursor for a HARVEST: records below it are late.
const READ_EXECUTING: &str = "
SELECT task.attempt_count, run.id, cursor.normalized_instant
FROM ing_task task
LEFT JOIN ing_task_run run ON run.task_id = task.id AND run.attempt_no = task.lease_epoch
LEFT JOIN ing_cursor cursor ON cursor.id = task.cursor_id AND task.operation_code = 'HARVEST'
WHERE task.id = ?1 AND task.lease_epoch = ?2 AND task.status_code = 'EXECUTING'";

const READ_COMMITTED: &str = "
SELECT id, stats FROM ing_task_run_batch WHERE run_id = ?1 AND batch_no = ?2 AND status_code = 'SUCCEEDED'";

const INSERT_ITEM: &str = "
INSERT INTO item
  (project_key, provenance_code, scope_id, dedup_key, endpoint_name, kind, updated_at, source_version,
   content_hash, fields, payload, run_id, batch_no, created_at, stored_at, refresh_checked_at, mapping_generation)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, ?14, ?15)
ON CONFLICT (scope_id, dedup_key) DO NOTHING";

pub(crate) const REPLACE_ITEM: &str = "
UPDATE item
SET endpoint_name = ?5, kind = ?6, updated_at = ?7, source_version = ?8, content_hash = ?9, fields = ?10,
    payload = ?11, run_id = ?12, batch_no = ?13, stored_at = ?14, refresh_checked_at = ?14, mapping_generation = ?15
WHERE scope_id = ?3 AND dedup_key = ?4
  AND emptied_at IS NULL AND (updated_at, source_version) < (?7, ?8)";

// An equal version with other content replaces the record too.
const REFRESH_ITEM: &str = "
UPDATE item
SET endpoint_name = ?5, kind = ?6, updated_at = ?7, source_version = ?8, content_hash = ?9, fields = ?10,
    payload = ?11, run_id = ?12, batch_no = ?13, stored_at = ?14, refresh_checked_at = ?14, mapping_generation = ?15
WHERE scope_id = ?3 AND dedup_key = ?4
  AND emptied_at IS NULL AND ((updated_at, source_version) < (?7, ?8)
       OR ((updated_at, source_version) = (?7, ?8) AND (mapping_generation <> ?15 OR content_hash <> ?9)))";

// A record without an update time of its own replaces the stored one if it differs.
const CHANGE_ITEM: &str = "
UPDATE item
SET endpoint_name = ?5, kind = ?6, updated_at = ?7, source_version = ?8, content_hash = ?9, fields = ?10,
    payload = ?11, run_id = ?12, batch_no = ?13, stored_at = ?14, refresh_checked_at = ?14, mapping_generation = ?15
WHERE scope_id = ?3 AND dedup_key = ?4
  AND emptied_at IS NULL AND (updated_at, source_version) <= (?7, ?8)
  AND (mapping_generation <> ?15 OR content_hash <> ?9)";

const INSERT_REJECTED: &str = "
INSERT INTO item_quarantine
  (project_key, provenance_code, endpoint_name, task_id, run_id, batch_no, item_index, dedup_key, error_code, reason,
   sample, request_digest, status_code, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, iif(?8 IS NULL, 'OPEN', 'SIGNALLED'), ?13)";

const RESET_ATTEMPTS: &str = "UPDATE ing_task SET attempt_count = 0, is_suspect = 0 WHERE id = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    READ_EXECUTING,
    READ_COMMITTED,
    INSERT_ITEM,
    REPLACE_ITEM,
    REFRESH_ITEM,
    CHANGE_ITEM,
    INSERT_REJECTED,
    RESET_ATTEMPTS,
];

pub(super) fn commit(db: &Connection, op: &CommitBatch, now: Ts) -> Result<BatchCommitted> {
    let LeaseRef { task, fence } = op.lease;
    let executing: Option<(u32, Option<i64>, Option<Ts>)> = db
        .prepare_cached(READ_EXECUTING)?
        .query_row([task.0, fence.0], |row| Ok((row.get(0)?, row.get(1)?, maybe_time(row, 2)?)))
        .optional()?;
    let (attempts, run, harvested) = executing.ok_or(TxError::Fenced)?;
    if run != Some(op.run.0) {
        return Err(Error::refused(format!("run {} does not belong to this lease", op.run)));
    }
    if let Some(committed) = read_committed(db, op)? {
        return Ok(committed);
    }
    let mut stats = op.stats;
    store_rejected(db, op, now)?;
    let stored = store_records(db, op, harvested.filter(|_| op.pass.is_none()), &mut stats, now)?;
    missing::see(db, op)?;
    if let Some(source) = op.source {
        poll::link(db, source, &op.stream, &op.records, now)?;
    }
    signal::resolve_stored(db, &op.stream, &stored, now)?;
    signal::check(db, &op.stream, &op.checked, now)?;
    candidate::mark(db, op, now)?;
    let batch = ledger::insert_page(db, op, &stats, now)?.ok_or_else(|| {
        let (run, batch_no) = (op.run, op.batch_no);
        Error::refused(format!("batch {batch_no} of run {run}: another batch has its number, token or key"))
    })?;
    for event in op.events(&stored) {
        outbox::put(db, &event, now)?;
    }
    if attempts != 0 && op.progress {
        db.prepare_cached(RESET_ATTEMPTS)?.execute([task.0])?;
    }
    let captured = pool::capture(db, op.capture.as_ref(), &op.stream.project_key, Some(op.lineage.job), now)?;
    Ok(BatchCommitted { batch, stats, replayed: false, captured })
}

/// Returns the recorded result of a batch that was committed before.
fn read_committed(db: &Connection, op: &CommitBatch) -> Result<Option<BatchCommitted>> {
    let row: Option<(i64, String)> = db
        .prepare_cached(READ_COMMITTED)?
        .query_row(params![op.run.0, op.batch_no], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((batch, stats)) = row else { return Ok(None) };
    let stats = serde_json::from_str(&stats)?;
    Ok(Some(BatchCommitted { batch: BatchId(batch), stats, replayed: true, captured: Captured::None }))
}

/// Inserts or updates each record and counts the outcomes. Returns the records that were stored.
fn store_records<'a>(
    db: &Connection,
    op: &'a CommitBatch,
    harvested: Option<Ts>,
    stats: &mut BatchStats,
    now: Ts,
) -> Result<Vec<StoredRecord<'a>>> {
    debug_assert!(op.records.is_sorted_by(|a, b| a.key < b.key), "one per key, sorted by key");
    let stream = &*op.stream;
    if op.records.is_empty() {
        return Ok(Vec::new());
    }
    let scope = scope::number(db, &stream.project_key, &stream.provenance_code, &stream.dedup_scope)?;
    let mut insert = db.prepare_cached(INSERT_ITEM)?;
    let undated = op.pass.as_ref().is_some_and(|pass| pass.undated);
    let mut replace = db.prepare_cached(match op.refresh {
        _ if undated => CHANGE_ITEM,
        true => REFRESH_ITEM,
        false => REPLACE_ITEM,
    })?;
    for statement in [&mut insert, &mut replace] {
        bind_page(statement, op, scope, now)?;
    }
    let mut stored = Vec::with_capacity(op.records.len());
    for record in &op.records {
        // Most records are new: an insert that conflicts with an older one costs only an index lookup.
        let inserted = store(&mut insert, record)?;
        if inserted {
            stats.inserted += 1;
        } else if store(&mut replace, record)? {
            stats.updated += 1;
        } else {
            stats.skipped += 1;
            continue;
        }
        stats.late += u32::from(harvested.is_some_and(|value| record.version.updated_at < value));
        stored.push(StoredRecord { record, inserted });
    }
    Ok(stored)
}

/// Values shared by all records of a page.
fn bind_page(statement: &mut Statement<'_>, op: &CommitBatch, scope: i64, now: Ts) -> Result<()> {
    let stream = &*op.stream;
    statement.raw_bind_parameter(1, &stream.project_key)?;
    statement.raw_bind_parameter(2, &stream.provenance_code)?;
    statement.raw_bind_parameter(3, scope)?;
    statement.raw_bind_parameter(5, &stream.endpoint_name)?;
    statement.raw_bind_parameter(6, &stream.kind)?;
    statement.raw_bind_parameter(12, op.run.0)?;
    statement.raw_bind_parameter(13, op.batch_no)?;
    statement.raw_bind_parameter(14, now.micros())?;
    statement.raw_bind_parameter(15, &*op.generation)?;
    Ok(())
}

/// The values of one record. Returns whether a row was written.
fn store(statement: &mut Statement<'_>, record: &Record) -> Result<bool> {
    statement.raw_bind_parameter(4, &record.key)?;
    statement.raw_bind_parameter(7, record.version.updated_at.micros())?;
    statement.raw_bind_parameter(8, record.version.source_version)?;
    statement.raw_bind_parameter(9, record.content_hash.as_slice())?;
    statement.raw_bind_parameter(10, &record.fields)?;
    statement.raw_bind_parameter(11, &*record.payload)?;
    Ok(statement.raw_execute()? == 1)
}

fn store_rejected(db: &Connection, op: &CommitBatch, now: Ts) -> Result<()> {
    let stream = &*op.stream;
    for RejectedRecord { index, key, code, reason, sample } in &op.rejected {
        if let Some(key) = key {
            signal::raise(db, stream, key, reason, now)?;
        }
        db.prepare_cached(INSERT_REJECTED)?.execute(params![
            stream.project_key,
            stream.provenance_code,
            stream.endpoint_name,
            op.lease.task.0,
            op.run.0,
            op.batch_no,
            index,
            key,
            code.as_str(),
            reason,
            sample,
            op.request_digest,
            now.micros(),
        ])?;
    }
    Ok(())
}
