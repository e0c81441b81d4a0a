//! Checks one test against its recorded response: the request that leads to it, and the page read from it.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use patra_connectors::{PageRequest, Pager};
use patra_core::port::transport::{HttpRequest, HttpResponse};
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::{Fault, Ts, Window};
use patra_engine::try_run::{bound, method_name, next_value, record_value};
use patra_engine::{NextStep, TryWalk, masked};
use patra_spec::snapshot::Snapshot;

use super::case::{Case, Expect, Long, Refused};
use super::diff::{Difference, compare};

/// Window of a test that names none: everything.
const FIRST: Ts = Ts::from_secs(0);
const LAST: Ts = Ts::from_secs(4_102_444_800);

/// Returns all differences. The error says why the test could not start.
pub(crate) fn check(
    folder: &Path,
    spec: &Snapshot,
    warnings: &[String],
    case: &Case,
) -> Result<Vec<Difference>, String> {
    let file = folder.join(&case.recorded);
    let body = std::fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let response =
        HttpResponse { status: case.status, headers: case.headers.clone(), body: Bytes::from(body), redirected: None };
    let mut differences = Vec::new();
    let mut walk = TryWalk::new(spec);
    if let Some(size) = case.page_size {
        walk = walk.with_page_size(size);
    }
    let here = case.at.clone().unwrap_or_else(|| walk.first());
    walk = walk.of_one_page(&here);
    let to = case.to.unwrap_or(LAST);
    let window = Window::new(case.from.unwrap_or(FIRST), to).ok_or("`from` must lie before `to`")?;
    let params = bound(spec, &case.params)?.0;
    let pager = Pager::new(spec).map_err(|fault| fault.message)?;
    let now = case.now.unwrap_or(to);
    let request_at = PageRequest {
        position: &here,
        window: spec.request_window(window),
        page_size: walk.page_size(),
        params: &params,
        now,
    };
    let result = match pager.request(&request_at) {
        Ok(exchange) => {
            request(&masked(pager.authoriser(&exchange), &exchange.request), &case.expect, &mut differences);
            pager.read(exchange, Ok(response), Duration::ZERO, now)
        }
        Err(refusal) => Err(refusal),
    };
    if let Some(expected) = &case.expect.warnings {
        self::warnings(expected, warnings, &mut differences);
    }
    match result {
        Ok(page) => {
            let next = walk.after(&here, &page);
            read(&page, &next, &case.expect, &mut differences);
        }
        Err(refusal) => refused(&refusal, case.expect.refused.as_ref(), &mut differences),
    }
    Ok(differences)
}

fn request(request: &HttpRequest, expect: &Expect, out: &mut Vec<Difference>) {
    for part in expect.url.iter().filter(|part| !request.url.contains(*part)) {
        out.push(Difference { what: "url".into(), expected: json!(part), found: json!(request.url) });
    }
    if let Some(method) = &expect.method {
        compare("method", &json!(method.to_uppercase()), &json!(method_name(request.method)), out);
    }
    for (name, value) in &expect.headers {
        let found = request.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        compare(&format!("header {name}"), &json!(value), &json!(found.map(|(_, value)| value)), out);
    }
    if let Some(expected) = &expect.body {
        let text = request.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let found = match expected {
            Value::String(_) => json!(text),
            _ => serde_json::from_str(&text).unwrap_or_else(|_| json!(text)),
        };
        compare("body", expected, &found, out);
    }
}

