//! Signals: records that must be fetched again, and what becomes of them and of the quarantine.

use patra_core::Ts;
use patra_core::record::RecordStream;
use patra_core::state::{QuarantineStatus, SignalStatus};
use patra_core::tx::{
    AbandonRecord, CheckedRecord, MAX_SIGNAL_KEYS, MAX_SIGNAL_TRIES, RecordAbandoned, RecordsSignalled, SignalRecords,
    StoredRecord,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::scope::scope_id;
use crate::error::{Error, Result};
use crate::sql::word;

const INSERT: &str = "
INSERT INTO ing_signal
  (project_key, provenance_code, endpoint_name, item_key, origin_code, reason, created_by, status_code, created_at,
   updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'OPEN', ?8, ?8)
ON CONFLICT (project_key, provenance_code, endpoint_name, item_key) WHERE status_code = 'OPEN' DO NOTHING";

// A page without signals, nearly every one, pays only for this lookup.
pub(crate) const HAS_ISOLATED: &str = "
SELECT EXISTS (SELECT 1 FROM item_quarantine
               WHERE project_key = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND status_code = 'SIGNALLED')
  OR EXISTS (SELECT 1 FROM ing_signal
             WHERE project_key = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND status_code = 'OPEN'
               AND origin_code = 'QUARANTINE')";

const RESOLVE_ISOLATED: &str = "
UPDATE ing_signal SET status_code = 'RESOLVED', updated_at = ?5
WHERE project_key = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND item_key = ?4 AND status_code = 'OPEN'
  AND origin_code = 'QUARANTINE'";

const RESOLVE: &str = "
UPDATE ing_signal SET status_code = 'RESOLVED', updated_at = ?5
WHERE project_key = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND item_key = ?4 AND status_code = 'OPEN'";

const FAIL: &str = "
UPDATE ing_signal
SET tries = tries + 1, last_error = ?6, updated_at = ?5, status_code = iif(tries + 1 >= ?7, 'ABANDONED', 'OPEN')
WHERE project_key = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND item_key = ?4 AND status_code = 'OPEN'
RETURNING status_code";

const GIVE_UP: &str = "
UPDATE ing_signal SET status_code = 'ABANDONED', updated_at = ?5
WHERE project_key = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND item_key = ?4 AND status_code = 'OPEN'";

const SETTLE_ROWS: &str = "
UPDATE item_quarantine SET status_code = ?5
WHERE project_key = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND dedup_key = ?4 AND status_code = 'SIGNALLED'";

const MARK_CHECKED: &str = concat!(
    "UPDATE item SET refresh_checked_at = ?5 WHERE scope_id = ",
    scope_id!("?1", "?2", "?3"),
    " AND dedup_key = ?4"
);

const READ_ISOLATED: &str = "
SELECT status_code, project_key, provenance_code, endpoint_name, dedup_key FROM item_quarantine WHERE id = ?1";

const ABANDON_ROW: &str = "UPDATE item_quarantine SET status_code = 'ABANDONED' WHERE id = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    INSERT,
    HAS_ISOLATED,
    RESOLVE_ISOLATED,
    RESOLVE,
    FAIL,
    GIVE_UP,
    SETTLE_ROWS,
    MARK_CHECKED,
    READ_ISOLATED,
    ABANDON_ROW,
];

pub(super) fn signal(db: &Connection, op: &SignalRecords, now: Ts) -> Result<RecordsSignalled> {
    if op.keys.len() > MAX_SIGNAL_KEYS {
        return Err(Error::refused(format!("{} keys in one signal: at most {MAX_SIGNAL_KEYS}", op.keys.len())));
    }
    let mut added = 0;
    let mut insert = db.prepare_cached(INSERT)?;
    for key in &op.keys {
        let SignalRecords { project_key, provenance_code, endpoint_name, reason, by, .. } = op;
        let values = params![project_key, provenance_code, endpoint_name, key, "READER", reason, by, now.micros()];
        added += insert.execute(values)?;
    }
    let existing = op.keys.len() - added;
    Ok(RecordsSignalled { added: added as u32, existing: existing as u32 })
}

