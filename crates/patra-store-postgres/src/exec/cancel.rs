//! Cancelling work. Rows are locked in the usual order: trigger, tasks, then slices and plans.

use patra_core::tx::{CancelSubject, CancelWork, WorkCancelled};

use super::{NOW, count, moment};
use crate::error::Fail;
use crate::json::Json;
use crate::pool::{Session, pipeline};
use crate::time::Time;

const LOCK_TRIGGER: &str = "SELECT id FROM ing_schedule_instance WHERE public_id = $1 FOR UPDATE";

/// A separate statement: transactions that created children of the trigger have committed by then.
const LOCK_FAMILY: &str = "
SELECT id FROM ing_schedule_instance WHERE id = $1 OR parent_id = $1 OR root_id = $1 ORDER BY id FOR UPDATE";

/// A plan ends when it is fully sliced and its tasks have ended.
macro_rules! open_plan {
    () => {
        "(p.status_code IN ('DRAFT', 'SLICING', 'PARTIAL') OR p.status_code = 'READY' AND EXISTS (
    SELECT 1 FROM ing_task t WHERE t.plan_id = p.id AND t.status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')))"
    };
}

const FIND_PLANS: &str = concat!(
    "
SELECT p.id FROM ing_plan p
WHERE p.schedule_instance_id = ANY ($1::bigint[]) AND ",
    open_plan!()
);

/// The planner that slices the plan has the trigger.
const LOCK_PLANNER: &str = "
SELECT i.id FROM ing_schedule_instance i
WHERE i.id = (SELECT schedule_instance_id FROM ing_plan WHERE id = $1)
FOR UPDATE";

const FIND_PLAN: &str = concat!("SELECT ", open_plan!(), " FROM ing_plan p WHERE p.id = $1");

const FIND_SLICE: &str = "
SELECT s.status_code = 'PENDING' OR s.status_code = 'READY' AND EXISTS (
    SELECT 1 FROM ing_task t WHERE t.slice_id = s.id AND t.status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING'))
FROM ing_plan_slice s WHERE s.id = $1";

const FIND_TASK: &str = "SELECT true FROM ing_task WHERE id = $1";

/// Open tasks of plans and slices or by id, locked in the order of their ids, like everywhere.
const CANCEL_TASKS: &str = "
WITH open AS (
  SELECT id FROM ing_task
  WHERE (plan_id = ANY ($1::bigint[]) OR slice_id = ANY ($2::bigint[]) OR id = ANY ($3::bigint[]))
    AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING')
  ORDER BY id
  FOR UPDATE
),
cancelled AS (
  UPDATE ing_task
  SET status_code = 'CANCELLED', error = $4, finished_at = $5, lease_owner = NULL, leased_until = NULL
  WHERE id = ANY (ARRAY(SELECT id FROM open))
  RETURNING id
),
runs AS (
  UPDATE ing_task_run SET status_code = 'CANCELLED', error = $4, finished_at = $5
  WHERE task_id IN (SELECT id FROM cancelled) AND status_code = 'RUNNING'
)
SELECT count(*) FROM cancelled";

const CANCEL_SLICES: &str = "
UPDATE ing_plan_slice SET status_code = 'CANCELLED'
WHERE (plan_id = ANY ($1::bigint[]) OR id = ANY ($2::bigint[])) AND status_code IN ('PENDING', 'READY')";

/// Cancelling a plan that is not fully sliced also cancels its trigger: it would be planned again at once. Only
/// background jobs get an end time.
const CANCEL_TRIGGERS: &str = "
UPDATE ing_schedule_instance
SET status_code = 'CANCELLED', record_remarks = $3, lease_owner = NULL, leased_until = NULL,
  finished_at = CASE WHEN provenance_code = 'resource_pool' THEN $4 ELSE finished_at END
WHERE status_code = 'REQUESTED' AND (id = ANY ($1::bigint[])
  OR id IN (SELECT schedule_instance_id FROM ing_plan WHERE id = ANY ($2::bigint[]) AND status_code = 'PARTIAL'))";

const CANCEL_PLANS: &str = "
UPDATE ing_plan SET status_code = 'CANCELLED'
WHERE id = ANY ($1::bigint[]) AND status_code NOT IN ('FAILED', 'CANCELLED')";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LOCK_TRIGGER,
    LOCK_FAMILY,
    FIND_PLANS,
    LOCK_PLANNER,
    FIND_PLAN,
    FIND_SLICE,
    FIND_TASK,
    CANCEL_TASKS,
    CANCEL_SLICES,
    CANCEL_TRIGGERS,
    CANCEL_PLANS,
];

