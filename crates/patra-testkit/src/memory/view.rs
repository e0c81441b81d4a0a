//! Rows as lists show them: the same cells that the SQL stores return.

use patra_core::Ts;
use patra_core::cursor::CursorValue;
use patra_core::port::query::{Cell, ViewRow};
use serde_json::json;

use super::{
    ArchiveRow, Batch, CandidateRow, Cursor, Event, EventLineage, ExportRow, GateRow, Instance, Item, OutboxRow,
    PauseRow, Plan, Quarantined, Run, SignalRow, Slice, Task,
};

fn text(value: impl Into<String>) -> Cell {
    Cell::Text(value.into())
}

fn or_null<T>(value: Option<T>, cell: impl Fn(T) -> Cell) -> Cell {
    value.map_or(Cell::Null, cell)
}

/// JSON as the SQL stores write it: that of the core.
fn json_of(value: &impl serde::Serialize) -> Cell {
    Cell::Json(serde_json::to_string(value).unwrap_or_default())
}

pub(super) fn provenance(row: &super::Provenance) -> ViewRow {
    vec![
        Cell::Int(row.id),
        text(&row.provenance_code),
        text(&row.name),
        row.project_key.as_ref().map_or(Cell::Null, text),
        text(&row.document_hash),
        Cell::Time(row.created_at),
        Cell::Time(row.updated_at),
    ]
}

pub(super) fn endpoint(row: &super::Endpoint) -> ViewRow {
    vec![
        Cell::Int(row.id),
        text(&row.provenance_code),
        text(&row.endpoint_name),
        text(&row.role),
        Cell::Time(row.created_at),
    ]
}

pub(super) fn schedule(row: &super::ScheduleRow) -> ViewRow {
    vec![
        Cell::Int(row.id),
        text(&row.provenance_code),
        text(&row.endpoint_name),
        text(row.operation.as_str()),
        // Part of a unique key, and therefore never null.
        text(row.reason.map_or("", |reason| reason.as_str())),
        text(row.when.to_text()),
        Cell::Time(row.next_due_at),
    ]
}

pub(super) fn job(row: &Instance, tasks_failed: i64) -> ViewRow {
    vec![
        Cell::Int(row.id.0),
        text(&row.public_id),
        text(&row.origin.project_key),
        text(&row.job_type),
        text(&row.origin.provenance_code),
        text(&row.origin.endpoint_name),
        text(row.origin.operation.as_str()),
        or_null(row.reason, |reason| text(reason.as_str())),
        or_null(row.activity.clone(), Cell::Text),
        text(row.trigger_type.as_str()),
        Cell::Json(row.params.clone()),
        or_null(row.parent, |parent| Cell::Int(parent.0)),
        text(row.status.as_str()),
        Cell::Int(tasks_failed),
        or_null(row.remarks.clone(), Cell::Json),
        Cell::Time(row.created_at),
    ]
}

pub(super) fn plan(row: &Plan) -> ViewRow {
    vec![
        Cell::Int(row.id.0),
        text(&row.origin.project_key),
        Cell::Int(row.instance.0),
        text(&row.origin.provenance_code),
        text(&row.origin.endpoint_name),
        text(row.origin.operation.as_str()),
        or_null(row.window, |window| Cell::Time(window.from)),
        or_null(row.window, |window| Cell::Time(window.to)),
        text(row.strategy),
        text(row.status.as_str()),
        text(&row.snapshot_hash),
        or_null(Some(&row.remarks).filter(|remarks| !remarks.is_empty()), |remarks| Cell::Json(remarks.clone())),
        Cell::Time(row.created_at),
    ]
}

pub(super) fn slice(row: &Slice) -> ViewRow {
    vec![
        Cell::Int(row.id.0),
        Cell::Int(row.plan.0),
        text(&row.origin.provenance_code),
        text(&row.origin.endpoint_name),
        or_null(row.what.window, |window| Cell::Time(window.from)),
        or_null(row.what.window, |window| Cell::Time(window.to)),
        text(row.status.as_str()),
        text(&row.what.signature),
        Cell::Json(row.what.spec.clone()),
        Cell::Time(row.created_at),
    ]
}

