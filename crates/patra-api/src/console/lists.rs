//! Everything that can be listed, and one row of it: the same views, filters and rights as the read API.

use axum::Extension;
use axum::http::StatusCode;
use axum::response::Response;
use url::form_urlencoded::Serializer;

use patra_core::Code;
use patra_core::port::query::{Cell, View, ViewFilter, ViewRow};

use super::page::{Block, Code as Text, Facts, Field, FieldKind, Form, Line, Page, Shown, Table, Tone};
use super::visit::Visit;
use crate::envelope::Failure;
use crate::routes::input::{PathText, path_text};
use crate::routes::views;

/// Rows of one page.
const PAGE: u32 = 50;
/// The choice of a status that leaves it open.
const ANY: &str = "any";

/// Lists that have no page of their own making.
pub(super) const LISTED: &[View] = &[
    View::Endpoints,
    View::Schedules,
    View::Jobs,
    View::Plans,
    View::Slices,
    View::Tasks,
    View::Runs,
    View::Batches,
    View::Events,
    View::Items,
    View::Quarantine,
    View::Candidates,
    View::Signals,
    View::Holds,
    View::Outbox,
    View::Exports,
];

/// Rows that have no page of their own making.
pub(super) const SHOWN: &[View] =
    &[View::Events, View::Items, View::Candidates, View::Signals, View::Outbox, View::Exports];

pub(super) async fn list(Extension(visit): Extension<Visit>, view: View) -> Response {
    visit.show(listed(&visit, view).await.map(|blocks| Page::new(title(view)).live().with_all(blocks)))
}

/// The filter and the table of a list.
pub(super) async fn listed(visit: &Visit, view: View) -> Result<Vec<Block>, Failure> {
    let asked = Asked::of(visit, view)?;
    let mut table = rows(visit, view, asked.filter.clone()).await?;
    table.next = table.next.map(|before| asked.next(&visit.path, &before));
    let mut blocks = Vec::new();
    if !asked.fields.is_empty() {
        let button = "Filter".to_owned();
        let twin = asked.twin(view);
        blocks.push(
            Form {
                title: String::new(),
                method: "get",
                action: visit.path.clone(),
                fields: asked.fields,
                button,
                twin,
            }
            .into(),
        );
    }
    blocks.push(table.into());
    Ok(blocks)
}

/// The table of those rows that the visitor may see; `next` holds the id that the next page begins before.
pub(super) async fn rows(visit: &Visit, view: View, filter: ViewFilter) -> Result<Table, Failure> {
    views::allowed(visit.scope, view)?;
    let (rows, next) = views::found(&visit.api, &visit.tenant, view, filter).await?;
    let columns = columns(view);
    let heads: Vec<_> = columns.iter().map(|column| word(column)).collect();
    let mut table = Table { head: heads, empty: "There are none.".into(), ..Table::default() };
    table.next = next.map(|id| id.to_string());
    table.rows = rows.iter().map(|row| line(view, row, columns)).collect();
    Ok(table)
}

fn line(view: View, row: &ViewRow, columns: &[&str]) -> Line {
    let tone = match view.cell(row, "status_code") {
        Some(Cell::Text(status)) if matches!(Tone::of(&status), Tone::Bad | Tone::Warn) => Tone::of(&status),
        _ => Tone::Plain,
    };
    Line { cells: columns.iter().map(|column| shown(view, row, column)).collect(), tone, actions: Vec::new() }
}

pub(super) async fn show(Extension(visit): Extension<Visit>, id: PathText, view: View) -> Response {
    let page = async {
        let row = one(&visit, view, number(id)?).await?;
        Ok(Page::new(name(view, &row)).under(title(view), format!("/{}", view.as_str())).with_all(whole(view, &row)))
    };
    visit.show(page.await)
}

/// One row, if it is there for the visitor.
pub(super) async fn one(visit: &Visit, view: View, id: i64) -> Result<ViewRow, Failure> {
    views::allowed(visit.scope, view)?;
    let filter = ViewFilter { id: Some(id), limit: 1, ..ViewFilter::default() };
    let (mut rows, _) = views::found(&visit.api, &visit.tenant, view, filter).await?;
    rows.pop().ok_or_else(|| missing(format!("there is no {} {id}", singular(view))))
}

/// All that a row says: short values as facts, JSON as text.
pub(super) fn whole(view: View, row: &ViewRow) -> Vec<Block> {
    let (mut facts, mut texts) = (Vec::new(), Vec::new());
    for (column, cell) in view.columns().iter().zip(row) {
        match cell {
            Cell::Json(text) if text != "{}" => {
                let value = serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into());
                texts.push(Text::json(word(column.name), &value).into());
            }
            _ => facts.push((word(column.name), shown(view, row, column.name))),
        }
    }
    std::iter::once(Facts { title: String::new(), facts }.into()).chain(texts).collect()
}

