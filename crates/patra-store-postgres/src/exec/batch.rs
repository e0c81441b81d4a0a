//! Commits pages: records, quarantine and ledger row of each, in one transaction. It takes three round trips for any
//! number of pages and runs: lock and read, records, and the rest with the COMMIT. Statements without rows are not
//! sent. A page with very many records, or with URLs for the pool, takes a few more trips.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::try_join_all;
use patra_core::BatchId;
use patra_core::tx::{BatchCommitted, BatchStats, Captured, CommitBatch, StoredRecord, TxError};
use tokio_postgres::{Row, Statement};

use super::candidate::{self, MARK};
use super::ledger::{INSERT_PAGES, Ledger};
use super::{IN_ORDER, count, missing, now, outbox, poll, raw, signal, taken, urls};
use crate::error::{Fail, refused};
use crate::json::JsonText;
use crate::pool::{Session, pipeline, unless_empty};
use crate::rows::{Rows, Value};
use crate::time::Time;

/// Reads whether the run belongs to the lease, the watermark below which a HARVEST record is late, and whether the
/// stream has signals, so that most pages skip looking for signals of their records. A signal set after this read
/// counts for later pages. Reads by key only: with a condition on the status, the planner may read all tasks in
/// progress.
const LOCK: &str = "
SELECT asked.task, asked.fence, asked.run, t.status_code = 'EXECUTING', r.id IS NOT NULL,
  CASE WHEN t.operation_code = 'HARVEST' THEN c.normalized_instant END,
  EXISTS (
    SELECT 1 FROM ing_signal s
    WHERE s.status_code = 'OPEN' AND s.project_key = asked.project_key AND s.provenance_code = asked.provenance_code
      AND s.endpoint_name = asked.endpoint_name)
  OR EXISTS (
    SELECT 1 FROM item_quarantine q
    WHERE q.status_code = 'SIGNALLED' AND q.project_key = asked.project_key AND q.provenance_code = asked.provenance_code
      AND q.endpoint_name = asked.endpoint_name)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[])
  AS asked (task, fence, run, project_key, provenance_code, endpoint_name)
JOIN ing_task t ON t.id = asked.task AND t.lease_epoch = asked.fence
LEFT JOIN ing_task_run r ON r.id = asked.run AND r.task_id = t.id AND r.attempt_no = t.lease_epoch
LEFT JOIN ing_cursor c ON c.id = t.cursor_id
ORDER BY t.id
FOR UPDATE OF t";

/// `OFFSET 0` and `coalesce` make the planner look up each page by its number instead of reading all pages of the run.
const FIND: &str = "
SELECT moment.now, old.id, old.run_id, old.batch_no, old.stats
FROM (SELECT clock_timestamp() AS now) AS moment
LEFT JOIN (
  unnest($1::bigint[], $2::bigint[]) AS asked (run, batch_no)
  CROSS JOIN LATERAL (
    SELECT id, run_id, batch_no, stats FROM ing_task_run_batch
    WHERE run_id = asked.run AND batch_no = asked.batch_no AND coalesce(status_code, '') = 'SUCCEEDED'
    OFFSET 0
  ) AS old
) ON true";

/// Records arrive sorted, one per key. No row is touched twice, and two pages with common keys lock them in the same
/// order. Groups of pages need not: a group that deadlocks is repeated page by page. `xmax` is 0 in an inserted row and
/// not 0 in an updated one; a record that is not returned was not newer.
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
    AND ((NOT $19 AND (excluded.updated_at, excluded.source_version) > (item.updated_at, item.source_version))
      OR (($19 AND (excluded.updated_at, excluded.source_version) >= (item.updated_at, item.source_version)
          OR $16 AND (excluded.updated_at, excluded.source_version) = (item.updated_at, item.source_version))
        AND (excluded.mapping_generation <> item.mapping_generation OR excluded.content_hash <> item.content_hash)))
  RETURNING (xmax = 0) AS is_new, updated_at < $17 AS is_late, dedup_key
)
SELECT count(*) FILTER (WHERE is_new), count(*) FILTER (WHERE NOT is_new), count(*) FILTER (WHERE is_late),
  array_agg(dedup_key) FILTER (WHERE $18), array_agg(is_new) FILTER (WHERE $18)
FROM stored";

const RESET_ATTEMPTS: &str = "
UPDATE ing_task SET attempt_count = 0, is_suspect = 0 WHERE id = ANY ($1) AND attempt_count <> 0";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOCK, FIND, STORE_ITEMS, RESET_ATTEMPTS];

/// A run and a batch number.
type PageId = (i64, u32);

/// A task, its fence and a run. A group may contain an operation that names the run of another task.
type At = (i64, i64, i64);

