//! Ledger rows of a batch and of a plan, archived rows included.

use patra_core::port::query::{BatchEvidence, BatchPage, PlanLineage, StoredRawResponse};
use patra_core::{PlanId, RunId, Ts};
use rusqlite::{Connection, OptionalExtension, Params, params};
use serde_json::Value;

use crate::error::Result;
use crate::object::object;
use crate::sql::time;

const READ_BATCH: &str = "SELECT * FROM ing_task_run_batch WHERE run_id = ?1 AND batch_no = ?2";

const READ_ARCHIVED: &str = "
SELECT body FROM ing_archive WHERE run_id = ?1 AND batch_no = ?2 AND kind_code = 'BATCH'";

const READ_RUN: &str = "SELECT * FROM ing_task_run WHERE id = ?1";

const READ_TASK: &str = "SELECT * FROM ing_task WHERE id = (SELECT task_id FROM ing_task_run WHERE id = ?1)";

const READ_SLICE: &str = "
SELECT * FROM ing_plan_slice
WHERE id = (SELECT slice_id FROM ing_task WHERE id = (SELECT task_id FROM ing_task_run WHERE id = ?1))";

const READ_RUN_PLAN: &str = "SELECT * FROM ing_plan WHERE id = (SELECT plan_id FROM ing_task_run WHERE id = ?1)";

// The whole lineage, because events are indexed by it.
const READ_EVENTS: &str = "
SELECT event.*
FROM ing_task_run run
JOIN ing_task task ON task.id = run.task_id
JOIN ing_cursor_event event ON event.schedule_instance_id = task.schedule_instance_id AND event.plan_id = task.plan_id
  AND event.slice_id = task.slice_id AND event.task_id = task.id AND event.run_id = run.id
WHERE run.id = ?1
ORDER BY event.id";

const READ_ARCHIVED_EVENTS: &str = "
SELECT body FROM ing_archive WHERE run_id = ?1 AND kind_code = 'EVENT' ORDER BY row_id";

const READ_QUARANTINE: &str = "
SELECT * FROM item_quarantine WHERE run_id = ?1 AND batch_no = ?2 ORDER BY id";

const READ_RAW: &str = "
SELECT status, headers, body, expires_at FROM ing_raw WHERE run_id = ?1 AND batch_no = ?2 AND expires_at > ?3";

const READ_PLAN: &str = "SELECT * FROM ing_plan WHERE id = ?1";

const READ_TRIGGER: &str = "
SELECT * FROM ing_schedule_instance WHERE id = (SELECT schedule_instance_id FROM ing_plan WHERE id = ?1)";

const READ_SLICES: &str = "SELECT * FROM ing_plan_slice WHERE plan_id = ?1 ORDER BY id";

const READ_TASKS: &str = "SELECT * FROM ing_task WHERE plan_id = ?1 ORDER BY id";

const READ_RUNS: &str = "
SELECT run.* FROM ing_task task JOIN ing_task_run run ON run.task_id = task.id WHERE task.plan_id = ?1 ORDER BY run.id";

// Location of each of the plan's first batches: ledger or archive.
const READ_BATCHES: &str = "
SELECT batch.id, NULL FROM ing_task task JOIN ing_task_run_batch batch ON batch.task_id = task.id
WHERE task.plan_id = ?1 AND batch.id > ?2
UNION ALL
SELECT row_id, id FROM ing_archive INDEXED BY idx_archive_plan
WHERE plan_id = ?1 AND kind_code = 'BATCH' AND row_id > ?2
ORDER BY 1
LIMIT ?3";

const COUNT_BATCHES: &str = "
SELECT
  (SELECT count(*) FROM ing_task task JOIN ing_task_run_batch batch ON batch.task_id = task.id
   WHERE task.plan_id = ?1 AND batch.id > ?2)
  + (SELECT count(*) FROM ing_archive WHERE plan_id = ?1 AND kind_code = 'BATCH' AND row_id > ?2)";

const READ_BATCH_ID: &str = "SELECT * FROM ing_task_run_batch WHERE id = ?1";

