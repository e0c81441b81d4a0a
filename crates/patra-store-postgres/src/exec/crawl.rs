//! Notes that wait for their details, and fetched notes. Several rows are locked in the order of their ids.

use std::collections::HashMap;

use patra_core::crawl::{CrawlCandidate, after_failure, after_release, idempotency_key};
use patra_core::state::{CandidateStatus, ExecutionStatus};
use patra_core::tx::{
    AddCandidates, CandidateFailed, CandidatesAdded, CandidatesClaimed, CandidatesRequeued, Captured, ClaimCandidates,
    FailCandidate, MAX_CANDIDATES, NoteWritten, Recover, Recovered, RequeueCandidates, WriteNote,
};
use tokio_postgres::Row;

use super::execution::{self, ExecutionState};
use super::scope::scope_id;
use super::{NOW, cookie, count, moment, urls};
use crate::error::{Fail, refused};
use crate::pool::{Session, pipeline};
use crate::time::{Time, maybe};

/// Serializes additions to a platform: two that add the same notes in different orders would deadlock.
const LOCK_PLATFORM: &str = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' notes of ' || $1::text || ' ' || $2::text, 0))";

const INSERT: &str = "
INSERT INTO crawl_candidate
  (project_key, platform, note_id, note_url, status, source_keyword, tokens, exec_meta, created_at, updated_at)
SELECT $1, $2, n.note_id, n.note_url, 'pending', n.source_keyword, n.tokens, '{}', $7, $7
FROM unnest($3::text[], $4::text[], $5::text[], $6::text[]) WITH ORDINALITY
  AS n (note_id, note_url, source_keyword, tokens, place)
ORDER BY n.place
ON CONFLICT (project_key, platform, note_id) DO NOTHING";

const RENEW_TOKENS: &str = "
WITH known AS MATERIALIZED (
  SELECT c.id, n.tokens
  FROM unnest($3::text[], $4::text[]) AS n (note_id, tokens)
  JOIN crawl_candidate c ON c.project_key = $1 AND c.platform = $2 AND c.note_id = n.note_id
  WHERE c.status = 'pending' AND n.tokens <> '{}' AND n.tokens <> c.tokens
  ORDER BY c.id
  FOR UPDATE OF c)
UPDATE crawl_candidate c SET tokens = known.tokens, updated_at = $5
FROM known WHERE c.id = known.id AND c.status = 'pending'";

pub(crate) const CLAIM: &str = "
WITH next AS MATERIALIZED (
  SELECT id FROM crawl_candidate
  WHERE status = 'pending' AND project_key = $1 AND ($4::text IS NULL OR platform = $4)
  ORDER BY created_at, id
  LIMIT $5
  FOR UPDATE SKIP LOCKED)
UPDATE crawl_candidate c
SET status = 'processing', processing_lock = $2, locked_at = $3, updated_at = $3
WHERE c.id = ANY (ARRAY(SELECT id FROM next)) AND c.status = 'pending'
RETURNING c.id, c.platform, c.note_id, c.note_url, c.status, c.processing_lock, c.locked_at, c.retry_count,
  c.source_keyword, c.tokens, c.last_error_code, c.exec_meta, c.created_at, c.updated_at";

const LOCK: &str = "
SELECT id, platform, note_id, note_url, status, processing_lock, locked_at, retry_count, source_keyword, tokens,
  last_error_code, exec_meta, created_at, updated_at
FROM crawl_candidate
WHERE project_key = $1 AND platform = $2 AND note_id = $3
FOR UPDATE";

const LOCK_FORGOTTEN: &str = "
SELECT id, retry_count FROM crawl_candidate WHERE locked_at <= $1 ORDER BY id FOR UPDATE";

const LOCK_HELD: &str = "
SELECT id, retry_count FROM crawl_candidate WHERE processing_lock = $1 ORDER BY id FOR UPDATE";

const SETTLE: &str = "
UPDATE crawl_candidate
SET status = $2, retry_count = $3, last_error_code = coalesce($4, last_error_code), exec_meta = coalesce($5, exec_meta),
  processing_lock = NULL, locked_at = NULL, updated_at = $6
