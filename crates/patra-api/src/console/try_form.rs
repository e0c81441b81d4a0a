//! *Try a manifest*: paste YAML, and see the request, the response, the records and the next request. Nothing is
//! stored. Only administrators may do it, because a manifest names where a credential is sent.

use std::time::Duration;

use axum::Extension;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use patra_core::Code;
use patra_core::params::Params;
use patra_core::tx::KeyScope;
use patra_engine::registry::{self, Overrides};
use patra_engine::try_run::{self, TryRequest, TryTarget};

use super::context::ConsoleContext;
use super::page::{Code as Text, Facts, Field, FieldKind, Form, Note, Page, Shown, Table, Tone};
use crate::envelope::Failure;
use crate::routes::manifests::unsound;

/// Most records to show of each page.
const RECORDS: usize = 5;
/// Most pages to fetch.
const MAX_PAGES: u32 = 3;
/// Longest time for all pages.
const PATIENCE: Duration = Duration::from_secs(25);
/// Initial content of the form.
const EXAMPLE: &str = include_str!("../../../../sources/demo.yaml");

pub(super) async fn form(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let page = ctx.may(KeyScope::Admin).and_then(|()| ctx.tenant.is_operator());
    ctx.show(page.map(|()| Page::new("Try a manifest").with(manifest_form(&ctx, EXAMPLE))))
}

pub(super) async fn run(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let page = async {
        ctx.may(KeyScope::Admin)?;
        ctx.tenant.is_operator()?;
        let text = ctx.form.text("manifest");
        let page = Page::new("Try a manifest");
        let page = match try_pages(&ctx, text).await {
            Ok((target, results)) => {
                let page =
                    page.with(about(&target)).with_all(target.warnings.iter().map(|text| Note::new(Tone::Warn, text)));
                results.iter().fold(page, with_page)
            }
            Err(failure) => {
                let problems = failure.problems.iter().filter_map(|problem| problem["message"].as_str());
                let text = std::iter::once(failure.message.as_str()).chain(problems).collect::<Vec<_>>().join("\n");
                page.with(Note { hint: failure.hint, ..Note::new(Tone::Bad, text) })
            }
        };
        Ok(page.with(manifest_form(&ctx, text)))
    };
    ctx.show(page.await)
}

async fn try_pages(ctx: &ConsoleContext, text: &str) -> Result<(TryTarget, Vec<Value>), Failure> {
    let Some(live) = &ctx.api.live else {
        return Err(Failure::bad_request("this process cannot send requests to upstreams"));
    };
    let checked = registry::check("", text).map_err(unsound)?;
    let params: Params = ctx
        .form
        .text("params")
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let overrides = Overrides::default();
    let request = TryRequest {
        manifest: &checked.manifest,
        endpoint: ctx.form.get("endpoint"),
        overrides: &overrides,
        params: &params,
        from: moment(ctx, "from")?,
        to: moment(ctx, "to")?,
    };
    let target = TryTarget::new(request, ctx.api.clock.now())
        .map_err(|unfit| Failure { hint: unfit.hint.clone(), ..Failure::bad_request(unfit.message) })?;
    let pages = ctx.form.number("pages")?.unwrap_or(1).clamp(1, MAX_PAGES);
    let mut results = Vec::new();
    let tried = live.try_out(&target, pages, |result| results.push(try_run::value(result, RECORDS)));
    match tokio::time::timeout(PATIENCE, tried).await {
        Ok(Ok(())) => Ok((target, results)),
        Ok(Err(fault)) => Err(Failure::bad_request(fault.message)),
        Err(_) => {
            let message = format!("no response within {} s", PATIENCE.as_secs());
            Err(Failure::new(StatusCode::GATEWAY_TIMEOUT, Code::TimeoutError, message))
        }
    }
}

