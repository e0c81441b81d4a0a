//! Adds URLs to the pool.
//!
//! `covered` of a project counts its URLs that are shared too. Two transactions that add the same URL at once, one to
//! the project and one to the shared library, would not see each other, and neither would count it. So a writer of the
//! shared library takes an advisory lock exclusively and a writer of a project takes it shared, both until they have
//! committed, and both look for the other's URLs in a statement that starts after they got the lock. Projects do not
//! wait for each other.

use patra_core::TaskId;
use patra_core::project::Library;
use patra_core::tx::{AddUrls, Capture, Captured, MAX_URLS, UrlSource, UrlsAdded};
use serde_json::json;

use super::{NOW, count, moment};
use crate::error::{Fail, Phase, refused};
use crate::json::Json;
use crate::pool::{Session, pipeline};

const LOCK_WITH_OTHERS: &str =
    "SELECT pg_advisory_xact_lock_shared(hashtextextended(current_schema() || ' shared urls', 0))";

const LOCK_ALONE: &str = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' shared urls', 0))";

/// Most URLs are known already: no lock is needed for these.
const HAS_NEW: &str = "
SELECT EXISTS (
  SELECT 1 FROM unnest($1::text[]) AS n (url)
  WHERE NOT EXISTS (
    SELECT 1 FROM resource_pool_urls u WHERE u.scope = 'shared' AND u.project_key = '' AND u.url = n.url))";

/// Sorted, so that two writers of the same URLs do not deadlock.
macro_rules! added {
    () => {
        "
WITH added AS (
  INSERT INTO resource_pool_urls (scope, project_key, url, domain, source, source_ref, created_at)
  SELECT $1, $2, n.url, n.domain, $3, n.source_ref, $7
  FROM unnest($4::text[], $5::text[], $6::jsonb[]) AS n (url, domain, source_ref)
  ORDER BY n.url COLLATE \"C\"
  ON CONFLICT (scope, project_key, url) DO NOTHING
  RETURNING url
)"
    };
}

/// One row per shard, of sixteen: concurrent writers are different processes of the server.
macro_rules! count_up {
    () => {
        "
  ON CONFLICT (scope, project_key, shard) DO UPDATE SET urls = c.urls + excluded.urls, covered = c.covered + excluded.covered
)
SELECT urls FROM sums"
    };
}

/// Every transaction locks the count after the URLs. `LIMIT 1` makes each URL one step in the index.
const ADD_TO_PROJECT: &str = concat!(
    added!(),
    ",
sums AS (
  SELECT count(*) AS urls, count(shared.found) AS covered
  FROM added LEFT JOIN LATERAL (
    SELECT true AS found FROM resource_pool_urls s
    WHERE s.scope = 'shared' AND s.project_key = '' AND s.url = added.url
    LIMIT 1) AS shared ON true
),
counted AS (
  INSERT INTO resource_pool_count AS c (scope, project_key, shard, urls, covered)
  SELECT $1, $2, pg_backend_pid() % 16, urls, covered FROM sums WHERE urls > 0",
    count_up!()
);

const ADD_TO_SHARED: &str = concat!(
    added!(),
    ",
sums AS (SELECT count(*) AS urls FROM added),
projects AS MATERIALIZED (SELECT DISTINCT project_key FROM resource_pool_count WHERE scope = 'project'),
covers AS (
  SELECT projects.project_key, count(*) AS covered
  FROM projects CROSS JOIN added CROSS JOIN LATERAL (
    SELECT true FROM resource_pool_urls p
    WHERE p.scope = 'project' AND p.project_key = projects.project_key AND p.url = added.url
    LIMIT 1) AS own
  GROUP BY projects.project_key
),
counted AS (
  INSERT INTO resource_pool_count AS c (scope, project_key, shard, urls, covered)
  SELECT $1, $2, pg_backend_pid() % 16, urls, 0 FROM sums WHERE urls > 0
  UNION ALL
  SELECT 'project', project_key, pg_backend_pid() % 16, 0, covered FROM covers",
    count_up!()
);

const TRIGGER: &str = "
SELECT job.public_id
FROM ing_task t
JOIN ing_schedule_instance part ON part.id = t.schedule_instance_id
JOIN ing_schedule_instance job ON job.id = coalesce(part.root_id, part.id)
WHERE t.id = $1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOCK_WITH_OTHERS, LOCK_ALONE, HAS_NEW, ADD_TO_PROJECT, ADD_TO_SHARED, TRIGGER];

/// URLs as arrays for `unnest`, and their library.
struct New<'a> {
    library: Library,
    project_key: &'a str,
    source: UrlSource,
    urls: Vec<&'a str>,
    domains: Vec<&'a str>,
    refs: Vec<Json<&'a str>>,
}