WHERE id = $1";

const TAKE_BACK: &str = "
UPDATE crawl_candidate c
SET status = n.status, retry_count = n.retry_count, processing_lock = NULL, locked_at = NULL, updated_at = $4
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS n (id, status, retry_count)
WHERE c.id = n.id";

const REQUEUE: &str = "
WITH failed AS MATERIALIZED (
  SELECT id FROM crawl_candidate
  WHERE project_key = $1 AND platform = $2 AND status = 'failed' AND ($3::text IS NULL OR note_id = $3)
    AND ($4::text IS NULL OR source_keyword = $4)
  ORDER BY id
  FOR UPDATE)
UPDATE crawl_candidate c
SET status = 'pending', retry_count = 0, last_error_code = NULL, exec_meta = '{}', updated_at = clock_timestamp()
WHERE c.id = ANY (ARRAY(SELECT id FROM failed)) AND c.status = 'failed'
RETURNING c.id";

const INSERT_ITEM: &str = "
INSERT INTO item
  (project_key, provenance_code, scope_id, dedup_key, endpoint_name, kind, updated_at, source_version,
   content_hash, fields, payload, run_id, batch_no, created_at, stored_at, refresh_checked_at, mapping_generation)
VALUES ($1, $2, item_scope_of($1, $2, 'note'), $3, 'note', 'note', $7, 0, $4, $5, $6, 0, 0, $7, $7, $7, '')
ON CONFLICT (scope_id, dedup_key) DO NOTHING
RETURNING id";

const FIND_ITEM: &str =
    concat!("SELECT id FROM item WHERE scope_id = ", scope_id!("$1", "$2", "'note'"), " AND dedup_key = $3");

const INSERT_NOTE: &str = "
INSERT INTO item_note (item_id, project_key, platform, note_id, note_url, idempotency_key, exec_meta, published_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LOCK_PLATFORM,
    INSERT,
    RENEW_TOKENS,
    CLAIM,
    LOCK,
    LOCK_FORGOTTEN,
    LOCK_HELD,
    SETTLE,
    TAKE_BACK,
    REQUEUE,
    INSERT_ITEM,
    FIND_ITEM,
    INSERT_NOTE,
];

/// Reads fourteen columns, in the order of [`LOCK`].
pub(crate) fn read_candidate(row: &Row) -> Result<CrawlCandidate, Fail> {
    Ok(CrawlCandidate {
        id: row.try_get(0)?,
        platform: row.try_get(1)?,
        note_id: row.try_get(2)?,
        note_url: row.try_get(3)?,
        status: row.try_get::<_, &str>(4)?.parse()?,
        processing_lock: row.try_get(5)?,
        locked_at: maybe(row, 6)?,
        retry_count: count(row.try_get(7)?),
        source_keyword: row.try_get(8)?,
        tokens: row.try_get(9)?,
        last_error_code: row.try_get(10)?,
        exec_meta: row.try_get(11)?,
        created_at: row.try_get::<_, Time>(12)?.0,
        updated_at: row.try_get::<_, Time>(13)?.0,
    })
}

pub(super) async fn add(session: &Session, op: &AddCandidates) -> Result<CandidatesAdded, Fail> {
    let given = op.candidates.len();
    if given > MAX_CANDIDATES {
        return Err(refused(format!("{given} notes in one request: at most {MAX_CANDIDATES}")));
    }
    let [lock, now, insert, renew] = session.prepare([LOCK_PLATFORM, NOW, INSERT, RENEW_TOKENS]).await?;
    let ((), _, now) =
        pipeline!(session.begin(), session.one(&lock, &[&op.project_key, &op.platform]), moment(session, &now),)?;
    let notes = || op.candidates.iter();
    let ids: Vec<_> = notes().map(|new| new.note_id.as_str()).collect();
    let urls: Vec<_> = notes().map(|new| new.note_url.as_str()).collect();
    let keywords: Vec<_> = notes().map(|new| new.source_keyword.as_deref()).collect();
    let tokens: Vec<_> = notes().map(|new| new.tokens.as_str()).collect();
    // The last tokens win for a note that is named twice.
    let with_tokens = notes().filter(|new| new.tokens != "{}").map(|new| (new.note_id.as_str(), new.tokens.as_str()));
    let newest: HashMap<_, _> = with_tokens.collect();
    let (named, renewed): (Vec<_>, Vec<_>) = newest.into_iter().unzip();
    let (created, _, ()) = pipeline!(
        session.write(&insert, &[&op.project_key, &op.platform, &ids, &urls, &keywords, &tokens, &now]),
        session.write(&renew, &[&op.project_key, &op.platform, &named, &renewed, &now]),
        session.commit(),
    )?;
    Ok(CandidatesAdded { created, existing: given as u64 - created })
}

