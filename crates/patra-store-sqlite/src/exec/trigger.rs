//! Triggers: created by hand or by schedule, claimed for planning, settled.

use patra_core::state::{JobStatus, Operation, TriggerType, UpdateReason};
use patra_core::tx::{
    ClaimJob, ClaimedJob, FireDue, FiredDue, JobRequested, JobSettled, JobSettlement, OpenPlan, PartitionKey,
    Recurrence, RemainingPlan, RequestJob, SettleJob, TxError, job_type,
};
use patra_core::{Fence, JobId, PlanId, Ts};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::json;

use super::pause;
use crate::error::{Error, Result};
use crate::sql::{maybe_time, maybe_window, maybe_word, time, word};

const INSERT: &str = "
INSERT INTO ing_schedule_instance
  (public_id, schedule_id, scheduler_code, scheduler_job_id, scheduler_log_id, trigger_type_code, project_key,
   provenance_code, endpoint_name, operation_code, reason_code, activity, window_from, window_to, priority, params,
   overrides, status_code, not_before, created_at, job_type)
VALUES (?1, ?2, 'patra', coalesce(?2, ?1), ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 'REQUESTED', ?15, ?15,
  ?16)
ON CONFLICT (public_id) DO NOTHING
RETURNING id";

pub(super) const READ_ID: &str = "SELECT id FROM ing_schedule_instance WHERE public_id = ?1";

pub(crate) const READ_DUE: &str = "
SELECT id, provenance_code, endpoint_name, operation_code, reason_code, when_text, next_due_at,
  EXISTS (SELECT 1 FROM ing_schedule_instance waiting
          WHERE waiting.schedule_id = reg_schedule.id AND waiting.status_code = 'REQUESTED'),
  coalesce((SELECT p.project_key FROM reg_provenance p WHERE p.provenance_code = reg_schedule.provenance_code), 'default')
FROM reg_schedule
WHERE next_due_at <= ?1
ORDER BY next_due_at, id
LIMIT ?2";

const MOVE_DUE: &str = "UPDATE reg_schedule SET next_due_at = ?2 WHERE id = ?1";

const NEXT_DUE: &str = "SELECT min(next_due_at) FROM reg_schedule";

pub(crate) const TAKE: &str = "
UPDATE ing_schedule_instance
SET lease_owner = ?1, leased_until = ?2, lease_epoch = lease_epoch + 1
WHERE id = (
  SELECT id FROM ing_schedule_instance
  WHERE status_code = 'REQUESTED' AND not_before <= ?3 AND (leased_until IS NULL OR leased_until <= ?3)
    AND provenance_code <> 'resource_pool'
    AND provenance_code || ' ' || endpoint_name || ' ' || operation_code NOT IN (SELECT value FROM json_each(?4))
    AND (?5 IS NULL OR provenance_code || ' ' || endpoint_name || ' ' || operation_code = ?5)
    AND NOT EXISTS (
      SELECT 1 FROM ing_hold hold
      WHERE hold.released_at IS NULL AND hold.kind_code IN ('PAUSE', 'BREAK', 'ADVISORY')
        AND coalesce(hold.provenance_code = ing_schedule_instance.provenance_code, TRUE)
        AND coalesce(hold.endpoint_name = ing_schedule_instance.endpoint_name, TRUE)
        AND coalesce(hold.operation_code = ing_schedule_instance.operation_code, TRUE)
        AND coalesce(hold.credential_id, hold.plan_id, hold.slice_id, hold.task_id) IS NULL)
  ORDER BY id
  LIMIT 1)
RETURNING id, lease_epoch, public_id, trigger_type_code, project_key, provenance_code, endpoint_name, operation_code,
  reason_code, activity, window_from, window_to, priority, params, overrides, fan_place";

