//! Writes a plan with its slices and tasks, whole or in parts.

use patra_core::tx::{NewPlan, NewSlice, PlanSaved, PlanTarget, SavePlan, TxError};
use patra_core::{CursorId, PlanId};

use super::{NOW, count, moment};
use crate::error::{Fail, refused};
use crate::json::Json;
use crate::pool::{Session, pipeline};
use crate::time::Time;

const LOCK_TRIGGER: &str = "
SELECT provenance_code, endpoint_name, operation_code FROM ing_schedule_instance
WHERE id = $1 AND lease_epoch = $2 AND lease_owner IS NOT NULL AND status_code = 'REQUESTED'
FOR UPDATE";

const MAKE_CURSOR: &str = "
INSERT INTO ing_cursor (provenance_code, endpoint_name, operation_code, cursor_key, namespace_scope_code, namespace_key,
  cursor_type_code, direction_code, origin_instant, created_at, updated_at, project_key)
VALUES ($1, $2, $3, $4, $5, $6, $10, $7, $8, $9, $9, $11)
ON CONFLICT (project_key, provenance_code, operation_code, cursor_key, namespace_scope_code, namespace_key) DO NOTHING";

/// A separate statement, so that it sees a row that another planner created while the first one waited.
const LOCK_CURSOR: &str = "
SELECT id, plan_epoch FROM ing_cursor
WHERE project_key = $6 AND provenance_code = $1 AND operation_code = $2 AND cursor_key = $3
  AND namespace_scope_code = $4 AND namespace_key = $5
FOR UPDATE";

const RAISE_EPOCH: &str = "UPDATE ing_cursor SET plan_epoch = plan_epoch + 1 WHERE id = $1";

const STORE_SNAPSHOT: &str = "
INSERT INTO ing_snapshot (hash, body, created_at) VALUES ($1, $2, $3) ON CONFLICT (hash) DO NOTHING";

const INSERT_PLAN: &str = "
INSERT INTO ing_plan (schedule_instance_id, cursor_id, project_key, provenance_code, endpoint_name, operation_code,
  window_from, window_to, plan_strategy, expr_proto_hash, spec_fingerprint, status_code, record_remarks, created_at)
SELECT i.id, $2, $3, i.provenance_code, i.endpoint_name, i.operation_code,
  $4, $5, $10, $6, $6, $7, $8, $9
FROM ing_schedule_instance i WHERE i.id = $1
RETURNING id";

const CONTINUE_PLAN: &str = "
UPDATE ing_plan SET status_code = $3
WHERE id = $1 AND schedule_instance_id = $2 AND status_code = 'PARTIAL'
RETURNING spec_fingerprint";

const INSERT_SLICES: &str = "
INSERT INTO ing_plan_slice (plan_id, provenance_code, endpoint_name, slice_spec, slice_signature_hash, expr_hash,
  expr_snapshot, window_from, window_to, status_code, created_at)
SELECT $1, $2, $3, s.spec, s.signature, s.expr_hash, s.expr_snapshot, s.window_from, s.window_to, 'READY', $10
FROM unnest($4::jsonb[], $5::text[], $6::text[], $7::jsonb[], $8::timestamptz[], $9::timestamptz[])
  WITH ORDINALITY AS s (spec, signature, expr_hash, expr_snapshot, window_from, window_to, place)
ORDER BY s.place
ON CONFLICT (plan_id, slice_signature_hash) DO NOTHING";

const INSERT_TASKS: &str = "
INSERT INTO ing_task (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name,
  operation_code, params, expr_hash, idempotent_key, window_from, window_to, status_code, priority, scheduled_at,
  created_at, credential_id, c_max, ordinal, last_id)
SELECT $1, $2, s.id, $3, $4, $5, $6, $7, t.params, t.expr_hash, t.idempotent_key, t.window_from, t.window_to,
  'QUEUED', $8, $15, $15, $16, $17, t.ordinal, t.last_id
FROM unnest($9::text[], $10::jsonb[], $11::text[], $12::text[], $13::timestamptz[], $14::timestamptz[], $18::bigint[],
    $19::text[])
  WITH ORDINALITY AS t (signature, params, expr_hash, idempotent_key, window_from, window_to, ordinal, last_id, place)