/// Work to cancel, by id. Plans include their slices; slices and plans include their tasks.
#[derive(Default)]
pub(super) struct CancelTargets {
    pub(super) triggers: Vec<i64>,
    pub(super) plans: Vec<i64>,
    slices: Vec<i64>,
    tasks: Vec<i64>,
}

pub(super) async fn cancel(session: &Session, op: &CancelWork) -> Result<WorkCancelled, Fail> {
    let [now] = session.prepare([NOW]).await?;
    session.begin().await?;
    let Some(targets) = find(session, &op.target).await? else {
        session.commit().await?;
        return Ok(WorkCancelled::default());
    };
    let now = moment(session, &now).await?;
    let done = end(session, op, &targets, now).await?;
    session.commit().await?;
    Ok(done)
}

/// Returns `None` if it does not exist.
async fn find(session: &Session, target: &CancelSubject) -> Result<Option<CancelTargets>, Fail> {
    let mut targets = CancelTargets::default();
    match target {
        CancelSubject::Job(public_id) => {
            let [lock, family, plans] = session.prepare([LOCK_TRIGGER, LOCK_FAMILY, FIND_PLANS]).await?;
            let Some(trigger) = session.opt(&lock, &[public_id]).await? else { return Ok(None) };
            for row in session.rows(&family, &[&trigger.try_get::<_, i64>(0)?]).await? {
                targets.triggers.push(row.try_get(0)?);
            }
            for row in session.rows(&plans, &[&targets.triggers]).await? {
                targets.plans.push(row.try_get(0)?);
            }
        }
        CancelSubject::Plan(plan) => {
            let [lock, find] = session.prepare([LOCK_PLANNER, FIND_PLAN]).await?;
            let (_, row) = pipeline!(session.opt(&lock, &[&plan.0]), session.opt(&find, &[&plan.0]))?;
            let Some(row) = row else { return Ok(None) };
            targets.plans.extend(row.try_get::<_, bool>(0)?.then_some(plan.0));
        }
        CancelSubject::Slice(slice) => {
            let [find] = session.prepare([FIND_SLICE]).await?;
            let Some(row) = session.opt(&find, &[&slice.0]).await? else { return Ok(None) };
            targets.slices.extend(row.try_get::<_, bool>(0)?.then_some(slice.0));
        }
        CancelSubject::Task(task) => {
            let [find] = session.prepare([FIND_TASK]).await?;
            if session.opt(&find, &[&task.0]).await?.is_none() {
                return Ok(None);
            }
            targets.tasks.push(task.0);
        }
    }
    Ok(Some(targets))
}

/// Runs in the caller's transaction, which has locked the triggers.
pub(super) async fn end(
    session: &Session,
    op: &CancelWork,
    targets: &CancelTargets,
    now: Time,
) -> Result<WorkCancelled, Fail> {
    let [tasks, slices, triggers, plans] =
        session.prepare([CANCEL_TASKS, CANCEL_SLICES, CANCEL_TRIGGERS, CANCEL_PLANS]).await?;
    let (error, remarks) = (Json::of(&op.fault())?, Json(op.remarks()));
    let (tasks, slices, triggers, plans) = pipeline!(
        session.one(&tasks, &[&targets.plans, &targets.slices, &targets.tasks, &error, &now]),
        session.write(&slices, &[&targets.plans, &targets.slices]),
        session.write(&triggers, &[&targets.triggers, &targets.plans, &remarks, &now]),
        session.write(&plans, &[&targets.plans]),
    )?;
    Ok(WorkCancelled {
        found: true,
        jobs: count(triggers.cast_signed()),
        plans: count(plans.cast_signed()),
        slices: count(slices.cast_signed()),
        tasks: count(tasks.try_get(0)?),
    })
}