fn moment(ctx: &ConsoleContext, name: &str) -> Result<Option<patra_core::Ts>, Failure> {
    let wrong = |_| Failure::bad_request(format!("{name} is not a time such as 2024-01-31 or 2024-01-31T12:00:00Z"));
    ctx.form.get(name).map(|text| text.parse().map_err(wrong)).transpose()
}

fn manifest_form(ctx: &ConsoleContext, text: &str) -> Form {
    let said = |name| ctx.form.text(name).to_owned();
    let pages = (1..=MAX_PAGES).map(|pages| pages.to_string()).collect();
    Form {
        title: "Manifest".to_owned(),
        method: "post",
        action: "/try".to_owned(),
        fields: vec![
            Field::new("manifest", "YAML", text, FieldKind::Text),
            Field::new("endpoint", "Endpoint", said("endpoint"), FieldKind::Line).hint("required if there are several"),
            Field::new("from", "From", said("from"), FieldKind::Line).hint("default: the last window"),
            Field::new("to", "To", said("to"), FieldKind::Line),
            Field::new("params", "Parameters", said("params"), FieldKind::Line).hint("name=value name=value"),
            Field::new("pages", "Pages", said("pages"), FieldKind::Choice(pages)),
        ],
        button: "Try".to_owned(),
        twin: "patra try FILE --endpoint NAME --from TIME --to TIME --param NAME=VALUE --pages N".to_owned(),
    }
}

fn about(target: &TryTarget) -> Facts {
    let facts = [
        ("provenance", target.spec.provenance_code.clone()),
        ("endpoint", target.spec.endpoint_code.clone()),
        ("from", target.window.from.to_short_text()),
        ("to", target.window.to.to_short_text()),
        ("partition", target.partitions.join(", ")),
    ];
    Facts { title: String::new(), facts: facts.map(|(word, text)| (word.to_owned(), Shown::text(text))).into() }
}

/// Adds one fetched page: request, response, records, next request.
fn with_page(page: Page, result: &Value) -> Page {
    let number = &result["page"];
    let what = if result["details"] == true { format!("details of page {number}") } else { format!("page {number}") };
    let mut page = match &result["refusal"] {
        Value::Null => {
            let text = format!(
                "Read {what}: {} items, {} records, {} set aside",
                result["items"], result["record_count"], result["rejected_count"]
            );
            page.with(Note { hint: result["hint"].as_str().map(str::to_owned), ..Note::good(text) })
        }
        refusal => {
            let text = format!(
                "{what}: {} {}",
                refusal["level"].as_str().unwrap_or_default(),
                refusal["message"].as_str().unwrap_or_default()
            );
            page.with(Note { hint: refusal["hint"].as_str().map(str::to_owned), ..Note::new(Tone::Bad, text) })
        }
    };
    page = page.with(Text::json(format!("Request of {what}"), &result["request"]));
    if !result["answer"].is_null() {
        page = page.with(Text::json("Response", &result["answer"]));
    }
    if result["refusal"].is_null() {
        page = page.with(records(&result["records"])).with_all(rejected(&result["rejected"]));
    }
    if result["next"].is_null() { page } else { page.with(Text::json("Next", &result["next"])) }
}

fn records(records: &Value) -> Table {
    let mut table = Table::new("Records", &["id", "updated at", "fields"], "There are none.");
    for record in records.as_array().into_iter().flatten() {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let cells =
            vec![Shown::code(text("id")), Shown::text(text("updated_at")), Shown::code(record["fields"].to_string())];
        table.row(Tone::Plain, cells);
    }
    table
}

fn rejected(rejected: &Value) -> Option<Table> {
    let mut table = Table::new("Set aside", &["item", "id", "reason"], "");
    for item in rejected.as_array().into_iter().flatten() {
        let text = |name: &str| item[name].as_str().unwrap_or("–").to_owned();
        table.row(Tone::Bad, vec![Shown::number(&item["index"]), Shown::code(text("id")), Shown::text(text("reason"))]);
    }
    (!table.rows.is_empty()).then_some(table)
}