JOIN ing_plan_slice s ON s.plan_id = $2 AND s.slice_signature_hash = t.signature
ORDER BY t.place
ON CONFLICT (idempotent_key) DO NOTHING";

const END_TRIGGER: &str = "
UPDATE ing_schedule_instance
SET status_code = $2, not_before = $3, expr_proto_hash = $4, lease_owner = NULL, leased_until = NULL
WHERE id = $1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    LOCK_TRIGGER,
    MAKE_CURSOR,
    LOCK_CURSOR,
    RAISE_EPOCH,
    STORE_SNAPSHOT,
    INSERT_PLAN,
    CONTINUE_PLAN,
    INSERT_SLICES,
    INSERT_TASKS,
    END_TRIGGER,
];

/// State that lets a planner continue.
struct Locked {
    origin: Origin,
    cursor: CursorId,
    now: Time,
}

/// Columns that slices and tasks copy from the trigger.
struct Origin {
    provenance_code: String,
    endpoint_name: String,
    operation: String,
}

pub(super) async fn save(session: &Session, op: &SavePlan) -> Result<PlanSaved, Fail> {
    let Locked { origin, cursor, now } = lock(session, op).await?;
    let (plan, proto) = match &op.target {
        PlanTarget::New(new) => insert_plan(session, op, cursor, new, now).await?,
        PlanTarget::Existing(plan) => continue_plan(session, op, cursor, *plan).await?,
    };
    let created = insert_tasks(session, op, &origin, cursor, plan, now).await?;
    end_trigger(session, op, &proto, now).await?;
    let given = op.slices.len() as u64;
    Ok(PlanSaved {
        plan,
        cursor,
        created: count(created.cast_signed()),
        existing: count(given.saturating_sub(created).cast_signed()),
    })
}

/// Locks the trigger, then the cursor; both must be as the planner saw them.
async fn lock(session: &Session, op: &SavePlan) -> Result<Locked, Fail> {
    let [trigger, now, make, lock] = session.prepare([LOCK_TRIGGER, NOW, MAKE_CURSOR, LOCK_CURSOR]).await?;
    let name = &op.cursor;
    let (operation, scope) = (name.operation.as_str(), name.scope.as_str());
    let (direction, kind) = (name.operation.direction().as_str(), if op.origin.is_some() { "TIME" } else { "ID" });
    let ((), trigger, now) =
        pipeline!(session.begin(), session.opt(&trigger, &[&op.job.0, &op.fence.0]), moment(session, &now),)?;
    let trigger = trigger.ok_or(TxError::Fenced)?;
    let (_, cursor) = pipeline!(
        session.write(
            &make,
            &[
                &name.provenance_code,
                &name.endpoint_name,
                &operation,
                &name.cursor_key,
                &scope,
                &name.namespace_key,
                &direction,
                &op.origin.map(Time),
                &now,
                &kind,
                &name.project_key,
            ],
        ),
        session.one(
            &lock,
            &[&name.provenance_code, &operation, &name.cursor_key, &scope, &name.namespace_key, &name.project_key],
        ),
    )?;
    if cursor.try_get::<_, i64>(1)? != op.epoch {
        return Err(TxError::Conflict.into());
    }
    let origin = Origin {
        provenance_code: trigger.try_get(0)?,
        endpoint_name: trigger.try_get(1)?,
        operation: trigger.try_get(2)?,
    };
    Ok(Locked { origin, cursor: CursorId(cursor.try_get(0)?), now })
}

async fn insert_plan(
    session: &Session,
    op: &SavePlan,
    cursor: CursorId,
    new: &NewPlan,
    now: Time,
) -> Result<(PlanId, String), Fail> {
    let [raise, snapshot, insert] = session.prepare([RAISE_EPOCH, STORE_SNAPSHOT, INSERT_PLAN]).await?;
    let (from, to) = (new.window.map(|window| Time(window.from)), new.window.map(|window| Time(window.to)));
    let (_, _, plan) = pipeline!(
        session.write(&raise, &[&cursor.0]),
        session.write(&snapshot, &[&new.snapshot_hash, &new.snapshot_body, &now]),
        session.one(
            &insert,
            &[
                &op.job.0,
                &cursor.0,
                &op.project_key,
                &from,
                &to,
                &new.snapshot_hash,
                &plan_status(op),
                &Json(&new.remarks),
                &now,
                &new.strategy,
            ],
        ),
    )?;
    Ok((PlanId(plan.try_get(0)?), new.snapshot_hash.clone()))
}

