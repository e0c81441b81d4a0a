//! Projects, the URL pool, documents and tweets.

use patra_core::SourceId;
use patra_core::port::pool::{
    CaptureRule, DocumentFilter, DocumentRow, EndedJob, JobFilter, JobItem, JobPoll, ListPosition, PoolUrl, ProjectRow,
    StoredTweet, TweetFilter, UrlFilter, UrlPage,
};
use patra_core::port::{BoxFuture, PoolQueries};
use patra_core::project::LibraryScope;
use patra_core::tweet::FetchStats;
use patra_core::tx::{TxError, UrlSource};
use rusqlite::{Connection, Row, params};

use super::{all, job, tweet};
use crate::SqliteStore;
use crate::error::Result;
use crate::exec::read_stats;
use crate::reader::SqliteReader;
use crate::sql::{count, time, word};

const READ_PROJECTS: &str = "SELECT project_key, name, created_at FROM project ORDER BY project_key";

/// Rows of one library that match a filter.
macro_rules! fits {
    () => {
        "(?2 IS NULL OR source = ?2) AND (?3 IS NULL OR instr(domain, ?3) > 0)"
    };
}

/// Shared URLs that a project does not have itself.
macro_rules! uncovered {
    () => {
        "url.scope = 'shared' AND url.project_key = '' AND NOT EXISTS (
  SELECT 1 FROM resource_pool_urls own WHERE own.scope = 'project' AND own.project_key = ?1 AND own.url = url.url)"
    };
}

pub(crate) const READ_LIBRARY: &str = concat!(
    "
SELECT id, url, domain, source, source_ref, scope, created_at FROM resource_pool_urls
WHERE scope = ?6 AND project_key = ?1 AND (created_at, id) < (?7, ?8) AND ",
    fits!(),
    "
ORDER BY created_at DESC, id DESC
LIMIT ?4 OFFSET ?5"
);

// Both are read by the index of the list and merged: a page costs the rows before its end.
pub(crate) const READ_EFFECTIVE: &str = concat!(
    "
SELECT id, url, domain, source, source_ref, scope, created_at FROM resource_pool_urls
WHERE scope = 'project' AND project_key = ?1 AND (created_at, id) < (?6, ?7) AND ",
    fits!(),
    "
UNION ALL
SELECT id, url, domain, source, source_ref, scope, created_at FROM resource_pool_urls url
WHERE ",
    uncovered!(),
    " AND (created_at, id) < (?6, ?7) AND ",
    fits!(),
    "
ORDER BY created_at DESC, id DESC
LIMIT ?4 OFFSET ?5"
);

const COUNT_LIBRARY: &str = concat!(
    "
SELECT count(*) FROM resource_pool_urls
WHERE scope = ?4 AND project_key = ?1 AND ",
    fits!()
);

const COUNT_UNCOVERED: &str = concat!(
    "
SELECT count(*) FROM resource_pool_urls url
WHERE ",
    uncovered!(),
    " AND ",
    fits!()
);

const READ_COUNTS: &str = "
SELECT coalesce(sum(urls), 0), coalesce(sum(covered), 0) FROM resource_pool_count WHERE scope = ?1 AND project_key = ?2";

const READ_RULES: &str = "
SELECT project_key, job_type, scope, enabled, updated_at FROM resource_pool_capture
WHERE ?1 IS NULL OR project_key = ?1
ORDER BY project_key, job_type";

const READ_DOCUMENTS_BY_ID: &str = "
SELECT id, fields, payload, kind FROM item
WHERE id IN (SELECT value FROM json_each(?2)) AND +project_key = ?1 AND emptied_at IS NULL AND (?3 IS NULL OR id < ?3)
ORDER BY id DESC
LIMIT ?4";

pub(crate) const READ_DOCUMENTS: &str = "
SELECT id, fields, payload, kind FROM item INDEXED BY idx_item_project
WHERE project_key = ?1 AND (?2 IS NULL OR id < ?2) AND emptied_at IS NULL
  AND (?3 = '[]'
    OR coalesce(json_extract(nullif(fields, ''), '$.doc_type'), kind) IN (SELECT value FROM json_each(?3)))
  AND (?4 = '[]' OR json_extract(nullif(fields, ''), '$.state') IN (SELECT value FROM json_each(?4)))
ORDER BY id DESC
LIMIT ?5";

const READ_FETCH_STATS: &str = "
SELECT source_id, last_fetch_at, last_fetched_count, last_new_count, total_fetches, avg_new_rate, consecutive_empty_fetches,
  newest_id
