//! Pages: records, quarantine and ledger row of each, in one transaction. Three round trips, however many pages: lock and
//! look, records, the rest with the COMMIT behind it. What a page does not have is not sent; a page of very many records, or
//! with URLs for the pool, takes some trips more.

use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

use futures_util::future::try_join_all;
use patra_core::BatchId;
use patra_core::tx::{BatchCommitted, BatchStats, Captured, CommitBatch, Stored, TxError};
use tokio_postgres::{Row, Statement};

use super::candidate::{self, MARK};
use super::ledger::{INSERT_PAGE, Ledger};
use super::{NOW, count, moment, outbox, poll, raw, signal, urls};
use crate::error::{Fail, refused};
use crate::json::JsonText;
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// Whether the run is the lease's own; what a HARVEST calls late; and whether anybody asks for records of the stream, so that
/// the usual page need not look for each of its own. Whoever asks from now on asks for what comes after this page.
const LOCK: &str = "
SELECT r.id IS NOT NULL, CASE WHEN t.operation_code = 'HARVEST' THEN c.normalized_instant END,
  EXISTS (
    SELECT 1 FROM ing_signal
    WHERE status_code = 'OPEN' AND project_key = $4 AND provenance_code = $5 AND endpoint_name = $6)
  OR EXISTS (
    SELECT 1 FROM item_quarantine
    WHERE status_code = 'SIGNALLED' AND project_key = $4 AND provenance_code = $5 AND endpoint_name = $6)
FROM ing_task t
LEFT JOIN ing_task_run r ON r.id = $3 AND r.task_id = t.id AND r.attempt_no = t.lease_epoch
LEFT JOIN ing_cursor c ON c.id = t.cursor_id
WHERE t.id = $1 AND t.lease_epoch = $2 AND t.status_code = 'EXECUTING'
FOR UPDATE OF t";

const FIND: &str = "
SELECT id, stats, batch_no FROM ing_task_run_batch
WHERE run_id = $1 AND batch_no = ANY ($2) AND status_code = 'SUCCEEDED'";

/// Records come one per key and sorted by key: no row is met twice, and two pages that share keys lock them in the same
/// order (groups of pages need not: one that meets a deadlock is repeated page by page). `xmax` is 0 in a row that was
/// inserted, not updated; what comes back in neither form was not newer.
const STORE_ITEMS: &str = "
WITH scope AS MATERIALIZED (
  SELECT item_scope_of($1, $2, $3) AS id
),
stored AS (
  INSERT INTO item (scope_id, project_key, provenance_code, endpoint_name, kind, run_id, batch_no, dedup_key,
    updated_at, source_version, content_hash, fields, payload, created_at, stored_at, mapping_generation,
    refresh_checked_at)
  SELECT scope.id, $1, $2, $4, $5, $6, $7, r.dedup_key, r.updated_at, r.source_version, r.content_hash, r.fields,
    r.payload, $14, $14, $15, $14
  FROM unnest($8::text[], $9::timestamptz[], $10::bigint[], $11::bytea[], $12::text[], $13::text[])
    AS r (dedup_key, updated_at, source_version, content_hash, fields, payload), scope
  ON CONFLICT (scope_id, dedup_key) DO UPDATE
  SET endpoint_name = excluded.endpoint_name, kind = excluded.kind, updated_at = excluded.updated_at,
    source_version = excluded.source_version, content_hash = excluded.content_hash, fields = excluded.fields,
    payload = excluded.payload, run_id = excluded.run_id, batch_no = excluded.batch_no, stored_at = excluded.stored_at,
    mapping_generation = excluded.mapping_generation, refresh_checked_at = excluded.refresh_checked_at
  WHERE item.emptied_at IS NULL
    AND ((excluded.updated_at, excluded.source_version) > (item.updated_at, item.source_version)
      OR ($16 AND (excluded.updated_at, excluded.source_version) = (item.updated_at, item.source_version)
        AND (excluded.mapping_generation <> item.mapping_generation OR excluded.content_hash <> item.content_hash)))
  RETURNING (xmax = 0) AS is_new, updated_at < $17 AS is_late, dedup_key
)
SELECT count(*) FILTER (WHERE is_new), count(*) FILTER (WHERE NOT is_new), count(*) FILTER (WHERE is_late),
  array_agg(dedup_key) FILTER (WHERE $18), array_agg(is_new) FILTER (WHERE $18)
FROM stored";

const RESET_ATTEMPTS: &str = "
UPDATE ing_task SET attempt_count = 0 WHERE id = $1 AND lease_epoch = $2 AND $3 AND attempt_count <> 0";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOCK, FIND, STORE_ITEMS, RESET_ATTEMPTS];

