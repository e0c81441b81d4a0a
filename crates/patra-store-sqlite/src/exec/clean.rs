//! Purging of expired data: the content of articles, the ledger of polls, background jobs and jobs that have ended.

use patra_core::Ts;
use patra_core::tx::{ExpiredPurged, PurgeExpired};
use rusqlite::{Connection, Row, params};

use crate::error::Result;

const OLD_ITEMS: &str = "
SELECT item_id FROM item_source
WHERE kind = 'article' AND fetched_at < ?1
ORDER BY fetched_at
LIMIT ?2";

const EMPTY_ITEM: &str = "
UPDATE item SET fields = '', payload = '', emptied_at = ?2
WHERE id = ?1 AND emptied_at IS NULL
RETURNING id";

const UNLINK: &str = "DELETE FROM item_source WHERE item_id = ?1";

// Polls of a job are deleted with it.
pub(crate) const OLD_POLLS: &str = "
SELECT id, schedule_instance_id, plan_id, slice_id FROM ing_task
WHERE source_id IS NOT NULL AND finished_at < ?1 AND NOT EXISTS (
  SELECT 1 FROM ing_schedule_instance made WHERE made.id = ing_task.schedule_instance_id AND made.root_id IS NOT NULL)
ORDER BY finished_at
LIMIT ?2";

const FORGET: &[&str] = &[
    "DELETE FROM ing_raw WHERE run_id IN (SELECT id FROM ing_task_run WHERE task_id = ?1)",
    "DELETE FROM ing_task_run_batch WHERE task_id = ?1",
    "DELETE FROM ing_task_run WHERE task_id = ?1",
    "DELETE FROM ing_task WHERE id = ?1",
];

const FORGET_SLICE: &str = "DELETE FROM ing_plan_slice WHERE id = ?1";
const FORGET_PLAN: &str = "DELETE FROM ing_plan WHERE id = ?1";
const FORGET_TRIGGER: &str = "DELETE FROM ing_schedule_instance WHERE id = ?1";

pub(crate) const FORGET_BACKGROUND_JOBS: &str = "
DELETE FROM ing_schedule_instance
WHERE id IN (
  SELECT id FROM ing_schedule_instance
  WHERE finished_at < ?1 AND provenance_code = 'resource_pool' AND status_code <> 'REQUESTED'
  ORDER BY finished_at
  LIMIT ?2)";

// All their polls ended long ago.
pub(crate) const OLD_SCRAPES: &str = "
SELECT id FROM ing_schedule_instance job INDEXED BY idx_instance_scrape
WHERE scheduler_code = 'scrape' AND created_at < ?1 AND NOT EXISTS (
  SELECT 1 FROM ing_schedule_instance made JOIN ing_task task ON task.schedule_instance_id = made.id
  WHERE made.root_id = job.id AND coalesce(task.finished_at >= ?1, TRUE))
ORDER BY id
LIMIT ?2";

const POLLS_OF: &str = "
SELECT task.id, task.schedule_instance_id, task.plan_id, task.slice_id
FROM ing_schedule_instance made JOIN ing_task task ON task.schedule_instance_id = made.id
WHERE made.root_id = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    OLD_ITEMS,
    EMPTY_ITEM,
    UNLINK,
    OLD_POLLS,
    FORGET_SLICE,
    FORGET_PLAN,
    FORGET_TRIGGER,
    FORGET_BACKGROUND_JOBS,
    OLD_SCRAPES,
    POLLS_OF,
];

#[cfg(test)]
pub(super) const FORGET_STATEMENTS: &[&str] = FORGET;

pub(super) fn clean(db: &Connection, op: &PurgeExpired, now: Ts) -> Result<ExpiredPurged> {
    let mut cleaned = ExpiredPurged::default();
    if let Some(keep) = op.keep {
        let old = numbers(db, OLD_ITEMS, now - keep, op.limit)?;
        for item in old {
            let emptied = db.prepare_cached(EMPTY_ITEM)?.exists([item, now.micros()])?;
            db.prepare_cached(UNLINK)?.execute([item])?;
            cleaned.items += u32::from(emptied);
        }
    }
    let polls: Vec<[i64; 4]> = db
        .prepare_cached(OLD_POLLS)?
        .query_map(params![(now - op.keep_ledger).micros(), op.limit], read_poll)?
        .collect::<rusqlite::Result<_>>()?;
    for poll in polls {
        forget(db, poll)?;
        cleaned.polls += 1;
    }
    cleaned.jobs = forget_jobs(db, now - op.keep_jobs, op.limit)?;
    Ok(cleaned)
}

/// Purges background jobs first, then polling jobs with the rest of the limit.
fn forget_jobs(db: &Connection, before: Ts, limit: u32) -> Result<u32> {
    let background_jobs = db.prepare_cached(FORGET_BACKGROUND_JOBS)?.execute(params![before.micros(), limit])? as u32;
    let scrapes = numbers(db, OLD_SCRAPES, before, limit.saturating_sub(background_jobs))?;
    for job in &scrapes {
        let polls: Vec<[i64; 4]> =
            db.prepare_cached(POLLS_OF)?.query_map([job], read_poll)?.collect::<rusqlite::Result<_>>()?;
        polls.into_iter().try_for_each(|poll| forget(db, poll))?;
        db.prepare_cached(FORGET_TRIGGER)?.execute([job])?;
    }
    Ok(background_jobs + scrapes.len() as u32)
}

/// Reads task, trigger, plan and slice.
fn read_poll(row: &Row<'_>) -> rusqlite::Result<[i64; 4]> {
    Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
}

fn forget(db: &Connection, [task, trigger, plan, slice]: [i64; 4]) -> Result<()> {
    for sql in FORGET {
        db.prepare_cached(sql)?.execute([task])?;
    }
    db.prepare_cached(FORGET_SLICE)?.execute([slice])?;
    db.prepare_cached(FORGET_PLAN)?.execute([plan])?;
    db.prepare_cached(FORGET_TRIGGER)?.execute([trigger])?;
    Ok(())
}

fn numbers(db: &Connection, sql: &str, before: Ts, limit: u32) -> Result<Vec<i64>> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map(params![before.micros(), limit], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
