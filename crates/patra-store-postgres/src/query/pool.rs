//! Projects and the URL pool.
//!
//! A page is read from the newest row up to its end: of the project's library and, from the shared one, the URLs that
//! the project does not have itself. Without a filter, the total is known without counting.

use patra_core::SourceId;
use patra_core::port::BoxFuture;
use patra_core::port::pool::{
    CaptureRule, DocumentFilter, DocumentRow, EndedJob, JobFilter, JobPoll, PoolQueries, PoolUrl, ProjectRow,
    StoredTweet, TweetFilter, UrlFilter, UrlPage,
};
use patra_core::project::{Library, LibraryScope};
use patra_core::tweet::FetchStats;
use patra_core::tx::{TxError, UrlSource};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::{document, job};
use crate::PostgresStore;
use crate::error::Fail;
use crate::json::JsonText;
use crate::pool::{Session, pipeline};
use crate::time::Time;

const PROJECTS: &str = "SELECT project_key, name, created_at FROM project ORDER BY project_key";

const RULES: &str = "
SELECT project_key, job_type, scope, enabled = 1, updated_at FROM resource_pool_capture
WHERE $1::text IS NULL OR project_key = $1
ORDER BY project_key, job_type";

/// Rows of a library; `$1` is the project.
macro_rules! of_project {
    () => {
        "FROM resource_pool_urls u WHERE u.scope = 'project' AND u.project_key = $1"
    };
}

macro_rules! of_shared {
    () => {
        "FROM resource_pool_urls u WHERE u.scope = 'shared' AND u.project_key = '' AND $1::text IS NOT NULL"
    };
}

/// Covering applies before filtering (POOL-09): the project's entry hides the shared one, whatever it is.
macro_rules! not_covered {
    () => {
        concat!(
            of_shared!(),
            "
    AND NOT EXISTS (
      SELECT 1 FROM resource_pool_urls own WHERE own.scope = 'project' AND own.project_key = $1 AND own.url = u.url)"
        )
    };
}

/// Rows behind a position, `$4` and `$5`; all rows without one.
macro_rules! behind {
    ($at:literal, $id:literal) => {
        concat!(
            "(",
            $at,
            ", ",
            $id,
            ") < (coalesce($4::timestamptz, 'infinity'::timestamptz), coalesce($5::bigint, 9223372036854775807))"
        )
    };
}

/// `$2` rows after the first `$3` in `found`; only these are read in full.
macro_rules! page {
    ($found:expr) => {
        concat!(
            "
WITH found AS (",
            $found,
            "),
page AS (SELECT id FROM found ORDER BY created_at DESC, id DESC LIMIT $2::bigint OFFSET $3::bigint)
SELECT u.id, u.url, u.domain, u.source, u.source_ref, u.scope, u.created_at
FROM page JOIN resource_pool_urls u ON u.id = page.id
ORDER BY u.created_at DESC, u.id DESC"
        )
    };
}

/// The newest rows up to the end of the page, from the index alone if possible.
macro_rules! newest {
    ($rows:expr) => {
        concat!(
            "(SELECT u.id, u.created_at ",
            $rows,
            " AND ",
            behind!("u.created_at", "u.id"),
            " ORDER BY u.created_at DESC, u.id DESC LIMIT $2::bigint + $3::bigint)"
        )
    };
}

const PROJECT: &str = page!(newest!(of_project!()));
const SHARED: &str = page!(newest!(of_shared!()));
pub(crate) const EFFECTIVE: &str = page!(concat!(newest!(of_project!()), " UNION ALL ", newest!(not_covered!())));

/// All rows that match the filter, since they are counted anyway. No character of a domain is special.
macro_rules! filtered {
    ($rows:expr) => {
        concat!(
            "SELECT u.id, u.created_at ",
            $rows,
            " AND ($6::text IS NULL OR u.source = $6) AND ($7::text IS NULL OR strpos(u.domain, $7) > 0)"
        )
    };
}

/// Returns the total with the rows, even if the page is empty.
macro_rules! counted_page {
    ($found:expr) => {
        concat!(
            "
WITH found AS MATERIALIZED (",
            $found,
            "),
page AS (
  SELECT id FROM found WHERE ",
            behind!("created_at", "id"),
            " ORDER BY created_at DESC, id DESC LIMIT $2::bigint OFFSET $3::bigint)
SELECT u.id, u.url, u.domain, u.source, u.source_ref, u.scope, u.created_at, total.urls
FROM (SELECT count(*) AS urls FROM found) AS total
LEFT JOIN (page JOIN resource_pool_urls u ON u.id = page.id) ON true
ORDER BY u.created_at DESC, u.id DESC"
        )
    };
}

const PROJECT_FILTERED: &str = counted_page!(filtered!(of_project!()));
const SHARED_FILTERED: &str = counted_page!(filtered!(of_shared!()));
const EFFECTIVE_FILTERED: &str =
    counted_page!(concat!(filtered!(of_project!()), " UNION ALL ", filtered!(not_covered!())));

/// Counts of one library, or of the project's library with the shared one.
const COUNTED: &str = "
SELECT coalesce(sum(urls - CASE WHEN $3 THEN covered ELSE 0 END), 0)::bigint FROM resource_pool_count
WHERE (scope = $1 AND project_key = $2) OR ($3 AND scope = 'shared' AND project_key = '')";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[PROJECTS, RULES, PROJECT, SHARED, EFFECTIVE, PROJECT_FILTERED, SHARED_FILTERED, EFFECTIVE_FILTERED, COUNTED];

impl PoolQueries for PostgresStore {
    fn projects(&self) -> BoxFuture<'_, Result<Vec<ProjectRow>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(projects(session))))
    }

    fn pool_urls(&self, filter: UrlFilter) -> BoxFuture<'_, Result<UrlPage, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(urls(session, filter))))
    }

    fn capture_rules(&self, project_key: Option<&str>) -> BoxFuture<'_, Result<Vec<CaptureRule>, TxError>> {
        let project = project_key.map(str::to_owned);
        Box::pin(self.readers.run(move |session| Box::pin(rules(session, project))))
    }

    fn documents(&self, filter: DocumentFilter) -> BoxFuture<'_, Result<Vec<DocumentRow>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(document::documents(session, filter))))
    }

    fn ended_jobs(&self, filter: JobFilter) -> BoxFuture<'_, Result<Vec<EndedJob>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(job::ended(session, filter))))
    }

    fn items_of_job(
        &self,
        instance: i64,
        after: i64,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<(i64, String, String)>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(job::items(session, instance, after, limit))))
    }

    fn polls_of_job(&self, instance: i64) -> BoxFuture<'_, Result<Vec<JobPoll>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(job::polls(session, instance))))
    }

    fn fetch_stats(&self, sources: &[SourceId]) -> BoxFuture<'_, Result<Vec<(SourceId, FetchStats)>, TxError>> {
        let sources: Vec<_> = sources.iter().map(|source| source.0).collect();
        Box::pin(self.readers.run(move |session| Box::pin(document::fetch_stats(session, sources))))
    }

    fn tweets(&self, filter: TweetFilter) -> BoxFuture<'_, Result<Vec<StoredTweet>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(document::tweets(session, filter))))
    }

    fn job_types(&self, project_key: &str) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        let project_key = project_key.to_owned();
        Box::pin(self.readers.run(move |session| Box::pin(job::types(session, project_key))))
    }
}