/// Sets a signal for a quarantined record, unless there is one.
pub(super) fn raise(db: &Connection, stream: &RecordStream, key: &str, reason: &str, now: Ts) -> Result<()> {
    let RecordStream { project_key, provenance_code, endpoint_name, .. } = stream;
    let (origin, by) = ("QUARANTINE", SignalRecords::BY_QUARANTINE);
    let values = params![project_key, provenance_code, endpoint_name, key, origin, reason, by, now.micros()];
    db.prepare_cached(INSERT)?.execute(values)?;
    Ok(())
}

/// Resolves the quarantine of records that are stored now.
pub(super) fn resolve_stored(
    db: &Connection,
    stream: &RecordStream,
    stored: &[StoredRecord<'_>],
    now: Ts,
) -> Result<()> {
    let RecordStream { project_key, provenance_code, endpoint_name, .. } = stream;
    let name = params![project_key, provenance_code, endpoint_name];
    if stored.is_empty() || !db.prepare_cached(HAS_ISOLATED)?.query_row(name, |row| row.get::<_, bool>(0))? {
        return Ok(());
    }
    for StoredRecord { record, .. } in stored {
        let key = &record.key;
        let values = params![project_key, provenance_code, endpoint_name, key, now.micros()];
        db.prepare_cached(RESOLVE_ISOLATED)?.execute(values)?;
        settle_rows(db, stream, key, QuarantineStatus::Resolved)?;
    }
    Ok(())
}

/// Records the outcome for the records that an UPDATE checked.
pub(super) fn check(db: &Connection, stream: &RecordStream, checked: &[CheckedRecord], now: Ts) -> Result<()> {
    let RecordStream { project_key, provenance_code, endpoint_name, dedup_scope, .. } = stream;
    for CheckedRecord { key, failed, looked_at } in checked {
        if *looked_at {
            let item = params![project_key, provenance_code, dedup_scope, key, now.micros()];
            db.prepare_cached(MARK_CHECKED)?.execute(item)?;
        }
        let Some(reason) = failed else {
            let values = params![project_key, provenance_code, endpoint_name, key, now.micros()];
            db.prepare_cached(RESOLVE)?.execute(values)?;
            settle_rows(db, stream, key, QuarantineStatus::Resolved)?;
            continue;
        };
        let values = params![project_key, provenance_code, endpoint_name, key, now.micros(), reason, MAX_SIGNAL_TRIES];
        let status = db.prepare_cached(FAIL)?.query_row(values, |row| word(row, 0)).optional()?;
        if status == Some(SignalStatus::Abandoned) {
            settle_rows(db, stream, key, QuarantineStatus::Abandoned)?;
        }
    }
    Ok(())
}

fn settle_rows(db: &Connection, stream: &RecordStream, key: &str, status: QuarantineStatus) -> Result<()> {
    let RecordStream { project_key, provenance_code, endpoint_name, .. } = stream;
    let values = params![project_key, provenance_code, endpoint_name, key, status.as_str()];
    db.prepare_cached(SETTLE_ROWS)?.execute(values)?;
    Ok(())
}

pub(super) fn abandon(db: &Connection, op: &AbandonRecord, now: Ts) -> Result<RecordAbandoned> {
    type Isolated = (QuarantineStatus, String, String, String, Option<String>);
    let row: Option<Isolated> = db
        .prepare_cached(READ_ISOLATED)?
        .query_row([op.quarantine], |row| Ok((word(row, 0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
        .optional()?;
    let Some((status, project_key, provenance_code, endpoint_name, key)) = row else {
        return Ok(RecordAbandoned { found: false, abandoned: false });
    };
    if !status.may_become(QuarantineStatus::Abandoned) {
        return Ok(RecordAbandoned { found: true, abandoned: false });
    }
    db.prepare_cached(ABANDON_ROW)?.execute([op.quarantine])?;
    if let Some(key) = key {
        let values = params![project_key, provenance_code, endpoint_name, key, now.micros()];
        db.prepare_cached(GIVE_UP)?.execute(values)?;
    }
    Ok(RecordAbandoned { found: true, abandoned: true })
}