pub(super) fn task(row: &Task) -> ViewRow {
    vec![
        Cell::Int(row.id.0),
        text(&row.origin.project_key),
        Cell::Int(row.lineage.plan.0),
        Cell::Int(row.lineage.slice.0),
        text(&row.origin.provenance_code),
        text(&row.origin.endpoint_name),
        text(row.origin.operation.as_str()),
        Cell::Json(row.what.task_params.clone()),
        or_null(row.credential, |credential| Cell::Int(credential.0)),
        or_null(row.what.window, |window| Cell::Time(window.from)),
        or_null(row.what.window, |window| Cell::Time(window.to)),
        or_null(row.done, |done| Cell::Time(done.from)),
        or_null(row.done, |done| Cell::Time(done.to)),
        or_null(row.what.segment.as_ref(), |segment| Cell::Int(segment.ordinal)),
        text(row.status.as_str()),
        Cell::Int(i64::from(row.is_unverified)),
        Cell::Int(i64::from(row.replaced)),
        or_null(row.redrive.as_ref(), |(task, _)| Cell::Int(task.0)),
        Cell::Int(i64::from(row.c_max)),
        Cell::Int(row.items as i64),
        Cell::Int(i64::from(row.priority)),
        Cell::Time(row.scheduled_at),
        or_null(row.lease.as_ref(), |(owner, _)| text(owner)),
        or_null(row.lease.as_ref(), |(_, until)| Cell::Time(*until)),
        Cell::Int(row.fence.0),
        Cell::Int(i64::from(row.attempts)),
        or_null(row.error.as_ref(), json_of),
        or_null(row.started_at, Cell::Time),
        or_null(row.finished_at, Cell::Time),
    ]
}

pub(super) fn run(row: &Run, task: &Task) -> ViewRow {
    let mut checkpoint = serde_json::Map::new();
    if let Some((run, batch_no)) = row.resumed_from {
        checkpoint.insert("resumedFrom".into(), json!({ "runId": run.0, "batchNo": batch_no }));
    }
    if let Some((task, request)) = &task.redrive {
        checkpoint.insert("replay".into(), json!({ "task": task.0, "request": request }));
    }
    let checkpoint = (!checkpoint.is_empty()).then(|| serde_json::Value::from(checkpoint).to_string());
    vec![
        Cell::Int(row.id.0),
        Cell::Int(row.task.0),
        Cell::Int(task.lineage.plan.0),
        text(&task.origin.provenance_code),
        text(&task.origin.endpoint_name),
        text(task.origin.operation.as_str()),
        Cell::Int(row.attempt_no),
        text(row.status.as_str()),
        or_null(checkpoint, Cell::Json),
        or_null(row.stats.as_ref(), json_of),
        or_null(row.error.as_ref(), json_of),
        Cell::Time(row.created_at),
        or_null(row.finished_at, Cell::Time),
    ]
}

pub(super) fn batch(row: &Batch, task: &Task) -> ViewRow {
    let page_no = row.position.number().and_then(|number| i64::try_from(number).ok());
    vec![
        Cell::Int(row.id.0),
        Cell::Int(row.run.0),
        Cell::Int(row.task.0),
        Cell::Int(row.lineage.plan.0),
        text(&task.origin.provenance_code),
        text(&task.origin.endpoint_name),
        Cell::Int(i64::from(row.batch_no)),
        or_null(page_no, Cell::Int),
        Cell::Int(i64::from(row.page_size)),
        or_null(row.before_token.clone(), Cell::Text),
        or_null(row.next.as_ref().and_then(patra_core::paging::Position::token_key), Cell::Text),
        text(row.status.as_str()),
        Cell::Int(i64::from(row.next.is_some())),
        Cell::Int(i64::from(row.stats.latency_ms)),
        json_of(&row.stats),
        Cell::Json(row.request_digest.clone()),
        Cell::Json(row.response_digest.clone()),
        or_null(row.error.as_ref(), json_of),
        Cell::Time(row.created_at),
    ]
}

fn instant_text(at: Option<Ts>) -> Cell {
    or_null(at, |at| Cell::Text(at.to_string()))
}

fn instant(mark: Option<&CursorValue>) -> Cell {
    or_null(mark.and_then(CursorValue::instant), Cell::Time)
}

fn ordinal(mark: Option<&CursorValue>) -> Cell {
    match mark {
        Some(CursorValue::Nth { ordinal, .. }) => Cell::Int(*ordinal),
        _ => Cell::Null,
    }
}

