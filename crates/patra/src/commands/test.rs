//! `test`: the offline tests inside a manifest. A recorded answer is read as if it had just come; what is made of it, and
//! the request that would have asked for it, must be what the test expects. No network, no database.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use patra_connectors::Pager;
use patra_core::paging::{Next, Position};
use patra_core::port::transport::Response;
use patra_core::{Level, Ts, Window};
use patra_spec::{Manifest, Operation, Snapshot};

use super::apply;
use crate::cli::{Global, Test};
use crate::error::{Error, Exit};
use crate::output;
use crate::progress::say;

/// One test, as it stands under `tests:`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Needed when the manifest has several endpoints.
    endpoint: Option<String>,
    /// The body of the answer; relative to the manifest.
    recorded: String,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: Vec<(String, String)>,
    /// The page that was asked for, `{ token: … }` and the like; the first when it is left out.
    at: Option<Position>,
    page_size: Option<u32>,
    from: Option<Ts>,
    to: Option<Ts>,
    expect: Expect,
}

fn ok() -> u16 {
    200
}

/// What is left out is not compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    items: Option<u32>,
    records: Option<usize>,
    rejected: Option<usize>,
    total: Option<u64>,
    /// A position, or `end`.
    next: Option<Value>,
    /// The first records: of each, the members that are named.
    first: Option<Vec<Value>>,
    /// The level of the refusal: `L1` to `L4`.
    refused: Option<Level>,
    /// Parts that the request's URL must contain.
    #[serde(default)]
    url: Vec<String>,
}

pub(crate) fn run(global: &Global, args: &Test) -> Result<Exit, Error> {
    let (mut passed, mut failed) = (0, 0);
    for file in apply::files(&args.files)? {
        let (manifest, _) = apply::read(&file)?.map_err(|problems| {
            say(&problems.to_string());
            Error::configuration(format!("{} has problems", file.display())).hint("mend what is listed above")
        })?;
        for (number, test) in manifest.tests.iter().enumerate() {
            let case = Case::deserialize(test).map_err(|error| {
                Error::configuration(format!("{}: tests[{number}]: {error}", file.display()))
                    .hint("docs/manifest.md describes tests")
            })?;
            let differences = check(&file, &manifest, &case)?;
            let name = format!("{}: {}", manifest.provenance, case.name);
            let value = json!({ "test": name, "passed": differences.is_empty(), "differences": differences });
            let word = if differences.is_empty() { "ok" } else { "FAILED" };
            let mut text = format!("{word:6} {name}");
            for difference in &differences {
                text.push_str(&format!("\n         {difference}"));
            }
            output::result(global.output, &text, &value)?;
            if differences.is_empty() { passed += 1 } else { failed += 1 }
        }
    }
    say(&format!("{passed} passed, {failed} failed"));
    Ok(if failed > 0 { Exit::Failures } else { Exit::Ok })
}

/// The differences, each as a sentence.
fn check(file: &Path, manifest: &Manifest, case: &Case) -> Result<Vec<String>, Error> {
    let endpoint = super::r#try::endpoint(manifest, case.endpoint.as_deref())?;
    let spec = patra_spec::compile(manifest, &endpoint, Operation::Harvest)
        .map_err(|problems| Error::configuration(problems.to_string()))?
        .snapshot;
    let path = file.parent().unwrap_or(Path::new(".")).join(&case.recorded);
    let body = std::fs::read(&path).map_err(|error| apply::unreadable(&path, &error))?;
    let response = Response { status: case.status, headers: case.headers.clone(), body: Bytes::from(body) };
    compare(&spec, case, response)
}

fn compare(spec: &Snapshot, case: &Case, response: Response) -> Result<Vec<String>, Error> {
    let mut rule = spec.paging();
    rule.page_size = case.page_size.unwrap_or(rule.page_size);
    let here = case.at.clone().unwrap_or_else(|| rule.first());
    let to = case.to.unwrap_or(Ts::from_secs(4_102_444_800));
    let window = Window::new(case.from.unwrap_or(Ts::from_secs(0)), to)
        .ok_or_else(|| Error::usage("from must lie before to"))?;
    let pager = Pager::new(spec).map_err(|fault| Error::configuration(fault.message))?;
    let mut differences = Vec::new();
    let mut differ = |what: &str, expected: Value, found: Value| {
        if expected != found {
            differences.push(format!("{what}: expected {expected}, found {found}"));
        }
    };
    let result = match pager.request(&here, window, rule.page_size, to) {
        Ok(exchange) => {
            for part in &case.expect.url {
                if !exchange.request.url.contains(part) {
                    differ("url", json!(part), json!(exchange.request.url));
                }
            }
            pager.read(exchange, Ok(response), Duration::ZERO, to)
        }
        Err(refusal) => Err(refusal),
    };
    let expect = &case.expect;
    match result {
        Ok(page) => {
            differ("refused", json!(expect.refused), Value::Null);
            let facts = &page.facts;
            let compare = |expected: Option<Value>, found: Value| expected.map(|expected| (expected, found));
            let pairs = [
                ("items", compare(expect.items.map(Into::into), facts.items.into())),
                ("records", compare(expect.records.map(Into::into), page.records.len().into())),
                ("rejected", compare(expect.rejected.map(Into::into), page.rejected.len().into())),
                ("total", compare(expect.total.map(Into::into), json!(facts.total))),
                ("next", compare(expect.next.clone(), next(rule.next(&here, facts, true)))),
            ];
            for (what, pair) in pairs {
                if let Some((expected, found)) = pair {
                    differ(what, expected, found);
                }
            }
            for (at, expected) in expect.first.iter().flatten().enumerate() {
                let found = page.records.get(at).map(super::r#try::record_value).unwrap_or_default();
                for (member, value) in expected.as_object().into_iter().flatten() {
                    differ(&format!("record {at}, {member}"), value.clone(), found[member].clone());
                }
            }
        }
        Err(refusal) if expect.refused == Some(refusal.fault.level) => {}
        Err(refusal) => differ("refused", json!(expect.refused), json!(refusal.fault)),
    }
    Ok(differences)
}

fn next(next: Next) -> Value {
    match next {
        Next::At(position) | Next::Perhaps(position) => json!(position),
        Next::End => "end".into(),
        Next::Broken(reason) => reason.into(),
    }
}
