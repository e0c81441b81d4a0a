//! Queries about the crawler.

use std::collections::BTreeMap;

use patra_core::alert::{self, RATE_WINDOW};
use patra_core::cookie::CookieTotals;
use patra_core::crawl::{CrawlCandidate, CrawlNote, Execution, NoteFields, idempotency_key};
use patra_core::port::crawl::{CookieFilter, CookieView, CrawlFilter, CrawlRequestCounts, MAX_ROWS, PlatformTotals};
use patra_core::port::{BoxFuture, CrawlQueries};
use patra_core::state::{CandidateStatus, ExecutionStatus};
use patra_core::tx::TxError;
use patra_core::{CredentialId, Ts};
use tokio_postgres::Row;

use super::count;
use crate::PostgresStore;
use crate::error::Fail;
use crate::exec::{read_alert, read_candidate, read_execution, read_usage};
use crate::pool::{Params, Session, pipeline};
use crate::time::{Time, maybe};

const EXECUTIONS: &str = "
SELECT execution_id, workflow_name, status, started_at, heartbeat_at, completed_at, items_processed, items_failed, id
FROM ing_execution
WHERE project_key = $1 AND id > $2 AND ($3::text IS NULL OR workflow_name = $3) AND ($4::text IS NULL OR status = $4)
ORDER BY id
LIMIT $5";

const CANDIDATES: &str = "
SELECT id, platform, note_id, note_url, status, processing_lock, locked_at, retry_count, source_keyword, tokens,
  last_error_code, exec_meta, created_at, updated_at
FROM crawl_candidate
WHERE project_key = $1 AND id > $2 AND ($3::text IS NULL OR platform = $3) AND ($4::text IS NULL OR status = $4)
  AND ($5::text IS NULL OR source_keyword = $5) AND ($6::text IS NULL OR note_id = $6)
ORDER BY id
LIMIT $7";

/// A named one is found by index, however many there are.
const CANDIDATE: &str = "
SELECT id, platform, note_id, note_url, status, processing_lock, locked_at, retry_count, source_keyword, tokens,
  last_error_code, exec_meta, created_at, updated_at
FROM crawl_candidate
WHERE project_key = $1 AND id > $2 AND platform = $3 AND ($4::text IS NULL OR status = $4)
  AND ($5::text IS NULL OR source_keyword = $5) AND note_id = $6
LIMIT $7";

const NOTES: &str = "
SELECT note.item_id, note.platform, note.note_id, note.note_url, note.idempotency_key, note.processing_lock,
  note.locked_at, note.retry_count, note.last_error_code, note.exec_meta, note.published_at, item.fields, item.payload,
  item.stored_at
FROM item_note note JOIN item ON item.id = note.item_id
WHERE note.project_key = $1 AND note.item_id > $2 AND ($3::text IS NULL OR note.platform = $3)
  AND ($4::text IS NULL OR note.note_id = $4)
ORDER BY note.item_id
LIMIT $5";

const NOTE: &str = "
SELECT note.item_id, note.platform, note.note_id, note.note_url, note.idempotency_key, note.processing_lock,
  note.locked_at, note.retry_count, note.last_error_code, note.exec_meta, note.published_at, item.fields, item.payload,
  item.stored_at
FROM item_note note JOIN item ON item.id = note.item_id
WHERE note.project_key = $1 AND note.item_id > $2 AND note.platform = $3 AND note.idempotency_key = $4
LIMIT $5";

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

macro_rules! cookies {
    ($filter:literal) => {
        concat!(
            "
SELECT c.id, c.alias, c.provenance_code, c.priority, c.key_id, c.created_at, greatest(c.updated_at, s.updated_at),
  s.daily_limit, s.cookie_code, s.daily_used, s.used_day, s.consecutive_errors, s.total_errors, s.cooling_until,
  s.cooling_since, s.last_used_at, s.cookie_expires_at, s.paused_at, s.max_parallel, s.in_use
FROM reg_prov_credential c JOIN ing_credential_state s ON s.credential_id = c.id
WHERE ",
            $filter,
            "
LIMIT $3"
        )
    };
}

pub(crate) const COOKIES: &str = cookies!(
    "c.type_code = 'COOKIE' AND c.status_code = 'ACTIVE' AND c.alias > $2 AND $1::text IS NULL
ORDER BY c.alias"
);

pub(crate) const PLATFORM_COOKIES: &str = cookies!(
    "s.provenance_code = $1 AND s.cookie_name > $2
ORDER BY s.cookie_name"
);

