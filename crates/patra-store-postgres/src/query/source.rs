//! Sources and their items. `now()` is the start of the transaction, the same for all its statements.

use patra_core::SourceId;
use patra_core::port::BoxFuture;
use patra_core::port::source::{
    CollectorStats, DueSources, HeartbeatRow, ItemFilter, ItemStats, RawItem, SourceFilter, SourceQueries, StoredSource,
};
use patra_core::source::{DEFAULT_MINUTES, Interval};
use patra_core::state::IntervalFrom;
use patra_core::tx::{SourceTypeRow, TxError};
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::error::Fail;
use crate::exec::source::read_state;
use crate::json::JsonText;
use crate::pool::{Session, pipeline};
use crate::time::{Time, maybe};

/// Only due sources are sorted, and they are few.
pub(crate) const DUE: &str = "
SELECT id FROM source
WHERE next_due_at <= now()
ORDER BY last_fetched_at NULLS FIRST, id
LIMIT $1";

const NEXT_DUE: &str = "SELECT now(), (SELECT min(next_due_at) FROM source WHERE next_due_at > now())";

const SOURCES: &str = "
SELECT s.paused_reason, s.paused_at, s.last_fetched_at, s.fetch_count, s.fetch_error_count, s.last_error, s.last_error_at,
  s.probe_count, s.next_due_at,
  s.id, s.project_key, s.type, s.name, s.config, s.is_public = 1, s.minutes,
  t.minutes, t.interval_from, t.type IS NULL, t.unsupported, s.poll_count,
  (SELECT scheduled_at FROM ing_task
   WHERE source_id = s.id AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')),
  s.created_at, s.updated_at, s.last_new_at, s.new_count, s.new_gap_seconds
FROM source s LEFT JOIN source_type t ON t.type = s.type
WHERE s.is_deleted = 0 AND s.id > $1 AND ($2::text IS NULL OR s.project_key = $2)
  AND (NOT $3 OR s.is_public = 1)
  AND ($4::bigint[] IS NULL OR s.id = ANY ($4))
  AND (NOT $6 OR s.id IN (
    SELECT source_id FROM ing_task
    WHERE source_id IS NOT NULL AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')))
  AND ($7::timestamptz IS NULL OR s.paused_reason IN ('error', 'gone') OR s.fetch_error_count > 0
    OR (s.is_active = 1 AND s.last_new_at < $7))
ORDER BY s.id
LIMIT $5";

const TYPES: &str = "SELECT type, minutes, interval_from, unsupported FROM source_type ORDER BY type";

const SETTINGS: &str = "SELECT config_key, config_value FROM config ORDER BY config_key";

const ITEMS: &str = "
SELECT item.id, link.source_id, source.name, source.type, item.dedup_key, item.fields, link.fetched_at
FROM item_source link
JOIN item ON item.id = link.item_id
JOIN source ON source.id = link.source_id
WHERE link.project_key = $1 AND ($2::timestamptz IS NULL OR link.fetched_at >= $2) AND item.emptied_at IS NULL
  AND ($3::bigint[] IS NULL OR link.source_id = ANY ($3))
ORDER BY link.fetched_at DESC, link.item_id DESC, link.source_id DESC
LIMIT $4 OFFSET $5";

const STATS: &str = "
SELECT source.id, source.name, source.type,
  (SELECT count(*) FROM item_source link WHERE link.source_id = source.id),
  (SELECT count(*) FROM item_source link
   WHERE link.source_id = source.id AND link.fetched_at >= now() - interval '1 day'),
  (SELECT max(fetched_at) FROM item_source link WHERE link.source_id = source.id)
FROM source
WHERE project_key = $1 AND is_active = 1 AND is_deleted = 0
ORDER BY source.id";

const COUNTS: &str = "
SELECT now(), ended.fetches, ended.errors,
  (SELECT count(*) FROM item_source WHERE project_key = $1 AND fetched_at >= now() - interval '1 day'),
  (SELECT count(*) FROM ing_task WHERE status_code IN ('DISPATCHED', 'EXECUTING') AND source_id IS NOT NULL)
FROM (
  SELECT count(*) AS fetches, count(*) FILTER (WHERE status_code = 'FAILED') AS errors
  FROM ing_task_run
  WHERE source_id IS NOT NULL AND finished_at >= now() - interval '1 day'
    AND status_code IN ('SUCCEEDED', 'PARTIAL', 'FAILED')
) AS ended";

const BEATS: &str = "
SELECT owner, last_tick_at, next_tick_at, tick_seconds, concurrency, leaving = 1
FROM collector_beat
ORDER BY last_tick_at DESC, owner";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[DUE, NEXT_DUE, SOURCES, TYPES, SETTINGS, ITEMS, STATS, COUNTS, BEATS];

impl SourceQueries for PostgresStore {
    fn due(&self, limit: u32) -> BoxFuture<'_, Result<DueSources, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(due(session, limit))))
    }

    fn sources(&self, filter: SourceFilter) -> BoxFuture<'_, Result<Vec<StoredSource>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(sources(session, filter))))
    }

    fn source_types(&self) -> BoxFuture<'_, Result<Vec<SourceTypeRow>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(types(session))))
    }

    fn settings(&self) -> BoxFuture<'_, Result<Vec<(String, String)>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(settings(session))))
    }

    fn raw_items(&self, filter: ItemFilter) -> BoxFuture<'_, Result<Vec<RawItem>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(raw_items(session, filter))))
    }

    fn raw_item_stats(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<ItemStats>, TxError>> {
        let project = project_key.to_owned();
        Box::pin(self.readers.run(move |session| Box::pin(stats(session, project))))
    }

    fn collector_stats(&self, project_key: &str) -> BoxFuture<'_, Result<CollectorStats, TxError>> {
        let project = project_key.to_owned();
        Box::pin(self.readers.run(move |session| Box::pin(collecting(session, project))))
    }
}