FROM source_stats
WHERE source_id IN (SELECT value FROM json_each(?1))
ORDER BY source_id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    READ_PROJECTS,
    READ_LIBRARY,
    READ_EFFECTIVE,
    COUNT_LIBRARY,
    COUNT_UNCOVERED,
    READ_COUNTS,
    READ_RULES,
    READ_DOCUMENTS_BY_ID,
    READ_DOCUMENTS,
    READ_FETCH_STATS,
];

impl PoolQueries for SqliteReader {
    fn projects(&self) -> BoxFuture<'_, Result<Vec<ProjectRow>, TxError>> {
        Box::pin(self.read(|db| all(db, READ_PROJECTS, params![], read_project)))
    }

    fn pool_urls(&self, filter: UrlFilter) -> BoxFuture<'_, Result<UrlPage, TxError>> {
        Box::pin(self.read(move |db| urls(db, &filter)))
    }

    fn capture_rules(&self, project_key: Option<&str>) -> BoxFuture<'_, Result<Vec<CaptureRule>, TxError>> {
        let project = project_key.map(str::to_owned);
        Box::pin(self.read(move |db| all(db, READ_RULES, params![project], read_rule)))
    }

    fn documents(&self, filter: DocumentFilter) -> BoxFuture<'_, Result<Vec<DocumentRow>, TxError>> {
        Box::pin(self.read(move |db| documents(db, &filter)))
    }

    fn ended_jobs(&self, filter: JobFilter) -> BoxFuture<'_, Result<Vec<EndedJob>, TxError>> {
        Box::pin(self.read(move |db| job::ended(db, &filter)))
    }

    fn items_of_job(&self, instance: i64, after: i64, limit: u32) -> BoxFuture<'_, Result<Vec<JobItem>, TxError>> {
        Box::pin(self.read(move |db| job::items(db, instance, after, limit)))
    }

    fn polls_of_job(&self, instance: i64) -> BoxFuture<'_, Result<Vec<JobPoll>, TxError>> {
        Box::pin(self.read(move |db| job::polls(db, instance)))
    }

    fn fetch_stats(&self, sources: &[SourceId]) -> BoxFuture<'_, Result<Vec<(SourceId, FetchStats)>, TxError>> {
        let sources = sources.to_vec();
        Box::pin(self.read(move |db| {
            let read = |row: &Row<'_>| Ok((SourceId(row.get(0)?), read_stats(row, 1)?));
            all(db, READ_FETCH_STATS, params![serde_json::to_string(&sources)?], read)
        }))
    }

    fn tweets(&self, filter: TweetFilter) -> BoxFuture<'_, Result<Vec<StoredTweet>, TxError>> {
        Box::pin(self.read(move |db| tweet::read(db, &filter)))
    }

    fn job_types(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        let project_key = project_key.to_owned();
        Box::pin(self.read(move |db| job::types(db, &project_key)))
    }
}

impl PoolQueries for SqliteStore {
    fn projects(&self) -> BoxFuture<'_, Result<Vec<ProjectRow>, TxError>> {
        self.inner.reader.projects()
    }

    fn pool_urls(&self, filter: UrlFilter) -> BoxFuture<'_, Result<UrlPage, TxError>> {
        self.inner.reader.pool_urls(filter)
    }

    fn capture_rules(&self, project_key: Option<&str>) -> BoxFuture<'_, Result<Vec<CaptureRule>, TxError>> {
        self.inner.reader.capture_rules(project_key)
    }

    fn documents(&self, filter: DocumentFilter) -> BoxFuture<'_, Result<Vec<DocumentRow>, TxError>> {
        self.inner.reader.documents(filter)
    }

    fn ended_jobs(&self, filter: JobFilter) -> BoxFuture<'_, Result<Vec<EndedJob>, TxError>> {
        self.inner.reader.ended_jobs(filter)
    }

    fn items_of_job(&self, instance: i64, after: i64, limit: u32) -> BoxFuture<'_, Result<Vec<JobItem>, TxError>> {
        self.inner.reader.items_of_job(instance, after, limit)
    }

    fn polls_of_job(&self, instance: i64) -> BoxFuture<'_, Result<Vec<JobPoll>, TxError>> {
        self.inner.reader.polls_of_job(instance)
    }

    fn fetch_stats(&self, sources: &[SourceId]) -> BoxFuture<'_, Result<Vec<(SourceId, FetchStats)>, TxError>> {
        self.inner.reader.fetch_stats(sources)
    }

    fn tweets(&self, filter: TweetFilter) -> BoxFuture<'_, Result<Vec<StoredTweet>, TxError>> {
        self.inner.reader.tweets(filter)
    }

    fn job_types(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        self.inner.reader.job_types(project_key)
    }
}

