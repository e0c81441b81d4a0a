//! Queries about the crawler.

use std::collections::BTreeMap;

use patra_core::alert::{self, RATE_WINDOW};
use patra_core::cookie::CookieTotals;
use patra_core::crawl::{CrawlCandidate, CrawlNote, Execution, NoteFields};
use patra_core::port::crawl::{CookieFilter, CookieView, CrawlFilter, CrawlRequestCounts, MAX_ROWS, PlatformTotals};
use patra_core::port::{BoxFuture, CrawlQueries};
use patra_core::state::{CandidateStatus, ExecutionStatus};
use patra_core::tx::TxError;
use patra_core::{CredentialId, Ts};
use rusqlite::{Connection, Row, Rows, params};

use super::all;
use crate::SqliteStore;
use crate::error::Result;
use crate::exec::{read_alert, read_candidate, read_execution, read_usage};
use crate::reader::SqliteReader;
use crate::sql::{count, maybe_time, time, word};

const READ_EXECUTIONS: &str = "
SELECT execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed, id
FROM ing_execution
WHERE id > ?2 AND project_key = ?1 AND (?3 IS NULL OR workflow_name = ?3) AND (?4 IS NULL OR status = ?4)
ORDER BY id
LIMIT ?5";

const READ_CANDIDATES: &str = "
SELECT id, platform, note_id, note_url, status, processing_lock, locked_at, retry_count, source_keyword, tokens,
  last_error_code, exec_meta, created_at, updated_at
FROM crawl_candidate
WHERE id > ?2 AND project_key = ?1 AND (?3 IS NULL OR platform = ?3) AND (?4 IS NULL OR status = ?4)
  AND (?5 IS NULL OR source_keyword = ?5) AND (?6 IS NULL OR note_id = ?6)
ORDER BY id
LIMIT ?7";

// A named one is found by index, however many there are.
const READ_CANDIDATE: &str = "
SELECT id, platform, note_id, note_url, status, processing_lock, locked_at, retry_count, source_keyword, tokens,
  last_error_code, exec_meta, created_at, updated_at
FROM crawl_candidate
WHERE +id > ?2 AND project_key = ?1 AND platform = ?3 AND (?4 IS NULL OR status = ?4)
  AND (?5 IS NULL OR source_keyword = ?5) AND note_id = ?6
LIMIT ?7";

const READ_NOTES: &str = "
SELECT note.item_id, note.platform, note.note_id, note.note_url, note.idempotency_key, note.processing_lock,
  note.locked_at, note.retry_count, note.last_error_code, note.exec_meta, note.published_at, item.fields, item.payload,
  item.stored_at
FROM item_note note JOIN item ON item.id = note.item_id
WHERE note.item_id > ?2 AND note.project_key = ?1 AND (?3 IS NULL OR note.platform = ?3)
  AND (?4 IS NULL OR note.note_id = ?4)
ORDER BY note.item_id
LIMIT ?5";

const READ_NOTE: &str = "
SELECT note.item_id, note.platform, note.note_id, note.note_url, note.idempotency_key, note.processing_lock,
  note.locked_at, note.retry_count, note.last_error_code, note.exec_meta, note.published_at, item.fields, item.payload,
  item.stored_at
FROM item_note note JOIN item ON item.id = note.item_id
WHERE +note.item_id > ?2 AND note.project_key = ?1 AND note.platform = ?3 AND note.idempotency_key = ?4
LIMIT ?5";

/// The field of `CookieCounts` that counts a cookie, at the time `$now`.
macro_rules! cookie_kind {
    ($now:literal) => {
        concat!(
            "CASE WHEN cookie_code IN ('invalid', 'banned') THEN cookie_code
    WHEN cookie_expires_at <= ",
            $now,
            " THEN 'expired' WHEN paused_at IS NOT NULL THEN 'paused'
    WHEN cooling_until <= ",
            $now,
            " THEN 'active' ELSE cookie_code END"
        )
    };
}
pub(crate) use cookie_kind;

