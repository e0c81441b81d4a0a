//! A plan and everything it led to.

use patra_core::PlanId;
use patra_core::port::query::{BatchPage, PlanLineage};
use serde_json::Value;
use tokio_postgres::Row;

use super::count;
use super::evidence::{body, objects, one};
use crate::error::Fail;
use crate::object::object;
use crate::pool::{Session, pipeline};

const PLAN: &str = "SELECT * FROM ing_plan WHERE id = $1";

const TRIGGER: &str = "
SELECT i.* FROM ing_schedule_instance i WHERE i.id = (SELECT schedule_instance_id FROM ing_plan WHERE id = $1)";

const SLICES: &str = "SELECT * FROM ing_plan_slice WHERE plan_id = $1 ORDER BY id";

const TASKS: &str = "SELECT * FROM ing_task WHERE plan_id = $1 ORDER BY id";

const RUNS: &str = "
SELECT r.* FROM ing_task t JOIN ing_task_run r ON r.task_id = t.id WHERE t.plan_id = $1 ORDER BY r.id";

const BATCHES: &str = "
SELECT b.* FROM ing_task t JOIN ing_task_run_batch b ON b.task_id = t.id
WHERE t.plan_id = $1 AND b.id > $2
ORDER BY b.id
LIMIT $3";

const ARCHIVED_BATCHES: &str = "
SELECT body FROM ing_archive WHERE plan_id = $1 AND kind_code = 'BATCH' AND row_id > $2 ORDER BY row_id LIMIT $3";

const COUNT_BATCHES: &str = "
SELECT
  (SELECT count(*) FROM ing_task t JOIN ing_task_run_batch b ON b.task_id = t.id WHERE t.plan_id = $1 AND b.id > $2)
  + (SELECT count(*) FROM ing_archive WHERE plan_id = $1 AND kind_code = 'BATCH' AND row_id > $2)";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[PLAN, TRIGGER, SLICES, TASKS, RUNS, BATCHES, ARCHIVED_BATCHES, COUNT_BATCHES];

pub(crate) async fn lineage(session: &Session, plan: PlanId, page: BatchPage) -> Result<Option<PlanLineage>, Fail> {
    let [of_plan, trigger, slices, tasks] = session.prepare([PLAN, TRIGGER, SLICES, TASKS]).await?;
    let [runs, batches, archived, total] = session.prepare([RUNS, BATCHES, ARCHIVED_BATCHES, COUNT_BATCHES]).await?;
    let (plan, after, limit) = (plan.0, page.after, i64::from(page.limit.min(BatchPage::MAX)));
    let ((), of_plan, trigger, slices, tasks, runs, batches, archived, total, ()) = pipeline!(
        session.begin_reading(),
        session.opt(&of_plan, &[&plan]),
        session.opt(&trigger, &[&plan]),
        session.rows(&slices, &[&plan]),
        session.rows(&tasks, &[&plan]),
        session.rows(&runs, &[&plan]),
        session.rows(&batches, &[&plan, &after, &limit]),
        session.rows(&archived, &[&plan, &after, &limit]),
        session.one(&total, &[&plan, &after]),
        session.commit(),
    )?;
    let Some(of_plan) = of_plan else { return Ok(None) };
    let batches = first_batches(&batches, &archived, limit as usize)?;
    let total = count(&total, 0)?;
    Ok(Some(PlanLineage {
        job: one(trigger.as_ref())?,
        plan: object(&of_plan)?,
        slices: objects(&slices)?,
        tasks: objects(&tasks)?,
        runs: objects(&runs)?,
        batches_left_out: total.saturating_sub(batches.len() as u64),
        batches,
    }))
}

/// Sorted by id: archived rows are older, but not all older rows are archived.
fn first_batches(rows: &[Row], archived: &[Row], limit: usize) -> Result<Vec<Value>, Fail> {
    let mut batches = archived.iter().map(body).collect::<Result<Vec<_>, _>>()?;
    batches.extend(objects(rows)?);
    batches.sort_by_key(|batch| batch["id"].as_i64());
    batches.truncate(limit);
    for batch in batches.iter_mut().filter_map(Value::as_object_mut) {
        batch.remove("request_digest");
        batch.remove("response_digest");
    }
    Ok(batches)
}