fn read_project(row: &Row<'_>) -> rusqlite::Result<ProjectRow> {
    Ok(ProjectRow { project_key: row.get(0)?, name: row.get(1)?, created_at: time(row, 2)? })
}

fn urls(db: &Connection, filter: &UrlFilter) -> Result<UrlPage> {
    // One snapshot for both: a page and its total must agree.
    let snapshot = db.unchecked_transaction()?;
    let (source, offset) = (filter.source.map(UrlSource::as_str), crate::sql::from_count(filter.offset));
    let ListPosition { at, id } = filter.before.unwrap_or(ListPosition::START);
    let at = at.micros();
    let items = match filter.scope {
        LibraryScope::Effective => {
            let values = params![filter.project_key, source, filter.domain, filter.limit, offset, at, id];
            all(&snapshot, READ_EFFECTIVE, values, read_url)?
        }
        LibraryScope::Project | LibraryScope::Shared => {
            let scope = filter.scope.as_str();
            let values = params![owner(filter), source, filter.domain, filter.limit, offset, scope, at, id];
            all(&snapshot, READ_LIBRARY, values, read_url)?
        }
    };
    let filtered = filter.source.is_some() || filter.domain.is_some();
    let total = if filtered { count_filtered(&snapshot, filter)? } else { read_counts(&snapshot, filter)? };
    Ok(UrlPage { items, total })
}

/// Owner of the requested library.
fn owner(filter: &UrlFilter) -> &str {
    if filter.scope == LibraryScope::Shared { "" } else { &filter.project_key }
}

fn count_filtered(db: &Connection, filter: &UrlFilter) -> Result<u64> {
    let source = filter.source.map(UrlSource::as_str);
    let scope = if filter.scope == LibraryScope::Shared { "shared" } else { "project" };
    let values = params![owner(filter), source, filter.domain, scope];
    let mut total = db.prepare_cached(COUNT_LIBRARY)?.query_row(values, |row| count(row, 0))?;
    if filter.scope == LibraryScope::Effective {
        let values = params![filter.project_key, source, filter.domain];
        total += db.prepare_cached(COUNT_UNCOVERED)?.query_row(values, |row| count(row, 0))?;
    }
    Ok(total)
}

fn read_counts(db: &Connection, filter: &UrlFilter) -> Result<u64> {
    let read = |scope: &str, owner: &str| -> Result<(u64, u64)> {
        let mut statement = db.prepare_cached(READ_COUNTS)?;
        Ok(statement.query_row([scope, owner], |row| Ok((count(row, 0)?, count(row, 1)?)))?)
    };
    Ok(match filter.scope {
        LibraryScope::Shared => read("shared", "")?.0,
        LibraryScope::Project => read("project", &filter.project_key)?.0,
        LibraryScope::Effective => {
            let (own, covered) = read("project", &filter.project_key)?;
            (own + read("shared", "")?.0).saturating_sub(covered)
        }
    })
}

fn read_url(row: &Row<'_>) -> rusqlite::Result<PoolUrl> {
    Ok(PoolUrl {
        id: row.get(0)?,
        url: row.get(1)?,
        domain: row.get(2)?,
        source: word(row, 3)?,
        source_ref: row.get(4)?,
        library: word(row, 5)?,
        created_at: time(row, 6)?,
    })
}

fn read_rule(row: &Row<'_>) -> rusqlite::Result<CaptureRule> {
    Ok(CaptureRule {
        project_key: row.get(0)?,
        job_type: row.get(1)?,
        library: word(row, 2)?,
        enabled: row.get(3)?,
        updated_at: time(row, 4)?,
    })
}

fn documents(db: &Connection, filter: &DocumentFilter) -> Result<Vec<DocumentRow>> {
    if let Some(ids) = &filter.ids {
        let values = params![filter.project_key, serde_json::to_string(ids)?, filter.before, filter.limit];
        return all(db, READ_DOCUMENTS_BY_ID, values, read_document);
    }
    let (types, states) = (serde_json::to_string(&filter.doc_types)?, serde_json::to_string(&filter.states)?);
    all(db, READ_DOCUMENTS, params![filter.project_key, filter.before, types, states, filter.limit], read_document)
}

fn read_document(row: &Row<'_>) -> rusqlite::Result<DocumentRow> {
    Ok(DocumentRow { id: row.get(0)?, fields: row.get(1)?, payload: row.get(2)?, kind: row.get(3)? })
}
