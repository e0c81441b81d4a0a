//! Planning: the coverage of a namespace, and writing plan, slices and tasks.

use patra_core::state::{JobStatus, PlanStatus};
use patra_core::tx::{Coverage, History, NewPlan, NewSlice, PlanSaved, PlanTarget, ReadCoverage, SavePlan, TxError};
use patra_core::{CursorId, PlanId, SliceId, Ts};
use rusqlite::{Connection, OptionalExtension, params};

use super::{cover, cursor, trigger};
use crate::error::Result;

pub(crate) const COUNT_QUEUED: &str = "
SELECT count(*)
FROM ing_task INDEXED BY idx_task_pick
WHERE provenance_code = ?1 AND endpoint_name = ?2 AND operation_code = ?3 AND status_code = 'QUEUED'
  AND source_id IS NULL";

pub(super) const INSERT_SNAPSHOT: &str = "
INSERT INTO ing_snapshot (hash, body, created_at) VALUES (?1, ?2, ?3)
ON CONFLICT (hash) DO NOTHING";

// The snapshot is the whole frozen spec, so its hash is the fingerprint of both the expression and the spec.
const INSERT_PLAN: &str = "
INSERT INTO ing_plan
  (schedule_instance_id, cursor_id, project_key, provenance_code, endpoint_name, operation_code, window_from, window_to,
   plan_strategy, expr_proto_hash, spec_fingerprint, status_code, record_remarks, created_at)
SELECT ?1, ?2, ?3, provenance_code, endpoint_name, operation_code, ?4, ?5, ?10, ?6, ?6, ?7, ?8, ?9
FROM ing_schedule_instance
WHERE id = ?1
RETURNING id";

const SET_PROTO: &str = "UPDATE ing_schedule_instance SET expr_proto_hash = ?2 WHERE id = ?1";

const CONTINUE_PLAN: &str = "
UPDATE ing_plan SET status_code = ?3
WHERE id = ?1 AND schedule_instance_id = ?2 AND status_code = 'PARTIAL'";

const INSERT_SLICE: &str = "
INSERT INTO ing_plan_slice
  (plan_id, provenance_code, endpoint_name, slice_spec, slice_signature_hash, expr_hash, expr_snapshot,
   window_from, window_to, status_code, created_at)
SELECT ?1, provenance_code, endpoint_name, ?2, ?3, ?4, ?5, ?6, ?7, 'READY', ?8
FROM ing_plan
WHERE id = ?1
ON CONFLICT (plan_id, slice_signature_hash) DO NOTHING
RETURNING id";

const READ_SLICE: &str = "SELECT id FROM ing_plan_slice WHERE plan_id = ?1 AND slice_signature_hash = ?2";

const INSERT_TASK: &str = "
INSERT INTO ing_task
  (schedule_instance_id, plan_id, slice_id, cursor_id, project_key, provenance_code, endpoint_name, operation_code,
   params, expr_hash, idempotent_key, window_from, window_to, status_code, priority, scheduled_at, created_at,
   credential_id, ordinal, last_id, c_max)
SELECT schedule_instance_id, id, ?2, ?3, ?4, provenance_code, endpoint_name, operation_code,
   ?5, ?6, ?7, ?8, ?9, 'QUEUED', ?10, ?11, ?11, ?12, ?13, ?14, ?15
FROM ing_plan
WHERE id = ?1
ON CONFLICT (idempotent_key) DO NOTHING";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[COUNT_QUEUED, INSERT_SNAPSHOT, INSERT_PLAN, SET_PROTO, CONTINUE_PLAN, INSERT_SLICE, READ_SLICE, INSERT_TASK];

pub(super) fn read_coverage(db: &Connection, op: &ReadCoverage, now: Ts) -> Result<Coverage> {
    let name = &op.cursor;
    let partition = params![name.provenance_code, name.endpoint_name, name.operation.as_str()];
    let queued = db.prepare_cached(COUNT_QUEUED)?.query_row(partition, |row| row.get(0))?;
    let mut coverage = Coverage {
        cursor: None,
        origin: None,
        value: None,
        epoch: 0,
        covered: Vec::new(),
        next_ordinal: 0,
        queued,
        history: History::default(),
        harvested: cursor::harvested(db, name)?,
        now,
    };
    if let Some(cursor) = cursor::find(db, name)? {
        match cursor.start() {
            Some(start) => {
                coverage.covered = cover::covered(db, &cursor, start)?;
                coverage.history = cover::history(db, &cursor)?;
            }
            None => coverage.next_ordinal = cover::next_ordinal(db, &cursor)?,
        }
        coverage.cursor = Some(cursor.id);
        coverage.origin = cursor.origin;
        coverage.epoch = cursor.epoch;
        coverage.value = cursor.value;
    }
    Ok(coverage)
}