pub(super) async fn commit_one(session: &Session, op: &Arc<CommitBatch>) -> Result<BatchCommitted, Fail> {
    let done = commit(session, slice::from_ref(op)).await?;
    done.first().copied().ok_or_else(|| refused("no page was committed"))
}

/// So many futures are polled in their order by `try_join_all`, all of them at first. Of more, one could send its statements when
/// a COMMIT that was sent with them is on its way.
const IN_ORDER: usize = 30;

/// Pages of one run. Those that were committed before are answered as they were.
pub(super) async fn commit(session: &Session, ops: &[Arc<CommitBatch>]) -> Result<Vec<BatchCommitted>, Fail> {
    let Some(first) = ops.first() else { return Ok(Vec::new()) };
    let statements = Statements::prepare(session).await?;
    let (task, fence, run, stream) = (first.lease.task.0, first.lease.fence.0, first.run.0, &first.stream);
    let numbers: Vec<_> = ops.iter().map(|op| i64::from(op.batch_no)).collect();
    let ((), leased, now, old) = pipeline!(
        session.begin(),
        session.opt(
            &statements.lock,
            &[&task, &fence, &run, &stream.project_key, &stream.provenance_code, &stream.endpoint_name],
        ),
        moment(session, &statements.now),
        session.rows(&statements.find, &[&run, &numbers]),
    )?;
    let leased = leased.ok_or(TxError::Fenced)?;
    if !leased.try_get::<_, bool>(0)? {
        return Err(refused(format!("run {run} is not of this lease")));
    }
    let old = old.iter().map(replayed).collect::<Result<HashMap<_, _>, _>>()?;
    let fresh: Vec<_> = ops.iter().filter(|op| !old.contains_key(&op.batch_no)).collect();
    // Somebody asks for records of the stream; what one page sets aside, a later one may bring.
    let asked_for = leased.try_get(2)? || fresh.iter().any(|op| op.rejected.iter().any(|item| item.key.is_some()));
    let late_below = leased.try_get(1)?;
    let page = |op| Page { session, statements: &statements, op, late_below, asked_for, now };
    let pages: Vec<_> = fresh.iter().map(|op| page(op)).collect();
    // Records first: rows that all runs share, such as a minute's counters, are locked last and not for long.
    let stored = try_join_all(pages.iter().map(Page::store)).await?;
    let progress = fresh.iter().any(|op| op.progress);
    let captures = fresh.iter().any(|op| op.capture.is_some());
    let at_once = !captures && pages.len() <= IN_ORDER;
    // The COMMIT goes out with the statements before it: if one of them fails, the server turns it into a ROLLBACK.
    let (batches, _, ()) = pipeline!(
        try_join_all(pages.iter().zip(&stored).map(|(page, (stats, stored))| page.enter(stats, stored))),
        session.write(&statements.reset, &[&task, &fence, &progress]),
        commit_if(session, at_once),
    )?;
    let mut done = old;
    for ((op, batch), (stats, _)) in fresh.into_iter().zip(batches).zip(stored) {
        let captured = match &op.capture {
            Some(capture) => urls::capture(session, capture, &stream.project_key, Some(op.lease.task)).await?,
            None => Captured::None,
        };
        done.insert(op.batch_no, BatchCommitted { batch, stats, replayed: false, captured });
    }
    commit_if(session, !at_once).await?;
    Ok(ops.iter().filter_map(|op| done.get(&op.batch_no).copied()).collect())
}

/// The old numbers of a page that was committed before: read old, do not rewrite.
fn replayed(row: &Row) -> Result<(u32, BatchCommitted), Fail> {
    let (batch, stats) = (BatchId(row.try_get(0)?), serde_json::from_str(&row.try_get::<_, JsonText>(1)?.0)?);
    Ok((count(row.try_get(2)?), BatchCommitted { batch, stats, replayed: true, captured: Captured::None }))
}

struct Statements {
    lock: Statement,
    now: Statement,
    find: Statement,
    items: Statement,
    insert: Statement,
    marks: Statement,
    reset: Statement,
    lock_items: Statement,
    set_aside: Statement,
    resolve: Statement,
    check: Statement,
    keep: Statement,
    link: Statement,
    tell: Statement,
}

impl Statements {
    async fn prepare(session: &Session) -> Result<Statements, Fail> {
        let [lock, now, find, items, insert, marks, reset] =
            session.prepare([LOCK, NOW, FIND, STORE_ITEMS, INSERT_PAGE, MARK, RESET_ATTEMPTS]).await?;
        let [lock_items, set_aside, resolve, check] =
            session.prepare([signal::LOCK_ITEMS, signal::SET_ASIDE, signal::RESOLVE, signal::CHECK]).await?;
        let [keep, link, tell] = session.prepare([raw::INSERT, poll::LINK, outbox::TELL]).await?;
        Ok(Statements {
            lock,
            now,
            find,
            items,
            insert,
            marks,
            reset,
            lock_items,
            set_aside,
            resolve,
            check,
            keep,
            link,
            tell,
        })
    }
}