async fn projects(session: &Session) -> Result<Vec<ProjectRow>, Fail> {
    let [projects] = session.prepare([PROJECTS]).await?;
    let read = |row: &Row| {
        let Time(created_at): Time = row.try_get(2)?;
        Ok(ProjectRow { project_key: row.try_get(0)?, name: row.try_get(1)?, created_at })
    };
    session.rows(&projects, &[]).await?.iter().map(read).collect()
}

async fn rules(session: &Session, project: Option<String>) -> Result<Vec<CaptureRule>, Fail> {
    let [rules] = session.prepare([RULES]).await?;
    let read = |row: &Row| {
        Ok(CaptureRule {
            project_key: row.try_get(0)?,
            job_type: row.try_get(1)?,
            library: row.try_get::<_, &str>(2)?.parse()?,
            enabled: row.try_get(3)?,
            updated_at: row.try_get::<_, Time>(4)?.0,
        })
    };
    session.rows(&rules, &[&project]).await?.iter().map(read).collect()
}

/// Planned each time for its values: the position of a page decides how to find it best.
async fn urls(session: &Session, filter: UrlFilter) -> Result<UrlPage, Fail> {
    let (page, filtered) = match filter.scope {
        LibraryScope::Project => (PROJECT, PROJECT_FILTERED),
        LibraryScope::Shared => (SHARED, SHARED_FILTERED),
        LibraryScope::Effective => (EFFECTIVE, EFFECTIVE_FILTERED),
    };
    let (limit, offset) = (i64::from(filter.limit), i64::try_from(filter.offset).unwrap_or(i64::MAX / 2));
    let source = filter.source.map(UrlSource::as_str);
    let (before_at, before_id) = (filter.before.map(|before| Time(before.at)), filter.before.map(|before| before.id));
    let mut values: Vec<(&(dyn ToSql + Sync), Type)> = vec![
        (&filter.project_key, Type::TEXT),
        (&limit, Type::INT8),
        (&offset, Type::INT8),
        (&before_at, Type::TIMESTAMPTZ),
        (&before_id, Type::INT8),
    ];
    let client = session.client()?;
    let (rows, total) = if source.is_none() && filter.domain.is_none() {
        let [counted] = session.prepare([COUNTED]).await?;
        let library = if filter.scope == LibraryScope::Shared { Library::Shared } else { Library::Project };
        let (scope, key, both) =
            (library.as_str(), library.key(&filter.project_key), filter.scope == LibraryScope::Effective);
        let ((), rows, total, ()) = pipeline!(
            session.begin_reading(),
            async { Ok(client.query_typed(page, &values).await?) },
            session.one(&counted, &[&scope, &key, &both]),
            session.commit(),
        )?;
        (rows, total.try_get::<_, i64>(0)?)
    } else {
        values.extend([(&source as &(dyn ToSql + Sync), Type::TEXT), (&filter.domain, Type::TEXT)]);
        let rows = client.query_typed(filtered, &values).await?;
        let total = rows.first().map(|row| row.try_get(7)).transpose()?.unwrap_or(0);
        (rows, total)
    };
    let on_page = rows.iter().filter(|row| !matches!(row.try_get::<_, Option<i64>>(0), Ok(None)));
    let items = on_page.map(read_url).collect::<Result<_, _>>()?;
    Ok(UrlPage { items, total: u64::try_from(total).unwrap_or(0) })
}

fn read_url(row: &Row) -> Result<PoolUrl, Fail> {
    Ok(PoolUrl {
        id: row.try_get(0)?,
        url: row.try_get(1)?,
        domain: row.try_get(2)?,
        source: row.try_get::<_, &str>(3)?.parse()?,
        source_ref: row.try_get::<_, JsonText>(4)?.0,
        library: row.try_get::<_, &str>(5)?.parse()?,
        created_at: row.try_get::<_, Time>(6)?.0,
    })
}