const READ_OPEN_PLAN: &str = "
SELECT id, spec_fingerprint, operation_code, window_from, window_to,
  (SELECT min(window_from) FROM ing_plan_slice WHERE plan_id = ing_plan.id),
  (SELECT max(window_to) FROM ing_plan_slice WHERE plan_id = ing_plan.id),
  (SELECT last_id FROM ing_task WHERE plan_id = ing_plan.id ORDER BY ordinal DESC LIMIT 1)
FROM ing_plan
WHERE schedule_instance_id = ?1 AND status_code = 'PARTIAL'
ORDER BY id DESC
LIMIT 1";

const SETTLE: &str = "
UPDATE ing_schedule_instance
SET status_code = ?3, record_remarks = coalesce(?4, record_remarks), not_before = coalesce(?5, not_before),
    lease_owner = NULL, leased_until = NULL
WHERE id = ?1 AND lease_epoch = ?2 AND status_code = 'REQUESTED' AND leased_until IS NOT NULL";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT, READ_ID, READ_DUE, MOVE_DUE, NEXT_DUE, TAKE, READ_OPEN_PLAN, SETTLE];

pub(super) fn fire(db: &Connection, op: &RequestJob, now: Ts) -> Result<JobRequested> {
    if let Some(instance) = insert(db, op, None, now)? {
        return Ok(JobRequested { job: instance, existed: false });
    }
    let instance = db.prepare_cached(READ_ID)?.query_row([&op.public_id], |row| row.get(0).map(JobId))?;
    Ok(JobRequested { job: instance, existed: true })
}

/// Returns the id of the new trigger; `None` if its public id exists.
fn insert(db: &Connection, op: &RequestJob, schedule: Option<i64>, now: Ts) -> Result<Option<JobId>> {
    let values = params![
        op.public_id,
        schedule,
        op.trigger_type.as_str(),
        op.project_key,
        op.provenance_code,
        op.endpoint_name,
        op.operation.as_str(),
        op.reason.map(UpdateReason::as_str),
        op.activity,
        op.window_from.map(Ts::micros),
        op.window_to.map(Ts::micros),
        op.priority,
        op.params,
        op.overrides,
        now.micros(),
        job_type(&op.provenance_code, &op.endpoint_name),
    ];
    Ok(db.prepare_cached(INSERT)?.query_row(values, |row| row.get(0).map(JobId)).optional()?)
}

/// A schedule that is due.
struct Due {
    schedule: i64,
    provenance_code: String,
    endpoint_name: String,
    operation: Operation,
    reason: Option<UpdateReason>,
    when: String,
    at: Ts,
    waiting: bool,
    project_key: String,
}

pub(super) fn fire_due(db: &Connection, op: FireDue, now: Ts) -> Result<FiredDue> {
    let due: Vec<Due> = db
        .prepare_cached(READ_DUE)?
        .query_map(params![now.micros(), op.limit], read_due)?
        .collect::<rusqlite::Result<_>>()?;
    let mut fired = 0;
    for due in due {
        let when = Recurrence::from_text(&due.when);
        let when = when.ok_or_else(|| Error::refused(format!("schedule {}: `{}`", due.schedule, due.when)))?;
        let next = FireDue::next_due(due.at, &when, now);
        db.prepare_cached(MOVE_DUE)?.execute(params![due.schedule, next.micros()])?;
        if due.waiting {
            continue;
        }
        let schedule = due.schedule;
        let mut trigger = RequestJob {
            public_id: format!("schedule-{schedule}-{}", due.at.micros()),
            trigger_type: TriggerType::Schedule,
            project_key: due.project_key,
            provenance_code: due.provenance_code,
            endpoint_name: due.endpoint_name,
            operation: due.operation,
            reason: due.reason,
            activity: None,
            window_from: None,
            window_to: None,
            priority: 0,
            params: "{}".into(),
            overrides: "{}".into(),
        };
        let mut job = insert(db, &trigger, Some(schedule), now)?;
        if job.is_none() {
            // The clock was set back: this time comes again.
            trigger.public_id = format!("{}-{}", trigger.public_id, now.micros());
            job = insert(db, &trigger, Some(schedule), now)?;
        }
        fired += u32::from(job.is_some());
    }
    let next_due = db.prepare_cached(NEXT_DUE)?.query_row((), |row| maybe_time(row, 0))?;
    Ok(FiredDue { fired, next_due, now })
}

