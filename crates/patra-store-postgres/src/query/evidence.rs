//! All rows about one batch, for the diagnostic bundle.

use patra_core::RunId;
use patra_core::port::query::BatchEvidence;
use serde_json::Value;
use tokio_postgres::Row;

use crate::error::Fail;
use crate::object::{nested, object};
use crate::pool::{Session, pipeline};

const BATCH: &str = "SELECT * FROM ing_task_run_batch WHERE run_id = $1 AND batch_no = $2";

const ARCHIVED_BATCH: &str = "SELECT body FROM ing_archive WHERE run_id = $1 AND batch_no = $2 AND kind_code = 'BATCH'";

const RUN: &str = "SELECT * FROM ing_task_run WHERE id = $1";

const TASK: &str = "SELECT t.* FROM ing_task t WHERE t.id = (SELECT task_id FROM ing_task_run WHERE id = $1)";

const SLICE: &str = "
SELECT s.* FROM ing_plan_slice s
WHERE s.id = (SELECT t.slice_id FROM ing_task t JOIN ing_task_run r ON r.task_id = t.id WHERE r.id = $1)";

const PLAN: &str = "
SELECT p.* FROM ing_plan p
WHERE p.id = (SELECT t.plan_id FROM ing_task t JOIN ing_task_run r ON r.task_id = t.id WHERE r.id = $1)";

/// By the whole lineage, because the index begins with it.
const EVENTS: &str = "
SELECT e.* FROM ing_task_run r
JOIN ing_task t ON t.id = r.task_id
JOIN ing_cursor_event e ON e.schedule_instance_id = t.schedule_instance_id AND e.plan_id = t.plan_id
  AND e.slice_id = t.slice_id AND e.task_id = t.id AND e.run_id = r.id
WHERE r.id = $1
ORDER BY e.id";

const ARCHIVED_EVENTS: &str = "SELECT body FROM ing_archive WHERE run_id = $1 AND kind_code = 'EVENT' ORDER BY row_id";

const QUARANTINE: &str = "SELECT * FROM item_quarantine WHERE run_id = $1 AND batch_no = $2 ORDER BY id";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[BATCH, ARCHIVED_BATCH, RUN, TASK, SLICE, PLAN, EVENTS, ARCHIVED_EVENTS, QUARANTINE];

pub(crate) async fn evidence(session: &Session, run: RunId, batch_no: u32) -> Result<Option<BatchEvidence>, Fail> {
    let [batch, archived_batch, quarantine] = session.prepare([BATCH, ARCHIVED_BATCH, QUARANTINE]).await?;
    let [of_run, task, slice, plan] = session.prepare([RUN, TASK, SLICE, PLAN]).await?;
    let [events, archived_events] = session.prepare([EVENTS, ARCHIVED_EVENTS]).await?;
    let (run, batch_no) = (run.0, i64::from(batch_no));
    let ((), batch, archived_batch, of_run, task, slice, plan, archived_events, events, quarantine, ()) = pipeline!(
        session.begin_reading(),
        session.opt(&batch, &[&run, &batch_no]),
        session.opt(&archived_batch, &[&run, &batch_no]),
        session.opt(&of_run, &[&run]),
        session.opt(&task, &[&run]),
        session.opt(&slice, &[&run]),
        session.opt(&plan, &[&run]),
        session.rows(&archived_events, &[&run]),
        session.rows(&events, &[&run]),
        session.rows(&quarantine, &[&run, &batch_no]),
        session.commit(),
    )?;
    let batch = match (batch, archived_batch) {
        (Some(row), _) => object(&row)?,
        (None, Some(row)) => body(&row)?,
        (None, None) => return Ok(None),
    };
    let mut all_events = archived_events.iter().map(body).collect::<Result<Vec<_>, _>>()?;
    all_events.extend(objects(&events)?);
    Ok(Some(BatchEvidence {
        batch,
        run: one(of_run.as_ref())?,
        task: one(task.as_ref())?,
        slice: one(slice.as_ref())?,
        plan: one(plan.as_ref())?,
        events: all_events,
        quarantine: objects(&quarantine)?,
    }))
}

/// The row at the time of archiving.
pub(super) fn body(row: &Row) -> Result<Value, Fail> {
    Ok(nested(row.try_get(0)?))
}

pub(super) fn objects(rows: &[Row]) -> Result<Vec<Value>, Fail> {
    rows.iter().map(object).collect()
}

pub(super) fn one(row: Option<&Row>) -> Result<Value, Fail> {
    row.map_or(Ok(Value::Null), object)
}
