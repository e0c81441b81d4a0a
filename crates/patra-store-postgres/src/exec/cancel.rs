//! Work that ends by somebody's will. Rows are locked as everywhere: trigger, tasks, then slices and plans below.

use patra_core::tx::{CancelSubject, CancelWork, WorkCancelled};

use super::{NOW, count, moment};
use crate::error::Fail;
use crate::json::Json;
use crate::pool::{Session, pipeline};
use crate::time::Time;

const LOCK_TRIGGER: &str = "SELECT id FROM ing_schedule_instance WHERE public_id = $1 FOR UPDATE";

/// A statement of its own: whoever made children of the trigger has committed them by then.
const LOCK_FAMILY: &str = "
SELECT id FROM ing_schedule_instance WHERE id = $1 OR parent_id = $1 OR root_id = $1 ORDER BY id FOR UPDATE";

/// A plan that is sliced to its end and whose tasks have ended is over.
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

/// Whoever slices the plan has the trigger.
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

/// Those that have not ended, of plans, slices, or by their own ids. In the order of their ids, as everybody locks them.
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

/// A chore has an end. A plan that is not sliced to its end takes its trigger with it: it would be planned again at once.
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

/// What goes, by id. The plans bring their slices, slices and plans their tasks.
#[derive(Default)]
pub(super) struct Found {
    pub(super) triggers: Vec<i64>,
    pub(super) plans: Vec<i64>,
    slices: Vec<i64>,
    tasks: Vec<i64>,
}

pub(super) async fn cancel(session: &Session, op: &CancelWork) -> Result<WorkCancelled, Fail> {
    let [now] = session.prepare([NOW]).await?;
    session.begin().await?;
    let Some(found) = find(session, &op.target).await? else {
        session.commit().await?;
        return Ok(WorkCancelled::default());
    };
    let now = moment(session, &now).await?;
    let done = end(session, op, &found, now).await?;
    session.commit().await?;
    Ok(done)
}

/// `None` when it is not there.
async fn find(session: &Session, target: &CancelSubject) -> Result<Option<Found>, Fail> {
    let mut found = Found::default();
    match target {
        CancelSubject::Job(public_id) => {
            let [lock, family, plans] = session.prepare([LOCK_TRIGGER, LOCK_FAMILY, FIND_PLANS]).await?;
            let Some(trigger) = session.opt(&lock, &[public_id]).await? else { return Ok(None) };
            for row in session.rows(&family, &[&trigger.try_get::<_, i64>(0)?]).await? {
                found.triggers.push(row.try_get(0)?);
            }
            for row in session.rows(&plans, &[&found.triggers]).await? {
                found.plans.push(row.try_get(0)?);
            }
        }
        CancelSubject::Plan(plan) => {
            let [lock, find] = session.prepare([LOCK_PLANNER, FIND_PLAN]).await?;
            let (_, row) = pipeline!(session.opt(&lock, &[&plan.0]), session.opt(&find, &[&plan.0]))?;
            let Some(row) = row else { return Ok(None) };
            found.plans.extend(row.try_get::<_, bool>(0)?.then_some(plan.0));
        }
        CancelSubject::Slice(slice) => {
            let [find] = session.prepare([FIND_SLICE]).await?;
            let Some(row) = session.opt(&find, &[&slice.0]).await? else { return Ok(None) };
            found.slices.extend(row.try_get::<_, bool>(0)?.then_some(slice.0));
        }
        CancelSubject::Task(task) => {
            let [find] = session.prepare([FIND_TASK]).await?;
            if session.opt(&find, &[&task.0]).await?.is_none() {
                return Ok(None);
            }
            found.tasks.push(task.0);
        }
    }
    Ok(Some(found))
}

/// In the caller's transaction, which holds the triggers.
pub(super) async fn end(session: &Session, op: &CancelWork, found: &Found, now: Time) -> Result<WorkCancelled, Fail> {
    let [tasks, slices, triggers, plans] =
        session.prepare([CANCEL_TASKS, CANCEL_SLICES, CANCEL_TRIGGERS, CANCEL_PLANS]).await?;
    let (error, remarks) = (Json::of(&op.fault())?, Json(op.remarks()));
    let (tasks, slices, triggers, plans) = pipeline!(
        session.one(&tasks, &[&found.plans, &found.slices, &found.tasks, &error, &now]),
        session.write(&slices, &[&found.plans, &found.slices]),
        session.write(&triggers, &[&found.triggers, &found.plans, &remarks, &now]),
        session.write(&plans, &[&found.plans]),
    )?;
    Ok(WorkCancelled {
        found: true,
        jobs: count(triggers.cast_signed()),
        plans: count(plans.cast_signed()),
        slices: count(slices.cast_signed()),
        tasks: count(tasks.try_get(0)?),
    })
}