macro_rules! read_cookies {
    ($index:literal, $filter:literal) => {
        concat!(
            "
SELECT c.id, c.alias, c.provenance_code, c.priority, c.key_id, c.created_at, max(c.updated_at, s.updated_at),
  s.daily_limit, s.cookie_code, s.daily_used, s.used_day, s.consecutive_errors, s.total_errors, s.cooling_until,
  s.cooling_since, s.last_used_at, s.cookie_expires_at, s.paused_at, s.max_parallel, s.in_use
FROM ",
            $index,
            " ON s.credential_id = c.id
WHERE ",
            $filter,
            "
LIMIT ?3"
        )
    };
}

const READ_COOKIES: &str = read_cookies!(
    "reg_prov_credential c INDEXED BY uk_cookie_name CROSS JOIN ing_credential_state s",
    "c.type_code = 'COOKIE' AND c.status_code = 'ACTIVE' AND c.alias > ?2 AND ?1 IS NULL
ORDER BY c.alias"
);

const READ_PLATFORM_COOKIES: &str = read_cookies!(
    "ing_credential_state s INDEXED BY idx_cookie_list CROSS JOIN reg_prov_credential c",
    "s.provenance_code = ?1 AND s.cookie_name > ?2
ORDER BY s.cookie_name"
);

const READ_COOKIE: &str = read_cookies!(
    "reg_prov_credential c INDEXED BY uk_cookie_name CROSS JOIN ing_credential_state s",
    "c.type_code = 'COOKIE' AND c.status_code = 'ACTIVE' AND c.alias = ?2 AND (?1 IS NULL OR c.provenance_code = ?1)"
);

pub(crate) const COUNT_COOKIES: &str = concat!(
    "
SELECT provenance_code, ",
    cookie_kind!("?1"),
    " AS kind, count(*), min(cooling_until)
FROM ing_credential_state INDEXED BY idx_cookie_count
WHERE provenance_code IS NOT NULL
GROUP BY provenance_code, kind"
);

pub(crate) const COUNT_PLATFORM_COOKIES: &str = concat!(
    "
SELECT provenance_code, ",
    cookie_kind!("?1"),
    " AS kind, count(*), min(cooling_until)
FROM ing_credential_state INDEXED BY idx_cookie_count
WHERE provenance_code = ?2
GROUP BY kind"
);

const COUNT_PENDING: &str = "SELECT count(*) FROM crawl_candidate WHERE status = 'pending'";

const READ_CRAWLED: &str = "
SELECT platform, sum(succeeded), sum(failed) FROM crawl_minute WHERE minute >= ?1 GROUP BY platform ORDER BY platform";

const READ_ALERTS: &str = "
SELECT alert, subject, level, since, firing, told_at, value, threshold, detail FROM alert_state ORDER BY alert, subject";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    READ_EXECUTIONS,
    READ_CANDIDATES,
    READ_CANDIDATE,
    READ_NOTES,
    READ_NOTE,
    READ_COOKIES,
    READ_PLATFORM_COOKIES,
    READ_COOKIE,
    COUNT_COOKIES,
    COUNT_PLATFORM_COOKIES,
    COUNT_PENDING,
    READ_CRAWLED,
    READ_ALERTS,
];

impl CrawlQueries for SqliteReader {
    fn executions(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<(i64, Execution)>, TxError>> {
        Box::pin(self.read(move |db| executions(db, &wanted)))
    }

    fn candidates(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlCandidate>, TxError>> {
        Box::pin(self.read(move |db| candidates(db, &wanted)))
    }

    fn notes(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlNote>, TxError>> {
        Box::pin(self.read(move |db| notes(db, &wanted)))
    }

    fn cookies(&self, wanted: CookieFilter) -> BoxFuture<'_, Result<(Vec<CookieView>, Ts), TxError>> {
        let now = self.now();
        Box::pin(self.read(move |db| Ok((cookies(db, &wanted)?, now))))
    }

    fn cookie_totals(&self, platform: Option<String>) -> BoxFuture<'_, Result<(PlatformTotals, Ts), TxError>> {
        let now = self.now();
        Box::pin(self.read(move |db| Ok((cookie_totals(db, platform.as_deref(), now)?, now))))
    }

    fn backlog(&self) -> BoxFuture<'_, Result<u64, TxError>> {
        Box::pin(self.read(|db| Ok(db.prepare_cached(COUNT_PENDING)?.query_row((), |row| count(row, 0))?)))
    }