pub(crate) const COOKIE: &str = cookies!(
    "c.type_code = 'COOKIE' AND c.status_code = 'ACTIVE' AND c.alias = $2
  AND ($1::text IS NULL OR c.provenance_code = $1)"
);

pub(crate) const COUNT_COOKIES: &str = concat!(
    "
SELECT provenance_code, ",
    cookie_kind!("moment.now"),
    " AS kind, count(*), min(cooling_until)
FROM ing_credential_state, (SELECT clock_timestamp() AS now) moment
WHERE provenance_code IS NOT NULL
GROUP BY provenance_code, kind
ORDER BY provenance_code"
);

pub(crate) const COUNT_PLATFORM_COOKIES: &str = concat!(
    "
SELECT provenance_code, ",
    cookie_kind!("moment.now"),
    " AS kind, count(*), min(cooling_until)
FROM ing_credential_state, (SELECT clock_timestamp() AS now) moment
WHERE provenance_code = $1
GROUP BY provenance_code, kind"
);

const CLOCK: &str = "SELECT clock_timestamp()";

const BACKLOG: &str = "SELECT count(*) FROM crawl_candidate WHERE status = 'pending'";

const CRAWLED: &str = "
SELECT platform, sum(succeeded)::bigint, sum(failed)::bigint
FROM crawl_minute
WHERE minute >= clock_timestamp() - $1::bigint * interval '1 microsecond'
GROUP BY platform
ORDER BY platform";

const ALERTS: &str = "
SELECT alert, subject, level, since, firing = 1, told_at, value, threshold, detail FROM alert_state ORDER BY alert, subject";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[EXECUTIONS, CANDIDATES, CANDIDATE, NOTES, NOTE, COOKIES, CLOCK, BACKLOG, CRAWLED, ALERTS];

impl CrawlQueries for PostgresStore {
    fn executions(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<(i64, Execution)>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(executions(session, wanted))))
    }

    fn candidates(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlCandidate>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(candidates(session, wanted))))
    }

    fn notes(&self, wanted: CrawlFilter) -> BoxFuture<'_, Result<Vec<CrawlNote>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(notes(session, wanted))))
    }

    fn cookies(&self, wanted: CookieFilter) -> BoxFuture<'_, Result<(Vec<CookieView>, Ts), TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(cookies(session, wanted))))
    }

    fn cookie_totals(&self, platform: Option<String>) -> BoxFuture<'_, Result<(PlatformTotals, Ts), TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(cookie_totals(session, platform))))
    }

    fn backlog(&self) -> BoxFuture<'_, Result<u64, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(backlog(session))))
    }

    fn crawled(&self) -> BoxFuture<'_, Result<Vec<CrawlRequestCounts>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(crawled(session))))
    }

    fn alerts(&self) -> BoxFuture<'_, Result<Vec<alert::AlertView>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(all(session, ALERTS, &[], read_view))))
    }
}

async fn all<T>(
    session: &Session,
    sql: &'static str,
    values: Params<'_>,
    read: fn(&Row) -> Result<T, Fail>,
) -> Result<Vec<T>, Fail> {
    let [statement] = session.prepare([sql]).await?;
    session.rows(&statement, values).await?.iter().map(read).collect()
}

async fn executions(session: &Session, wanted: CrawlFilter) -> Result<Vec<(i64, Execution)>, Fail> {
    let (status, limit) = (wanted.execution.map(ExecutionStatus::as_str), i64::from(wanted.limit.min(MAX_ROWS)));
    let read = |row: &Row| Ok((row.try_get(8)?, read_execution(row)?));
    let CrawlFilter { project_key, after, workflow_name, .. } = &wanted;
    all(session, EXECUTIONS, &[project_key, after, workflow_name, &status, &limit], read).await
}

async fn candidates(session: &Session, wanted: CrawlFilter) -> Result<Vec<CrawlCandidate>, Fail> {
    let (status, limit) = (wanted.candidate.map(CandidateStatus::as_str), i64::from(wanted.limit.min(MAX_ROWS)));
    let CrawlFilter { project_key, after, platform, source_keyword, note_id, .. } = &wanted;
    let statement = if platform.is_some() && note_id.is_some() { CANDIDATE } else { CANDIDATES };
    let values: Params<'_> = &[project_key, after, platform, &status, source_keyword, note_id, &limit];
    all(session, statement, values, read_candidate).await
}

