//! Triggers: requested, due, claimed by a planner, settled without a plan.

use patra_core::state::{Operation, UpdateReason};
use patra_core::tx::{
    ADVISORY_TTL, ClaimJob, ClaimedJob, FireDue, FiredDue, JobRequested, JobSettled, JobSettlement, OpenPlan,
    PartitionKey, Recurrence, RemainingPlan, RequestJob, ResumeWork, SettleJob, TxError, job_type,
};
use patra_core::{Fence, JobId, PlanId};
use serde_json::json;
use tokio_postgres::Row;

use super::pause::{RESUME_OLD_ADVICE, names_partition};
use super::{NOW, count, micros, moment};
use crate::error::{Fail, refused};
use crate::json::{Json, JsonText};
use crate::pool::{Session, pipeline};
use crate::time::{Time, maybe, window};

const FIRE: &str = "
INSERT INTO ing_schedule_instance (public_id, scheduler_code, scheduler_job_id, scheduler_log_id, trigger_type_code,
  project_key, provenance_code, endpoint_name, operation_code, window_from, window_to, priority, params, overrides,
  reason_code, activity, status_code, not_before, created_at, job_type)
SELECT $1, 'patra', $1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'REQUESTED', moment.now, moment.now, $14
FROM (SELECT clock_timestamp() AS now) AS moment
ON CONFLICT (public_id) DO NOTHING";

pub(super) const FIND: &str = "SELECT id FROM ing_schedule_instance WHERE public_id = $1";

/// A locked schedule is being fired by another process.
const DUE: &str = "
SELECT s.id, s.next_due_at, s.when_text,
  EXISTS (SELECT 1 FROM ing_schedule_instance i WHERE i.schedule_id = s.id AND i.status_code = 'REQUESTED')
FROM reg_schedule s
WHERE s.next_due_at <= $1
ORDER BY s.next_due_at, s.id
LIMIT $2
FOR UPDATE OF s SKIP LOCKED";

const FIRE_SCHEDULES: &str = "
INSERT INTO ing_schedule_instance (public_id, schedule_id, scheduler_code, scheduler_job_id, scheduler_log_id,
  trigger_type_code, project_key, provenance_code, endpoint_name, operation_code, reason_code, priority, params,
  overrides, status_code, not_before, created_at, job_type)
SELECT due.public_id || again.suffix, s.id, 'patra', s.id::text, due.public_id || again.suffix,
  'SCHEDULE', coalesce(p.project_key, 'default'), s.provenance_code, s.endpoint_name, s.operation_code, nullif(s.reason_code, ''), 0, '{}',
  '{}', 'REQUESTED', $3, $3, CASE s.provenance_code WHEN 'collector' THEN s.endpoint_name ELSE s.provenance_code END
FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS due (id, public_id, place)
JOIN reg_schedule s ON s.id = due.id
LEFT JOIN reg_provenance p ON p.provenance_code = s.provenance_code
-- If the clock was set back, a time comes again.
CROSS JOIN LATERAL (
  SELECT CASE WHEN EXISTS (SELECT 1 FROM ing_schedule_instance i WHERE i.public_id = due.public_id) THEN '-' || $4::bigint
    ELSE '' END AS suffix
) AS again
ORDER BY due.place
ON CONFLICT (public_id) DO NOTHING";

const MOVE_SCHEDULES: &str = "
UPDATE reg_schedule s SET next_due_at = moved.next_due_at
FROM unnest($1::bigint[], $2::timestamptz[]) AS moved (id, next_due_at)
WHERE s.id = moved.id";

const NEXT_DUE: &str = "SELECT min(next_due_at) FROM reg_schedule";

