//! Background jobs: rows of the ledger that no planner takes. The statements spell out their provenance, as their index
//! does.

use patra_core::tx::{
    BackgroundJobUpdated, ClaimBackgroundJob, ClaimedBackgroundJob, JobRequested, RequestBackgroundJob, TxError,
    UpdateBackgroundJob,
};
use patra_core::{Fence, JobId};
use serde_json::json;

use super::micros;
use super::trigger::FIND;
use crate::error::Fail;
use crate::json::{Json, JsonText};
use crate::pool::{Session, pipeline};

const REQUEST: &str = "
INSERT INTO ing_schedule_instance (public_id, scheduler_code, scheduler_job_id, scheduler_log_id, trigger_type_code,
  project_key, job_type, provenance_code, endpoint_name, operation_code, priority, params, overrides, status_code,
  not_before, request_id, created_at)
SELECT $1, 'patra', $1, $1, 'API', $2, $3, 'resource_pool', $3, 'HARVEST', 0, $4, '{}', 'REQUESTED', moment.now, $5,
  moment.now
FROM (SELECT clock_timestamp() AS now) AS moment
ON CONFLICT (public_id) DO NOTHING";

const CLAIM: &str = "
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
next AS (
  SELECT i.id FROM ing_schedule_instance i
  WHERE i.status_code = 'REQUESTED' AND i.provenance_code = 'resource_pool'
    AND (i.leased_until IS NULL OR i.leased_until <= (SELECT now FROM moment))
  ORDER BY i.id
  LIMIT 1
  FOR UPDATE OF i SKIP LOCKED
)
UPDATE ing_schedule_instance i
SET lease_owner = $1, leased_until = moment.now + $2::bigint * interval '1 microsecond',
  lease_epoch = i.lease_epoch + 1, started_at = coalesce(i.started_at, moment.now)
FROM next, moment
WHERE i.id = next.id
RETURNING i.id, i.lease_epoch, i.public_id, i.project_key, i.job_type, i.params";

/// A job that continues keeps its lease; a job that has ended has none.
const UPDATE_JOB: &str = "
UPDATE ing_schedule_instance
SET status_code = $4, result = $5, record_remarks = coalesce($6, record_remarks),
  finished_at = CASE WHEN $4 <> 'REQUESTED' THEN clock_timestamp() END,
  lease_owner = CASE WHEN $4 = 'REQUESTED' THEN lease_owner END,
  leased_until = CASE WHEN $4 = 'REQUESTED' THEN clock_timestamp() + $3::bigint * interval '1 microsecond' END
WHERE id = $1 AND lease_epoch = $2 AND lease_owner IS NOT NULL AND status_code = 'REQUESTED'
  AND provenance_code = 'resource_pool'
RETURNING id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[REQUEST, CLAIM, UPDATE_JOB];

pub(super) async fn request(session: &Session, op: &RequestBackgroundJob) -> Result<JobRequested, Fail> {
    let [request, find] = session.prepare([REQUEST, FIND]).await?;
    let params = Json(op.params.as_str());
    let ((), made, found) = pipeline!(
        session.begin(),
        session.write(&request, &[&op.public_id, &op.project_key, &op.job_type, &params, &op.request_id]),
        session.one(&find, &[&op.public_id]),
    )?;
    session.commit().await?;
    Ok(JobRequested { job: JobId(found.try_get(0)?), existed: made == 0 })
}

pub(super) async fn claim(session: &Session, op: &ClaimBackgroundJob) -> Result<Option<ClaimedBackgroundJob>, Fail> {
    let [claim] = session.prepare([CLAIM]).await?;
    let rows = session.alone(&claim, &[&op.owner, &micros(op.lease)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(ClaimedBackgroundJob {
        job: JobId(row.try_get(0)?),
        fence: Fence(row.try_get(1)?),
        public_id: row.try_get(2)?,
        project_key: row.try_get(3)?,
        job_type: row.try_get(4)?,
        params: row.try_get::<_, JsonText>(5)?.0,
    }))
}

pub(super) async fn update(session: &Session, op: &UpdateBackgroundJob) -> Result<BackgroundJobUpdated, Fail> {
    let [update] = session.prepare([UPDATE_JOB]).await?;
    let (status, result, remarks) = match &op.done {
        None => ("REQUESTED", None, None),
        Some(Ok(result)) => ("FINISHED", Some(Json(result.as_str())), None),
        Some(Err(error)) => ("FAILED", None, Some(Json::of(&json!({ "error": error }))?)),
    };
    let rows = session.alone(&update, &[&op.job.0, &op.fence.0, &micros(op.lease), &status, &result, &remarks]).await?;
    if rows.is_empty() { Err(TxError::Fenced.into()) } else { Ok(BackgroundJobUpdated) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_the_provenance_of_background_jobs() {
        let named = format!("'{}'", patra_core::tx::BACKGROUND_JOBS);
        assert!(STATEMENTS.iter().all(|sql| sql.contains(&named)));
        assert!(super::super::trigger::TAKE.contains(&format!("<> {named}")));
    }
}
