//! The tables as lists: the same cells that the SQL stores answer.

use patra_core::Ts;
use patra_core::cursor::Mark;
use patra_core::port::query::{Cell, Filter, Row, View};
use patra_core::tx::TxError;
use serde_json::json;

use super::{
    ArchiveRow, Batch, CandidateRow, Cursor, Event, EventLineage, ExportRow, GateRow, HoldRow, Instance, Item,
    MemStore, Plan, Quarantined, Run, SignalRow, Slice, Task, place,
};

impl MemStore {
    /// Rows of one view, newest first.
    pub fn list(&self, view: View, filter: &Filter) -> Result<Vec<Row>, TxError> {
        let conditions = view.conditions(filter)?;
        let column = |name| view.columns().iter().position(|column| column.name == name);
        let conditions: Vec<_> =
            conditions.into_iter().filter_map(|(name, cell)| Some((column(name)?, cell))).collect();
        let mut rows = self.rows(view);
        rows.retain(|row| {
            let older = filter.before_id.is_none_or(|before| matches!(row[0], Cell::Int(id) if id < before));
            older && conditions.iter().all(|(at, cell)| row[*at] == *cell)
        });
        rows.reverse();
        rows.truncate(filter.effective_limit() as usize);
        Ok(rows)
    }

    /// All rows, by id.
    fn rows(&self, view: View) -> Vec<Row> {
        match view {
            View::Provenances => self.provenances.iter().map(provenance).collect(),
            View::Endpoints => self.endpoints.iter().map(endpoint).collect(),
            View::Schedules => self.schedules.iter().map(schedule).collect(),
            View::Jobs => {
                let there = self.instances.iter().filter(|row| !self.forgotten.instances.contains(&row.id));
                there.map(job).collect()
            }
            View::Plans => self.plans.iter().filter(|row| !self.forgotten.plans.contains(&row.id)).map(plan).collect(),
            View::Slices => {
                self.slices.iter().filter(|row| !self.forgotten.slices.contains(&row.id)).map(slice).collect()
            }
            View::Tasks => self.tasks.iter().filter(|row| !self.forgotten.tasks.contains(&row.id)).map(task).collect(),
            View::Runs => {
                let there = self.runs.iter().filter(|row| !self.forgotten.runs.contains(&row.id));
                there.map(|row| run(row, &self.tasks[place(row.task.0)])).collect()
            }
            View::Batches => {
                let in_ledger = self.batches.iter().filter(|row| !row.archived);
                in_ledger.map(|row| batch(row, &self.tasks[place(row.task.0)])).collect()
            }
            View::Cursors => self.cursors.iter().map(cursor).collect(),
            View::Events => {
                let in_table = self.events.iter().filter(|row| !row.archived);
                in_table.map(|row| event(row, &self.cursors[place(row.cursor.0)])).collect()
            }
            View::Items => self.items.iter().map(|row| item(row, &self.streams[row.stream])).collect(),
            View::Quarantine => self.quarantine.iter().map(quarantined).collect(),
            View::Candidates => self.candidates.iter().map(candidate).collect(),
            View::Signals => self.signals.values().map(signal).collect(),
            View::Holds => self.holds.values().map(hold).collect(),
            View::Gates => self.gates.iter().zip(1..).map(gate).collect(),
            View::Archive => self.archive.iter().map(archived).collect(),
            View::Exports => self.exports.iter().map(export).collect(),
            View::Keys => self.keys.iter().map(key).collect(),
            View::Credentials => self.credentials.iter().map(credential).collect(),
            View::CredentialStates => self.credential_states.iter().map(credential_state).collect(),
        }
    }
}

fn text(value: impl Into<String>) -> Cell {
    Cell::Text(value.into())
}

fn or_null<T>(value: Option<T>, cell: impl Fn(T) -> Cell) -> Cell {
    value.map_or(Cell::Null, cell)
}

/// As the SQL stores write it: the core's own JSON.
fn json_of(value: &impl serde::Serialize) -> Cell {
    Cell::Json(serde_json::to_string(value).unwrap_or_default())
}

fn provenance(row: &super::Provenance) -> Row {
    vec![
        Cell::Int(row.id),
        text(&row.provenance_code),
        text(&row.name),
        text(&row.document_hash),
        Cell::Time(row.created_at),
        Cell::Time(row.updated_at),
    ]
}