    fn crawled(&self) -> BoxFuture<'_, Result<Vec<CrawlRequestCounts>, TxError>> {
        let since = (self.now() - RATE_WINDOW).micros();
        Box::pin(self.read(move |db| all(db, READ_CRAWLED, params![since], read_crawled)))
    }

    fn alerts(&self) -> BoxFuture<'_, Result<Vec<alert::AlertView>, TxError>> {
        Box::pin(self.read(|db| all(db, READ_ALERTS, params![], read_view)))
    }
}

impl CrawlQueries for SqliteStore {
    fn executions(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<(i64, Execution)>, TxError>> {
        self.inner.reader.executions(wanted)
    }

    fn candidates(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlCandidate>, TxError>> {
        self.inner.reader.candidates(wanted)
    }

    fn notes(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlNote>, TxError>> {
        self.inner.reader.notes(wanted)
    }

    fn cookies(&self, wanted: CookieFilter) -> BoxFuture<'_, Result<(Vec<CookieView>, Ts), TxError>> {
        self.inner.reader.cookies(wanted)
    }

    fn cookie_totals(&self, platform: Option<String>) -> BoxFuture<'_, Result<(PlatformTotals, Ts), TxError>> {
        self.inner.reader.cookie_totals(platform)
    }

    fn backlog(&self) -> BoxFuture<'_, Result<u64, TxError>> {
        self.inner.reader.backlog()
    }

    fn crawled(&self) -> BoxFuture<'_, Result<Vec<CrawlRequestCounts>, TxError>> {
        self.inner.reader.crawled()
    }

    fn alerts(&self) -> BoxFuture<'_, Result<Vec<alert::AlertView>, TxError>> {
        self.inner.reader.alerts()
    }
}

fn executions(db: &Connection, wanted: &CrawlFilter) -> Result<Vec<(i64, Execution)>> {
    let status = wanted.execution.map(ExecutionStatus::as_str);
    let limit = wanted.limit.min(MAX_ROWS);
    let values = params![wanted.project_key, wanted.after, wanted.workflow_name, status, limit];
    all(db, READ_EXECUTIONS, values, |row| Ok((row.get(8)?, read_execution(row)?)))
}

fn candidates(db: &Connection, wanted: &CrawlFilter) -> Result<Vec<CrawlCandidate>> {
    let status = wanted.candidate.map(CandidateStatus::as_str);
    let limit = wanted.limit.min(MAX_ROWS);
    let CrawlFilter { project_key, after, platform, source_keyword, note_id, .. } = wanted;
    let one = platform.is_some() && note_id.is_some();
    let values = params![project_key, after, platform, status, source_keyword, note_id, limit];
    all(db, if one { READ_CANDIDATE } else { READ_CANDIDATES }, values, read_candidate)
}

fn notes(db: &Connection, wanted: &CrawlFilter) -> Result<Vec<CrawlNote>> {
    let limit = wanted.limit.min(MAX_ROWS);
    let CrawlFilter { project_key, after, platform, note_id, .. } = wanted;
    match (platform, note_id) {
        (Some(platform), Some(note_id)) => {
            let key = patra_core::crawl::idempotency_key(note_id);
            all(db, READ_NOTE, params![project_key, after, platform, key, limit], read_note)
        }
        _ => all(db, READ_NOTES, params![project_key, after, platform, note_id, limit], read_note),
    }
}