/// Commits pages of several runs, each under its own lease. A page that was committed before gets its old result again.
pub(super) async fn commit(
    session: &Session,
    asked: &[&[Arc<CommitBatch>]],
) -> Result<Vec<Result<Vec<BatchCommitted>, TxError>>, Fail> {
    let statements = Statements::prepare(session).await?;
    let leases: Rows<'_, 6> = asked.iter().filter_map(|pages| pages.first()).map(|op| lease_of(op)).collect();
    let numbers: Vec<_> = asked.iter().copied().flatten().map(|op| (op.run.0, i64::from(op.batch_no))).collect();
    let numbers: Rows<'_, 2> = numbers.iter().map(|(run, number)| [run as Value<'_>, number]).collect();
    let ((), leased, found) = pipeline!(
        session.begin_by_key(asked.len()),
        session.rows(&statements.lock, &leases.params()),
        session.rows(&statements.find, &numbers.params()),
    )?;
    let now = now(&found)?;
    let leased = leased.iter().map(Leased::read).collect::<Result<HashMap<_, _>, _>>()?;
    let old = taken(&found)?.map(replayed).collect::<Result<HashMap<_, _>, _>>()?;
    let rights: Vec<_> = asked.iter().map(|pages| right_of(pages, &leased)).collect();
    let mut pages = Vec::new();
    for (ops, right) in asked.iter().zip(&rights) {
        let Ok(Some(Leased { late_below, asked_for, .. })) = *right else { continue };
        let fresh = ops.iter().filter(|op| !old.contains_key(&id_of(op)));
        pages.extend(fresh.map(|op| {
            // A pass over a whole list has no late records.
            let late_below = if op.pass.is_some() { None } else { *late_below };
            Page { session, statements: &statements, op, late_below, asked_for: *asked_for, now }
        }));
    }
    // A later page may bring a record that an earlier page quarantined.
    if pages.iter().any(|page| page.op.rejected.iter().any(|item| item.key.is_some())) {
        pages.iter_mut().for_each(|page| page.asked_for = true);
    }
    // Records come first, so that rows shared by all runs, such as a minute's counters, are locked last and briefly.
    let stored = try_join_all(pages.iter().map(Page::store)).await?;
    let captures = pages.iter().any(|page| page.op.capture.is_some());
    let at_once = !captures && pages.len() <= IN_ORDER;
    // The COMMIT is sent with the statements before it: if one of them fails, the server turns it into a ROLLBACK.
    let (batches, _, (), ()) = pipeline!(
        enter(session, &statements.insert, &pages, &stored),
        try_join_all(pages.iter().zip(&stored).map(|(page, (_, stored))| page.settle(stored))),
        reset_attempts(session, &statements.reset, &pages),
        commit_if(session, at_once),
    )?;
    let mut done = old;
    for (page, (stats, _)) in pages.iter().zip(stored) {
        let (op, id) = (page.op, id_of(page.op));
        let captured = match &op.capture {
            Some(capture) => urls::capture(session, capture, &op.stream.project_key, Some(op.lease.task)).await?,
            None => Captured::None,
        };
        let batch = *batches.get(&id).ok_or_else(|| refused("a page is not in the ledger"))?;
        done.insert(id, BatchCommitted { batch, stats, replayed: false, captured });
    }
    commit_if(session, !at_once).await?;
    let answer = |pages: &[Arc<CommitBatch>]| pages.iter().filter_map(|op| done.get(&id_of(op)).copied()).collect();
    Ok(asked.iter().zip(rights).map(|(pages, right)| right.map(|_| answer(pages))).collect())
}

fn id_of(op: &CommitBatch) -> PageId {
    (op.run.0, op.batch_no)
}

fn lease_of(op: &CommitBatch) -> [Value<'_>; 6] {
    let stream = &op.stream;
    [
        &op.lease.task.0,
        &op.lease.fence.0,
        &op.run.0,
        &stream.project_key,
        &stream.provenance_code,
        &stream.endpoint_name,
    ]
}

/// State of a run whose task is leased.
struct Leased {
    is_executing: bool,
    /// Whether the run was opened under this lease.
    is_own: bool,
    late_below: Option<Time>,
    asked_for: bool,
}

impl Leased {
    fn read(row: &Row) -> Result<(At, Leased), Fail> {
        let leased = Leased {
            is_executing: row.try_get(3)?,
            is_own: row.try_get(4)?,
            late_below: row.try_get(5)?,
            asked_for: row.try_get(6)?,
        };
        Ok(((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?), leased))
    }
}

/// `None` if no watermark applies.
fn right_of<'a>(pages: &[Arc<CommitBatch>], leased: &'a HashMap<At, Leased>) -> Result<Option<&'a Leased>, TxError> {
    let Some(op) = pages.first() else { return Ok(None) };
    let leased = leased.get(&(op.lease.task.0, op.lease.fence.0, op.run.0));
    let leased = leased.filter(|leased| leased.is_executing).ok_or(TxError::Fenced)?;
    if !leased.is_own {
        return Err(TxError::Refused(format!("run {} is not of this lease", op.run)));
    }
    Ok(Some(leased))
}

