//! A try as JSON, and words that its texts share.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use patra_core::paging::Position;
use patra_core::port::transport::{HttpMethod, HttpRequest, HttpResponse};
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::record::Record;

use super::hint::{advice, hint};
use crate::try_pages::{NextStep, TriedPage};

/// Bytes of a body that are shown.
const HEAD: usize = 300;

/// A try as JSON, with this many of its records.
pub fn value(look: &TriedPage, records: usize) -> Value {
    let mut value = json!({
        "page": look.number,
        "details": matches!(look.position, Position::Ids { .. }),
        "position": look.position,
        "request": look.request.as_ref().map(request_value),
    });
    if let Some(answer) = &look.answer {
        value["answer"] = json!({
            "status": answer.status,
            "content_type": answer.header("content-type"),
            "bytes": answer.body.len(),
            "head": head(answer),
        });
    }
    let evidence = match &look.result {
        Ok(page) => {
            let ids: Vec<_> = page.candidates.iter().map(|candidate| &candidate.id).collect();
            let shown: Vec<_> = page.records.iter().take(records).map(record_value).collect();
            let rejected = page.rejected.iter().take(records);
            let rejected: Vec<_> =
                rejected.map(|r| json!({ "index": r.index, "id": r.key, "reason": r.reason })).collect();
            value["items"] = json!(page.facts.items);
            value["total"] = json!(page.facts.total);
            value["has_more"] = json!(page.facts.has_more);
            value["candidates"] = json!(ids);
            value["record_count"] = json!(page.records.len());
            value["records"] = json!(shown);
            value["rejected_count"] = json!(page.rejected.len());
            value["rejected"] = json!(rejected);
            value["skipped_count"] = json!(skipped(page));
            value["missing"] = json!(missing(&look.position, page));
            value["hint"] = json!(advice(page.facts.items, page.rejected.len()));
            &page.evidence
        }
        Err(refusal) => {
            value["refusal"] = refusal_value(refusal);
            &refusal.evidence
        }
    };
    value["latency_ms"] = json!(evidence.latency_ms);
    if let Some(outlook) = &look.outlook {
        let following = look.following.as_ref().map(request_value);
        value["next"] = json!({ "is": next_value(outlook), "request": following, "why": outlook.why() });
    }
    value
}

fn refusal_value(refusal: &PageFailure) -> Value {
    json!({
        "code": refusal.fault.code,
        "level": refusal.fault.level,
        "message": refusal.fault.message,
        "throttled": refusal.throttled,
        "retry_after_secs": refusal.retry_after.map(|wait| wait.as_secs_f64()),
        "hint": hint(refusal),
    })
}

fn request_value(request: &HttpRequest) -> Value {
    let headers: Map<_, _> = request.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({ "method": method_name(request.method), "url": request.url, "headers": headers, "body": body(request) })
}

/// A next step in the syntax of `expect.next`.
pub fn next_value(next: &NextStep) -> Value {
    match next {
        NextStep::Next { position, .. } => json!(position),
        NextStep::End { .. } => json!("end"),
        NextStep::Cut { .. } => json!("cut"),
        NextStep::Partial { .. } => json!("partial"),
        NextStep::Broken { why } => json!(format!("broken: {why}")),
    }
}

/// A position in the syntax of `expect.first`.
pub fn record_value(record: &Record) -> Value {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    let updated_at = record.version.updated_at.to_short_text();
    json!({ "id": record.key, "updated_at": updated_at, "fields": json(&record.fields), "payload": json(&record.payload) })
}

pub fn method_name(method: HttpMethod) -> &'static str {
    match method {
        HttpMethod::Get => "GET",
        HttpMethod::Post => "POST",
    }
}

/// Requested ids that are missing in the response. A run sets them aside, unless `two_phase.missing` says otherwise. A
/// response with as many records as ids is taken to be complete.
pub fn missing<'l>(position: &'l Position, page: &FetchedPage) -> Vec<&'l str> {
    let Position::Ids { ids, .. } = position else { return Vec::new() };
    let rejected = page.rejected.iter().filter_map(|rejected| rejected.key.as_ref());
    let keys: BTreeSet<_> = page.records.iter().map(|record| &record.key).chain(rejected).collect();
    let complete = page.records.len() + page.rejected.len() >= ids.len();
    ids.iter().filter(|id| !complete && !keys.contains(id)).map(String::as_str).collect()
}

/// Number of items that gave neither a record nor an id and were not set aside.
pub fn skipped(page: &FetchedPage) -> Option<usize> {
    (page.facts.items as usize).checked_sub(page.records.len() + page.candidates.len() + page.rejected.len())
}

fn body(request: &HttpRequest) -> Option<String> {
    request.body.as_deref().map(|body| String::from_utf8_lossy(body).into_owned())
}

/// The beginning of a body, in one line.
pub fn head(answer: &HttpResponse) -> String {
    // A character that is cut at the end is left out.
    let bytes = &answer.body[..answer.body.len().min(HEAD)];
    let text = String::from_utf8_lossy(bytes);
    let rest = if answer.body.len() > HEAD { "…" } else { "" };
    format!("{}{rest}", one_line(text.trim_end_matches(char::REPLACEMENT_CHARACTER)))
}

/// The text without control characters, which could move the cursor of a terminal.
pub fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}
