//! Sources and their items.

use patra_core::port::BoxFuture;
use patra_core::port::source::{
    CollectorStats, DueSources, HeartbeatRow, ItemFilter, ItemStats, RawItem, SourceFilter, SourceQueries, StoredSource,
};
use patra_core::source::{DEFAULT_MINUTES, Interval};
use patra_core::state::IntervalFrom;
use patra_core::tx::{SourceTypeRow, TxError};
use patra_core::{SourceId, Ts};
use rusqlite::{Connection, Row, params};

use super::all;
use crate::SqliteStore;
use crate::error::Result;
use crate::exec::source::read_state;
use crate::reader::SqliteReader;
use crate::sql::{maybe_time, maybe_word, time};

// Only due sources are sorted, and they are few.
pub(crate) const READ_DUE: &str = "
SELECT id FROM source INDEXED BY idx_source_due
WHERE next_due_at <= ?1
ORDER BY last_fetched_at IS NOT NULL, last_fetched_at, id
LIMIT ?2";

const READ_NEXT_DUE: &str = "SELECT min(next_due_at) FROM source WHERE next_due_at > ?1";

const READ_SOURCES: &str = "
SELECT source.paused_reason, source.paused_at, source.last_fetched_at, source.fetch_count, source.fetch_error_count,
  source.last_error, source.last_error_at, source.probe_count, source.next_due_at,
  source.id, source.project_key, source.type, source.name, source.config, source.is_public, source.minutes,
  source_type.minutes, source_type.interval_from, source_type.type IS NULL, source_type.unsupported, source.poll_count,
  (SELECT scheduled_at FROM ing_task
   WHERE source_id = source.id AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')),
  source.created_at, source.updated_at, source.last_new_at, source.new_count, source.new_gap_seconds
FROM source LEFT JOIN source_type ON source_type.type = source.type
WHERE source.is_deleted = 0 AND source.id > ?1 AND (?2 IS NULL OR source.project_key = ?2)
  AND (NOT ?3 OR source.is_public = 1)
  AND (?4 IS NULL OR source.id IN (SELECT value FROM json_each(?4)))
  AND (NOT ?6 OR EXISTS (
    SELECT 1 FROM ing_task WHERE source_id = source.id AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')))
  AND (?7 IS NULL OR source.paused_reason IN ('error', 'gone') OR source.fetch_error_count > 0
    OR (source.is_active = 1 AND source.last_new_at < ?7))
ORDER BY source.id
LIMIT ?5";

const READ_TYPES: &str = "SELECT type, minutes, interval_from, unsupported FROM source_type ORDER BY type";

const READ_SETTINGS: &str = "SELECT config_key, config_value FROM config ORDER BY config_key";

const READ_ITEMS: &str = "
SELECT item.id, link.source_id, source.name, source.type, item.dedup_key, item.fields, link.fetched_at
FROM item_source link INDEXED BY idx_item_source_fetched
JOIN item ON item.id = link.item_id
JOIN source ON source.id = link.source_id
WHERE link.project_key = ?1 AND (?2 IS NULL OR link.fetched_at >= ?2) AND item.emptied_at IS NULL
ORDER BY link.fetched_at DESC, link.item_id DESC, link.source_id DESC
LIMIT ?3 OFFSET ?4";

const READ_ITEMS_OF: &str = "
SELECT item.id, link.source_id, source.name, source.type, item.dedup_key, item.fields, link.fetched_at
FROM item_source link
JOIN item ON item.id = link.item_id
JOIN source ON source.id = link.source_id
WHERE link.project_key = ?1 AND (?2 IS NULL OR link.fetched_at >= ?2) AND item.emptied_at IS NULL
  AND link.source_id IN (SELECT value FROM json_each(?5))
ORDER BY link.fetched_at DESC, link.item_id DESC, link.source_id DESC
LIMIT ?3 OFFSET ?4";

const READ_STATS: &str = "
SELECT source.id, source.name, source.type,
  (SELECT count(*) FROM item_source link WHERE link.source_id = source.id),
  (SELECT count(*) FROM item_source link WHERE link.source_id = source.id AND link.fetched_at >= ?2),
  (SELECT max(fetched_at) FROM item_source link WHERE link.source_id = source.id)
FROM source
WHERE project_key = ?1 AND is_active = 1 AND is_deleted = 0
ORDER BY source.id";

const COUNT_POLLS: &str = "
SELECT count(*), count(*) FILTER (WHERE status_code = 'FAILED')
FROM ing_task_run
WHERE source_id IS NOT NULL AND finished_at >= ?1 AND status_code IN ('SUCCEEDED', 'PARTIAL', 'FAILED')";

const COUNT_ITEMS: &str = "SELECT count(*) FROM item_source WHERE project_key = ?1 AND fetched_at >= ?2";

const COUNT_RUNNING: &str = "
SELECT count(*) FROM ing_task INDEXED BY idx_task_queue
WHERE status_code IN ('DISPATCHED', 'EXECUTING') AND source_id IS NOT NULL";

const READ_BEATS: &str = "
SELECT owner, last_tick_at, next_tick_at, tick_seconds, concurrency, leaving
FROM collector_beat
ORDER BY last_tick_at DESC, owner";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    READ_DUE,
    READ_NEXT_DUE,
    READ_SOURCES,
    READ_TYPES,
    READ_SETTINGS,
    READ_ITEMS,
    READ_ITEMS_OF,
    READ_STATS,
    COUNT_POLLS,
    COUNT_ITEMS,
    COUNT_RUNNING,
    READ_BEATS,
];

const A_DAY: std::time::Duration = std::time::Duration::from_secs(86_400);

impl SourceQueries for SqliteReader {
    fn due(&self, limit: u32) -> BoxFuture<'_, Result<DueSources, TxError>> {
        let now = self.now();
        Box::pin(self.read(move |db| due(db, limit, now)))
    }

    fn sources(&self, filter: SourceFilter) -> BoxFuture<'_, Result<Vec<StoredSource>, TxError>> {
        Box::pin(self.read(move |db| sources(db, &filter)))
    }

    fn source_types(&self) -> BoxFuture<'_, Result<Vec<SourceTypeRow>, TxError>> {
        Box::pin(self.read(|db| all(db, READ_TYPES, params![], read_type)))
    }

    fn settings(&self) -> BoxFuture<'_, Result<Vec<(String, String)>, TxError>> {
        Box::pin(self.read(|db| all(db, READ_SETTINGS, params![], |row| Ok((row.get(0)?, row.get(1)?)))))
    }

    fn raw_items(&self, filter: ItemFilter) -> BoxFuture<'_, Result<Vec<RawItem>, TxError>> {
        Box::pin(self.read(move |db| raw_items(db, &filter)))
    }

    fn raw_item_stats(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<ItemStats>, TxError>> {
        let (project, since) = (project_key.to_owned(), (self.now() - A_DAY).micros());
        Box::pin(self.read(move |db| all(db, READ_STATS, params![project, since], read_stats)))
    }

    fn collector_stats(&self, project_key: &str) -> BoxFuture<'_, Result<CollectorStats, TxError>> {
        let (project, now) = (project_key.to_owned(), self.now());
        Box::pin(self.read(move |db| collecting(db, &project, now)))
    }
}

