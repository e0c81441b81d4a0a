//! A batch: one request, its response, and all the evidence in the ledger.

use axum::Extension;
use axum::extract::Path;
use axum::response::Response;
use serde_json::Value;

use patra_core::RunId;
use patra_core::port::query::BatchEvidence;
use patra_core::tx::KeyScope;

use crate::console::context::ConsoleContext;
use crate::console::lists::{self, batch_at, missing};
use crate::console::page::{Action, Actions, Code, Facts, Field, FieldKind, Form, Note, Page, Shown, Table, Tone};
use crate::routes::replay::BatchPath;

pub(in crate::console) async fn batch(Extension(ctx): Extension<ConsoleContext>, path: BatchPath) -> Response {
    let page = async {
        let Path((run, no)) = path.map_err(|_| missing("there is no such batch".to_owned()))?;
        let nothing = || missing(format!("run {run} has no batch {no}"));
        let evidence = ctx.store().evidence(RunId(run), no).await?.ok_or_else(nothing)?;
        Ok(shown(&ctx, run, no, &evidence))
    };
    ctx.show(page.await)
}

fn shown(ctx: &ConsoleContext, run: i64, no: u32, evidence: &BatchEvidence) -> Page {
    let BatchEvidence { batch, task, plan, .. } = evidence;
    let id = |row: &Value| row["id"].as_i64().unwrap_or_default();
    let (plan, task) = (id(plan), id(task));
    let mut page = Page::new(format!("Batch {no} of run {run}"))
        .under(format!("Plan {plan}"), format!("/plans/{plan}"))
        .under(format!("Task {task}"), format!("/tasks/{task}"))
        .under(format!("Run {run}"), format!("/runs/{run}"));
    let cause = lists::cause(&batch["error"].to_string());
    if !cause.is_empty() {
        let level = batch["error"]["level"].as_str().unwrap_or_default();
        page = page.with(Note { hint: advice(level).map(str::to_owned), ..Note::new(Tone::Bad, cause) });
    }
    if !evidence.quarantine.is_empty() {
        page = page.with(rejected(&evidence.quarantine));
    }
    if ctx.is(KeyScope::Write) {
        page = page.with(Actions(actions(run, no)));
    }
    for (title, column) in [("Request", "request_digest"), ("Response", "response_digest"), ("Statistics", "stats")] {
        page = page.with(Code::json(title, &batch[column]));
    }
    if !batch["error"].is_null() {
        page = page.with(Code::json("Error", &batch["error"]));
    }
    page = page.with(events(&evidence.events)).with(facts(batch));
    if ctx.is(KeyScope::Admin) {
        page = page.with(export(run, no));
    }
    page
}

/// Explains an error level and what to do.
fn advice(level: &str) -> Option<&'static str> {
    Some(match level {
        "L1" => "L1: transient. The request is retried by itself; look here again if it does not stop.",
        "L2" => {
            "L2: the upstream refuses this request. Compare the request below with its documentation, fix the \
             manifest, then run the task again."
        }
        "L3" => "L3: a record cannot be used. It is in quarantine; the rest was stored.",
        "L4" => "L4: fatal. The source is halted: fix the cause, then resume it.",
        _ => return None,
    })
}

fn actions(run: i64, no: u32) -> Vec<Action> {
    let (at, twin) = (batch_at(run, i64::from(no)), format!("patra replay {run} {no}"));
    vec![
        Action::new("Replay", format!("{at}/replay"), twin.clone()),
        Action::new("Replay live", format!("{at}/replay"), format!("{twin} --live")).with("mode", "live"),
        Action::new("Run again", format!("{at}/redrive"), format!("{twin} --redrive")),
    ]
}

fn facts(batch: &Value) -> Facts {
    let hidden = ["request_digest", "response_digest", "stats", "error"];
    let columns = batch
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| !hidden.contains(&name.as_str()) && !value.is_null());
    let shown = |name: &str, value: &Value| match value {
        Value::String(text) if name == "status_code" => Shown::status(text.as_str()),
        Value::String(text) => Shown::text(text.as_str()),
        other => Shown::code(other.to_string()),
    };
    Facts {
        title: String::new(),
        facts: columns.map(|(name, value)| (name.replace('_', " "), shown(name, value))).collect(),
    }
}

fn rejected(rows: &[Value]) -> Table {
    let mut table =
        Table::new("Records of this batch that were set aside", &["record", "status", "key", "code", "reason"], "");
    for row in rows {
        let (text, id) =
            (|name: &str| row[name].as_str().unwrap_or("–").to_owned(), row["id"].as_i64().unwrap_or_default());
        let cells = vec![
            Shown::number(id).to(format!("/quarantine/{id}")),
            Shown::status(text("status_code")),
            Shown::code(text("dedup_key")),
            Shown::text(text("error_code")),
            Shown::text(text("reason")),
        ];
        table.row(Tone::Bad, cells);
    }
    table
}

fn events(rows: &[Value]) -> Table {
    let head = ["event", "cursor", "from", "to", "observed", "when"];
    let mut table = Table::new("Cursor events of the run", &head, "The run has not moved a cursor.");
    for row in rows {
        let text = |name: &str| Shown::text(row[name].as_str().unwrap_or("–"));
        let number = |name: &str| row[name].as_i64().unwrap_or_default();
        let (id, cursor) = (number("id"), number("cursor_id"));
        let cells = vec![
            Shown::number(id).to(format!("/cursor-events/{id}")),
            Shown::number(cursor).to(format!("/cursors/{cursor}")),
            text("prev_value"),
            text("new_value"),
            text("observed_max_value"),
            text("created_at"),
        ];
        table.row(Tone::Plain, cells);
    }
    table
}

fn export(run: i64, no: u32) -> Form {
    Form {
        title: "Diagnostic bundle".to_owned(),
        method: "post",
        action: format!("{}/bundle", batch_at(run, i64::from(no))),
        fields: vec![
            Field::new("reason", "Reason", "", FieldKind::Line).hint("recorded with your key and the time"),
            Field::new("with_raw", "with the stored response", "", FieldKind::Tick),
        ],
        button: "Export".to_owned(),
        twin: format!("patra bundle export {run} {no} --reason TEXT"),
    }
}
