//! Background jobs: jobs without a plan, leased directly.

use patra_core::tx::{
    BACKGROUND_JOBS, BackgroundJobUpdated, ClaimBackgroundJob, ClaimedBackgroundJob, JobRequested,
    RequestBackgroundJob, TxError, UpdateBackgroundJob,
};
use patra_core::{Fence, JobId, Ts};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::json;

use super::trigger;
use crate::error::Result;

const INSERT: &str = "
INSERT INTO ing_schedule_instance
  (public_id, scheduler_code, scheduler_job_id, scheduler_log_id, trigger_type_code, project_key, job_type,
   provenance_code, endpoint_name, operation_code, priority, params, overrides, status_code, not_before, request_id,
   created_at)
VALUES (?1, 'patra', ?1, ?1, 'API', ?2, ?3, ?4, ?3, 'HARVEST', 0, ?5, '{}', 'REQUESTED', ?7, ?6, ?7)
ON CONFLICT (public_id) DO NOTHING
RETURNING id";

pub(crate) const CLAIM: &str = "
UPDATE ing_schedule_instance
SET lease_owner = ?1, leased_until = ?2, lease_epoch = lease_epoch + 1, started_at = coalesce(started_at, ?3)
WHERE id = (
  SELECT id FROM ing_schedule_instance
  WHERE status_code = 'REQUESTED' AND provenance_code = 'resource_pool' AND (leased_until IS NULL OR leased_until <= ?3)
  ORDER BY id
  LIMIT 1)
RETURNING id, lease_epoch, public_id, project_key, job_type, params";

const RENEW: &str = "
UPDATE ing_schedule_instance
SET leased_until = ?3
WHERE id = ?1 AND lease_epoch = ?2 AND status_code = 'REQUESTED' AND leased_until IS NOT NULL
  AND provenance_code = 'resource_pool'";

const END: &str = "
UPDATE ing_schedule_instance
SET status_code = iif(?4 IS NULL, 'FINISHED', 'FAILED'), result = ?3, record_remarks = coalesce(?4, record_remarks),
    finished_at = ?5, lease_owner = NULL, leased_until = NULL
WHERE id = ?1 AND lease_epoch = ?2 AND status_code = 'REQUESTED' AND leased_until IS NOT NULL
  AND provenance_code = 'resource_pool'";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT, CLAIM, RENEW, END];

pub(super) fn request(db: &Connection, op: &RequestBackgroundJob, now: Ts) -> Result<JobRequested> {
    let values =
        params![op.public_id, op.project_key, op.job_type, BACKGROUND_JOBS, op.params, op.request_id, now.micros()];
    let inserted: Option<i64> = db.prepare_cached(INSERT)?.query_row(values, |row| row.get(0)).optional()?;
    let existed = inserted.is_none();
    let instance = match inserted {
        Some(id) => id,
        None => db.prepare_cached(trigger::READ_ID)?.query_row([&op.public_id], |row| row.get(0))?,
    };
    Ok(JobRequested { job: JobId(instance), existed })
}

pub(super) fn claim(db: &Connection, op: &ClaimBackgroundJob, now: Ts) -> Result<Option<ClaimedBackgroundJob>> {
    let values = params![op.owner, (now + op.lease).micros(), now.micros()];
    let claimed = db.prepare_cached(CLAIM)?.query_row(values, |row| {
        Ok(ClaimedBackgroundJob {
            job: JobId(row.get(0)?),
            fence: Fence(row.get(1)?),
            public_id: row.get(2)?,
            project_key: row.get(3)?,
            job_type: row.get(4)?,
            params: row.get(5)?,
        })
    });
    Ok(claimed.optional()?)
}

pub(super) fn update(db: &Connection, op: &UpdateBackgroundJob, now: Ts) -> Result<BackgroundJobUpdated> {
    let (id, fence) = (op.job.0, op.fence.0);
    let updated = match &op.done {
        None => db.prepare_cached(RENEW)?.execute(params![id, fence, (now + op.lease).micros()])?,
        Some(done) => {
            let (result, error) = match done {
                Ok(result) => (Some(result), None),
                Err(error) => (None, Some(json!({ "error": error }).to_string())),
            };
            db.prepare_cached(END)?.execute(params![id, fence, result, error, now.micros()])?
        }
    };
    if updated == 1 { Ok(BackgroundJobUpdated) } else { Err(TxError::Fenced.into()) }
}