impl SourceQueries for SqliteStore {
    fn due(&self, limit: u32) -> BoxFuture<'_, Result<DueSources, TxError>> {
        self.inner.reader.due(limit)
    }

    fn sources(&self, filter: SourceFilter) -> BoxFuture<'_, Result<Vec<StoredSource>, TxError>> {
        self.inner.reader.sources(filter)
    }

    fn source_types(&self) -> BoxFuture<'_, Result<Vec<SourceTypeRow>, TxError>> {
        self.inner.reader.source_types()
    }

    fn settings(&self) -> BoxFuture<'_, Result<Vec<(String, String)>, TxError>> {
        self.inner.reader.settings()
    }

    fn raw_items(&self, filter: ItemFilter) -> BoxFuture<'_, Result<Vec<RawItem>, TxError>> {
        self.inner.reader.raw_items(filter)
    }

    fn raw_item_stats(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<ItemStats>, TxError>> {
        self.inner.reader.raw_item_stats(project_key)
    }

    fn collector_stats(&self, project_key: &str) -> BoxFuture<'_, Result<CollectorStats, TxError>> {
        self.inner.reader.collector_stats(project_key)
    }
}

fn due(db: &Connection, limit: u32, now: Ts) -> Result<DueSources> {
    let sources = all(db, READ_DUE, params![now.micros(), limit], |row| row.get(0).map(SourceId))?;
    let next = db.prepare_cached(READ_NEXT_DUE)?.query_row([now.micros()], |row| maybe_time(row, 0))?;
    Ok(DueSources { sources, next, now })
}