/// Ids of plan, task and run.
fn whence(lineage: Option<&EventLineage>) -> [Cell; 3] {
    [
        or_null(lineage, |lineage| Cell::Int(lineage.of.plan.0)),
        or_null(lineage, |lineage| Cell::Int(lineage.task.0)),
        or_null(lineage, |lineage| Cell::Int(lineage.run.0)),
    ]
}

pub(super) fn cursor(row: &Cursor) -> ViewRow {
    let value = row.value.as_ref();
    let [plan, task, run] = whence(row.lineage.as_ref());
    vec![
        Cell::Int(row.id.0),
        text(&row.name.project_key),
        text(&row.name.provenance_code),
        text(&row.name.endpoint_name),
        text(row.name.operation.as_str()),
        text(&row.name.cursor_key),
        text(row.name.scope.as_str()),
        text(&row.name.namespace_key),
        text(if row.began.is_some() { "TIME" } else { "ID" }),
        text(row.direction().as_str()),
        or_null(value, |value| text(value.to_text())),
        instant(value),
        ordinal(value),
        instant_text(row.observed_max),
        plan,
        task,
        run,
        Cell::Int(row.version),
        Cell::Time(row.updated_at),
    ]
}

pub(super) fn event(row: &Event, cursor: &Cursor) -> ViewRow {
    let [plan, task, run] = whence(row.lineage.as_ref());
    vec![
        Cell::Int(row.id),
        Cell::Int(row.cursor.0),
        text(&cursor.name.provenance_code),
        text(&cursor.name.endpoint_name),
        text(cursor.name.operation.as_str()),
        text(cursor.direction().as_str()),
        or_null(row.previous.as_ref(), |value| text(value.to_text())),
        text(row.value.to_text()),
        instant(row.previous.as_ref()),
        instant(Some(&row.value)),
        instant_text(row.observed_max),
        plan,
        task,
        run,
        Cell::Json(row.remarks.clone()),
        Cell::Time(row.created_at),
    ]
}

pub(super) fn signal(row: &SignalRow) -> ViewRow {
    vec![
        Cell::Int(row.id),
        text(&row.about.project_key),
        text(&row.about.provenance_code),
        text(&row.about.endpoint_name),
        text(&row.about.key),
        text(if row.from_quarantine { "QUARANTINE" } else { "READER" }),
        text(&row.reason),
        text(&row.created_by),
        text(row.status.as_str()),
        Cell::Int(row.tries.into()),
        or_null(row.last_error.clone(), Cell::Text),
        Cell::Time(row.created_at),
        Cell::Time(row.updated_at),
    ]
}

pub(super) fn gate((row, id): (&GateRow, i64)) -> ViewRow {
    vec![Cell::Int(id), text(&*row.key), Cell::Json(row.state.write()), Cell::Time(row.updated_at)]
}

pub(super) fn hold(row: &PauseRow) -> ViewRow {
    let subject = &row.subject;
    vec![
        Cell::Int(row.id.0),
        text(row.kind.as_str()),
        text(subject.to_text()),
        or_null(subject.provenance_code.clone(), Cell::Text),
        or_null(subject.endpoint_name.clone(), Cell::Text),
        or_null(subject.operation, |operation| text(operation.as_str())),
        or_null(subject.credential, |id| Cell::Int(id.0)),
        or_null(subject.plan, |id| Cell::Int(id.0)),
        or_null(subject.slice, |id| Cell::Int(id.0)),
        or_null(subject.task, |id| Cell::Int(id.0)),
        text(&row.reason),
        text(&row.created_by),
        Cell::Time(row.created_at),
        or_null(row.released.as_ref(), |(by, _)| text(by)),
        or_null(row.released.as_ref(), |(_, at)| Cell::Time(*at)),
    ]
}

pub(super) fn archived(row: &ArchiveRow) -> ViewRow {
    let [plan, task, run] = whence(row.lineage.as_ref());
    vec![
        Cell::Int(row.id),
        text(row.kind),
        Cell::Int(row.row),
        plan,
        task,
        run,
        or_null(row.lineage.as_ref(), |lineage| Cell::Int(lineage.batch_no.into())),
        Cell::Json(row.body.clone()),
        Cell::Time(row.created_at),
        Cell::Time(row.archived_at),
    ]
}

pub(super) fn export(row: &ExportRow) -> ViewRow {
    vec![
        Cell::Int(row.id),
        Cell::Int(row.run),
        Cell::Int(row.batch_no.into()),
        text(&row.created_by),
        text(&row.reason),
        text(&row.package_hash),
        Cell::Time(row.created_at),
        Cell::Time(row.expires_at),
    ]
}

