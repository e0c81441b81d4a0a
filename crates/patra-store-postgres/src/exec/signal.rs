//! Signals: records that must be fetched again, and the outcome.

use patra_core::tx::{
    AbandonRecord, CommitBatch, MAX_SIGNAL_KEYS, MAX_SIGNAL_TRIES, RecordAbandoned, RecordsSignalled, SignalRecords,
    StoredRecord,
};
use tokio_postgres::Statement;

use super::count;
use super::scope::scope_id;
use crate::error::{Fail, refused};
use crate::json::Json;
use crate::pool::{Session, pipeline};
use crate::time::Time;

const SIGNAL: &str = "
INSERT INTO ing_signal (project_key, provenance_code, endpoint_name, item_key, origin_code, reason, created_by,
  status_code, created_at, updated_at)
SELECT $1, $2, $3, asked.key, 'READER', $5, $6, 'OPEN', moment.now, moment.now
FROM (SELECT clock_timestamp() AS now) AS moment, unnest($4::text[]) WITH ORDINALITY AS asked (key, place)
ORDER BY asked.place
ON CONFLICT (project_key, provenance_code, endpoint_name, item_key) WHERE status_code = 'OPEN' DO NOTHING
RETURNING id";

/// Quarantines records that cannot be stored, and sets a signal for those that have a key.
pub(super) const SET_ASIDE: &str = "
WITH given AS (
  SELECT * FROM unnest($7::bigint[], $8::text[], $9::text[], $10::text[], $11::text[])
    WITH ORDINALITY AS r (item_index, dedup_key, error_code, reason, sample, place)
),
signals AS (
  INSERT INTO ing_signal (project_key, provenance_code, endpoint_name, item_key, origin_code, reason, created_by,
    status_code, created_at, updated_at)
  SELECT $1, $2, $3, given.dedup_key, 'QUARANTINE', given.reason, $14, 'OPEN', $12, $12
  FROM given WHERE given.dedup_key IS NOT NULL ORDER BY given.place
  ON CONFLICT (project_key, provenance_code, endpoint_name, item_key) WHERE status_code = 'OPEN' DO NOTHING
)
INSERT INTO item_quarantine (project_key, provenance_code, endpoint_name, task_id, run_id, batch_no, item_index,
  dedup_key, error_code, reason, sample, request_digest, status_code, created_at)
SELECT $1, $2, $3, $4, $5, $6, given.item_index, given.dedup_key, given.error_code, given.reason, given.sample, $13,
  CASE WHEN given.dedup_key IS NULL THEN 'OPEN' ELSE 'SIGNALLED' END, $12
FROM given ORDER BY given.place";

/// Resolves the quarantine of records that were fetched again.
pub(super) const RESOLVE: &str = "
WITH signals AS (
  UPDATE ing_signal SET status_code = 'RESOLVED', updated_at = $5
  WHERE status_code = 'OPEN' AND project_key = $1 AND provenance_code = $2 AND endpoint_name = $3
    AND item_key = ANY ($4::text[]) AND origin_code = 'QUARANTINE'
)
UPDATE item_quarantine SET status_code = 'RESOLVED'
WHERE status_code = 'SIGNALLED' AND project_key = $1 AND provenance_code = $2 AND endpoint_name = $3
  AND dedup_key = ANY ($4::text[])";

/// Locks the rows that [`CHECK`], marks and the records of its page write, in the order that every page uses.
pub(super) const LOCK_ITEMS: &str = concat!(
    "
SELECT id FROM item
WHERE scope_id = ",
    scope_id!("$1", "$2", "$3"),
    " AND dedup_key = ANY ($4::text[])
ORDER BY dedup_key
FOR UPDATE"
);

/// Records that an UPDATE checked.
pub(super) const CHECK: &str = concat!(
    "
WITH given AS MATERIALIZED (
  SELECT * FROM unnest($5::text[], $6::text[]) AS given (key, failed)
),
items AS (
  UPDATE item SET refresh_checked_at = $7
  WHERE scope_id = ",
    scope_id!("$1", "$2", "$4"),
    " AND dedup_key = ANY ($9::text[])
),
signals AS (
  UPDATE ing_signal s
  SET updated_at = $7, last_error = coalesce(given.failed, s.last_error),
    tries = s.tries + CASE WHEN given.failed IS NULL THEN 0 ELSE 1 END,
    status_code = CASE WHEN given.failed IS NULL THEN 'RESOLVED' WHEN s.tries + 1 >= $8 THEN 'ABANDONED' ELSE 'OPEN' END
  FROM given
  WHERE s.status_code = 'OPEN' AND s.project_key = $1 AND s.provenance_code = $2 AND s.endpoint_name = $3
    AND s.item_key = given.key
  RETURNING s.item_key, s.status_code
),
settled AS (
  SELECT key, 'RESOLVED' AS status_code FROM given WHERE failed IS NULL
  UNION ALL
  SELECT item_key, 'ABANDONED' FROM signals WHERE status_code = 'ABANDONED'
)
UPDATE item_quarantine q SET status_code = settled.status_code
FROM settled
WHERE q.status_code = 'SIGNALLED' AND q.project_key = $1 AND q.provenance_code = $2 AND q.endpoint_name = $3
  AND q.dedup_key = settled.key"
);

const LOCK_ROW: &str = "
SELECT status_code IN ('OPEN', 'SIGNALLED') FROM item_quarantine WHERE id = $1 FOR UPDATE";