pub(super) async fn claim(session: &Session, op: &ClaimCandidates) -> Result<CandidatesClaimed, Fail> {
    let [claim] = session.prepare([CLAIM]).await?;
    let (found, now) = execution::find(session, op.project_key.as_deref(), &op.execution_id, op.timeout).await?;
    let claimed = match found {
        ExecutionState::Unknown => CandidatesClaimed::Unknown,
        ExecutionState::Ended(execution) => CandidatesClaimed::Lost(execution),
        ExecutionState::Live { project_key } => {
            let limit = i64::from(op.limit.min(MAX_CANDIDATES as u32));
            let rows = session.rows(&claim, &[&project_key, &op.execution_id, &now, &op.platform, &limit]).await?;
            let mut claimed = rows.iter().map(read_candidate).collect::<Result<Vec<_>, _>>()?;
            claimed.sort_by_key(|candidate| (candidate.created_at, candidate.id));
            CandidatesClaimed::Claimed(claimed)
        }
    };
    session.commit().await?;
    Ok(claimed)
}

/// Begins the transaction and locks the record.
async fn lock(session: &Session, of: [&str; 3]) -> Result<(Option<CrawlCandidate>, Time), Fail> {
    let [lock, now] = session.prepare([LOCK, NOW]).await?;
    let ((), row, now) =
        pipeline!(session.begin(), session.opt(&lock, &[&of[0], &of[1], &of[2]]), moment(session, &now))?;
    Ok((row.as_ref().map(read_candidate).transpose()?, now))
}

pub(super) async fn fail(session: &Session, op: &FailCandidate) -> Result<CandidateFailed, Fail> {
    let [settle] = session.prepare([SETTLE]).await?;
    let (found, now) = lock(session, [&op.project_key, &op.platform, &op.note_id]).await?;
    let failed = match found {
        None => CandidateFailed::Unknown,
        Some(record) if record.processing_lock.as_ref() != Some(&op.execution_id) => {
            CandidateFailed::NotHeld(record.processing_lock)
        }
        Some(record) => {
            let (status, retry_count) = after_failure(record.retry_count);
            let meta = op.attempt.exec_meta(&record.exec_meta, record.source_keyword.as_deref(), retry_count);
            let retries = i64::from(retry_count);
            session.write(&settle, &[&record.id, &status.as_str(), &retries, &op.error_code, &meta, &now]).await?;
            CandidateFailed::Failed(Box::new(CrawlCandidate {
                status,
                retry_count,
                processing_lock: None,
                locked_at: None,
                last_error_code: Some(op.error_code.clone()),
                exec_meta: meta,
                updated_at: now.0,
                ..record
            }))
        }
    };
    session.commit().await?;
    Ok(failed)
}

pub(super) async fn requeue(session: &Session, op: &RequeueCandidates) -> Result<CandidatesRequeued, Fail> {
    let [requeue] = session.prepare([REQUEUE]).await?;
    let rows = session.alone(&requeue, &[&op.project_key, &op.platform, &op.note_id, &op.source_keyword]).await?;
    Ok(CandidatesRequeued { requeued: rows.len() as u64 })
}