async fn notes(session: &Session, wanted: CrawlFilter) -> Result<Vec<CrawlNote>, Fail> {
    let limit = i64::from(wanted.limit.min(MAX_ROWS));
    let CrawlFilter { project_key, after, platform, note_id, .. } = &wanted;
    match (platform, note_id) {
        (Some(platform), Some(note_id)) => {
            let key = idempotency_key(note_id);
            all(session, NOTE, &[project_key, after, platform, &key, &limit], read_note).await
        }
        _ => all(session, NOTES, &[project_key, after, platform, note_id, &limit], read_note).await,
    }
}

fn read_note(row: &Row) -> Result<CrawlNote, Fail> {
    let NoteFields { title, content, author } = NoteFields::read(row.try_get(11)?);
    Ok(CrawlNote {
        id: row.try_get(0)?,
        platform: row.try_get(1)?,
        note_id: row.try_get(2)?,
        note_url: row.try_get(3)?,
        idempotency_key: row.try_get(4)?,
        title,
        content,
        author,
        published_at: maybe(row, 10)?,
        fetched_at: row.try_get::<_, Time>(13)?.0,
        crawl_result: row.try_get(12)?,
        processing_lock: row.try_get(5)?,
        locked_at: maybe(row, 6)?,
        retry_count: u32::try_from(row.try_get::<_, i64>(7)?).unwrap_or(0),
        last_error_code: row.try_get(8)?,
        exec_meta: row.try_get(9)?,
    })
}

async fn cookies(session: &Session, wanted: CookieFilter) -> Result<(Vec<CookieView>, Ts), Fail> {
    let statement = match (&wanted.name, &wanted.platform) {
        (Some(_), _) => COOKIE,
        (None, Some(_)) => PLATFORM_COOKIES,
        (None, None) => COOKIES,
    };
    let [cookies, clock] = session.prepare([statement, CLOCK]).await?;
    let (name, limit) = (wanted.name.as_ref().unwrap_or(&wanted.after), i64::from(wanted.limit.min(MAX_ROWS)));
    let (rows, now) = pipeline!(session.rows(&cookies, &[&wanted.platform, name, &limit]), session.one(&clock, &[]))?;
    let read = |row: &Row| {
        Ok(CookieView {
            id: CredentialId(row.try_get(0)?),
            cookie_name: row.try_get(1)?,
            platform: row.try_get(2)?,
            priority: row.try_get(3)?,
            encryption_key_id: row.try_get(4)?,
            created_at: row.try_get::<_, Time>(5)?.0,
            updated_at: row.try_get::<_, Time>(6)?.0,
            usage: read_usage(row, 7)?,
        })
    };
    Ok((rows.iter().map(read).collect::<Result<_, Fail>>()?, now.try_get::<_, Time>(0)?.0))
}

async fn cookie_totals(session: &Session, platform: Option<String>) -> Result<(PlatformTotals, Ts), Fail> {
    let [of_all, of_one, clock] = session.prepare([COUNT_COOKIES, COUNT_PLATFORM_COOKIES, CLOCK]).await?;
    let rows = async {
        match &platform {
            Some(platform) => session.rows(&of_one, &[platform]).await,
            None => session.rows(&of_all, &[]).await,
        }
    };
    let (rows, now) = pipeline!(rows, session.one(&clock, &[]))?;
    let mut platforms = BTreeMap::<String, CookieTotals>::new();
    for row in &rows {
        let number = u32::try_from(row.try_get::<_, i64>(2)?).unwrap_or(u32::MAX);
        platforms.entry(row.try_get(0)?).or_default().add_many(row.try_get(1)?, number, maybe(row, 3)?);
    }
    Ok((platforms.into_iter().collect(), now.try_get::<_, Time>(0)?.0))
}

async fn backlog(session: &Session) -> Result<u64, Fail> {
    let [statement] = session.prepare([BACKLOG]).await?;
    count(&session.one(&statement, &[]).await?, 0)
}

async fn crawled(session: &Session) -> Result<Vec<CrawlRequestCounts>, Fail> {
    let window = patra_core::time::micros(RATE_WINDOW);
    let read = |row: &Row| {
        Ok(CrawlRequestCounts { platform: row.try_get(0)?, succeeded: count(row, 1)?, failed: count(row, 2)? })
    };
    all(session, CRAWLED, &[&window], read).await
}

fn read_view(row: &Row) -> Result<alert::AlertView, Fail> {
    Ok(alert::AlertView {
        alert: row.try_get(0)?,
        subject: row.try_get(1)?,
        level: row.try_get::<_, &str>(2)?.parse()?,
        state: read_alert(row, 3)?,
        value: row.try_get(6)?,
        threshold: row.try_get(7)?,
        detail: row.try_get(8)?,
    })
}
