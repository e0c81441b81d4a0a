//! Fan-out of a trigger into one per partition, and the parent records that name the partitions.

use patra_core::Ts;
use patra_core::state::JobStatus;
use patra_core::tx::{FanOut, FannedOut, MAX_PARENTS, MAX_WAITING, ParentRecord, ReadParents};
use rusqlite::{Connection, params};

use super::scope::scope_id;
use super::trigger;
use crate::error::{Error, Result};

const INSERT_CHILD: &str = "
INSERT INTO ing_schedule_instance
  (public_id, schedule_id, scheduler_code, scheduler_job_id, scheduler_log_id, trigger_type_code, project_key,
   provenance_code, endpoint_name, operation_code, reason_code, activity, window_from, window_to, priority, params,
   overrides, parent_id, root_id, status_code, not_before, created_at, job_type)
SELECT ?2, schedule_id, scheduler_code, coalesce(schedule_id, ?2), ?2, trigger_type_code, project_key,
   provenance_code, endpoint_name, operation_code, reason_code, activity, window_from, window_to, priority, ?3,
   overrides, id, coalesce(root_id, id), 'REQUESTED', ?4, ?4, job_type
FROM ing_schedule_instance
WHERE id = ?1
ON CONFLICT (public_id) DO NOTHING";

pub(crate) const COUNT_CHILDREN: &str = "SELECT count(*) FROM ing_schedule_instance WHERE parent_id = ?1";

pub(crate) const COUNT_WAITING: &str = "
SELECT count(*) FROM ing_schedule_instance WHERE parent_id = ?1 AND status_code = 'REQUESTED'";

const KEEP_PLACE: &str = "UPDATE ing_schedule_instance SET fan_place = ?2 WHERE id = ?1";

pub(crate) const READ_PARENTS: &str = concat!(
    "
SELECT item.dedup_key, iif(?6, item.payload, ''),
  (SELECT task.params FROM ing_task_run run JOIN ing_task task ON task.id = run.task_id WHERE run.id = item.run_id)
FROM item
WHERE item.scope_id = ",
    scope_id!("?1", "?2", "?3"),
    " AND item.dedup_key > ?4 AND item.endpoint_name = ?5 AND item.missing_since IS NULL
ORDER BY item.dedup_key
LIMIT ?7"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT_CHILD, COUNT_CHILDREN, COUNT_WAITING, KEEP_PLACE, READ_PARENTS];

pub(super) fn fan_out(db: &Connection, op: &FanOut, now: Ts) -> Result<FannedOut> {
    let mut created = 0;
    for child in &op.children {
        let values = params![op.job.0, child.public_id, child.params, now.micros()];
        created += db.prepare_cached(INSERT_CHILD)?.execute(values)?;
    }
    let children: u32 = db.prepare_cached(COUNT_CHILDREN)?.query_row([op.job.0], |row| row.get(0))?;
    let (status, remarks, not_before) = if op.complete {
        (JobStatus::Planned, Some(op.remarks(children)), None)
    } else {
        let waiting: u32 = db.prepare_cached(COUNT_WAITING)?.query_row([op.job.0], |row| row.get(0))?;
        let wait = if waiting >= MAX_WAITING { op.wait } else { std::time::Duration::ZERO };
        (JobStatus::Requested, None, Some(now + wait))
    };
    // A failure here rolls back the children.
    trigger::release(db, op.job, op.fence, status, remarks.as_deref(), not_before)?;
    if children > op.limit {
        return Err(Error::refused(op.too_many()));
    }
    db.prepare_cached(KEEP_PLACE)?.execute(params![op.job.0, op.position])?;
    let existing = op.children.len() - created;
    Ok(FannedOut { created: created as u32, existing: existing as u32, children })
}

pub(super) fn read_parents(db: &Connection, op: &ReadParents) -> Result<Vec<ParentRecord>> {
    let mut statement = db.prepare_cached(READ_PARENTS)?;
    let values = params![
        op.project_key,
        op.provenance_code,
        op.dedup_scope,
        // Every key sorts after the empty text, since no key is empty.
        op.after.as_deref().unwrap_or_default(),
        op.endpoint_name,
        op.payload,
        op.limit.min(MAX_PARENTS),
    ];
    let rows = statement.query_map(values, |row| {
        Ok(ParentRecord { key: row.get(0)?, payload: row.get(1)?, task_params: row.get(2)? })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
