//! Candidates: ids whose details are fetched separately, the outcome of each, and which are still wanted.

use patra_core::record::{DetailCandidate, RecordStream};
use patra_core::tx::CommitBatch;
use tokio_postgres::Statement;

use crate::error::Fail;
use crate::pool::Session;
use crate::time::Time;

/// Marks arrive sorted by id, so two pages lock them in the same order. The pause of a bad id is
/// `patra_core::record::bad_id_pause` in SQL: an hour, doubling, at most a week.
pub(super) const MARK: &str = "
INSERT INTO ing_candidate AS c (project_key, provenance_code, endpoint_name, candidate_id, version, status_code, reason,
  tries, expires_at, updated_at)
SELECT $1, $2, $3, m.id, m.version, CASE WHEN m.reason IS NULL THEN 'FETCHED' ELSE 'BAD' END, m.reason,
  CASE WHEN m.reason IS NULL THEN 0 ELSE 1 END, CASE WHEN m.reason IS NOT NULL THEN $7::timestamptz + interval '1 hour' END, $7
FROM unnest($4::text[], $5::text[], $6::text[]) AS m (id, version, reason)
ON CONFLICT (project_key, provenance_code, endpoint_name, candidate_id) DO UPDATE
SET version = excluded.version, status_code = excluded.status_code, reason = excluded.reason,
  updated_at = excluded.updated_at,
  tries = CASE WHEN excluded.status_code <> 'BAD' THEN 0 WHEN c.version = excluded.version THEN c.tries + 1 ELSE 1 END,
  expires_at = CASE WHEN excluded.status_code = 'BAD' THEN excluded.updated_at + interval '1 second' * least(
    3600::bigint << least(CASE WHEN c.version = excluded.version THEN c.tries ELSE 0 END, 10)::integer, 604800) END";

const SCREEN: &str = "
SELECT w.id, w.version
FROM unnest($4::text[], $5::text[]) WITH ORDINALITY AS w (id, version, place)
WHERE NOT EXISTS (
  SELECT 1 FROM ing_candidate c
  WHERE c.project_key = $1 AND c.provenance_code = $2 AND c.endpoint_name = $3 AND c.candidate_id = w.id
    AND c.version = w.version AND (c.status_code = 'FETCHED' OR c.expires_at > clock_timestamp()))
ORDER BY w.place";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[MARK, SCREEN];

pub(super) async fn mark(session: &Session, statement: &Statement, op: &CommitBatch, now: Time) -> Result<(), Fail> {
    if op.marks.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = op.marks.iter().map(|mark| mark.candidate.id.as_str()).collect();
    let versions: Vec<_> = op.marks.iter().map(|mark| mark.candidate.version.as_str()).collect();
    let reasons: Vec<_> = op.marks.iter().map(|mark| mark.bad.as_deref()).collect();
    let RecordStream { project_key, provenance_code, endpoint_name, .. } = &*op.stream;
    session.write(statement, &[project_key, provenance_code, endpoint_name, &ids, &versions, &reasons, &now]).await?;
    Ok(())
}

/// Ids that are neither fetched in this version nor paused as bad.
pub(crate) async fn screen(
    session: &Session,
    stream: RecordStream,
    candidates: Vec<DetailCandidate>,
) -> Result<Vec<DetailCandidate>, Fail> {
    let [statement] = session.prepare([SCREEN]).await?;
    let ids: Vec<_> = candidates.iter().map(|candidate| candidate.id.as_str()).collect();
    let versions: Vec<_> = candidates.iter().map(|candidate| candidate.version.as_str()).collect();
    let RecordStream { project_key, provenance_code, endpoint_name, .. } = &stream;
    let rows = session.alone(&statement, &[project_key, provenance_code, endpoint_name, &ids, &versions]).await?;
    rows.iter().map(|row| Ok(DetailCandidate { id: row.try_get(0)?, version: row.try_get(1)? })).collect()
}