async fn continue_plan(
    session: &Session,
    op: &SavePlan,
    cursor: CursorId,
    plan: PlanId,
) -> Result<(PlanId, String), Fail> {
    let [raise, go_on] = session.prepare([RAISE_EPOCH, CONTINUE_PLAN]).await?;
    let (_, found) =
        pipeline!(session.write(&raise, &[&cursor.0]), session.opt(&go_on, &[&plan.0, &op.job.0, &plan_status(op)]),)?;
    Ok((plan, found.ok_or(TxError::Conflict)?.try_get(0)?))
}

fn plan_status(op: &SavePlan) -> &'static str {
    if op.complete { "READY" } else { "PARTIAL" }
}

async fn insert_tasks(
    session: &Session,
    op: &SavePlan,
    origin: &Origin,
    cursor: CursorId,
    plan: PlanId,
    now: Time,
) -> Result<u64, Fail> {
    let [slices, tasks] = session.prepare([INSERT_SLICES, INSERT_TASKS]).await?;
    let given = Columns::of(&op.slices);
    let (_, created) = pipeline!(
        session.write(
            &slices,
            &[
                &plan.0,
                &origin.provenance_code,
                &origin.endpoint_name,
                &given.specs,
                &given.signatures,
                &given.expr_hashes,
                &given.expr_snapshots,
                &given.from,
                &given.to,
                &now,
            ],
        ),
        session.write(
            &tasks,
            &[
                &op.job.0,
                &plan.0,
                &cursor.0,
                &op.project_key,
                &origin.provenance_code,
                &origin.endpoint_name,
                &origin.operation,
                &op.priority,
                &given.signatures,
                &given.params,
                &given.expr_hashes,
                &given.keys,
                &given.from,
                &given.to,
                &now,
                &op.credential.map(|credential| credential.0),
                &i64::from(op.c_max),
                &given.ordinals,
                &given.last_ids,
            ],
        ),
    )?;
    Ok(created)
}

async fn end_trigger(session: &Session, op: &SavePlan, proto: &str, now: Time) -> Result<(), Fail> {
    let [trigger] = session.prepare([END_TRIGGER]).await?;
    let (status, not_before) =
        if op.complete { ("PLANNED", now) } else { ("REQUESTED", Time(now.0 + op.resume_delay)) };
    let (ended, ()) = pipeline!(session.write(&trigger, &[&op.job.0, &status, &not_before, &proto]), session.commit())?;
    if ended == 1 { Ok(()) } else { Err(refused("a locked trigger disappeared")) }
}

/// The slices as arrays for `unnest`.
#[derive(Default)]
pub(super) struct Columns<'a> {
    pub(super) specs: Vec<Json<&'a str>>,
    pub(super) signatures: Vec<&'a str>,
    pub(super) expr_hashes: Vec<&'a str>,
    pub(super) expr_snapshots: Vec<Json<&'a str>>,
    pub(super) params: Vec<Json<&'a str>>,
    pub(super) keys: Vec<&'a str>,
    pub(super) from: Vec<Option<Time>>,
    pub(super) to: Vec<Option<Time>>,
    pub(super) ordinals: Vec<Option<i64>>,
    pub(super) last_ids: Vec<Option<&'a str>>,
}

impl Columns<'_> {
    pub(super) fn of(slices: &[NewSlice]) -> Columns<'_> {
        let mut columns = Columns::default();
        for slice in slices {
            columns.specs.push(Json(&slice.spec));
            columns.signatures.push(&slice.signature);
            columns.expr_hashes.push(&slice.expr_hash);
            columns.expr_snapshots.push(Json(&slice.expr_snapshot));
            columns.params.push(Json(&slice.task_params));
            columns.keys.push(&slice.task_key);
            columns.from.push(slice.window.map(|window| Time(window.from)));
            columns.to.push(slice.window.map(|window| Time(window.to)));
            columns.ordinals.push(slice.segment.as_ref().map(|segment| segment.ordinal));
            columns.last_ids.push(slice.segment.as_ref().map(|segment| segment.last_id.as_str()));
        }
        columns
    }
}