pub(super) fn save(db: &Connection, op: &SavePlan, now: Ts) -> Result<PlanSaved> {
    // Runs first because it proves the lease; a later failure rolls it back.
    let (plan_status, trigger_status, not_before) = if op.complete {
        (PlanStatus::Ready, JobStatus::Planned, None)
    } else {
        (PlanStatus::Partial, JobStatus::Requested, Some(now + op.resume_delay))
    };
    trigger::release(db, op.job, op.fence, trigger_status, None, not_before)?;
    let cursor = cursor::next_epoch(db, &op.cursor, op.origin, op.epoch, now)?;
    let plan = match &op.target {
        PlanTarget::New(plan) => insert_plan(db, op, plan, cursor, plan_status, now)?,
        PlanTarget::Existing(plan) => continue_plan(db, op, *plan, plan_status)?,
    };
    let mut created = 0;
    for slice in &op.slices {
        let id = insert_slice(db, plan, slice, now)?;
        let values = params![
            plan.0,
            id.0,
            cursor.0,
            op.project_key,
            slice.task_params,
            slice.expr_hash,
            slice.task_key,
            slice.window.map(|window| window.from.micros()),
            slice.window.map(|window| window.to.micros()),
            op.priority,
            now.micros(),
            op.credential.map(|credential| credential.0),
            slice.segment.as_ref().map(|segment| segment.ordinal),
            slice.segment.as_ref().map(|segment| &segment.last_id),
            op.c_max,
        ];
        created += db.prepare_cached(INSERT_TASK)?.execute(values)?;
    }
    let existing = op.slices.len() - created;
    Ok(PlanSaved { plan, cursor, created: created as u32, existing: existing as u32 })
}

fn insert_plan(
    db: &Connection,
    op: &SavePlan,
    plan: &NewPlan,
    cursor: CursorId,
    status: PlanStatus,
    now: Ts,
) -> Result<PlanId> {
    db.prepare_cached(INSERT_SNAPSHOT)?.execute(params![plan.snapshot_hash, plan.snapshot_body, now.micros()])?;
    let values = params![
        op.job.0,
        cursor.0,
        op.project_key,
        plan.window.map(|window| window.from.micros()),
        plan.window.map(|window| window.to.micros()),
        plan.snapshot_hash,
        status.as_str(),
        plan.remarks,
        now.micros(),
        plan.strategy,
    ];
    db.prepare_cached(SET_PROTO)?.execute(params![op.job.0, plan.snapshot_hash])?;
    Ok(db.prepare_cached(INSERT_PLAN)?.query_row(values, |row| row.get(0).map(PlanId))?)
}

fn continue_plan(db: &Connection, op: &SavePlan, plan: PlanId, status: PlanStatus) -> Result<PlanId> {
    match db.prepare_cached(CONTINUE_PLAN)?.execute(params![plan.0, op.job.0, status.as_str()])? {
        1 => Ok(plan),
        _ => Err(TxError::Conflict.into()),
    }
}

fn insert_slice(db: &Connection, plan: PlanId, slice: &NewSlice, now: Ts) -> Result<SliceId> {
    let values = params![
        plan.0,
        slice.spec,
        slice.signature,
        slice.expr_hash,
        slice.expr_snapshot,
        slice.window.map(|window| window.from.micros()),
        slice.window.map(|window| window.to.micros()),
        now.micros(),
    ];
    let inserted = db.prepare_cached(INSERT_SLICE)?.query_row(values, |row| row.get(0)).optional()?;
    let id = match inserted {
        Some(id) => id,
        None => db.prepare_cached(READ_SLICE)?.query_row(params![plan.0, slice.signature], |row| row.get(0))?,
    };
    Ok(SliceId(id))
}
