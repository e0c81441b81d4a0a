//! Results of a successful poll of tweets, besides its items: the statistics of its source and an outbox event.

use patra_core::Ts;
use patra_core::tweet::FetchStats;
use patra_core::tx::{EndRun, PollEnd};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::outbox;
use crate::error::Result;
use crate::sql::time;

const SUM: &str = "
SELECT coalesce(sum(inserted + updated + skipped), 0), coalesce(sum(inserted), 0)
FROM ing_task_run_batch
WHERE task_id = ?1 AND status_code = 'SUCCEEDED'";

pub(crate) const READ_STATS: &str = "
SELECT last_fetch_at, last_fetched_count, last_new_count, total_fetches, avg_new_rate, consecutive_empty_fetches,
  newest_id
FROM source_stats
WHERE source_id = ?1";

const WRITE_STATS: &str = "
INSERT INTO source_stats
  (source_id, last_fetch_at, last_fetched_count, last_new_count, total_fetches, avg_new_rate, consecutive_empty_fetches,
   newest_id, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?9, ?8, ?8)
ON CONFLICT (source_id) DO UPDATE
SET last_fetch_at = excluded.last_fetch_at, last_fetched_count = excluded.last_fetched_count,
  last_new_count = excluded.last_new_count, total_fetches = excluded.total_fetches, avg_new_rate = excluded.avg_new_rate,
  consecutive_empty_fetches = excluded.consecutive_empty_fetches, newest_id = excluded.newest_id,
  updated_at = excluded.updated_at";

const READ_JOB: &str = "
SELECT made.project_key, coalesce(root.public_id, made.public_id)
FROM ing_schedule_instance made LEFT JOIN ing_schedule_instance root ON root.id = made.root_id
WHERE made.id = ?1";

const READ_USERNAME: &str = "
SELECT iif(json_type(config, '$.username') = 'text', json_extract(config, '$.username'), NULL) FROM source WHERE id = ?1";

pub(crate) const READ_KEYS: &str = "
SELECT dedup_key FROM item
WHERE run_id IN (SELECT id FROM ing_task_run WHERE task_id = ?1)
ORDER BY dedup_key";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[SUM, READ_STATS, WRITE_STATS, READ_JOB, READ_USERNAME, READ_KEYS];

pub(super) fn record(db: &Connection, op: &EndRun, poll: &PollEnd, now: Ts) -> Result<()> {
    if !poll.counted && !poll.emit {
        return Ok(());
    }
    let task = op.lease.task.0;
    let (fetched, new): (i64, i64) = db.prepare_cached(SUM)?.query_row([task], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if poll.counted {
        let count = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
        write(db, poll, count(fetched), count(new), now)?;
    }
    if poll.emit && new > 0 {
        emit(db, op, poll, now)?;
    }
    Ok(())
}

fn write(db: &Connection, poll: &PollEnd, fetched: u32, new: u32, now: Ts) -> Result<()> {
    let source = poll.source.0;
    let before = db.prepare_cached(READ_STATS)?.query_row([source], |row| read_stats(row, 0)).optional()?;
    let stats = before.unwrap_or_default().after(fetched, new, now).reaching(poll.newest.as_ref());
    db.prepare_cached(WRITE_STATS)?.execute(params![
        source,
        stats.last_fetch_at.micros(),
        stats.last_fetched_count,
        stats.last_new_count,
        stats.total_fetches,
        stats.avg_new_rate,
        stats.consecutive_empty_fetches,
        now.micros(),
        stats.newest_id,
    ])?;
    Ok(())
}

/// Reads seven columns, in the order of [`READ_STATS`].
pub(crate) fn read_stats(row: &Row<'_>, at: usize) -> rusqlite::Result<FetchStats> {
    Ok(FetchStats {
        last_fetch_at: time(row, at)?,
        last_fetched_count: row.get(at + 1)?,
        last_new_count: row.get(at + 2)?,
        total_fetches: row.get(at + 3)?,
        avg_new_rate: row.get(at + 4)?,
        consecutive_empty_fetches: row.get(at + 5)?,
        newest_id: row.get(at + 6)?,
    })
}

fn emit(db: &Connection, op: &EndRun, poll: &PollEnd, now: Ts) -> Result<()> {
    let (project_key, job): (String, String) =
        db.prepare_cached(READ_JOB)?.query_row([op.lineage.job.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let username: Option<String> = db.prepare_cached(READ_USERNAME)?.query_row([poll.source.0], |row| row.get(0))?;
    let keys: Vec<String> = db
        .prepare_cached(READ_KEYS)?
        .query_map([op.lease.task.0], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    outbox::put(db, &poll.event(op.run, &project_key, &job, username.as_deref(), &keys), now)
}
