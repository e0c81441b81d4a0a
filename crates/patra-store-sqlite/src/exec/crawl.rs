//! Notes that wait for their details, and fetched notes.

use std::time::Duration;

use patra_core::Ts;
use patra_core::crawl::{CrawlCandidate, after_failure, after_release, idempotency_key};
use patra_core::state::{CandidateStatus, ExecutionStatus};
use patra_core::tx::{
    AddCandidates, CandidateFailed, CandidatesAdded, CandidatesClaimed, CandidatesRequeued, ClaimCandidates,
    FailCandidate, MAX_CANDIDATES, NoteWritten, Recover, Recovered, RequeueCandidates, WriteNote,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::execution::{self, ExecutionState};
use super::{cookie, pool, scope};
use crate::error::{Error, Result};
use crate::sql::{maybe_time, time, word};

const INSERT: &str = "
INSERT INTO crawl_candidate
  (project_key, platform, note_id, note_url, status, source_keyword, tokens, exec_meta, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, 'pending', ?5, ?6, '{}', ?7, ?7)
ON CONFLICT (project_key, platform, note_id) DO NOTHING";

const RENEW_TOKENS: &str = "
UPDATE crawl_candidate SET tokens = ?4, updated_at = ?5
WHERE project_key = ?1 AND platform = ?2 AND note_id = ?3 AND status = 'pending' AND ?4 <> '{}' AND tokens <> ?4";

pub(crate) const CLAIM: &str = "
UPDATE crawl_candidate
SET status = 'processing', processing_lock = ?2, locked_at = ?3, updated_at = ?3
WHERE status = 'pending' AND id IN (
  SELECT id FROM crawl_candidate
  WHERE status = 'pending' AND project_key = ?1 AND (?4 IS NULL OR platform = ?4)
  ORDER BY created_at, id
  LIMIT ?5)
RETURNING id, platform, note_id, note_url, status, processing_lock, locked_at, retry_count, source_keyword, tokens,
  last_error_code, exec_meta, created_at, updated_at";

const READ: &str = "
SELECT id, platform, note_id, note_url, status, processing_lock, locked_at, retry_count, source_keyword, tokens,
  last_error_code, exec_meta, created_at, updated_at
FROM crawl_candidate
WHERE project_key = ?1 AND platform = ?2 AND note_id = ?3";

pub(crate) const READ_FORGOTTEN: &str = "SELECT id, retry_count FROM crawl_candidate WHERE locked_at <= ?1";

const READ_HELD: &str = "SELECT id, retry_count FROM crawl_candidate WHERE processing_lock = ?1";

const SETTLE: &str = "
UPDATE crawl_candidate
SET status = ?2, retry_count = ?3, last_error_code = coalesce(?4, last_error_code), exec_meta = coalesce(?5, exec_meta),
    processing_lock = NULL, locked_at = NULL, updated_at = ?6
WHERE id = ?1";

const REQUEUE: &str = "
UPDATE crawl_candidate
SET status = 'pending', retry_count = 0, last_error_code = NULL, exec_meta = '{}', updated_at = ?5
WHERE project_key = ?1 AND platform = ?2 AND status = 'failed' AND (?3 IS NULL OR note_id = ?3)
  AND (?4 IS NULL OR source_keyword = ?4)";

const INSERT_ITEM: &str = "
INSERT INTO item
  (project_key, provenance_code, scope_id, dedup_key, endpoint_name, kind, updated_at, source_version,
   content_hash, fields, payload, run_id, batch_no, created_at, stored_at, refresh_checked_at, mapping_generation)
VALUES (?1, ?2, ?8, ?3, 'note', 'note', ?7, 0, ?4, ?5, ?6, 0, 0, ?7, ?7, ?7, '')
ON CONFLICT (scope_id, dedup_key) DO NOTHING
RETURNING id";

const FIND_ITEM: &str = "SELECT id FROM item WHERE scope_id = ?1 AND dedup_key = ?2";

const INSERT_NOTE: &str = "
INSERT INTO item_note (item_id, project_key, platform, note_id, note_url, idempotency_key, exec_meta, published_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    INSERT,
    RENEW_TOKENS,
    CLAIM,
    READ,
    READ_FORGOTTEN,
    READ_HELD,
    SETTLE,
    REQUEUE,
    INSERT_ITEM,
    FIND_ITEM,
    INSERT_NOTE,
];

/// Reads fourteen columns, in the order of [`READ`].
pub(crate) fn read_candidate(row: &Row<'_>) -> rusqlite::Result<CrawlCandidate> {
    Ok(CrawlCandidate {
        id: row.get(0)?,
        platform: row.get(1)?,
        note_id: row.get(2)?,
        note_url: row.get(3)?,
        status: word(row, 4)?,
        processing_lock: row.get(5)?,
        locked_at: maybe_time(row, 6)?,
        retry_count: row.get(7)?,
        source_keyword: row.get(8)?,
        tokens: row.get(9)?,
        last_error_code: row.get(10)?,
        exec_meta: row.get(11)?,
        created_at: time(row, 12)?,
        updated_at: time(row, 13)?,
    })
}

pub(super) fn add(db: &Connection, op: &AddCandidates, now: Ts) -> Result<CandidatesAdded> {
    if op.candidates.len() > MAX_CANDIDATES {
        return Err(Error::refused(format!("{} notes in one request: at most {MAX_CANDIDATES}", op.candidates.len())));
    }
    let mut created = 0;
    for new in &op.candidates {
        let key = (&op.project_key, &op.platform, &new.note_id);
        let values = params![key.0, key.1, key.2, new.note_url, new.source_keyword, new.tokens, now.micros()];
        if db.prepare_cached(INSERT)?.execute(values)? == 1 {
            created += 1;
        } else {
            db.prepare_cached(RENEW_TOKENS)?.execute(params![key.0, key.1, key.2, new.tokens, now.micros()])?;
        }
    }
    Ok(CandidatesAdded { created, existing: op.candidates.len() as u64 - created })
}

pub(super) fn claim(db: &Connection, op: &ClaimCandidates, now: Ts) -> Result<CandidatesClaimed> {
    let project_key = match execution::find(db, op.project_key.as_deref(), &op.execution_id, op.timeout, now)? {
        ExecutionState::Unknown => return Ok(CandidatesClaimed::Unknown),
        ExecutionState::Ended(execution) => return Ok(CandidatesClaimed::Lost(execution)),
        ExecutionState::Live { project_key } => project_key,
    };
    let limit = op.limit.min(MAX_CANDIDATES as u32);
    let values = params![project_key, op.execution_id, now.micros(), op.platform, limit];
    let mut statement = db.prepare_cached(CLAIM)?;
    let mut claimed: Vec<_> = statement.query_map(values, read_candidate)?.collect::<rusqlite::Result<_>>()?;
    claimed.sort_by_key(|candidate: &CrawlCandidate| (candidate.created_at, candidate.id));
    Ok(CandidatesClaimed::Claimed(claimed))
}

fn read(db: &Connection, project_key: &str, platform: &str, note_id: &str) -> Result<Option<CrawlCandidate>> {
    Ok(db.prepare_cached(READ)?.query_row([project_key, platform, note_id], read_candidate).optional()?)
}

pub(super) fn fail(db: &Connection, op: &FailCandidate, now: Ts) -> Result<CandidateFailed> {
    let Some(candidate) = read(db, &op.project_key, &op.platform, &op.note_id)? else {
        return Ok(CandidateFailed::Unknown);
    };
    if candidate.processing_lock.as_ref() != Some(&op.execution_id) {
        return Ok(CandidateFailed::NotHeld(candidate.processing_lock));
    }
    let (status, retry_count) = after_failure(candidate.retry_count);
    let meta = op.attempt.exec_meta(&candidate.exec_meta, candidate.source_keyword.as_deref(), retry_count);
    let values = params![candidate.id, status.as_str(), retry_count, op.error_code, meta, now.micros()];
    db.prepare_cached(SETTLE)?.execute(values)?;
    Ok(CandidateFailed::Failed(Box::new(CrawlCandidate {
        status,
        retry_count,
        processing_lock: None,
        locked_at: None,
        last_error_code: Some(op.error_code.clone()),
        exec_meta: meta,
        updated_at: now,
        ..candidate
    })))
}

pub(super) fn requeue(db: &Connection, op: &RequeueCandidates, now: Ts) -> Result<CandidatesRequeued> {
    let values = params![op.project_key, op.platform, op.note_id, op.source_keyword, now.micros()];
    Ok(CandidatesRequeued { requeued: db.prepare_cached(REQUEUE)?.execute(values)? as u64 })
}

pub(super) fn write_note(db: &Connection, op: &WriteNote, now: Ts) -> Result<NoteWritten> {
    let (project, platform, note) = (&op.project_key, &op.platform, &op.note);
    let candidate = read(db, project, platform, &note.note_id)?;
    let meta = match &candidate {
        Some(known) => op.attempt.exec_meta(&known.exec_meta, known.source_keyword.as_deref(), known.retry_count),
        None => op.attempt.exec_meta("", None, 0),
    };
    let key = idempotency_key(&note.note_id);
    let (scope, hash) = (scope::number(db, project, platform, "note")?, note.content_hash.as_slice());
    let values = params![project, platform, key, hash, note.fields, note.payload, now.micros(), scope];
    let inserted: Option<i64> = db.prepare_cached(INSERT_ITEM)?.query_row(values, |row| row.get(0)).optional()?;
    let (id, created) = match inserted {
        Some(id) => (id, true),
        None => (db.prepare_cached(FIND_ITEM)?.query_row(params![scope, key], |row| row.get(0))?, false),
    };
    if created {
        let url = note.note_url.as_ref().or(candidate.as_ref().map(|known| &known.note_url));
        let published = note.published_at.map(Ts::micros);
        let values = params![id, project, platform, note.note_id, url, key, meta, published];
        db.prepare_cached(INSERT_NOTE)?.execute(values)?;
    }
    if let Some(known) = candidate.filter(|known| known.status != CandidateStatus::Collected) {
        let status = CandidateStatus::Collected.as_str();
        let values = params![known.id, status, known.retry_count, None::<String>, meta, now.micros()];
        db.prepare_cached(SETTLE)?.execute(values)?;
    }
    let captured = pool::capture(db, op.capture.as_ref(), project, None, now)?;
    Ok(NoteWritten { id, created, captured })
}

pub(super) fn recover(db: &Connection, op: Recover, now: Ts) -> Result<Recovered> {
    let mut recovered =
        Recovered { executions_timed_out: execution::recover(db, op.timeout, now)?, ..Recovered::default() };
    for (id, retry_count) in forgotten(db, op.timeout, now)? {
        let (status, retry_count) = after_failure(retry_count);
        free(db, id, status, retry_count, now)?;
        match status {
            CandidateStatus::Failed => recovered.records_failed += 1,
            _ => recovered.records_requeued += 1,
        }
    }
    recovered.cookies_reactivated = cookie::rest(db, now)?;
    Ok(recovered)
}

fn free(db: &Connection, id: i64, status: CandidateStatus, retry_count: u32, now: Ts) -> Result<()> {
    let nothing = None::<String>;
    let values = params![id, status.as_str(), retry_count, nothing, nothing, now.micros()];
    db.prepare_cached(SETTLE)?.execute(values)?;
    Ok(())
}

/// Frees the candidates of an execution that has ended with this status.
pub(super) fn release(db: &Connection, execution_id: &str, ended: ExecutionStatus, now: Ts) -> Result<()> {
    let mut statement = db.prepare_cached(READ_HELD)?;
    let held: Vec<(i64, u32)> =
        statement.query_map([execution_id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    for (id, retry_count) in held {
        let (status, retry_count) = after_release(ended, retry_count);
        free(db, id, status, retry_count, now)?;
    }
    Ok(())
}

/// Releases candidates whose execution has been silent for too long.
fn forgotten(db: &Connection, timeout: Duration, now: Ts) -> Result<Vec<(i64, u32)>> {
    let mut statement = db.prepare_cached(READ_FORGOTTEN)?;
    let rows = statement.query_map([(now - timeout).micros()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