/// One page on its way, under the lock of its task.
struct Page<'a> {
    session: &'a Session,
    statements: &'a Statements,
    op: &'a CommitBatch,
    late_below: Option<Time>,
    /// Somebody asks for records of the stream.
    asked_for: bool,
    now: Time,
}

impl<'a> Page<'a> {
    /// The statistics and, if they are asked for, the records that were inserted or replaced others.
    async fn store(&self) -> Result<(BatchStats, Vec<Stored<'a>>), Fail> {
        let Page { session, statements, op, late_below, asked_for, now } = *self;
        let ((), stored) = pipeline!(
            signal::lock_items(session, &statements.lock_items, op),
            store_items(session, &statements.items, op, late_below, asked_for || op.emit, now),
        )?;
        Ok(stored)
    }

    /// Into the ledger, with what the page settles.
    async fn enter(&self, stats: &BatchStats, stored: &[Stored<'a>]) -> Result<BatchId, Fail> {
        let Page { session, statements, op, now, asked_for, .. } = *self;
        let row = Ledger::of_page(op, stats, now)?;
        let events = op.events(stored);
        let (row, (), (), (), (), (), (), ()) = pipeline!(
            session.one(&statements.insert, &row.params()),
            poll::link(session, &statements.link, op, now),
            signal::set_aside(session, &statements.set_aside, op, now),
            signal::resolve(session, &statements.resolve, op, if asked_for { stored } else { &[] }, now),
            signal::check(session, &statements.check, op, now),
            raw::keep(session, &statements.keep, op.run, op.batch_no, op.raw.as_ref(), now),
            candidate::mark(session, &statements.marks, op, now),
            outbox::tell(session, &statements.tell, &events, now),
        )?;
        Ok(BatchId(row.try_get(0)?))
    }
}

async fn commit_if(session: &Session, wanted: bool) -> Result<(), Fail> {
    if wanted { session.commit().await } else { Ok(()) }
}

/// Rows of one statement: few enough for the server to plan and hold, enough to be worth the way (ING-13.8-02).
const ROWS_AT_ONCE: usize = 500;

/// `named`: which records were stored is wanted too.
async fn store_items<'a>(
    session: &Session,
    statement: &Statement,
    op: &'a CommitBatch,
    late_below: Option<Time>,
    named: bool,
    now: Time,
) -> Result<(BatchStats, Vec<Stored<'a>>), Fail> {
    let (mut stats, mut stored) = (op.stats, Vec::new());
    let stream = &op.stream;
    for records in op.records.chunks(ROWS_AT_ONCE) {
        let keys: Vec<_> = records.iter().map(|record| record.key.as_str()).collect();
        let updated: Vec<_> = records.iter().map(|record| Time(record.version.updated_at)).collect();
        let versions: Vec<_> = records.iter().map(|record| record.version.source_version).collect();
        let hashes: Vec<_> = records.iter().map(|record| record.content_hash.as_slice()).collect();
        let fields: Vec<_> = records.iter().map(|record| record.fields.as_str()).collect();
        let payloads: Vec<_> = records.iter().map(|record| &*record.payload).collect();
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
                    &&*op.generation,
                    &op.refresh,
                    &late_below,
                    &named,
                ],
            )
            .await?;
        let (inserted, updated) = (count(row.try_get(0)?), count(row.try_get(1)?));
        stats.inserted += inserted;
        stats.updated += updated;
        stats.late += count(row.try_get(2)?);
        stats.skipped += u32::try_from(records.len()).unwrap_or(u32::MAX).saturating_sub(inserted + updated);
        let keys = row.try_get::<_, Option<Vec<&str>>>(3)?.unwrap_or_default();
        let new = row.try_get::<_, Option<Vec<bool>>>(4)?.unwrap_or_default();
        for (key, inserted) in keys.into_iter().zip(new) {
            let at = records.binary_search_by(|record| record.key.as_str().cmp(key));
            let at = at.map_err(|_| refused(format!("{key:?} was stored and is not in the page")))?;
            stored.push(Stored { record: &records[at], inserted });
        }
    }
    stored.sort_unstable_by(|one, other| one.record.key.cmp(&other.record.key));
    Ok((stats, stored))
}

#[cfg(test)]
mod tests {
    // covers: ING-13.8-02
    #[test]
    fn a_statement_takes_some_hundred_rows() {
        assert!((200..=500).contains(&super::ROWS_AT_ONCE));
    }
}