fn sources(db: &Connection, filter: &SourceFilter) -> Result<Vec<StoredSource>> {
    let ids = filter.ids.as_ref().map(serde_json::to_string).transpose()?;
    let limit = if filter.limit == 0 { -1 } else { i64::from(filter.limit) };
    let troubled = filter.troubled.map(Ts::micros);
    let values =
        params![filter.after, filter.project_key, filter.public_only, ids, limit, filter.polling_only, troubled];
    all(db, READ_SOURCES, values, read_source)
}

fn read_source(row: &Row<'_>) -> rusqlite::Result<StoredSource> {
    let (own, of_type): (Option<u32>, Option<u32>) = (row.get(15)?, row.get(16)?);
    let r#type: String = row.get(11)?;
    let unheard: bool = row.get(18)?;
    let from = maybe_word(row, 17)?.unwrap_or(IntervalFrom::Default);
    let interval = match own {
        Some(minutes) => Interval { minutes, from: IntervalFrom::Source },
        None => Interval { minutes: of_type.unwrap_or(DEFAULT_MINUTES), from },
    };
    Ok(StoredSource {
        state: read_state(row, 0, 24)?,
        id: SourceId(row.get(9)?),
        project_key: row.get(10)?,
        unsupported: if unheard { Some(StoredSource::no_fetcher(&r#type)) } else { row.get(19)? },
        r#type,
        name: row.get(12)?,
        config: row.get(13)?,
        is_public: row.get(14)?,
        interval,
        poll_count: row.get(20)?,
        polling: maybe_time(row, 21)?,
        created_at: time(row, 22)?,
        updated_at: time(row, 23)?,
    })
}

fn read_type(row: &Row<'_>) -> rusqlite::Result<SourceTypeRow> {
    let from = maybe_word(row, 2)?.unwrap_or(IntervalFrom::Default);
    let interval = Interval { minutes: row.get(1)?, from };
    Ok(SourceTypeRow { r#type: row.get(0)?, interval, unsupported: row.get(3)? })
}

fn raw_items(db: &Connection, filter: &ItemFilter) -> Result<Vec<RawItem>> {
    let since = filter.since.map(Ts::micros);
    match &filter.sources {
        None => all(db, READ_ITEMS, params![filter.project_key, since, filter.limit, filter.offset], read_item),
        Some(sources) => {
            let sources = serde_json::to_string(sources)?;
            let values = params![filter.project_key, since, filter.limit, filter.offset, sources];
            all(db, READ_ITEMS_OF, values, read_item)
        }
    }
}

fn read_item(row: &Row<'_>) -> rusqlite::Result<RawItem> {
    Ok(RawItem {
        id: row.get(0)?,
        source: SourceId(row.get(1)?),
        source_name: row.get(2)?,
        source_type: row.get(3)?,
        dedup_key: row.get(4)?,
        fields: row.get(5)?,
        fetched_at: time(row, 6)?,
    })
}

fn read_stats(row: &Row<'_>) -> rusqlite::Result<ItemStats> {
    Ok(ItemStats {
        source: SourceId(row.get(0)?),
        name: row.get(1)?,
        r#type: row.get(2)?,
        total_items: row.get(3)?,
        items_24h: row.get(4)?,
        last_item_at: maybe_time(row, 5)?,
    })
}

fn collecting(db: &Connection, project: &str, now: Ts) -> Result<CollectorStats> {
    let since = (now - A_DAY).micros();
    let (fetches_24h, errors_24h) =
        db.prepare_cached(COUNT_POLLS)?.query_row([since], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(CollectorStats {
        fetches_24h,
        errors_24h,
        items_24h: db.prepare_cached(COUNT_ITEMS)?.query_row(params![project, since], |row| row.get(0))?,
        running: db.prepare_cached(COUNT_RUNNING)?.query_row((), |row| row.get(0))?,
        heartbeats: all(db, READ_BEATS, params![], read_beat)?,
        now: Some(now),
    })
}

fn read_beat(row: &Row<'_>) -> rusqlite::Result<HeartbeatRow> {
    Ok(HeartbeatRow {
        owner: row.get(0)?,
        last_tick_at: time(row, 1)?,
        next_tick_at: time(row, 2)?,
        tick_seconds: row.get(3)?,
        concurrency: row.get(4)?,
        leaving: row.get(5)?,
    })
}

#[cfg(test)]
mod tests;
