//! One page: records, quarantine and ledger row in one transaction. Three round trips: lock and look, records, the rest
//! with the COMMIT behind it.

use patra_core::BatchId;
use patra_core::tx::{BatchCommitted, BatchStats, CommitBatch, TxError};
use tokio_postgres::Statement;

use super::candidate::{self, MARK};
use super::ledger::{INSERT_PAGE, Ledger};
use super::{NOW, count, moment};
use crate::error::{Fail, refused};
use crate::json::{JsonText, RawText};
use crate::pool::{Session, pipeline};
use crate::time::Time;

const LOCK: &str = "
SELECT r.id IS NOT NULL
FROM ing_task t LEFT JOIN ing_task_run r ON r.id = $3 AND r.task_id = t.id AND r.attempt_no = t.lease_epoch
WHERE t.id = $1 AND t.lease_epoch = $2 AND t.status_code = 'EXECUTING'
FOR UPDATE OF t";

const FIND: &str = "
SELECT id, stats FROM ing_task_run_batch WHERE run_id = $1 AND batch_no = $2 AND status_code = 'SUCCEEDED'";

/// Records come one per key and sorted by key: no row is met twice, and two pages that share keys lock them in the same
/// order. `xmax` is 0 in a row that was inserted, not updated; what comes back in neither form was not newer.
const STORE_ITEMS: &str = "
WITH stored AS (
  INSERT INTO item (project_key, provenance_code, dedup_scope, endpoint_name, kind, run_id, batch_no, dedup_key,
    updated_at, source_version, content_hash, fields, payload, created_at, stored_at)
  SELECT $1, $2, $3, $4, $5, $6, $7, r.dedup_key, r.updated_at, r.source_version, r.content_hash, r.fields, r.payload,
    $14, $14
  FROM unnest($8::text[], $9::timestamptz[], $10::bigint[], $11::bytea[], $12::text[], $13::text[])
    AS r (dedup_key, updated_at, source_version, content_hash, fields, payload)
  ON CONFLICT (project_key, provenance_code, dedup_scope, dedup_key) DO UPDATE
  SET endpoint_name = excluded.endpoint_name, kind = excluded.kind, updated_at = excluded.updated_at,
    source_version = excluded.source_version, content_hash = excluded.content_hash, fields = excluded.fields,
    payload = excluded.payload, run_id = excluded.run_id, batch_no = excluded.batch_no, stored_at = excluded.stored_at
  WHERE (excluded.updated_at, excluded.source_version) > (item.updated_at, item.source_version)
  RETURNING (xmax = 0) AS is_new
)
SELECT count(*) FILTER (WHERE is_new), count(*) FILTER (WHERE NOT is_new) FROM stored";

const QUARANTINE: &str = "
INSERT INTO item_quarantine (project_key, provenance_code, endpoint_name, task_id, run_id, batch_no, item_index,
  dedup_key, error_code, reason, sample, status_code, created_at)
SELECT $1, $2, $3, $4, $5, $6, r.item_index, r.dedup_key, r.error_code, r.reason, r.sample, 'OPEN', $12
FROM unnest($7::bigint[], $8::text[], $9::text[], $10::text[], $11::text[])
  AS r (item_index, dedup_key, error_code, reason, sample)";

const RESET_ATTEMPTS: &str = "
UPDATE ing_task SET attempt_count = 0 WHERE id = $1 AND lease_epoch = $2 AND $3 AND attempt_count <> 0";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOCK, FIND, STORE_ITEMS, QUARANTINE, RESET_ATTEMPTS];

pub(super) async fn commit(session: &Session, op: &CommitBatch) -> Result<BatchCommitted, Fail> {
    let [lock, now, find, items, quarantine, marks, insert, reset] =
        session.prepare([LOCK, NOW, FIND, STORE_ITEMS, QUARANTINE, MARK, INSERT_PAGE, RESET_ATTEMPTS]).await?;
    let (task, fence, run) = (op.lease.task.0, op.lease.fence.0, op.run.0);
    let ((), leased, now, old) = pipeline!(
        session.begin(),
        session.opt(&lock, &[&task, &fence, &run]),
        moment(session, &now),
        session.opt(&find, &[&run, &i64::from(op.batch_no)]),
    )?;
    if !leased.ok_or(TxError::Fenced)?.try_get::<_, bool>(0)? {
        return Err(refused(format!("run {run} is not of this lease")));
    }
    if let Some(old) = old {
        session.commit().await?;
        let stats = serde_json::from_str(&old.try_get::<_, JsonText>(1)?.0)?;
        return Ok(BatchCommitted { batch: BatchId(old.try_get(0)?), stats, replayed: true });
    }
    let stats = store_items(session, &items, op, now).await?;
    let row = Ledger::of_page(op, &stats, now)?;
    // The COMMIT goes out with the statements before it: if one of them fails, the server turns it into a ROLLBACK.
    let (row, (), (), _, ()) = pipeline!(
        session.one(&insert, &row.params()),
        set_aside(session, &quarantine, op, now),
        candidate::mark(session, &marks, op, now),
        session.write(&reset, &[&task, &fence, &op.progress]),
        session.commit(),
    )?;
    Ok(BatchCommitted { batch: BatchId(row.try_get(0)?), stats, replayed: false })
}

async fn store_items(
    session: &Session,
    statement: &Statement,
    op: &CommitBatch,
    now: Time,
) -> Result<BatchStats, Fail> {
    let mut stats = op.stats;
    if op.records.is_empty() {
        return Ok(stats);
    }
    let (stream, records) = (&op.stream, &op.records);
    let keys: Vec<_> = records.iter().map(|record| record.key.as_str()).collect();
    let updated: Vec<_> = records.iter().map(|record| Time(record.version.updated_at)).collect();
    let versions: Vec<_> = records.iter().map(|record| record.version.source_version).collect();
    let hashes: Vec<_> = records.iter().map(|record| record.content_hash.as_slice()).collect();
    let fields: Vec<_> = records.iter().map(|record| record.fields.as_str()).collect();
    let payloads: Vec<_> = records.iter().map(|record| RawText(&record.payload)).collect();
    let row = session
        .one(
            statement,
            &[
                &stream.project_key,
                &stream.provenance_code,
                &stream.dedup_scope,
                &stream.endpoint_name,
                &stream.kind,
                &op.run.0,
                &i64::from(op.batch_no),
                &keys,
                &updated,
                &versions,
                &hashes,
                &fields,
                &payloads,
                &now,
            ],
        )
        .await?;
    let (inserted, updated) = (count(row.try_get(0)?), count(row.try_get(1)?));
    stats.inserted += inserted;
    stats.updated += updated;
    stats.skipped += u32::try_from(records.len()).unwrap_or(u32::MAX).saturating_sub(inserted + updated);
    Ok(stats)
}

async fn set_aside(session: &Session, statement: &Statement, op: &CommitBatch, now: Time) -> Result<(), Fail> {
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
            ],
        )
        .await?;
    Ok(())
}