fn read(page: &FetchedPage, next: &NextStep, expect: &Expect, out: &mut Vec<Difference>) {
    if let Some(expected) = &expect.refused {
        compare("refused", &refused_value(expected), &Value::Null, out);
    }
    let facts = &page.facts;
    let ids: Vec<_> = page.candidates.iter().map(|candidate| candidate.id.as_str()).collect();
    let candidates = match &expect.candidates {
        Some(Value::Array(_)) => json!(ids),
        _ => json!(ids.len()),
    };
    for (what, expected, found) in [
        ("items", expect.items.map(Value::from), json!(facts.items)),
        ("records", expect.records.map(Value::from), json!(page.records.len())),
        ("total", expect.total.map(Value::from), json!(facts.total)),
        ("candidates", expect.candidates.as_ref().map(as_texts), candidates),
    ] {
        if let Some(expected) = expected {
            compare(what, &expected, &found, out);
        }
    }
    if let Some(expected) = expect.rejected.filter(|expected| *expected != page.rejected.len()) {
        // The reasons help more than their number.
        out.push(Difference { what: "rejected".into(), expected: json!(expected), found: rejected(page) });
    }
    if let Some(expected) = expect.next.as_ref().filter(|expected| **expected != next_value(next)) {
        out.push(Difference { what: "next".into(), expected: expected.clone(), found: next_value(next) });
    }
    for (at, expected) in expect.first.iter().enumerate() {
        let found = page.records.get(at).map(record_value).unwrap_or_default();
        compare(&format!("record {at}"), &with_time(expected), &found, out);
    }
}

/// The number of rejected items, with the reasons.
fn rejected(page: &FetchedPage) -> Value {
    let reasons: Vec<_> =
        page.rejected.iter().map(|rejected| format!("item {}: {}", rejected.index, rejected.reason)).collect();
    if reasons.is_empty() { json!(0) } else { json!(format!("{}: {}", reasons.len(), reasons.join("; "))) }
}

fn refused(refusal: &PageFailure, expected: Option<&Refused>, out: &mut Vec<Difference>) {
    let Fault { code, level, message } = &refusal.fault;
    let found = json!({ "level": level, "code": code, "message": message });
    let Some(expected) = expected else {
        return out.push(Difference { what: "refused".into(), expected: Value::Null, found });
    };
    let (expected, part) = match expected {
        Refused::Level(level) => (json!({ "level": level }), None),
        Refused::Long(Long { level, code, message }) => {
            let named =
                [("level", json!(level)), ("code", json!(code))].into_iter().filter(|(_, value)| !value.is_null());
            (
                named.map(|(name, value)| (name.to_owned(), value)).collect::<serde_json::Map<_, _>>().into(),
                message.as_ref(),
            )
        }
    };
    compare("refused", &expected, &found, out);
    if let Some(part) = part.filter(|part| !message.contains(*part)) {
        out.push(Difference { what: "refused.message".into(), expected: json!(part), found: json!(message) });
    }
}

fn refused_value(expected: &Refused) -> Value {
    match expected {
        Refused::Level(level) => json!(level),
        Refused::Long(Long { level, code, message }) => json!({ "level": level, "code": code, "message": message }),
    }
}

/// Each expectation must be part of a warning, and no warning may be unexpected.
fn warnings(expected: &[String], found: &[String], out: &mut Vec<Difference>) {
    for part in expected.iter().filter(|part| !found.iter().any(|warning| warning.contains(*part))) {
        out.push(Difference { what: "warnings".into(), expected: json!(part), found: json!(found) });
    }
    for warning in found.iter().filter(|warning| !expected.iter().any(|part| warning.contains(part))) {
        out.push(Difference { what: "warnings".into(), expected: Value::Null, found: json!(warning) });
    }
}

/// Brings `updated_at` into one form: tests may write a time in any form that manifests allow.
fn with_time(expected: &Value) -> Value {
    let mut expected = expected.clone();
    let time = expected.get("updated_at").and_then(Value::as_str).and_then(|text| text.parse::<Ts>().ok());
    if let (Some(time), Some(members)) = (time, expected.as_object_mut()) {
        members.insert("updated_at".into(), json!(time.to_short_text()));
    }
    expected
}

/// Ids as text, even if they look like numbers.
fn as_texts(expected: &Value) -> Value {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    expected.as_array().map_or_else(|| expected.clone(), |ids| ids.iter().map(text).collect())
}
