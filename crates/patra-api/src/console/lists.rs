//! Lists of any view, and single rows: the same views, filters and rights as in the API.

use axum::Extension;
use axum::http::StatusCode;
use axum::response::Response;
use url::form_urlencoded::Serializer;

use patra_core::Code;
use patra_core::port::query::{Cell, View, ViewFilter, ViewRow};

use super::context::ConsoleContext;
use super::page::{Block, Code as Text, Facts, Field, FieldKind, Form, Page, Row, Shown, Table, Tone};
use crate::envelope::Failure;
use crate::routes::input::{PathText, path_text};
use crate::routes::views;

/// Rows per page.
const PAGE: u32 = 50;
/// The choice for any status.
const ANY: &str = "any";

/// Views whose list is generic.
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

/// Views whose detail page is generic.
pub(super) const SHOWN: &[View] =
    &[View::Events, View::Items, View::Candidates, View::Signals, View::Outbox, View::Exports];

pub(super) async fn list(Extension(ctx): Extension<ConsoleContext>, view: View) -> Response {
    ctx.show(listed(&ctx, view).await.map(|blocks| Page::new(title(view)).live().with_all(blocks)))
}

/// The filter form and the table of a view.
pub(super) async fn listed(ctx: &ConsoleContext, view: View) -> Result<Vec<Block>, Failure> {
    let query = ListQuery::of(ctx, view)?;
    let mut table = rows(ctx, view, query.filter.clone()).await?;
    table.next = table.next.map(|before| query.next(&ctx.path, &before));
    let mut blocks = Vec::new();
    if !query.fields.is_empty() {
        let button = "Filter".to_owned();
        let twin = query.twin(view);
        blocks.push(
            Form { title: String::new(), method: "get", action: ctx.path.clone(), fields: query.fields, button, twin }
                .into(),
        );
    }
    blocks.push(table.into());
    Ok(blocks)
}

/// The rows that the user may see; `next` is the id to continue before.
pub(super) async fn rows(ctx: &ConsoleContext, view: View, filter: ViewFilter) -> Result<Table, Failure> {
    views::allowed(ctx.scope, view)?;
    let (rows, next) = views::query(&ctx.api, &ctx.tenant, view, filter).await?;
    let columns = columns(view);
    let heads: Vec<_> = columns.iter().map(|column| word(column)).collect();
    let mut table = Table { head: heads, empty: "There are none.".into(), ..Table::default() };
    table.next = next.map(|id| id.to_string());
    table.rows = rows.iter().map(|row| table_row(view, row, columns)).collect();
    Ok(table)
}

fn table_row(view: View, row: &ViewRow, columns: &[&str]) -> Row {
    let tone = match view.cell(row, "status_code") {
        Some(Cell::Text(status)) if matches!(Tone::of(&status), Tone::Bad | Tone::Warn) => Tone::of(&status),
        _ => Tone::Plain,
    };
    Row { cells: columns.iter().map(|column| shown(view, row, column)).collect(), tone, actions: Vec::new() }
}

pub(super) async fn show(Extension(ctx): Extension<ConsoleContext>, id: PathText, view: View) -> Response {
    let page = async {
        let row = one(&ctx, view, number(id)?).await?;
        Ok(Page::new(name(view, &row)).under(title(view), format!("/{}", view.as_str())).with_all(whole(view, &row)))
    };
    ctx.show(page.await)
}

/// One row, if the user may see it.
pub(super) async fn one(ctx: &ConsoleContext, view: View, id: i64) -> Result<ViewRow, Failure> {
    views::allowed(ctx.scope, view)?;
    let filter = ViewFilter { id: Some(id), limit: 1, ..ViewFilter::default() };
    let (mut rows, _) = views::query(&ctx.api, &ctx.tenant, view, filter).await?;
    rows.pop().ok_or_else(|| missing(format!("there is no {} {id}", singular(view))))
}

/// All columns of a row: short values as facts, JSON as text.
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