/// Returns the recorded result of a page that was committed before.
fn replayed(row: &Row) -> Result<(PageId, BatchCommitted), Fail> {
    let (batch, stats) = (BatchId(row.try_get(1)?), serde_json::from_str(&row.try_get::<_, JsonText>(4)?.0)?);
    let id = (row.try_get(2)?, count(row.try_get(3)?));
    Ok((id, BatchCommitted { batch, stats, replayed: true, captured: Captured::None }))
}

/// Writes the ledger rows.
async fn enter(
    session: &Session,
    insert: &Statement,
    pages: &[Page<'_>],
    stored: &[(BatchStats, Vec<StoredRecord<'_>>)],
) -> Result<HashMap<PageId, BatchId>, Fail> {
    let entries = pages.iter().zip(stored).map(|(page, (stats, _))| Ledger::of_page(page.op, stats, page.now));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    let rows: Rows<'_, 32> = entries.iter().map(Ledger::row).collect();
    let entered = unless_empty(pages, session.rows(insert, &rows.params())).await?;
    entered.iter().map(|row| Ok(((row.try_get(0)?, count(row.try_get(1)?)), BatchId(row.try_get(2)?)))).collect()
}

async fn reset_attempts(session: &Session, reset: &Statement, pages: &[Page<'_>]) -> Result<(), Fail> {
    let tasks: Vec<_> = pages.iter().filter(|page| page.op.progress).map(|page| page.op.lease.task.0).collect();
    unless_empty(&tasks, session.write(reset, &[&tasks])).await.map(drop)
}

struct Statements {
    lock: Statement,
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
    emit: Statement,
    see: Statement,
}

impl Statements {
    async fn prepare(session: &Session) -> Result<Statements, Fail> {
        let [lock, find, items, insert, marks, reset] =
            session.prepare([LOCK, FIND, STORE_ITEMS, INSERT_PAGES, MARK, RESET_ATTEMPTS]).await?;
        let [lock_items, set_aside, resolve, check] =
            session.prepare([signal::LOCK_ITEMS, signal::SET_ASIDE, signal::RESOLVE, signal::CHECK]).await?;
        let [keep, link, emit, see] = session.prepare([raw::INSERT, poll::LINK, outbox::INSERT, missing::SEE]).await?;
        Ok(Statements {
            lock,
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
            emit,
            see,
        })
    }
}

/// A page that is being committed, under the lock of its task.
struct Page<'a> {
    session: &'a Session,
    statements: &'a Statements,
    op: &'a CommitBatch,
    late_below: Option<Time>,
    /// The stream has open signals.
    asked_for: bool,
    now: Time,
}

impl<'a> Page<'a> {
    /// Returns the statistics and, if requested, the records that were inserted or updated.
    async fn store(&self) -> Result<(BatchStats, Vec<StoredRecord<'a>>), Fail> {
        let Page { session, statements, op, late_below, asked_for, now } = *self;
        let ((), stored) = pipeline!(
            signal::lock_items(session, &statements.lock_items, op),
            store_items(session, &statements.items, op, late_below, asked_for || op.emit, now),
        )?;
        Ok(stored)
    }

    /// Settles signals, quarantine, marks and events of the page.
    async fn settle(&self, stored: &[StoredRecord<'a>]) -> Result<(), Fail> {
        let Page { session, statements, op, now, asked_for, .. } = *self;
        let events = op.events(stored);
        pipeline!(
            poll::link(session, &statements.link, op, now),
            missing::see(session, &statements.see, op),
            signal::set_aside(session, &statements.set_aside, op, now),
            signal::resolve(session, &statements.resolve, op, if asked_for { stored } else { &[] }, now),
            signal::check(session, &statements.check, op, now),
            raw::keep(session, &statements.keep, op.run, op.batch_no, op.raw.as_ref(), now),
            candidate::mark(session, &statements.marks, op, now),
            outbox::put(session, &statements.emit, &events, now),
        )?;
        Ok(())
    }
}

async fn commit_if(session: &Session, wanted: bool) -> Result<(), Fail> {
    if wanted { session.commit().await } else { Ok(()) }
}

/// Rows per statement: few enough for the server to plan and hold, enough to be worth the round trip (ING-13.8-02).
const ROWS_AT_ONCE: usize = 500;

/// With `named`, also returns which records were stored.
async fn store_items<'a>(
    session: &Session,
    statement: &Statement,
    op: &'a CommitBatch,
    late_below: Option<Time>,
    named: bool,
    now: Time,
) -> Result<(BatchStats, Vec<StoredRecord<'a>>), Fail> {
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
                    &op.pass.as_ref().is_some_and(|pass| pass.undated),
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
            stored.push(StoredRecord { record: &records[at], inserted });
        }
    }
    stored.sort_unstable_by(|one, other| one.record.key.cmp(&other.record.key));
    Ok((stats, stored))
}

#[cfg(test)]
mod tests {
    // covers: ING-13.8-02
    #[test]
    fn rows_per_statement_are_a_few_hundred() {
        assert!((200..=500).contains(&super::ROWS_AT_ONCE));
    }
}
