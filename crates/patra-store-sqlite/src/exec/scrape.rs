//! Jobs that poll many sources: all of them, or none if one is busy.

use patra_core::state::{TaskStatus, TriggerType};
use patra_core::tx::{NewPoll, OpenPoll, ScrapeConflict, ScrapeJob};
use patra_core::{JobId, SourceId, TaskId, Ts};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{cancel, trigger};
use crate::error::Result;
use crate::sql::{maybe_word, word};

const READ_TASK: &str = "
SELECT task.id FROM ing_schedule_instance made JOIN ing_task task ON task.schedule_instance_id = made.id
WHERE made.root_id = ?1 AND task.source_id = ?2
ORDER BY task.id DESC
LIMIT 1";

const AS_SEEN: &str = "SELECT 1 FROM source WHERE id = ?1 AND is_deleted = 0 AND poll_count = ?2";

// The open poll of a source, its trigger and its job.
const READ_OPEN: &str = "
SELECT task.status_code, made.public_id, root.public_id, task.lease_count > 0, root.trigger_type_code
FROM ing_task task
JOIN ing_schedule_instance made ON made.id = task.schedule_instance_id
LEFT JOIN ing_schedule_instance root ON root.id = made.root_id
WHERE task.source_id = ?1 AND task.status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')";

const INSERT: &str = "
INSERT INTO ing_schedule_instance
  (public_id, scheduler_code, scheduler_job_id, scheduler_log_id, trigger_type_code, project_key, job_type,
   provenance_code, endpoint_name, operation_code, priority, params, overrides, status_code, not_before, request_id,
   created_at)
VALUES (?1, 'scrape', ?1, ?1, ?9, ?2, ?3, ?4, ?5, 'HARVEST', 0, ?6, '{}', 'PLANNED', ?8, ?7, ?8)
RETURNING id";

// A replaced poll leaves its job, which goes on without it.
const DETACH: &str = "UPDATE ing_schedule_instance SET parent_id = NULL, root_id = NULL WHERE public_id = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[READ_TASK, AS_SEEN, READ_OPEN, INSERT, DETACH];

/// Result of starting a job.
pub(super) enum ScrapeStart {
    Started(JobId),
    /// The job existed already, with these tasks.
    Existing(Vec<Option<TaskId>>),
    Busy(ScrapeConflict),
}

pub(super) fn begin(db: &Connection, job: &ScrapeJob, polls: &[NewPoll], now: Ts) -> Result<ScrapeStart> {
    let known: Option<i64> =
        db.prepare_cached(trigger::READ_ID)?.query_row([&job.public_id], |row| row.get(0)).optional()?;
    if let Some(root) = known {
        let task = |poll: &NewPoll| -> Result<Option<TaskId>> {
            let mut statement = db.prepare_cached(READ_TASK)?;
            Ok(statement.query_row([root, poll.source.0], |row| row.get(0).map(TaskId)).optional()?)
        };
        return Ok(ScrapeStart::Existing(polls.iter().map(task).collect::<Result<_>>()?));
    }
    let (mut busy, mut changed, mut waiting, mut left_out) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for poll in polls {
        match read_open(db, poll.source)? {
            Some((open, trigger, _)) if job.replaces(open) => waiting.push(trigger),
            Some((open, trigger, root)) if job.leaves_out(open) => {
                left_out.push((poll.source, root.unwrap_or(trigger)));
            }
            Some((_, trigger, root)) => busy.push((poll.source, root.unwrap_or(trigger))),
            None => {}
        }
        if !db.prepare_cached(AS_SEEN)?.exists([poll.source.0, poll.poll_count])? {
            changed.push((poll.source, String::new()));
        }
    }
    if left_out.len() == polls.len() {
        busy.append(&mut left_out);
    }
    if job.trigger_type == TriggerType::Schedule && changed.len() + left_out.len() < polls.len() {
        changed.clear();
    }
    if let Some(busy) = name(busy).or_else(|| name(changed)) {
        return Ok(ScrapeStart::Busy(busy));
    }
    for trigger in waiting {
        cancel::cancel(db, &job.cancel_replaced(trigger.clone()), now)?;
        db.prepare_cached(DETACH)?.execute([&trigger])?;
    }
    let values = params![
        job.public_id,
        job.project_key,
        job.job_type,
        job.provenance_code,
        job.endpoint_name,
        job.params,
        job.request_id,
        now.micros(),
        job.trigger_type.as_str(),
    ];
    Ok(ScrapeStart::Started(db.prepare_cached(INSERT)?.query_row(values, |row| row.get(0).map(JobId))?))
}

/// The open poll of a source, its trigger and its job.
fn read_open(db: &Connection, source: SourceId) -> Result<Option<(OpenPoll, String, Option<String>)>> {
    let mut statement = db.prepare_cached(READ_OPEN)?;
    let read = |row: &Row<'_>| {
        let status: TaskStatus = word(row, 0)?;
        let open = OpenPoll { queued: status == TaskStatus::Queued, began: row.get(3)?, job: maybe_word(row, 4)? };
        Ok((open, row.get(1)?, row.get(2)?))
    };
    Ok(statement.query_row([source.0], read).optional()?)
}

/// The job that polls the busy source with the smallest id, and all its polls.
fn name(mut found: Vec<(SourceId, String)>) -> Option<ScrapeConflict> {
    found.sort_unstable();
    let public_id = found.first()?.1.clone();
    let sources = found.into_iter().filter(|(_, by)| *by == public_id).map(|(source, _)| source).collect();
    Some(ScrapeConflict { public_id, sources })
}