fn read_note(row: &Row<'_>) -> rusqlite::Result<CrawlNote> {
    let NoteFields { title, content, author } = NoteFields::read(row.get_ref(11)?.as_str()?);
    Ok(CrawlNote {
        id: row.get(0)?,
        platform: row.get(1)?,
        note_id: row.get(2)?,
        note_url: row.get(3)?,
        idempotency_key: row.get(4)?,
        title,
        content,
        author,
        published_at: maybe_time(row, 10)?,
        fetched_at: time(row, 13)?,
        crawl_result: row.get(12)?,
        processing_lock: row.get(5)?,
        locked_at: maybe_time(row, 6)?,
        retry_count: row.get(7)?,
        last_error_code: row.get(8)?,
        exec_meta: row.get(9)?,
    })
}

fn cookies(db: &Connection, wanted: &CookieFilter) -> Result<Vec<CookieView>> {
    let limit = wanted.limit.min(MAX_ROWS);
    match (&wanted.name, &wanted.platform) {
        (Some(name), platform) => all(db, READ_COOKIE, params![platform, name, limit], read_cookie),
        (None, Some(platform)) => all(db, READ_PLATFORM_COOKIES, params![platform, wanted.after, limit], read_cookie),
        (None, None) => all(db, READ_COOKIES, params![None::<String>, wanted.after, limit], read_cookie),
    }
}

fn cookie_totals(db: &Connection, platform: Option<&str>, now: Ts) -> Result<PlatformTotals> {
    let mut platforms = BTreeMap::<String, CookieTotals>::new();
    let mut add = |row: &Row<'_>| -> rusqlite::Result<()> {
        let totals = platforms.entry(row.get(0)?).or_default();
        totals.add_many(row.get_ref(1)?.as_str()?, row.get(2)?, maybe_time(row, 3)?);
        Ok(())
    };
    let mut statement;
    let mut rows = match platform {
        Some(platform) => {
            statement = db.prepare_cached(COUNT_PLATFORM_COOKIES)?;
            statement.query(params![now.micros(), platform])?
        }
        None => {
            statement = db.prepare_cached(COUNT_COOKIES)?;
            statement.query(params![now.micros()])?
        }
    };
    while let Some(row) = rows.next()? {
        add(row)?;
    }
    Ok(platforms.into_iter().collect())
}

/// Adds up the rows of a count: from `at` on, the kind, the number and the first end of a cooling.
pub(crate) fn read_totals(mut rows: Rows<'_>, at: usize) -> rusqlite::Result<CookieTotals> {
    let mut totals = CookieTotals::default();
    while let Some(row) = rows.next()? {
        totals.add_many(row.get_ref(at)?.as_str()?, row.get(at + 1)?, maybe_time(row, at + 2)?);
    }
    Ok(totals)
}

fn read_cookie(row: &Row<'_>) -> rusqlite::Result<CookieView> {
    Ok(CookieView {
        id: CredentialId(row.get(0)?),
        cookie_name: row.get(1)?,
        platform: row.get(2)?,
        priority: row.get(3)?,
        encryption_key_id: row.get(4)?,
        created_at: time(row, 5)?,
        updated_at: time(row, 6)?,
        usage: read_usage(row, 7)?,
    })
}

fn read_crawled(row: &Row<'_>) -> rusqlite::Result<CrawlRequestCounts> {
    Ok(CrawlRequestCounts { platform: row.get(0)?, succeeded: count(row, 1)?, failed: count(row, 2)? })
}

fn read_view(row: &Row<'_>) -> rusqlite::Result<alert::AlertView> {
    Ok(alert::AlertView {
        alert: row.get(0)?,
        subject: row.get(1)?,
        level: word(row, 2)?,
        state: read_alert(row, 3)?,
        value: row.get(6)?,
        threshold: row.get(7)?,
        detail: row.get(8)?,
    })
}
