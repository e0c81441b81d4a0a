//! Fan-out of a trigger into one per partition, and the parent records that name the partitions.

use patra_core::tx::{FanOut, FannedOut, MAX_PARENTS, MAX_WAITING, ParentRecord, ReadParents, TxError};

use super::scope::scope_id;
use super::{NOW, count, moment};
use crate::error::{Fail, refused};
use crate::json::{Json, JsonText};
use crate::pool::{Session, pipeline};
use crate::time::Time;

const LOCK_TRIGGER: &str = "
SELECT id FROM ing_schedule_instance
WHERE id = $1 AND lease_epoch = $2 AND lease_owner IS NOT NULL AND status_code = 'REQUESTED'
FOR UPDATE";

const INSERT_CHILDREN: &str = "
INSERT INTO ing_schedule_instance (public_id, schedule_id, scheduler_code, scheduler_job_id, scheduler_log_id,
  trigger_type_code, project_key, provenance_code, endpoint_name, operation_code, reason_code, activity, window_from,
  window_to, priority, params, overrides, parent_id, root_id, status_code, not_before, created_at, job_type)
SELECT child.public_id, i.schedule_id, i.scheduler_code, coalesce(i.schedule_id::text, child.public_id), child.public_id,
  i.trigger_type_code, i.project_key, i.provenance_code, i.endpoint_name, i.operation_code, i.reason_code, i.activity,
  i.window_from, i.window_to, i.priority, child.params, i.overrides, i.id, coalesce(i.root_id, i.id), 'REQUESTED', $4, $4,
  i.job_type
FROM ing_schedule_instance i
CROSS JOIN unnest($2::text[], $3::jsonb[]) WITH ORDINALITY AS child (public_id, params, place)
WHERE i.id = $1
ORDER BY child.place
ON CONFLICT (public_id) DO NOTHING";

const COUNT_CHILDREN: &str = "
SELECT count(*), count(*) FILTER (WHERE status_code = 'REQUESTED')
FROM ing_schedule_instance WHERE parent_id = $1";

const GO_ON: &str = "
UPDATE ing_schedule_instance
SET status_code = $2, record_remarks = coalesce($3, record_remarks), not_before = $4, fan_place = $5,
  lease_owner = NULL, leased_until = NULL
WHERE id = $1";

const READ_PARENTS: &str = concat!(
    "
SELECT item.dedup_key, CASE WHEN $6 THEN item.payload ELSE '' END,
  (SELECT task.params FROM ing_task_run run JOIN ing_task task ON task.id = run.task_id WHERE run.id = item.run_id)
FROM item
WHERE item.scope_id = ",
    scope_id!("$1", "$2", "$3"),
    " AND item.dedup_key > $4 AND item.endpoint_name = $5 AND item.missing_since IS NULL
ORDER BY item.dedup_key
LIMIT $7"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOCK_TRIGGER, INSERT_CHILDREN, COUNT_CHILDREN, GO_ON, READ_PARENTS];

pub(super) async fn fan_out(session: &Session, op: &FanOut) -> Result<FannedOut, Fail> {
    let [lock, now, insert, children, go_on] =
        session.prepare([LOCK_TRIGGER, NOW, INSERT_CHILDREN, COUNT_CHILDREN, GO_ON]).await?;
    let ((), held, now) =
        pipeline!(session.begin(), session.opt(&lock, &[&op.job.0, &op.fence.0]), moment(session, &now))?;
    held.ok_or(TxError::Fenced)?;
    let ids: Vec<_> = op.children.iter().map(|child| child.public_id.as_str()).collect();
    let params: Vec<_> = op.children.iter().map(|child| Json(child.params.as_str())).collect();
    let (created, counted) =
        pipeline!(session.write(&insert, &[&op.job.0, &ids, &params, &now]), session.one(&children, &[&op.job.0]),)?;
    let (children, waiting) = (count(counted.try_get(0)?), count(counted.try_get(1)?));
    if children > op.limit {
        return Err(refused(op.too_many()));
    }
    let (status, remarks, not_before) = if op.complete {
        ("PLANNED", Some(Json(op.remarks(children))), now)
    } else {
        let wait = if waiting >= MAX_WAITING { op.wait } else { std::time::Duration::ZERO };
        ("REQUESTED", None, Time(now.0 + wait))
    };
    session.write(&go_on, &[&op.job.0, &status, &remarks, &not_before, &Json(op.position.as_str())]).await?;
    session.commit().await?;
    let created = count(created.cast_signed());
    let existing = count(op.children.len() as i64) - created;
    Ok(FannedOut { created, existing, children })
}

pub(super) async fn read_parents(session: &Session, op: &ReadParents) -> Result<Vec<ParentRecord>, Fail> {
    let [statement] = session.prepare([READ_PARENTS]).await?;
    // Every key sorts after the empty text, since no key is empty.
    let after = op.after.as_deref().unwrap_or_default();
    let limit = i64::from(op.limit.min(MAX_PARENTS));
    let rows = session
        .rows(
            &statement,
            &[&op.project_key, &op.provenance_code, &op.dedup_scope, &after, &op.endpoint_name, &op.payload, &limit],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let task_params: Option<JsonText> = row.try_get(2)?;
            Ok(ParentRecord {
                key: row.try_get(0)?,
                payload: row.try_get(1)?,
                task_params: task_params.map(|JsonText(text)| text),
            })
        })
        .collect()
}
