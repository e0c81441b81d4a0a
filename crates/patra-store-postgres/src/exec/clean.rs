//! What collectors no longer need: the content of old items, and the ledger of old polls.

use patra_core::tx::{Clean, Cleaned};

use super::{NOW, count, micros, moment};
use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// An item that is locked is being stored just now: it stays for the next time. Gives those whose links go, and whether the
/// content went with this.
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

/// A statement of its own, so that it sees links that were made while ours waited.
const UNLINK: &str = "DELETE FROM item_source WHERE item_id = ANY ($1::bigint[])";

/// `ANY (ARRAY(…))` looks rows up by key, whatever the planner thinks of their number.
const FORGET: &str = "
WITH old AS MATERIALIZED (
  SELECT id, schedule_instance_id, plan_id, slice_id FROM ing_task
  WHERE source_id IS NOT NULL AND finished_at < $1::timestamptz - $2::bigint * interval '1 microsecond'
  ORDER BY finished_at
  LIMIT $3
  FOR UPDATE SKIP LOCKED
),
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
SELECT count(*) FROM tasks";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[EMPTY, UNLINK, FORGET];

pub(super) async fn clean(session: &Session, op: &Clean) -> Result<Cleaned, Fail> {
    let [now, forget] = session.prepare([NOW, FORGET]).await?;
    let ((), now) = pipeline!(session.begin(), moment(session, &now))?;
    let limit = i64::from(op.limit);
    let items = match op.keep {
        Some(keep) => empty(session, micros(keep), limit, now).await?,
        None => 0,
    };
    let (polls, ()) = pipeline!(session.one(&forget, &[&now, &micros(op.keep_ledger), &limit]), session.commit(),)?;
    Ok(Cleaned { items, polls: count(polls.try_get(0)?) })
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
