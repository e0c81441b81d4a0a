//! Ended jobs, the items they stored and the sources they polled.

use patra_core::SourceId;
use patra_core::port::pool::{EndedJob, JobFilter, JobItem, JobPoll};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::all;
use crate::error::Result;
use crate::sql::{count, maybe_time, word};

/// A user's trigger that has ended.
macro_rules! ended {
    () => {
        "job.status_code IN ('PLANNED', 'FINISHED') AND job.parent_id IS NULL AND job.provenance_code <> 'resource_pool'
  AND (?2 IS NULL OR job.created_at >= ?2)
  AND NOT EXISTS (
    SELECT 1 FROM ing_task task
    WHERE task.schedule_instance_id = job.id AND task.status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING'))
  AND NOT EXISTS (
    SELECT 1 FROM ing_schedule_instance made
    WHERE made.root_id = job.id AND (made.status_code = 'REQUESTED' OR EXISTS (
      SELECT 1 FROM ing_task task
      WHERE task.schedule_instance_id = made.id AND task.status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING'))))
ORDER BY job.id DESC
LIMIT ?3"
    };
}

// From the newest on: most of them have ended.
const READ_ENDED: &str = concat!(
    "
SELECT job.id, job.public_id, job.job_type, job.params, job.result FROM ing_schedule_instance job
WHERE +job.project_key = ?1 AND ",
    ended!()
);

pub(crate) const READ_ENDED_OF_TYPE: &str = concat!(
    "
SELECT job.id, job.public_id, job.job_type, job.params, job.result FROM ing_schedule_instance job
WHERE job.project_key = ?1 AND job.job_type = ?4 AND ",
    ended!()
);

const READ_ENDED_BY_ID: &str = concat!(
    "
SELECT job.id, job.public_id, job.job_type, job.params, job.result FROM ing_schedule_instance job
WHERE job.public_id IN (SELECT value FROM json_each(?5)) AND +job.project_key = ?1
  AND (?4 IS NULL OR +job.job_type = ?4) AND ",
    ended!()
);

/// The job and its children.
macro_rules! family {
    () => {
        "(SELECT ?1 AS id UNION ALL SELECT id FROM ing_schedule_instance WHERE root_id = ?1)"
    };
}

const READ_RUNS: &str = concat!(
    "
SELECT run.id
FROM ",
    family!(),
    " family
JOIN ing_task task ON task.schedule_instance_id = family.id
JOIN ing_task_run run ON run.task_id = task.id"
);

pub(crate) const READ_ITEMS: &str = "
SELECT id, fields, payload FROM item INDEXED BY idx_item_run
WHERE run_id = ?1 AND id > ?2
ORDER BY id
LIMIT ?3";

const READ_POLLS: &str = concat!(
    "
SELECT task.source_id, coalesce(source.config, ''), task.params, task.status_code, task.error, task.started_at,
  task.finished_at, coalesce(sum(batch.inserted), 0), coalesce(sum(batch.updated), 0), coalesce(sum(batch.skipped), 0),
  coalesce(sum(batch.failed), 0)
FROM ",
    family!(),
    " family
JOIN ing_task task ON task.schedule_instance_id = family.id
LEFT JOIN source ON source.id = task.source_id
LEFT JOIN ing_task_run_batch batch ON batch.task_id = task.id AND batch.status_code = 'SUCCEEDED'
WHERE task.source_id IS NOT NULL AND task.replaced = 0
GROUP BY task.id
ORDER BY task.source_id, task.id"
);

// Finds one of each type, without reading the others of that type.
pub(crate) const NEXT_TYPE: &str = "
SELECT job_type FROM ing_schedule_instance
WHERE project_key = ?1 AND job_type > ?2
ORDER BY job_type
LIMIT 1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[READ_ENDED, READ_ENDED_OF_TYPE, READ_ENDED_BY_ID, READ_RUNS, READ_ITEMS, READ_POLLS, NEXT_TYPE];

pub(super) fn ended(db: &Connection, filter: &JobFilter) -> Result<Vec<EndedJob>> {
    let since = filter.since.map(patra_core::Ts::micros);
    match (&filter.public_ids, &filter.job_type) {
        (Some(ids), of) => {
            let ids = serde_json::to_string(ids)?;
            all(db, READ_ENDED_BY_ID, params![filter.project_key, since, filter.limit, of, ids], read_job)
        }
        (None, Some(of)) => all(db, READ_ENDED_OF_TYPE, params![filter.project_key, since, filter.limit, of], read_job),
        (None, None) => all(db, READ_ENDED, params![filter.project_key, since, filter.limit], read_job),
    }
}

fn read_job(row: &Row<'_>) -> rusqlite::Result<EndedJob> {
    Ok(EndedJob {
        job: row.get(0)?,
        public_id: row.get(1)?,
        job_type: row.get(2)?,
        params: row.get(3)?,
        result: row.get(4)?,
    })
}

/// Reads run by run from the position on: however much a job has stored, a page costs its length and a lookup per run.
pub(super) fn items(db: &Connection, instance: i64, after: i64, limit: u32) -> Result<Vec<JobItem>> {
    let snapshot = db.unchecked_transaction()?;
    let runs: Vec<i64> = all(&snapshot, READ_RUNS, params![instance], |row| row.get(0))?;
    let mut items: Vec<JobItem> = Vec::new();
    for run in runs {
        // A full page needs no further rows.
        let full = items.len() >= limit as usize;
        let last = items.last().filter(|_| full).map_or(i64::MAX, |item| item.0);
        let mut statement = snapshot.prepare_cached(READ_ITEMS)?;
        let mut rows = statement.query(params![run, after, limit])?;
        let before = items.len();
        while let Some(row) = rows.next()? {
            let id = row.get(0)?;
            if id > last {
                break;
            }
            items.push((id, row.get(1)?, row.get(2)?));
        }
        if items.len() > before {
            items.sort_unstable_by_key(|item| item.0);
            items.truncate(limit as usize);
        }
    }
    Ok(items)
}

pub(super) fn polls(db: &Connection, instance: i64) -> Result<Vec<JobPoll>> {
    all(db, READ_POLLS, params![instance], |row| {
        Ok(JobPoll {
            source: SourceId(row.get(0)?),
            config: row.get(1)?,
            params: row.get(2)?,
            status: word(row, 3)?,
            error: row.get(4)?,
            started_at: maybe_time(row, 5)?,
            finished_at: maybe_time(row, 6)?,
            inserted: count(row, 7)?,
            updated: count(row, 8)?,
            skipped: count(row, 9)?,
            rejected: count(row, 10)?,
        })
    })
}

pub(super) fn types(db: &Connection, project_key: &str) -> Result<Vec<String>> {
    let mut statement = db.prepare_cached(NEXT_TYPE)?;
    let mut types: Vec<String> = Vec::new();
    loop {
        let last = types.last().map(String::as_str).unwrap_or_default();
        match statement.query_row([project_key, last], |row| row.get(0)).optional()? {
            Some(next) => types.push(next),
            None => return Ok(types),
        }
    }
}