const ABANDON: &str = "
WITH given_up AS (
  UPDATE item_quarantine SET status_code = 'ABANDONED'
  WHERE id = $1 AND status_code IN ('OPEN', 'SIGNALLED')
  RETURNING project_key, provenance_code, endpoint_name, dedup_key
)
UPDATE ing_signal s SET status_code = 'ABANDONED', updated_at = clock_timestamp()
FROM given_up g
WHERE s.status_code = 'OPEN' AND s.project_key = g.project_key AND s.provenance_code = g.provenance_code
  AND s.endpoint_name = g.endpoint_name AND s.item_key = g.dedup_key";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[SIGNAL, SET_ASIDE, RESOLVE, LOCK_ITEMS, CHECK, LOCK_ROW, ABANDON];

pub(super) async fn signal(session: &Session, op: &SignalRecords) -> Result<RecordsSignalled, Fail> {
    if op.keys.len() > MAX_SIGNAL_KEYS {
        return Err(refused(format!("more than {MAX_SIGNAL_KEYS} keys in one signal")));
    }
    let [signal] = session.prepare([SIGNAL]).await?;
    let SignalRecords { project_key, provenance_code, endpoint_name, keys, reason, by } = op;
    let rows = session.alone(&signal, &[project_key, provenance_code, endpoint_name, keys, reason, by]).await?;
    let (added, asked) = (count(rows.len() as i64), count(keys.len() as i64));
    Ok(RecordsSignalled { added, existing: asked.saturating_sub(added) })
}

pub(super) async fn abandon(session: &Session, op: &AbandonRecord) -> Result<RecordAbandoned, Fail> {
    let [lock, abandon] = session.prepare([LOCK_ROW, ABANDON]).await?;
    let ((), row, _, ()) = pipeline!(
        session.begin(),
        session.opt(&lock, &[&op.quarantine]),
        session.write(&abandon, &[&op.quarantine]),
        session.commit(),
    )?;
    let abandoned = row.as_ref().map(|row| row.try_get(0)).transpose()?;
    Ok(RecordAbandoned { found: row.is_some(), abandoned: abandoned.unwrap_or(false) })
}

pub(super) async fn set_aside(
    session: &Session,
    statement: &Statement,
    op: &CommitBatch,
    now: Time,
) -> Result<(), Fail> {
    if op.rejected.is_empty() {
        return Ok(());
    }
    let stream = &op.stream;
    let places: Vec<_> = op.rejected.iter().map(|rejected| i64::from(rejected.index)).collect();
    let keys: Vec<_> = op.rejected.iter().map(|rejected| rejected.key.as_deref()).collect();
    let codes: Vec<_> = op.rejected.iter().map(|rejected| rejected.code.as_str()).collect();
    let reasons: Vec<_> = op.rejected.iter().map(|rejected| rejected.reason.as_str()).collect();
    let samples: Vec<_> = op.rejected.iter().map(|rejected| rejected.sample.as_str()).collect();
    session
        .write(
            statement,
            &[
                &stream.project_key,
                &stream.provenance_code,
                &stream.endpoint_name,
                &op.lease.task.0,
                &op.run.0,
                &i64::from(op.batch_no),
                &places,
                &keys,
                &codes,
                &reasons,
                &samples,
                &now,
                &Json(op.request_digest.as_str()),
                &SignalRecords::BY_QUARANTINE,
            ],
        )
        .await?;
    Ok(())
}

/// Takes the keys of the records that were inserted or updated.
pub(super) async fn resolve(
    session: &Session,
    statement: &Statement,
    op: &CommitBatch,
    stored: &[StoredRecord<'_>],
    now: Time,
) -> Result<(), Fail> {
    if stored.is_empty() {
        return Ok(());
    }
    let keys: Vec<_> = stored.iter().map(|stored| stored.record.key.as_str()).collect();
    let stream = &op.stream;
    session
        .write(statement, &[&stream.project_key, &stream.provenance_code, &stream.endpoint_name, &keys, &now])
        .await?;
    Ok(())
}

/// A page writes its checked records, and those that it lists without storing them, after the records that it stores. Without this lock, two pages could deadlock.
pub(super) async fn lock_items(session: &Session, statement: &Statement, op: &CommitBatch) -> Result<(), Fail> {
    if op.checked.is_empty() && !op.lists_others() {
        return Ok(());
    }
    let mut keys = op.listed();
    keys.extend(op.checked.iter().map(|checked| checked.key.as_str()));
    keys.extend(op.records.iter().map(|record| record.key.as_str()));
    let stream = &op.stream;
    session.rows(statement, &[&stream.project_key, &stream.provenance_code, &stream.dedup_scope, &keys]).await?;
    Ok(())
}

pub(super) async fn check(session: &Session, statement: &Statement, op: &CommitBatch, now: Time) -> Result<(), Fail> {
    if op.checked.is_empty() {
        return Ok(());
    }
    let stream = &op.stream;
    let keys: Vec<_> = op.checked.iter().map(|checked| checked.key.as_str()).collect();
    let failed: Vec<_> = op.checked.iter().map(|checked| checked.failed.as_deref()).collect();
    let looked_at = op.checked.iter().filter(|checked| checked.looked_at);
    let looked_at: Vec<_> = looked_at.map(|checked| checked.key.as_str()).collect();
    session
        .write(
            statement,
            &[
                &stream.project_key,
                &stream.provenance_code,
                &stream.endpoint_name,
                &stream.dedup_scope,
                &keys,
                &failed,
                &now,
                &i64::from(MAX_SIGNAL_TRIES),
                &looked_at,
            ],
        )
        .await?;
    Ok(())
}