fn endpoint(row: &super::Endpoint) -> Row {
    vec![
        Cell::Int(row.id),
        text(&row.provenance_code),
        text(&row.endpoint_name),
        text(&row.role),
        Cell::Time(row.created_at),
    ]
}

fn schedule(row: &super::ScheduleRow) -> Row {
    vec![
        Cell::Int(row.id),
        text(&row.provenance_code),
        text(&row.endpoint_name),
        text(row.operation.as_str()),
        // Part of a unique key, so never null.
        text(row.reason.map_or("", |reason| reason.as_str())),
        text(row.when.to_text()),
        Cell::Time(row.next_due_at),
    ]
}

pub(super) fn job(row: &Instance) -> Row {
    vec![
        Cell::Int(row.id.0),
        text(&row.public_id),
        text(&row.origin.provenance_code),
        text(&row.origin.endpoint_name),
        text(row.origin.operation.as_str()),
        or_null(row.reason, |reason| text(reason.as_str())),
        or_null(row.activity.clone(), Cell::Text),
        text(row.trigger_type.as_str()),
        Cell::Json(row.params.clone()),
        or_null(row.parent, |parent| Cell::Int(parent.0)),
        text(row.status.as_str()),
        or_null(row.remarks.clone(), Cell::Json),
        Cell::Time(row.created_at),
    ]
}

pub(super) fn plan(row: &Plan) -> Row {
    vec![
        Cell::Int(row.id.0),
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

pub(super) fn slice(row: &Slice) -> Row {
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

pub(super) fn task(row: &Task) -> Row {
    vec![
        Cell::Int(row.id.0),
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

pub(super) fn run(row: &Run, task: &Task) -> Row {
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

pub(super) fn batch(row: &Batch, task: &Task) -> Row {
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

fn instant(mark: Option<&Mark>) -> Cell {
    or_null(mark.and_then(Mark::instant), Cell::Time)
}

fn ordinal(mark: Option<&Mark>) -> Cell {
    match mark {
        Some(Mark::Nth { ordinal, .. }) => Cell::Int(*ordinal),
        _ => Cell::Null,
    }
}

/// Plan, task and run.
fn whence(lineage: Option<&EventLineage>) -> [Cell; 3] {
    [
        or_null(lineage, |lineage| Cell::Int(lineage.of.plan.0)),
        or_null(lineage, |lineage| Cell::Int(lineage.task.0)),
        or_null(lineage, |lineage| Cell::Int(lineage.run.0)),
    ]
}

fn cursor(row: &Cursor) -> Row {
    let value = row.value.as_ref();
    let [plan, task, run] = whence(row.lineage.as_ref());
    vec![
        Cell::Int(row.id.0),
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

pub(super) fn event(row: &Event, cursor: &Cursor) -> Row {
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

fn signal(row: &SignalRow) -> Row {
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

fn gate((row, id): (&GateRow, i64)) -> Row {
    vec![Cell::Int(id), text(&*row.key), Cell::Json(row.state.write()), Cell::Time(row.updated_at)]
}

fn hold(row: &HoldRow) -> Row {
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

fn archived(row: &ArchiveRow) -> Row {
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

fn export(row: &ExportRow) -> Row {
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

fn item(row: &Item, stream: &super::ItemStream) -> Row {
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
        or_null(Some(&row.payload).filter(|payload| !payload.is_empty()), |payload| {
            Cell::Json(String::from_utf8_lossy(payload).into_owned())
        }),
        Cell::Int(row.run.0),
        Cell::Time(row.stored_at),
    ]
}

pub(super) fn quarantined(row: &Quarantined) -> Row {
    vec![
        Cell::Int(row.id),
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

fn key(row: &super::KeyRow) -> Row {
    vec![
        Cell::Int(row.id),
        text(&row.prefix),
        text(&row.name),
        text(row.scope.as_str()),
        Cell::Time(row.created_at),
        or_null(row.revoked_at, Cell::Time),
    ]
}

fn candidate(row: &CandidateRow) -> Row {
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

fn credential(row: &super::CredentialRow) -> Row {
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

fn credential_state(row: &super::CredentialState) -> Row {
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