pub(super) fn item(row: &Item, stream: &super::ItemStream) -> ViewRow {
    vec![
        Cell::Int(row.id),
        text(&stream.project_key),
        text(&stream.provenance_code),
        text(&row.endpoint_name),
        text(&row.kind),
        text(&row.key),
        Cell::Time(row.version.updated_at),
        text(&*row.generation),
        Cell::Time(row.checked_at),
        // An endpoint that maps no fields has none to show.
        or_null(Some(&row.fields).filter(|fields| !fields.is_empty()), |fields| Cell::Json(fields.clone())),
        or_null(Some(&row.payload).filter(|payload| !payload.is_empty()), |payload| Cell::Json(payload.to_string())),
        Cell::Int(row.run.0),
        Cell::Time(row.stored_at),
        or_null(row.missing_since, Cell::Time),
    ]
}

pub(super) fn quarantined(row: &Quarantined) -> ViewRow {
    vec![
        Cell::Int(row.id),
        text(&row.project_key),
        text(&row.provenance_code),
        text(&row.endpoint_name),
        Cell::Int(row.task.0),
        Cell::Int(row.run.0),
        Cell::Int(i64::from(row.batch_no)),
        Cell::Int(i64::from(row.what.index)),
        or_null(row.what.key.clone(), Cell::Text),
        text(row.what.code.as_str()),
        text(&row.what.reason),
        text(&row.what.sample),
        text(row.status.as_str()),
        Cell::Time(row.created_at),
    ]
}

pub(super) fn key(row: &super::KeyRow) -> ViewRow {
    vec![
        Cell::Int(row.id),
        text(&row.prefix),
        text(&row.name),
        text(row.scope.as_str()),
        json_of(&row.projects),
        Cell::Int(i64::from(row.shared)),
        Cell::Time(row.created_at),
        or_null(row.revoked_at, Cell::Time),
    ]
}

pub(super) fn outbox((id, row): (&i64, &OutboxRow)) -> ViewRow {
    vec![
        Cell::Int(*id),
        text(&row.project_key),
        text(&row.event_type),
        text(&row.topic),
        text(&row.idempotency_key),
        text(row.status),
        Cell::Json(row.payload.clone()),
        Cell::Int(i64::from(row.tries)),
        or_null(row.last_error.clone(), Cell::Text),
        Cell::Time(row.created_at),
        or_null(row.ended_at, Cell::Time),
    ]
}

pub(super) fn candidate(row: &CandidateRow) -> ViewRow {
    vec![
        Cell::Int(row.id),
        text(&row.project_key),
        text(&row.provenance_code),
        text(&row.endpoint_name),
        text(&row.candidate.id),
        text(&row.candidate.version),
        text(if row.bad.is_some() { "BAD" } else { "FETCHED" }),
        or_null(row.bad.clone(), Cell::Text),
        Cell::Int(row.tries.into()),
        or_null(row.expires_at, Cell::Time),
        Cell::Time(row.updated_at),
    ]
}

pub(super) fn credential(row: &super::CredentialRow) -> ViewRow {
    vec![
        Cell::Int(row.id.0),
        text(&row.binding.alias),
        Cell::Int(row.version),
        text(&row.binding.provenance_code),
        text(&row.binding.endpoint_name),
        text(row.auth_type.as_str()),
        Cell::Int(i64::from(row.priority)),
        text(&row.key_id),
        text(row.status().as_str()),
        Cell::Time(row.created_at),
        or_null(row.revoked_at, Cell::Time),
    ]
}

pub(super) fn credential_state(row: &super::CredentialState) -> ViewRow {
    vec![
        Cell::Int(row.id),
        Cell::Int(row.credential.0),
        Cell::Int(row.what.version),
        or_null(row.what.expires_at, Cell::Time),
        or_null(row.lease.as_ref(), |(owner, _)| text(owner)),
        or_null(row.lease.as_ref(), |(_, until)| Cell::Time(*until)),
        Cell::Int(row.fence.0),
        text(row.what.status.as_str()),
        Cell::Int(i64::from(row.what.fail_count)),
        or_null(row.what.last_error.clone(), Cell::Text),
        or_null(row.what.updated_at, Cell::Time),
    ]
}