fn read_due(row: &Row<'_>) -> rusqlite::Result<Due> {
    Ok(Due {
        schedule: row.get(0)?,
        provenance_code: row.get(1)?,
        endpoint_name: row.get(2)?,
        operation: word(row, 3)?,
        reason: if row.get_ref(4)?.as_str()?.is_empty() { None } else { Some(word(row, 4)?) },
        when: row.get(5)?,
        at: time(row, 6)?,
        waiting: row.get(7)?,
        project_key: row.get(8)?,
    })
}

pub(super) fn take(db: &Connection, op: &ClaimJob, now: Ts) -> Result<Option<ClaimedJob>> {
    pause::resume_old_advice(db, now)?;
    let full = json!(op.full.iter().map(PartitionKey::to_text).collect::<Vec<_>>()).to_string();
    let only = op.only.as_ref().map(PartitionKey::to_text);
    let values = params![op.owner, (now + op.lease).micros(), now.micros(), full, only];
    let taken = db.prepare_cached(TAKE)?.query_row(values, |row| {
        Ok(ClaimedJob {
            job: JobId(row.get(0)?),
            fence: Fence(row.get(1)?),
            public_id: row.get(2)?,
            trigger_type: word(row, 3)?,
            project_key: row.get(4)?,
            provenance_code: row.get(5)?,
            endpoint_name: row.get(6)?,
            operation: word(row, 7)?,
            reason: maybe_word(row, 8)?,
            activity: row.get(9)?,
            window_from: maybe_time(row, 10)?,
            window_to: maybe_time(row, 11)?,
            priority: row.get(12)?,
            params: row.get(13)?,
            overrides: row.get(14)?,
            position: row.get(15)?,
            plan: None,
            now,
        })
    });
    let Some(mut taken) = taken.optional()? else { return Ok(None) };
    taken.plan = db.prepare_cached(READ_OPEN_PLAN)?.query_row([taken.job.0], read_open_plan).optional()?;
    Ok(Some(taken))
}

fn read_open_plan(row: &Row<'_>) -> rusqlite::Result<OpenPlan> {
    let direction = word::<Operation>(row, 2)?.direction();
    let rest = match maybe_window(row, 3)? {
        Some(whole) => RemainingPlan::Time(RemainingPlan::of(whole, direction, maybe_window(row, 5)?)),
        None => RemainingPlan::Ids { after: row.get(7)? },
    };
    Ok(OpenPlan { plan: PlanId(row.get(0)?), snapshot_hash: row.get(1)?, rest })
}

pub(super) fn settle(db: &Connection, op: &SettleJob, now: Ts) -> Result<JobSettled> {
    let (status, remarks, not_before) = match &op.settlement {
        JobSettlement::Nothing { remark } => (JobStatus::Planned, Some(json!({ "remark": remark })), None),
        JobSettlement::Refused { error } => (JobStatus::Failed, Some(json!({ "error": error })), None),
        JobSettlement::Later { delay } => (JobStatus::Requested, None, Some(now + *delay)),
    };
    let remarks = remarks.map(|remarks| remarks.to_string());
    release(db, op.job, op.fence, status, remarks.as_deref(), not_before)?;
    Ok(JobSettled)
}

/// Releases the lease of a trigger and sets its status; `Fenced` if there is no such lease.
pub(super) fn release(
    db: &Connection,
    instance: JobId,
    fence: Fence,
    status: JobStatus,
    remarks: Option<&str>,
    not_before: Option<Ts>,
) -> Result<()> {
    let values = params![instance.0, fence.0, status.as_str(), remarks, not_before.map(Ts::micros)];
    match db.prepare_cached(SETTLE)?.execute(values)? {
        1 => Ok(()),
        _ => Err(TxError::Fenced.into()),
    }
}