/// Planners skip background jobs. A pause that names a plan, a task or a credential does not cover a trigger: it has
/// none yet.
pub(super) const TAKE: &str = concat!(
    "
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
next AS (
  SELECT i.id FROM ing_schedule_instance i
  WHERE i.status_code = 'REQUESTED' AND i.not_before <= (SELECT now FROM moment)
    AND (i.leased_until IS NULL OR i.leased_until <= (SELECT now FROM moment))
    AND i.provenance_code <> 'resource_pool'
    AND i.provenance_code || ' ' || i.endpoint_name || ' ' || i.operation_code <> ALL ($3::text[])
    AND ($4::text IS NULL OR i.provenance_code || ' ' || i.endpoint_name || ' ' || i.operation_code = $4)
    AND NOT EXISTS (
      SELECT 1 FROM ing_hold h
      WHERE h.released_at IS NULL AND coalesce(h.credential_id, h.plan_id, h.slice_id, h.task_id) IS NULL AND ",
    names_partition!("h", "i"),
    ")
  ORDER BY i.id
  LIMIT 1
  FOR UPDATE OF i SKIP LOCKED
)
UPDATE ing_schedule_instance i
SET lease_owner = $1, leased_until = moment.now + $2::bigint * interval '1 microsecond',
  lease_epoch = i.lease_epoch + 1
FROM next, moment
WHERE i.id = next.id
RETURNING i.id, i.lease_epoch, i.public_id, i.trigger_type_code, i.project_key, i.provenance_code, i.endpoint_name,
  i.operation_code, i.window_from, i.window_to, i.priority, i.params, i.overrides, i.fan_place, moment.now,
  i.reason_code, i.activity"
);

/// A separate statement after the lock: in one with it, its snapshot could be older than the lock and miss the plan.
const OPEN_PLAN: &str = "
SELECT p.id, p.spec_fingerprint, p.window_from, p.window_to, sliced.window_from, sliced.window_to, segments.last_id
FROM ing_plan p
CROSS JOIN LATERAL (
  SELECT min(s.window_from) AS window_from, max(s.window_to) AS window_to FROM ing_plan_slice s WHERE s.plan_id = p.id
) AS sliced
LEFT JOIN LATERAL (
  SELECT t.last_id FROM ing_task t
  WHERE p.window_from IS NULL AND t.plan_id = p.id AND t.ordinal IS NOT NULL
  ORDER BY t.ordinal DESC
  LIMIT 1
) AS segments ON true
WHERE p.schedule_instance_id = $1 AND p.status_code = 'PARTIAL'
ORDER BY p.id DESC
LIMIT 1";

const SETTLE: &str = "
UPDATE ing_schedule_instance
SET status_code = $3, record_remarks = coalesce($4, record_remarks),
  not_before = clock_timestamp() + $5::bigint * interval '1 microsecond',
  lease_owner = NULL, leased_until = NULL
WHERE id = $1 AND lease_epoch = $2 AND lease_owner IS NOT NULL AND status_code = 'REQUESTED'
RETURNING id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[FIRE, FIND, DUE, FIRE_SCHEDULES, MOVE_SCHEDULES, NEXT_DUE, TAKE, OPEN_PLAN, SETTLE];

pub(super) async fn fire(session: &Session, op: &RequestJob) -> Result<JobRequested, Fail> {
    let [fire, find] = session.prepare([FIRE, FIND]).await?;
    let (trigger, operation) = (op.trigger_type.as_str(), op.operation.as_str());
    let (from, to) = (op.window_from.map(Time), op.window_to.map(Time));
    let ((), made, found) = pipeline!(
        session.begin(),
        session.write(
            &fire,
            &[
                &op.public_id,
                &trigger,
                &op.project_key,
                &op.provenance_code,
                &op.endpoint_name,
                &operation,
                &from,
                &to,
                &op.priority,
                &Json(op.params.as_str()),
                &Json(op.overrides.as_str()),
                &op.reason.map(UpdateReason::as_str),
                &op.activity,
                &job_type(&op.provenance_code, &op.endpoint_name),
            ],
        ),
        session.one(&find, &[&op.public_id]),
    )?;
    session.commit().await?;
    Ok(JobRequested { job: JobId(found.try_get(0)?), existed: made == 0 })
}

pub(super) async fn fire_due(session: &Session, op: FireDue) -> Result<FiredDue, Fail> {
    let [now, due, fire, shift, next] = session.prepare([NOW, DUE, FIRE_SCHEDULES, MOVE_SCHEDULES, NEXT_DUE]).await?;
    let ((), Time(now)) = pipeline!(session.begin(), moment(session, &now))?;
    let (mut ids, mut times) = (Vec::new(), Vec::new());
    let (mut fired, mut public_ids) = (Vec::new(), Vec::new());
    for row in session.rows(&due, &[&Time(now), &i64::from(op.limit)]).await? {
        let (id, Time(at), when): (i64, Time, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let when =
            Recurrence::from_text(when).ok_or_else(|| refused(format!("schedule {id} has no time: `{when}`")))?;
        ids.push(id);
        times.push(Time(FireDue::next_due(at, &when, now)));
        let waits: bool = row.try_get(3)?;
        if !waits {
            fired.push(id);
            public_ids.push(format!("schedule-{id}-{}", at.micros()));
        }
    }
    let (fired, _, next) = pipeline!(
        session.write(&fire, &[&fired, &public_ids, &Time(now), &now.micros()]),
        session.write(&shift, &[&ids, &times]),
        session.one(&next, &[]),
    )?;
    session.commit().await?;
    let next_due: Option<Time> = next.try_get(0)?;
    Ok(FiredDue { fired: count(fired.cast_signed()), next_due: next_due.map(|Time(at)| at), now })
}

pub(super) async fn take(session: &Session, op: &ClaimJob) -> Result<Option<ClaimedJob>, Fail> {
    let [advice, take, open_plan] = session.prepare([RESUME_OLD_ADVICE, TAKE, OPEN_PLAN]).await?;
    let lease = micros(op.lease);
    let full: Vec<_> = op.full.iter().map(PartitionKey::to_text).collect();
    let only = op.only.as_ref().map(PartitionKey::to_text);
    let ((), _, taken) = pipeline!(
        session.begin(),
        session.write(&advice, &[&micros(ADVISORY_TTL), &ResumeWork::BY_TIME]),
        session.opt(&take, &[&op.owner, &lease, &full, &only]),
    )?;
    let Some(taken) = taken else {
        session.commit().await?;
        return Ok(None);
    };
    let plan = session.opt(&open_plan, &[&taken.try_get::<_, i64>(0)?]).await?;
    let operation: Operation = taken.try_get::<_, &str>(7)?.parse()?;
    let plan = plan.as_ref().map(|row| read_open_plan(row, operation)).transpose()?;
    let taken = read_taken(&taken, operation, plan)?;
    session.commit().await?;
    Ok(Some(taken))
}

fn read_taken(row: &Row, operation: Operation, plan: Option<OpenPlan>) -> Result<ClaimedJob, Fail> {
    Ok(ClaimedJob {
        job: JobId(row.try_get(0)?),
        fence: Fence(row.try_get(1)?),
        public_id: row.try_get(2)?,
        trigger_type: row.try_get::<_, &str>(3)?.parse()?,
        project_key: row.try_get(4)?,
        provenance_code: row.try_get(5)?,
        endpoint_name: row.try_get(6)?,
        operation,
        reason: row.try_get::<_, Option<&str>>(15)?.map(str::parse).transpose()?,
        activity: row.try_get(16)?,
        window_from: maybe(row, 8)?,
        window_to: maybe(row, 9)?,
        priority: row.try_get(10)?,
        params: row.try_get::<_, JsonText>(11)?.0,
        overrides: row.try_get::<_, JsonText>(12)?.0,
        position: row.try_get::<_, Option<JsonText>>(13)?.map(|JsonText(place)| place),
        plan,
        now: row.try_get::<_, Time>(14)?.0,
    })
}

fn read_open_plan(row: &Row, operation: Operation) -> Result<OpenPlan, Fail> {
    let rest = match window(row, 2)? {
        Some(whole) => RemainingPlan::Time(RemainingPlan::of(whole, operation.direction(), window(row, 4)?)),
        None => RemainingPlan::Ids { after: row.try_get(6)? },
    };
    Ok(OpenPlan { plan: PlanId(row.try_get(0)?), snapshot_hash: row.try_get(1)?, rest })
}

pub(super) async fn settle(session: &Session, op: &SettleJob) -> Result<JobSettled, Fail> {
    let [settle] = session.prepare([SETTLE]).await?;
    let (status, remarks, delay) = match &op.settlement {
        JobSettlement::Nothing { remark } => ("PLANNED", Some(json!({ "remark": remark })), 0),
        JobSettlement::Refused { error } => ("FAILED", Some(json!({ "error": error })), 0),
        JobSettlement::Later { delay } => ("REQUESTED", None, micros(*delay)),
    };
    let remarks = remarks.as_ref().map(Json::of).transpose()?;
    let rows = session.alone(&settle, &[&op.job.0, &op.fence.0, &status, &remarks, &delay]).await?;
    if rows.is_empty() { Err(TxError::Fenced.into()) } else { Ok(JobSettled) }
}