/// A cell with its link.
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

/// An error in one line: level, code, message.
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

/// The filter of a list, from the query of the page.
struct ListQuery {
    filter: ViewFilter,
    fields: Vec<Field>,
    /// The conditions, for the link to the next page.
    conditions: Vec<(&'static str, String)>,
}

impl ListQuery {
    fn of(ctx: &ConsoleContext, view: View) -> Result<ListQuery, Failure> {
        let query = &ctx.query;
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
        let (mut fields, mut conditions) = (Vec::new(), Vec::new());
        let columns = [
            ("provenance", "Provenance", "provenance_code"),
            ("endpoint", "Endpoint", "endpoint_name"),
            ("status", "Status", "status_code"),
            ("plan", "Plan", "plan_id"),
            ("task", "Task", "task_id"),
            ("run", "Run", "run_id"),
        ];
        for (name, label, column) in columns.into_iter().filter(|(.., column)| view.has(column)) {
            let value = if name == "status" { status.clone() } else { text(name) };
            let kind = match name {
                "status" => {
                    let statuses = view.statuses().into_iter().map(str::to_owned);
                    FieldKind::Choice(std::iter::once(ANY.to_owned()).chain(statuses).collect())
                }
                _ => FieldKind::Line,
            };
            let shown = value.clone().unwrap_or_default();
            // Ids come from links: a field for each would fill the page.
            if !matches!(column, "plan_id" | "task_id" | "run_id") || value.is_some() {
                fields.push(Field::new(name, label, shown, kind));
            }
            conditions.extend(value.map(|value| (name, value)));
        }
        Ok(ListQuery { filter, fields, conditions })
    }

    fn next(&self, path: &str, before: &str) -> String {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(&self.conditions).append_pair("before", before);
        format!("{path}?{}", query.finish())
    }

    fn twin(&self, view: View) -> String {
        let conditions = self.conditions.iter().map(|(name, value)| format!(" --{name} {value}"));
        format!("patra get {}{}", view.as_str(), conditions.collect::<String>())
    }
}

/// Columns of a list; the page of a row shows all.
fn columns(view: View) -> &'static [&'static str] {
    match view {
        View::Provenances => &["id", "provenance_code", "name", "project_key", "updated_at"],
        View::Endpoints => &["id", "provenance_code", "endpoint_name", "role", "created_at"],
        View::Schedules => &["id", "provenance_code", "endpoint_name", "operation_code", "when_text", "next_due_at"],
        View::Jobs => &[
            "public_id",
            "status_code",
            "tasks_failed",
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
        View::Items => &[
            "id",
            "provenance_code",
            "endpoint_name",
            "kind",
            "dedup_key",
            "updated_at",
            "run_id",
            "stored_at",
            "missing_since",
        ],
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

/// A readable name of a column.
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
    let word = match view {
        View::Holds => "pauses".to_owned(),
        view => view.as_str().replace('-', " "),
    };
    word[..1].to_uppercase() + &word[1..]
}

fn singular(view: View) -> String {
    match view {
        View::Batches => "batch".to_owned(),
        View::Quarantine => "quarantined record".to_owned(),
        View::Holds => "pause".to_owned(),
        view => view.as_str().trim_end_matches('s').replace('-', " "),
    }
}

/// The title of a row: `Task 7`.
pub(super) fn name(view: View, row: &ViewRow) -> String {
    let id = view.cell(row, "id").and_then(|cell| cell.as_int()).unwrap_or_default();
    let word = singular(view);
    format!("{}{} {id}", word[..1].to_uppercase(), &word[1..])
}

pub(super) fn number(id: PathText) -> Result<i64, Failure> {
    let text = path_text(id)?;
    text.parse().map_err(|_| missing(format!("{text:?} is not a number")))
}

pub(super) fn missing(message: String) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, Code::NotFound, message)
}

/// Percent-encodes a part of a path.
pub(super) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
