//! Progress of one trigger.

use patra_core::port::query::JobProgress;
use patra_core::state::TaskStatus;
use patra_core::{JobId, Ts};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Result;
use crate::sql::{maybe_time, time, word};

const READ_TRIGGER: &str = "
SELECT id, status_code, record_remarks, project_key, job_type, result, request_id, created_at, started_at, finished_at,
  status_code = 'REQUESTED' AND provenance_code = 'resource_pool' AND coalesce(leased_until > ?2, FALSE)
FROM ing_schedule_instance
WHERE public_id = ?1";

/// The trigger and its children.
macro_rules! family {
    () => {
        "(SELECT ?1 AS id UNION ALL SELECT id FROM ing_schedule_instance WHERE root_id = ?1)"
    };
}

const COUNT_PARTITIONS: &str = "
SELECT count(*), coalesce(sum(status_code = 'REQUESTED'), 0), coalesce(sum(status_code = 'FAILED'), 0)
FROM ing_schedule_instance
WHERE root_id = ?1";

const COUNT_OPEN: &str = "
SELECT count(*)
FROM ing_schedule_instance made
WHERE made.root_id = ?1 AND made.status_code <> 'REQUESTED'
  AND EXISTS (SELECT 1 FROM ing_task task WHERE task.schedule_instance_id = made.id
              AND task.status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING'))";

const COUNT_TASKS: &str = concat!(
    "
SELECT task.status_code, count(*), task.replaced, min(task.started_at), max(task.finished_at),
  sum(task.is_unverified)
FROM ",
    family!(),
    " family JOIN ing_task task ON task.schedule_instance_id = family.id
GROUP BY task.status_code, task.replaced"
);

const READ_FAULT: &str = concat!(
    "
SELECT task.error
FROM ",
    family!(),
    " family JOIN ing_task task ON task.schedule_instance_id = family.id
WHERE task.status_code IN ('FAILED', 'PARTIAL') AND task.replaced = 0
ORDER BY task.finished_at DESC, task.id DESC
LIMIT 1"
);

const SUM_BATCHES: &str = concat!(
    "
SELECT count(*), coalesce(sum(batch.inserted), 0), coalesce(sum(batch.updated), 0), coalesce(sum(batch.skipped), 0),
  coalesce(sum(batch.out_of_window), 0), coalesce(sum(batch.filtered), 0),
  coalesce(sum(batch.failed), 0), coalesce(sum(batch.retries), 0), coalesce(sum(batch.throttled), 0)
FROM ",
    family!(),
    " family JOIN ing_task_run_batch batch ON batch.schedule_instance_id = family.id
WHERE batch.status_code = 'SUCCEEDED'"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[READ_TRIGGER, COUNT_PARTITIONS, COUNT_OPEN, COUNT_TASKS, READ_FAULT, SUM_BATCHES];

pub(super) fn read(db: &Connection, public_id: &str, now: Ts) -> Result<Option<JobProgress>> {
    // One snapshot for all: tasks and batches must agree.
    let snapshot = db.unchecked_transaction()?;
    let progress = read_trigger(&snapshot, public_id, now)?;
    let Some(mut progress) = progress else { return Ok(None) };
    count_partitions(&snapshot, &mut progress)?;
    count_tasks(&snapshot, &mut progress)?;
    sum_batches(&snapshot, &mut progress)?;
    Ok(Some(progress))
}

fn read_trigger(db: &Connection, public_id: &str, now: Ts) -> Result<Option<JobProgress>> {
    let progress = db.prepare_cached(READ_TRIGGER)?.query_row(params![public_id, now.micros()], |row| {
        Ok(JobProgress {
            job: JobId(row.get(0)?),
            project_key: row.get(3)?,
            job_type: row.get(4)?,
            in_progress: row.get(10)?,
            result: row.get(5)?,
            request_id: row.get(6)?,
            created_at: time(row, 7)?,
            started_at: maybe_time(row, 8)?,
            finished_at: maybe_time(row, 9)?,
            job_status: word(row, 1)?,
            remarks: row.get(2)?,
            partitions: 0,
            partitions_waiting: 0,
            partitions_failed: 0,
            partitions_open: 0,
            tasks_queued: 0,
            tasks_active: 0,
            tasks_succeeded: 0,
            tasks_unverified: 0,
            tasks_partial: 0,
            tasks_split: 0,
            tasks_failed: 0,
            tasks_cancelled: 0,
            fault: None,
            batches: 0,
            inserted: 0,
            updated: 0,
            skipped: 0,
            out_of_window: 0,
            filtered: 0,
            rejected: 0,
            retries: 0,
            throttled: 0,
        })
    });
    Ok(progress.optional()?)
}

fn count_partitions(db: &Connection, progress: &mut JobProgress) -> Result<()> {
    let number = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(i64::unsigned_abs);
    let id = [progress.job.0];
    (progress.partitions, progress.partitions_waiting, progress.partitions_failed) = db
        .prepare_cached(COUNT_PARTITIONS)?
        .query_row(id, |row| Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?)))?;
    if progress.partitions > 0 {
        progress.partitions_open = db.prepare_cached(COUNT_OPEN)?.query_row(id, |row| number(row, 0))?;
    }
    Ok(())
}

fn count_tasks(db: &Connection, progress: &mut JobProgress) -> Result<()> {
    let mut statement = db.prepare_cached(COUNT_TASKS)?;
    let mut rows = statement.query([progress.job.0])?;
    let (mut first, mut last) = (None, None);
    while let Some(row) = rows.next()? {
        let count = row.get::<_, i64>(1)?.unsigned_abs();
        first = [first, maybe_time(row, 3)?].into_iter().flatten().min();
        last = last.max(maybe_time(row, 4)?);
        progress.tasks_unverified += row.get::<_, i64>(5)?.unsigned_abs();
        match word(row, 0)? {
            _ if row.get(2)? => progress.tasks_split += count,
            TaskStatus::Queued => progress.tasks_queued += count,
            TaskStatus::Dispatched | TaskStatus::Executing => progress.tasks_active += count,
            TaskStatus::Succeeded => progress.tasks_succeeded += count,
            TaskStatus::Partial => progress.tasks_partial += count,
            TaskStatus::Failed => progress.tasks_failed += count,
            TaskStatus::Cancelled => progress.tasks_cancelled += count,
        }
    }
    if progress.tasks_failed + progress.tasks_partial > 0 {
        let fault: Option<String> = db.prepare_cached(READ_FAULT)?.query_row([progress.job.0], |row| row.get(0))?;
        progress.fault = fault.as_deref().map(serde_json::from_str).transpose()?;
    }
    progress.started_at = progress.started_at.or(first);
    progress.finished_at = progress.finished_at.or(last.filter(|_| progress.is_finished()));
    Ok(())
}

fn sum_batches(db: &Connection, progress: &mut JobProgress) -> Result<()> {
    db.prepare_cached(SUM_BATCHES)?.query_row([progress.job.0], |row| {
        let sum = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
        progress.batches = sum(0)?;
        progress.inserted = sum(1)?;
        progress.updated = sum(2)?;
        progress.skipped = sum(3)?;
        progress.out_of_window = sum(4)?;
        progress.filtered = sum(5)?;
        progress.rejected = sum(6)?;
        progress.retries = sum(7)?;
        progress.throttled = sum(8)?;
        Ok(())
    })?;
    Ok(())
}
