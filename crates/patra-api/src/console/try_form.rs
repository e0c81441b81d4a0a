//! *Try a manifest*: paste YAML, see the request, the answer, the records and what would follow. Nothing is stored. A manifest
//! names where a credential is sent, so this is for administrators.

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

use super::page::{Code as Text, Facts, Field, FieldKind, Form, Note, Page, Shown, Table, Tone};
use super::visit::Visit;
use crate::envelope::Failure;
use crate::routes::manifests::unsound;

/// Records of each page that are shown.
const RECORDS: usize = 5;
/// Pages of one target.
const MAX_PAGES: u32 = 3;
/// An upstream that takes longer is told so.
const PATIENCE: Duration = Duration::from_secs(25);
/// What stands in the form at first.
const EXAMPLE: &str = include_str!("../../../../sources/demo.yaml");

pub(super) async fn form(Extension(visit): Extension<Visit>) -> Response {
    let page = visit.may(KeyScope::Admin).and_then(|()| visit.tenant.is_operator());
    visit.show(page.map(|()| Page::new("Try a manifest").with(asking(&visit, EXAMPLE))))
}

pub(super) async fn run(Extension(visit): Extension<Visit>) -> Response {
    let page = async {
        visit.may(KeyScope::Admin)?;
        visit.tenant.is_operator()?;
        let text = visit.form.text("manifest");
        let page = Page::new("Try a manifest");
        let page = match looked(&visit, text).await {
            Ok((target, looks)) => {
                let page =
                    page.with(about(&target)).with_all(target.warnings.iter().map(|text| Note::new(Tone::Warn, text)));
                looks.iter().fold(page, seen)
            }
            Err(failure) => {
                let problems = failure.problems.iter().filter_map(|problem| problem["message"].as_str());
                let text = std::iter::once(failure.message.as_str()).chain(problems).collect::<Vec<_>>().join("\n");
                page.with(Note { hint: failure.hint, ..Note::new(Tone::Bad, text) })
            }
        };
        Ok(page.with(asking(&visit, text)))
    };
    visit.show(page.await)
}

async fn looked(visit: &Visit, text: &str) -> Result<(TryTarget, Vec<Value>), Failure> {
    let Some(live) = &visit.api.live else {
        return Err(Failure::bad_request("this process has no way out to upstreams"));
    };
    let checked = registry::check("", text).map_err(unsound)?;
    let params: Params = visit
        .form
        .text("params")
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let overrides = Overrides::default();
    let wish = TryRequest {
        manifest: &checked.manifest,
        endpoint: visit.form.get("endpoint"),
        overrides: &overrides,
        params: &params,
        from: moment(visit, "from")?,
        to: moment(visit, "to")?,
    };
    let target = TryTarget::new(wish, visit.api.clock.now())
        .map_err(|unfit| Failure { hint: unfit.hint.clone(), ..Failure::bad_request(unfit.message) })?;
    let pages = visit.form.number("pages")?.unwrap_or(1).clamp(1, MAX_PAGES);
    let mut looks = Vec::new();
    let tried = live.try_out(&target, pages, |look| looks.push(try_run::value(look, RECORDS)));
    match tokio::time::timeout(PATIENCE, tried).await {
        Ok(Ok(())) => Ok((target, looks)),
        Ok(Err(fault)) => Err(Failure::bad_request(fault.message)),
        Err(_) => {
            let message = format!("no answer within {} s", PATIENCE.as_secs());
            Err(Failure::new(StatusCode::GATEWAY_TIMEOUT, Code::TimeoutError, message))
        }
    }
}

fn moment(visit: &Visit, name: &str) -> Result<Option<patra_core::Ts>, Failure> {
    let wrong = |_| Failure::bad_request(format!("{name} is no time: 2024-01-31 or 2024-01-31T12:00:00Z"));
    visit.form.get(name).map(|text| text.parse().map_err(wrong)).transpose()
}

fn asking(visit: &Visit, text: &str) -> Form {
    let said = |name| visit.form.text(name).to_owned();
    let pages = (1..=MAX_PAGES).map(|pages| pages.to_string()).collect();
    Form {
        title: "Manifest".to_owned(),
        method: "post",
        action: "/try".to_owned(),
        fields: vec![
            Field::new("manifest", "YAML", text, FieldKind::Text),
            Field::new("endpoint", "Endpoint", said("endpoint"), FieldKind::Line).hint("where there are several"),
            Field::new("from", "From", said("from"), FieldKind::Line).hint("the last window, without one"),
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

/// One page that was read: request, answer, records, what would follow.
fn seen(page: Page, look: &Value) -> Page {
    let number = &look["page"];
    let what = if look["details"] == true { format!("details of page {number}") } else { format!("page {number}") };
    let mut page = match &look["refusal"] {
        Value::Null => {
            let text = format!(
                "Read {what}: {} items, {} records, {} set aside",
                look["items"], look["record_count"], look["rejected_count"]
            );
            page.with(Note { hint: look["hint"].as_str().map(str::to_owned), ..Note::good(text) })
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
    page = page.with(Text::json(format!("Request of {what}"), &look["request"]));
    if !look["answer"].is_null() {
        page = page.with(Text::json("Answer", &look["answer"]));
    }
    if look["refusal"].is_null() {
        page = page.with(records(&look["records"])).with_all(rejected(&look["rejected"]));
    }
    if look["next"].is_null() { page } else { page.with(Text::json("Next", &look["next"])) }
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
