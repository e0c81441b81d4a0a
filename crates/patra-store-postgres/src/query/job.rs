//! Ended jobs and their results.

use patra_core::SourceId;
use patra_core::port::pool::{EndedJob, JobFilter, JobPoll};
use tokio_postgres::Row;

use super::count;
use crate::error::Fail;
use crate::json::JsonText;
use crate::pool::Session;
use crate::time::{Time, maybe};

/// Triggers of a job and of its children: `family`, with `id`.
macro_rules! family {
    ($job:literal) => {
        concat!(
            "
  SELECT id FROM ing_schedule_instance WHERE id = ",
            $job,
            "
  UNION ALL
  SELECT id FROM ing_schedule_instance WHERE root_id = ",
            $job
        )
    };
}

const ENDED: &str = concat!(
    "
SELECT i.id, i.public_id, i.job_type, i.params, i.result
FROM ing_schedule_instance i
WHERE i.project_key = $1 AND i.provenance_code <> 'resource_pool' AND i.parent_id IS NULL
  AND i.status_code IN ('PLANNED', 'FINISHED')
  AND ($2::text[] IS NULL OR i.public_id = ANY ($2))
  AND ($3::text IS NULL OR i.job_type = $3)
  AND ($4::timestamptz IS NULL OR i.created_at >= $4)
  AND NOT EXISTS (SELECT 1 FROM ing_schedule_instance c WHERE c.root_id = i.id AND c.status_code = 'REQUESTED')
  AND NOT EXISTS (
    SELECT 1 FROM (",
    family!("i.id"),
    ") AS family
    JOIN ing_task t ON t.schedule_instance_id = family.id
    WHERE t.status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING'))
ORDER BY i.id DESC
LIMIT $5"
);

/// Reads the ids first, from the index alone, and the items only of the requested page.
const ITEMS: &str = concat!(
    "
WITH family AS MATERIALIZED (",
    family!("$1"),
    "),
runs AS MATERIALIZED (
  SELECT r.id
  FROM family
  JOIN ing_task t ON t.schedule_instance_id = family.id
  JOIN ing_task_run r ON r.task_id = t.id
),
ids AS MATERIALIZED (
  SELECT stored.id
  FROM runs CROSS JOIN LATERAL (
    SELECT item.id FROM item WHERE item.run_id = runs.id AND item.id > $2 ORDER BY item.id LIMIT $3
  ) AS stored
  ORDER BY stored.id
  LIMIT $3
)
SELECT item.id, item.fields, item.payload
FROM ids JOIN item ON item.id = ids.id
ORDER BY item.id"
);

const POLLS: &str = concat!(
    "
WITH family AS MATERIALIZED (",
    family!("$1"),
    ")
SELECT t.source_id, s.config, t.params, t.status_code, t.error, t.started_at, t.finished_at, sums.inserted, sums.updated,
  sums.skipped, sums.rejected
FROM family
JOIN ing_task t ON t.schedule_instance_id = family.id AND t.source_id IS NOT NULL AND t.replaced = 0
LEFT JOIN source s ON s.id = t.source_id
CROSS JOIN LATERAL (
  SELECT coalesce(sum(b.inserted), 0)::bigint AS inserted, coalesce(sum(b.updated), 0)::bigint AS updated,
    coalesce(sum(b.skipped), 0)::bigint AS skipped, coalesce(sum(b.failed), 0)::bigint AS rejected
  FROM ing_task_run_batch b WHERE b.task_id = t.id AND b.status_code = 'SUCCEEDED'
) AS sums
ORDER BY t.source_id, t.id"
);

/// Steps from one job type to the next in the index, however many jobs there are of each.
const TYPES: &str = "
WITH RECURSIVE seen AS (
  (SELECT job_type FROM ing_schedule_instance WHERE project_key = $1 ORDER BY job_type LIMIT 1)
  UNION ALL
  SELECT next.job_type
  FROM seen CROSS JOIN LATERAL (
    SELECT i.job_type FROM ing_schedule_instance i
    WHERE i.project_key = $1 AND i.job_type > seen.job_type
    ORDER BY i.job_type
    LIMIT 1
  ) AS next
)
SELECT job_type FROM seen ORDER BY job_type";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ENDED, ITEMS, POLLS, TYPES];

pub(crate) async fn ended(session: &Session, filter: JobFilter) -> Result<Vec<EndedJob>, Fail> {
    let [ended] = session.prepare([ENDED]).await?;
    let JobFilter { project_key, public_ids, job_type, since, limit } = &filter;
    let (since, limit) = (since.map(Time), i64::from(*limit));
    let read = |row: &Row| {
        Ok(EndedJob {
            job: row.try_get(0)?,
            public_id: row.try_get(1)?,
            job_type: row.try_get(2)?,
            params: row.try_get::<_, JsonText>(3)?.0,
            result: row.try_get::<_, Option<JsonText>>(4)?.map(|JsonText(text)| text),
        })
    };
    session.rows(&ended, &[project_key, public_ids, job_type, &since, &limit]).await?.iter().map(read).collect()
}

pub(crate) async fn items(
    session: &Session,
    instance: i64,
    after: i64,
    limit: u32,
) -> Result<Vec<(i64, String, String)>, Fail> {
    let [items] = session.prepare([ITEMS]).await?;
    let rows = session.rows(&items, &[&instance, &after, &i64::from(limit)]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).collect()
}

pub(crate) async fn polls(session: &Session, instance: i64) -> Result<Vec<JobPoll>, Fail> {
    let [polls] = session.prepare([POLLS]).await?;
    session.rows(&polls, &[&instance]).await?.iter().map(read_poll).collect()
}

fn read_poll(row: &Row) -> Result<JobPoll, Fail> {
    let text = |at| Ok::<_, Fail>(row.try_get::<_, Option<JsonText>>(at)?.map(|JsonText(text)| text));
    let sum = |at| count(row, at);
    Ok(JobPoll {
        source: SourceId(row.try_get(0)?),
        config: text(1)?.unwrap_or_default(),
        params: text(2)?.unwrap_or_default(),
        status: row.try_get::<_, &str>(3)?.parse()?,
        error: text(4)?,
        started_at: maybe(row, 5)?,
        finished_at: maybe(row, 6)?,
        inserted: sum(7)?,
        updated: sum(8)?,
        skipped: sum(9)?,
        rejected: sum(10)?,
    })
}

pub(crate) async fn types(session: &Session, project_key: String) -> Result<Vec<String>, Fail> {
    let [types] = session.prepare([TYPES]).await?;
    session.rows(&types, &[&project_key]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