pub(super) async fn write_note(session: &Session, op: &WriteNote) -> Result<NoteWritten, Fail> {
    let [insert, find, insert_note, settle] = session.prepare([INSERT_ITEM, FIND_ITEM, INSERT_NOTE, SETTLE]).await?;
    let (project, platform, note) = (&op.project_key, &op.platform, &op.note);
    let (candidate, now) = lock(session, [project, platform, &note.note_id]).await?;
    let meta = match &candidate {
        Some(known) => op.attempt.exec_meta(&known.exec_meta, known.source_keyword.as_deref(), known.retry_count),
        None => op.attempt.exec_meta("", None, 0),
    };
    let (key, hash) = (idempotency_key(&note.note_id), note.content_hash.as_slice());
    let inserted = session.opt(&insert, &[project, platform, &key, &hash, &note.fields, &note.payload, &now]).await?;
    let (id, created): (i64, bool) = match inserted {
        Some(row) => (row.try_get(0)?, true),
        None => (session.one(&find, &[project, platform, &key]).await?.try_get(0)?, false),
    };
    if created {
        let url = note.note_url.as_ref().or(candidate.as_ref().map(|known| &known.note_url));
        let published = note.published_at.map(Time);
        session.write(&insert_note, &[&id, project, platform, &note.note_id, &url, &key, &meta, &published]).await?;
    }
    if let Some(known) = candidate.filter(|known| known.status != CandidateStatus::Collected) {
        let (status, retries) = (CandidateStatus::Collected.as_str(), i64::from(known.retry_count));
        session.write(&settle, &[&known.id, &status, &retries, &None::<String>, &meta, &now]).await?;
    }
    let captured = match &op.capture {
        Some(capture) => urls::capture(session, capture, project, None).await?,
        None => Captured::None,
    };
    session.commit().await?;
    Ok(NoteWritten { id, created, captured })
}

pub(super) async fn recover(session: &Session, op: Recover) -> Result<Recovered, Fail> {
    let [now, lock] = session.prepare([NOW, LOCK_FORGOTTEN]).await?;
    let ((), now) = pipeline!(session.begin(), moment(session, &now))?;
    let mut recovered =
        Recovered { executions_timed_out: execution::recover(session, op.timeout, now).await?, ..Recovered::default() };
    let mut freed = Vec::new();
    for row in session.rows(&lock, &[&Time(now.0 - op.timeout)]).await? {
        let (status, retry_count) = after_failure(count(row.try_get(1)?));
        match status {
            CandidateStatus::Failed => recovered.records_failed += 1,
            _ => recovered.records_requeued += 1,
        }
        freed.push((row.try_get(0)?, status, retry_count));
    }
    free(session, &freed, now).await?;
    recovered.cookies_reactivated = cookie::rest(session, now).await?;
    session.commit().await?;
    Ok(recovered)
}

/// Frees candidates that are locked, each with its new status and retries.
async fn free(session: &Session, freed: &[(i64, CandidateStatus, u32)], now: Time) -> Result<(), Fail> {
    if freed.is_empty() {
        return Ok(());
    }
    let [take_back] = session.prepare([TAKE_BACK]).await?;
    let ids: Vec<_> = freed.iter().map(|(id, ..)| *id).collect();
    let statuses: Vec<_> = freed.iter().map(|(_, status, _)| status.as_str()).collect();
    let retries: Vec<_> = freed.iter().map(|(.., retries)| i64::from(*retries)).collect();
    session.write(&take_back, &[&ids, &statuses, &retries, &now]).await?;
    Ok(())
}

/// Frees the candidates of an execution that has ended with this status.
pub(super) async fn release(
    session: &Session,
    execution_id: &str,
    ended: ExecutionStatus,
    now: Time,
) -> Result<(), Fail> {
    let [lock] = session.prepare([LOCK_HELD]).await?;
    let mut freed = Vec::new();
    for row in session.rows(&lock, &[&execution_id]).await? {
        let (status, retry_count) = after_release(ended, count(row.try_get(1)?));
        freed.push((row.try_get(0)?, status, retry_count));
    }
    free(session, &freed, now).await
}