/// A cell, and where it leads.
pub(super) fn shown(view: View, row: &ViewRow, column: &str) -> Shown {
    let cell = view.cell(row, column).unwrap_or(Cell::Null);
    let int = |column| view.cell(row, column).and_then(|cell| cell.as_int());
    let value = Shown::cell(&cell);
    match (column, &cell) {
        ("status_code" | "kind_code", Cell::Text(word)) => Shown::status(word.as_str()),
        ("public_id", Cell::Text(id)) => value.to(format!("/jobs/{}", encoded(id))),
        ("spec_fingerprint" | "slice_signature_hash" | "document_hash", Cell::Text(hash)) => {
            Shown::code(hash.get(..12).unwrap_or(hash))
        }
        ("error", Cell::Json(text)) => Shown::text(cause(text)),
        (_, Cell::Int(id)) => match (column, int("run_id"), int("batch_no")) {
            ("id" | "batch_no", Some(run), Some(no)) if view == View::Batches => value.to(batch_at(run, no)),
            ("batch_no", Some(run), Some(no)) => value.to(batch_at(run, no)),
            ("id", ..) if has_page(view) => value.to(format!("/{}/{id}", view.as_str())),
            ("plan_id", ..) => value.to(format!("/plans/{id}")),
            ("slice_id", ..) => value.to(format!("/slices/{id}")),
            ("task_id" | "redrive_of", ..) => value.to(format!("/tasks/{id}")),
            ("run_id", ..) if *id > 0 => value.to(format!("/runs/{id}")),
            ("cursor_id", ..) => value.to(format!("/cursors/{id}")),
            ("has_next" | "replaced" | "shared", ..) => Shown::text(if *id == 0 { "no" } else { "yes" }),
            _ => value,
        },
        _ => value,
    }
}

pub(super) fn batch_at(run: i64, no: i64) -> String {
    format!("/runs/{run}/batches/{no}")
}

