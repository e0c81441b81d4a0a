//! Purging of expired data: the content of old items, the ledger of old polls, and old jobs.

use patra_core::tx::{ExpiredPurged, PurgeExpired};

use super::{NOW, count, micros, moment};
use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// A locked item is being stored: it stays until the next time. Returns the items whose links are removed, and whether
/// their content was emptied now.
const EMPTY: &str = "
WITH old AS (
  SELECT item_id FROM item_source
  WHERE kind = 'article' AND fetched_at < $1::timestamptz - $2::bigint * interval '1 microsecond'
  ORDER BY fetched_at
  LIMIT $3
),
locked AS (
  SELECT id, emptied_at FROM item WHERE id = ANY (ARRAY(SELECT item_id FROM old)) FOR UPDATE SKIP LOCKED
),
emptied AS (
  UPDATE item SET fields = '', payload = '', emptied_at = $1
  WHERE id = ANY (ARRAY(SELECT id FROM locked)) AND emptied_at IS NULL
  RETURNING id
)
SELECT locked.id, emptied.id IS NOT NULL FROM locked LEFT JOIN emptied ON emptied.id = locked.id";

/// A separate statement, so that it sees links that were committed while the first one waited.
const UNLINK: &str = "DELETE FROM item_source WHERE item_id = ANY ($1::bigint[])";

/// Deletes all rows of the polls in `old`. `ANY (ARRAY(…))` looks rows up by key, whatever the planner thinks of their
/// number.
macro_rules! forget {
    ($old:literal, $counted:literal) => {
        concat!(
            "
WITH ",
            $old,
            ",
runs AS (
  DELETE FROM ing_task_run WHERE task_id = ANY (ARRAY(SELECT id FROM old)) RETURNING id
),
raw AS (
  DELETE FROM ing_raw WHERE run_id = ANY (ARRAY(SELECT id FROM runs))
),
batches AS (
  DELETE FROM ing_task_run_batch WHERE task_id = ANY (ARRAY(SELECT id FROM old))
),
slices AS (
  DELETE FROM ing_plan_slice WHERE id = ANY (ARRAY(SELECT slice_id FROM old))
),
plans AS (
  DELETE FROM ing_plan WHERE id = ANY (ARRAY(SELECT plan_id FROM old))
),
triggers AS (
  DELETE FROM ing_schedule_instance WHERE id = ANY (ARRAY(SELECT schedule_instance_id FROM old))
),
tasks AS (
  DELETE FROM ing_task WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING id
)
SELECT count(*) FROM ",
            $counted
        )
    };
}

/// Polls of a job are deleted with the job.
const FORGET: &str = forget!(
    "old AS MATERIALIZED (
  SELECT t.id, t.schedule_instance_id, t.plan_id, t.slice_id FROM ing_task t
  WHERE t.source_id IS NOT NULL AND t.finished_at < $1::timestamptz - $2::bigint * interval '1 microsecond'
    AND NOT EXISTS (
      SELECT 1 FROM ing_schedule_instance i WHERE i.id = t.schedule_instance_id AND i.parent_id IS NOT NULL)
  ORDER BY t.finished_at
  LIMIT $3
  FOR UPDATE OF t SKIP LOCKED
)",
    "tasks"
);

/// Jobs without an open poll and without one that ended later.
const FORGET_JOBS: &str = forget!(
    "gone AS MATERIALIZED (
  SELECT i.id FROM ing_schedule_instance i
  WHERE i.scheduler_code = 'scrape' AND i.created_at < $1::timestamptz - $2::bigint * interval '1 microsecond'
    AND NOT EXISTS (
      SELECT 1 FROM ing_schedule_instance c JOIN ing_task t ON t.schedule_instance_id = c.id
      WHERE c.root_id = i.id
        AND (t.finished_at IS NULL OR t.finished_at >= $1::timestamptz - $2::bigint * interval '1 microsecond'))
  ORDER BY i.id
  LIMIT $3
  FOR UPDATE OF i SKIP LOCKED
),
old AS MATERIALIZED (
  SELECT t.id, t.schedule_instance_id, t.plan_id, t.slice_id
  FROM ing_schedule_instance c JOIN ing_task t ON t.schedule_instance_id = c.id
  WHERE c.root_id = ANY (ARRAY(SELECT id FROM gone))
),
jobs AS (
  DELETE FROM ing_schedule_instance WHERE id = ANY (ARRAY(SELECT id FROM gone)) RETURNING id
)",
    "jobs"
);

const FORGET_BACKGROUND_JOBS: &str = "
WITH gone AS (
  DELETE FROM ing_schedule_instance
  WHERE id = ANY (ARRAY(
    SELECT id FROM ing_schedule_instance
    WHERE provenance_code = 'resource_pool' AND finished_at < $1::timestamptz - $2::bigint * interval '1 microsecond'
    ORDER BY finished_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED))
  RETURNING id
)
SELECT count(*) FROM gone";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[EMPTY, UNLINK, FORGET, FORGET_JOBS, FORGET_BACKGROUND_JOBS];

pub(super) async fn clean(session: &Session, op: &PurgeExpired) -> Result<ExpiredPurged, Fail> {
    let [now, forget, jobs, background_jobs] =
        session.prepare([NOW, FORGET, FORGET_JOBS, FORGET_BACKGROUND_JOBS]).await?;
    let ((), now) = pipeline!(session.begin(), moment(session, &now))?;
    let limit = i64::from(op.limit);
    let items = match op.keep {
        Some(keep) => empty(session, micros(keep), limit, now).await?,
        None => 0,
    };
    let keep_jobs = micros(op.keep_jobs);
    let (polls, jobs, background_jobs, ()) = pipeline!(
        session.one(&forget, &[&now, &micros(op.keep_ledger), &limit]),
        session.one(&jobs, &[&now, &keep_jobs, &limit]),
        session.one(&background_jobs, &[&now, &keep_jobs, &limit]),
        session.commit(),
    )?;
    let jobs = count(jobs.try_get(0)?) + count(background_jobs.try_get(0)?);
    Ok(ExpiredPurged { items, polls: count(polls.try_get(0)?), jobs })
}

async fn empty(session: &Session, keep: i64, limit: i64, now: Time) -> Result<u32, Fail> {
    let [empty, unlink] = session.prepare([EMPTY, UNLINK]).await?;
    let (mut ids, mut emptied) = (Vec::new(), 0);
    for row in session.rows(&empty, &[&now, &keep, &limit]).await? {
        ids.push(row.try_get::<_, i64>(0)?);
        emptied += u32::from(row.try_get::<_, bool>(1)?);
    }
    session.write(&unlink, &[&ids]).await?;
    Ok(emptied)
}