async fn due(session: &Session, limit: u32) -> Result<DueSources, Fail> {
    let [due, next] = session.prepare([DUE, NEXT_DUE]).await?;
    let ((), due, next, ()) = pipeline!(
        session.begin_reading(),
        session.rows(&due, &[&i64::from(limit)]),
        session.one(&next, &[]),
        session.commit(),
    )?;
    let sources = due.iter().map(|row| row.try_get(0).map(SourceId)).collect::<Result<_, _>>()?;
    Ok(DueSources { sources, next: maybe(&next, 1)?, now: next.try_get::<_, Time>(0)?.0 })
}

async fn sources(session: &Session, filter: SourceFilter) -> Result<Vec<StoredSource>, Fail> {
    let [sources] = session.prepare([SOURCES]).await?;
    let limit = (filter.limit > 0).then_some(i64::from(filter.limit));
    let SourceFilter { after, project_key, public_only, ids, polling_only, troubled, .. } = &filter;
    let troubled = troubled.map(Time);
    let rows = session.rows(&sources, &[after, project_key, public_only, ids, &limit, polling_only, &troubled]).await?;
    rows.iter().map(read_source).collect()
}

fn read_source(row: &Row) -> Result<StoredSource, Fail> {
    let (own, of_type) = (minutes(row, 15)?, minutes(row, 16)?);
    let interval = match own {
        Some(minutes) => Interval { minutes, from: IntervalFrom::Source },
        None => Interval { minutes: of_type.unwrap_or(DEFAULT_MINUTES), from: origin(row, 17)? },
    };
    let r#type: String = row.try_get(11)?;
    let unheard: bool = row.try_get(18)?;
    Ok(StoredSource {
        state: read_state(row, 24)?,
        id: SourceId(row.try_get(9)?),
        project_key: row.try_get(10)?,
        unsupported: if unheard { Some(StoredSource::no_fetcher(&r#type)) } else { row.try_get(19)? },
        r#type,
        name: row.try_get(12)?,
        config: row.try_get::<_, JsonText>(13)?.0,
        is_public: row.try_get(14)?,
        interval,
        poll_count: row.try_get(20)?,
        polling: maybe(row, 21)?,
        created_at: row.try_get::<_, Time>(22)?.0,
        updated_at: row.try_get::<_, Time>(23)?.0,
    })
}

fn minutes(row: &Row, at: usize) -> Result<Option<u32>, Fail> {
    Ok(row.try_get::<_, Option<i64>>(at)?.and_then(|minutes| u32::try_from(minutes).ok()))
}

fn origin(row: &Row, at: usize) -> Result<IntervalFrom, Fail> {
    let from = row.try_get::<_, Option<&str>>(at)?.map(str::parse).transpose()?;
    Ok(from.unwrap_or(IntervalFrom::Default))
}

async fn types(session: &Session) -> Result<Vec<SourceTypeRow>, Fail> {
    let [types] = session.prepare([TYPES]).await?;
    let read = |row: &Row| {
        let interval = Interval { minutes: minutes(row, 1)?.unwrap_or(DEFAULT_MINUTES), from: origin(row, 2)? };
        Ok(SourceTypeRow { r#type: row.try_get(0)?, interval, unsupported: row.try_get(3)? })
    };
    session.rows(&types, &[]).await?.iter().map(read).collect()
}

async fn settings(session: &Session) -> Result<Vec<(String, String)>, Fail> {
    let [settings] = session.prepare([SETTINGS]).await?;
    session.rows(&settings, &[]).await?.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

async fn raw_items(session: &Session, filter: ItemFilter) -> Result<Vec<RawItem>, Fail> {
    let [items] = session.prepare([ITEMS]).await?;
    let (limit, offset) = (i64::from(filter.limit), i64::from(filter.offset));
    let rows =
        session.rows(&items, &[&filter.project_key, &filter.since.map(Time), &filter.sources, &limit, &offset]).await?;
    let read = |row: &Row| {
        Ok(RawItem {
            id: row.try_get(0)?,
            source: SourceId(row.try_get(1)?),
            source_name: row.try_get(2)?,
            source_type: row.try_get(3)?,
            dedup_key: row.try_get(4)?,
            fields: row.try_get(5)?,
            fetched_at: row.try_get::<_, Time>(6)?.0,
        })
    };
    rows.iter().map(read).collect()
}

async fn stats(session: &Session, project: String) -> Result<Vec<ItemStats>, Fail> {
    let [stats] = session.prepare([STATS]).await?;
    let read = |row: &Row| {
        Ok(ItemStats {
            source: SourceId(row.try_get(0)?),
            name: row.try_get(1)?,
            r#type: row.try_get(2)?,
            total_items: row.try_get(3)?,
            items_24h: row.try_get(4)?,
            last_item_at: maybe(row, 5)?,
        })
    };
    session.rows(&stats, &[&project]).await?.iter().map(read).collect()
}

async fn collecting(session: &Session, project: String) -> Result<CollectorStats, Fail> {
    let [counts, beats] = session.prepare([COUNTS, BEATS]).await?;
    let ((), counts, beats, ()) = pipeline!(
        session.begin_reading(),
        session.one(&counts, &[&project]),
        session.rows(&beats, &[]),
        session.commit(),
    )?;
    Ok(CollectorStats {
        fetches_24h: counts.try_get(1)?,
        errors_24h: counts.try_get(2)?,
        items_24h: counts.try_get(3)?,
        running: counts.try_get(4)?,
        heartbeats: beats.iter().map(read_beat).collect::<Result<_, _>>()?,
        now: maybe(&counts, 0)?,
    })
}

fn read_beat(row: &Row) -> Result<HeartbeatRow, Fail> {
    Ok(HeartbeatRow {
        owner: row.try_get(0)?,
        last_tick_at: row.try_get::<_, Time>(1)?.0,
        next_tick_at: row.try_get::<_, Time>(2)?.0,
        tick_seconds: row.try_get(3)?,
        concurrency: row.try_get(4)?,
        leaving: row.try_get(5)?,
    })
}