const READ_BODY: &str = "SELECT body FROM ing_archive WHERE id = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    READ_BATCH,
    READ_ARCHIVED,
    READ_RUN,
    READ_TASK,
    READ_SLICE,
    READ_RUN_PLAN,
    READ_EVENTS,
    READ_ARCHIVED_EVENTS,
    READ_QUARANTINE,
    READ_RAW,
    READ_PLAN,
    READ_TRIGGER,
    READ_SLICES,
    READ_TASKS,
    READ_RUNS,
    READ_BATCHES,
    COUNT_BATCHES,
    READ_BATCH_ID,
    READ_BODY,
];

pub(super) fn evidence(db: &Connection, run: RunId, batch_no: u32) -> Result<Option<BatchEvidence>> {
    // One snapshot for all statements: a batch must not move to the archive during the search.
    let db = &*db.unchecked_transaction()?;
    let place = params![run.0, batch_no];
    let mut batch = rows(db, READ_BATCH, place)?;
    if batch.is_empty() {
        batch = bodies(db, READ_ARCHIVED, place)?;
    }
    let Some(batch) = batch.pop() else { return Ok(None) };
    let one = |sql| rows(db, sql, [run.0]).map(|mut rows| rows.pop().unwrap_or_default());
    let mut events = bodies(db, READ_ARCHIVED_EVENTS, [run.0])?;
    events.extend(rows(db, READ_EVENTS, [run.0])?);
    Ok(Some(BatchEvidence {
        batch,
        run: one(READ_RUN)?,
        task: one(READ_TASK)?,
        slice: one(READ_SLICE)?,
        plan: one(READ_RUN_PLAN)?,
        events,
        quarantine: rows(db, READ_QUARANTINE, place)?,
    }))
}

pub(super) fn raw(db: &Connection, run: RunId, batch_no: u32, now: Ts) -> Result<Option<StoredRawResponse>> {
    let raw = db.prepare_cached(READ_RAW)?.query_row(params![run.0, batch_no, now.micros()], |row| {
        let body = row.get::<_, Vec<u8>>(2)?.into();
        Ok(StoredRawResponse { status: row.get(0)?, headers: row.get(1)?, body, expires_at: time(row, 3)? })
    });
    Ok(raw.optional()?)
}

pub(super) fn lineage(db: &Connection, plan: PlanId, page: BatchPage) -> Result<Option<PlanLineage>> {
    let db = &*db.unchecked_transaction()?;
    let id = [plan.0];
    let Some(found) = rows(db, READ_PLAN, id)?.pop() else { return Ok(None) };
    let batches = first_batches(db, plan, page)?;
    let all: i64 = db.prepare_cached(COUNT_BATCHES)?.query_row([plan.0, page.after], |row| row.get(0))?;
    Ok(Some(PlanLineage {
        job: rows(db, READ_TRIGGER, id)?.pop().unwrap_or_default(),
        plan: found,
        slices: rows(db, READ_SLICES, id)?,
        tasks: rows(db, READ_TASKS, id)?,
        runs: rows(db, READ_RUNS, id)?,
        batches_left_out: all.unsigned_abs().saturating_sub(batches.len() as u64),
        batches,
    }))
}

/// Leaves out the digests: they are most of a row, and the evidence has them.
fn first_batches(db: &Connection, plan: PlanId, page: BatchPage) -> Result<Vec<Value>> {
    let mut statement = db.prepare_cached(READ_BATCHES)?;
    let asked = params![plan.0, page.after, page.limit.min(BatchPage::MAX)];
    let places = statement.query_map(asked, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let places: Vec<(i64, Option<i64>)> = places.collect::<rusqlite::Result<_>>()?;
    let mut batches = Vec::with_capacity(places.len());
    for (batch, archived) in places {
        let found = match archived {
            Some(id) => bodies(db, READ_BODY, [id])?,
            None => rows(db, READ_BATCH_ID, [batch])?,
        };
        batches.extend(found.into_iter().map(|mut row| {
            if let Value::Object(columns) = &mut row {
                columns.remove("request_digest");
                columns.remove("response_digest");
            }
            row
        }));
    }
    Ok(batches)
}

fn rows(db: &Connection, sql: &str, values: impl Params) -> Result<Vec<Value>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut found = statement.query(values)?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(object(row)?);
    }
    Ok(rows)
}

/// Reads rows in the format of the archive.
fn bodies(db: &Connection, sql: &str, values: impl Params) -> Result<Vec<Value>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut found = statement.query(values)?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(serde_json::from_slice(row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?)?);
    }
    Ok(rows)
}