impl New<'_> {
    fn check(&self) -> Result<(), Fail> {
        let given = self.urls.len();
        if given > MAX_URLS {
            return Err(refused(format!("{given} URLs in one request: at most {MAX_URLS}")));
        }
        Ok(())
    }

    /// Runs in the caller's transaction, which waits for no lock after this.
    async fn add(&self, session: &Session) -> Result<u32, Fail> {
        let (lock, add) = match self.library {
            Library::Project => (LOCK_WITH_OTHERS, ADD_TO_PROJECT),
            Library::Shared => (LOCK_ALONE, ADD_TO_SHARED),
        };
        let [lock, now, add, has_new] = session.prepare([lock, NOW, add, HAS_NEW]).await?;
        if self.library == Library::Shared && !session.one(&has_new, &[&self.urls]).await?.try_get::<_, bool>(0)? {
            return Ok(0);
        }
        let (_, now) = pipeline!(session.one(&lock, &[]), moment(session, &now))?;
        let (scope, key) = (self.library.as_str(), self.library.key(self.project_key));
        let added = session
            .one(&add, &[&scope, &key, &self.source.as_str(), &self.urls, &self.domains, &self.refs, &now])
            .await?;
        Ok(count(added.try_get(0)?))
    }
}

pub(super) async fn add(session: &Session, op: &AddUrls) -> Result<UrlsAdded, Fail> {
    let new = New {
        library: op.library,
        project_key: &op.project_key,
        source: op.source,
        urls: op.urls.iter().map(|found| found.url.as_str()).collect(),
        domains: op.urls.iter().map(|found| found.domain.as_str()).collect(),
        refs: op.urls.iter().map(|found| Json(found.source_ref.as_str())).collect(),
    };
    new.check()?;
    session.begin().await?;
    let new = new.add(session).await?;
    session.commit().await?;
    Ok(UrlsAdded { new })
}

/// Captures the URLs of a page or a note of a project, at the end of the caller's transaction. A failure rolls back
/// only this part.
pub(super) async fn capture(
    session: &Session,
    capture: &Capture,
    project_key: &str,
    task: Option<TaskId>,
) -> Result<Captured, Fail> {
    session.savepoint().await?;
    match store(session, capture, project_key, task).await {
        Ok(new) => Ok(Captured::Stored { new }),
        Err(fail) => {
            // On a lost connection this fails too, and with it the transaction.
            session.roll_back_to_savepoint().await?;
            let (reason, _) = fail.settle(Phase::Open);
            tracing::warn!(%reason, "URLs were not captured");
            Ok(Captured::Failed)
        }
    }
}

async fn store(session: &Session, capture: &Capture, project_key: &str, task: Option<TaskId>) -> Result<u32, Fail> {
    let public_id: Option<String> = match task {
        Some(task) => {
            let [trigger] = session.prepare([TRIGGER]).await?;
            session.opt(&trigger, &[&task.0]).await?.map(|row| row.try_get(0)).transpose()?
        }
        None => None,
    };
    let source_ref = json!({ "task_id": public_id, "job_type": capture.job_type }).to_string();
    let new = New {
        library: capture.library,
        project_key,
        source: UrlSource::Task,
        urls: capture.urls.iter().map(|(url, _)| url.as_str()).collect(),
        domains: capture.urls.iter().map(|(_, domain)| domain.as_str()).collect(),
        refs: vec![Json(&source_ref); capture.urls.len()],
    };
    new.check()?;
    new.add(session).await
}
