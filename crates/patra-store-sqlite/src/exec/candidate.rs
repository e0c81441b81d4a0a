//! Candidates: ids whose details are fetched separately, the outcome of each, and which are still wanted.

use patra_core::Ts;
use patra_core::record::{CandidateMark, DetailCandidate, RecordStream};
use patra_core::tx::CommitBatch;
use rusqlite::{Connection, params};

use crate::error::Result;

// The pause of a bad id is `patra_core::record::bad_id_pause` in SQL: an hour, doubling, at most a week.
const MARK: &str = "
INSERT INTO ing_candidate
  (project_key, provenance_code, endpoint_name, candidate_id, version, status_code, reason, tries, expires_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?6 = 'BAD', CASE WHEN ?6 = 'BAD' THEN ?8 + 3600000000 END, ?8)
ON CONFLICT (project_key, provenance_code, endpoint_name, candidate_id) DO UPDATE
SET version = ?5, status_code = ?6, reason = ?7, updated_at = ?8,
  tries = CASE WHEN ?6 <> 'BAD' THEN 0 WHEN version = ?5 THEN tries + 1 ELSE 1 END,
  expires_at = CASE WHEN ?6 = 'BAD'
    THEN ?8 + 1000000 * min(3600 << min(CASE WHEN version = ?5 THEN tries ELSE 0 END, 10), 604800) END";

pub(crate) const IS_SETTLED: &str = "
SELECT EXISTS (
  SELECT 1 FROM ing_candidate
  WHERE project_key = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND candidate_id = ?4 AND version = ?5
    AND (status_code = 'FETCHED' OR expires_at > ?6))";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[MARK, IS_SETTLED];

pub(super) fn mark(db: &Connection, op: &CommitBatch, now: Ts) -> Result<()> {
    let stream = &*op.stream;
    for CandidateMark { candidate: DetailCandidate { id, version }, bad } in &op.marks {
        db.prepare_cached(MARK)?.execute(params![
            stream.project_key,
            stream.provenance_code,
            stream.endpoint_name,
            id,
            version,
            if bad.is_some() { "BAD" } else { "FETCHED" },
            bad,
            now.micros(),
        ])?;
    }
    Ok(())
}

/// Ids that are neither fetched in this version nor paused as bad.
pub(crate) fn screen(
    db: &Connection,
    stream: &RecordStream,
    candidates: Vec<DetailCandidate>,
    now: Ts,
) -> Result<Vec<DetailCandidate>> {
    let mut settled = db.prepare_cached(IS_SETTLED)?;
    let mut wanted = Vec::new();
    for candidate in candidates {
        let RecordStream { project_key, provenance_code, endpoint_name, .. } = stream;
        let DetailCandidate { id, version } = &candidate;
        let key = params![project_key, provenance_code, endpoint_name, id, version, now.micros()];
        if !settled.query_row(key, |row| row.get::<_, bool>(0))? {
            wanted.push(candidate);
        }
    }
    Ok(wanted)
}