/// What an error says, in one line: level, code, message.
pub(super) fn cause(error: &str) -> String {
    let error: serde_json::Value = serde_json::from_str(error).unwrap_or_default();
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    let parts = [text("level"), text("code"), text("message")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn has_page(view: View) -> bool {
    let own = [View::Plans, View::Slices, View::Tasks, View::Runs, View::Cursors, View::Quarantine, View::Holds];
    SHOWN.contains(&view) || own.contains(&view)
}

/// What somebody wants to see of a list.
struct Asked {
    filter: ViewFilter,
    fields: Vec<Field>,
    /// The conditions, to be repeated by the next page.
    said: Vec<(&'static str, String)>,
}

impl Asked {
    fn of(visit: &Visit, view: View) -> Result<Asked, Failure> {
        let query = &visit.query;
        let text = |name| query.get(name).filter(|text| !text.contains('\0')).map(str::to_owned);
        let status = text("status").filter(|status| status != ANY);
        let filter = ViewFilter {
            provenance_code: text("provenance"),
            endpoint_name: text("endpoint"),
            status: status.clone(),
            plan: query.number("plan")?,
            task: query.number("task")?,
            run: query.number("run")?,
            before_id: query.number("before")?,
            limit: PAGE,
            ..ViewFilter::default()
        };
        let (mut fields, mut said) = (Vec::new(), Vec::new());
        let conditions = [
            ("provenance", "Provenance", "provenance_code"),
            ("endpoint", "Endpoint", "endpoint_name"),
            ("status", "Status", "status_code"),
            ("plan", "Plan", "plan_id"),
            ("task", "Task", "task_id"),
            ("run", "Run", "run_id"),
        ];
        for (name, label, column) in conditions.into_iter().filter(|(.., column)| view.has(column)) {
            let value = if name == "status" { status.clone() } else { text(name) };
            let kind = match name {
                "status" => {
                    let statuses = view.statuses().into_iter().map(str::to_owned);
                    FieldKind::Choice(std::iter::once(ANY.to_owned()).chain(statuses).collect())
                }
                _ => FieldKind::Line,
            };
            let shown = value.clone().unwrap_or_default();
            // Numbers come by links: a field for each would fill the page.
            if !matches!(column, "plan_id" | "task_id" | "run_id") || value.is_some() {
                fields.push(Field::new(name, label, shown, kind));
            }
            said.extend(value.map(|value| (name, value)));
        }
        Ok(Asked { filter, fields, said })
    }

    fn next(&self, path: &str, before: &str) -> String {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(&self.said).append_pair("before", before);
        format!("{path}?{}", query.finish())
    }

    fn twin(&self, view: View) -> String {
        let said = self.said.iter().map(|(name, value)| format!(" --{name} {value}"));
        format!("patra get {}{}", view.as_str(), said.collect::<String>())
    }
}

/// What a list shows of each row; the row's own page shows all.
fn columns(view: View) -> &'static [&'static str] {
    match view {
        View::Provenances => &["id", "provenance_code", "name", "project_key", "updated_at"],
        View::Endpoints => &["id", "provenance_code", "endpoint_name", "role", "created_at"],
        View::Schedules => &["id", "provenance_code", "endpoint_name", "operation_code", "when_text", "next_due_at"],
        View::Jobs => &[
            "public_id",
            "status_code",
            "job_type",
            "operation_code",
            "trigger_type_code",
            "project_key",
            "created_at",
        ],
        View::Plans => &[
            "id",
            "status_code",
            "provenance_code",
            "endpoint_name",
            "operation_code",
            "window_from",
            "window_to",
            "created_at",
        ],
        View::Slices => {
            &["id", "status_code", "plan_id", "provenance_code", "endpoint_name", "window_from", "window_to"]
        }
        View::Tasks => &[
            "id",
            "status_code",
            "provenance_code",
            "endpoint_name",
            "operation_code",
            "plan_id",
            "attempt_count",
            "error",
            "scheduled_at",
            "finished_at",
        ],
        View::Runs => &[
            "id",
            "status_code",
            "provenance_code",
            "endpoint_name",
            "operation_code",
            "task_id",
            "attempt_no",
            "error",
            "created_at",
            "finished_at",
        ],
        View::Batches => &[
            "id",
            "status_code",
            "provenance_code",
            "endpoint_name",
            "run_id",
            "batch_no",
            "page_no",
            "latency_ms",
            "error",
            "created_at",
        ],
        View::Cursors => &[
            "id",
            "provenance_code",
            "endpoint_name",
            "operation_code",
            "namespace_key",
            "cursor_value",
            "run_id",
            "updated_at",
        ],
        View::Events => &["id", "cursor_id", "operation_code", "prev_value", "new_value", "run_id", "created_at"],
        View::Items => {
            &["id", "provenance_code", "endpoint_name", "kind", "dedup_key", "updated_at", "run_id", "stored_at"]
        }
        View::Quarantine => &[
            "id",
            "status_code",
            "provenance_code",
            "endpoint_name",
            "dedup_key",
            "error_code",
            "reason",
            "run_id",
            "batch_no",
            "created_at",
        ],
        View::Candidates => {
            &["id", "status_code", "provenance_code", "endpoint_name", "candidate_id", "reason", "tries", "updated_at"]
        }
        View::Signals => {
            &["id", "status_code", "provenance_code", "endpoint_name", "item_key", "reason", "created_by", "created_at"]
        }
        View::Holds => {
            &["id", "kind_code", "subject", "reason", "created_by", "created_at", "released_by", "released_at"]
        }
        View::Gates => &["rate_key", "updated_at"],
        View::Archive => &["id", "kind_code", "run_id", "batch_no", "archived_at"],
        View::Exports => &["id", "run_id", "batch_no", "created_by", "reason", "created_at", "expires_at"],
        View::Outbox => {
            &["id", "status_code", "event_type", "project_key", "tries", "last_error", "created_at", "ended_at"]
        }
        View::Keys => &["prefix", "name", "scope", "projects", "shared", "created_at", "revoked_at"],
        View::Credentials => {
            &["alias", "version", "status_code", "provenance_code", "endpoint_name", "type_code", "created_at"]
        }
        View::CredentialStates => {
            &["credential_id", "version", "status_code", "expires_at", "fail_count", "last_error", "updated_at"]
        }
    }
}

/// The name of a column in words.
fn word(column: &str) -> String {
    let column = column.strip_suffix("_code").or_else(|| column.strip_suffix("_name")).unwrap_or(column);
    let column = match column {
        "plan_id" | "slice_id" | "task_id" | "run_id" | "cursor_id" | "credential_id" => column.trim_end_matches("_id"),
        "batch_no" => "batch",
        "endpoint" | "provenance" => column,
        _ => column,
    };
    column.replace('_', " ")
}

pub(super) fn title(view: View) -> String {
    let word = view.as_str().replace('-', " ");
    word[..1].to_uppercase() + &word[1..]
}

fn singular(view: View) -> String {
    match view {
        View::Batches => "batch".to_owned(),
        View::Quarantine => "quarantined record".to_owned(),
        view => view.as_str().trim_end_matches('s').replace('-', " "),
    }
}

/// What a row is called.
pub(super) fn name(view: View, row: &ViewRow) -> String {
    let id = view.cell(row, "id").and_then(|cell| cell.as_int()).unwrap_or_default();
    let word = singular(view);
    format!("{}{} {id}", word[..1].to_uppercase(), &word[1..])
}

pub(super) fn number(id: PathText) -> Result<i64, Failure> {
    let text = path_text(id)?;
    text.parse().map_err(|_| missing(format!("{text:?} is no number")))
}

pub(super) fn missing(message: String) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, Code::NotFound, message)
}

/// A word as a part of an address.
pub(super) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
