//! One look at a far side, for people and as JSON.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use patra_core::paging::Position;
use patra_core::port::transport::{Request, Response};
use patra_core::protocol::run::{Page, Refusal};
use patra_core::record::Record;
use patra_engine::{Look, Outlook};

use super::hint::{advice, hint};
use crate::commands::test::{method_name, next_value, record_value};

/// How much of a body is shown.
const HEAD: usize = 300;
/// How much of a record is shown.
const WIDEST: usize = 160;
/// How much of the body of a request is shown.
const BODY: usize = 1_000;
/// Ids of a page that are shown.
const IDS: usize = 10;

pub(super) fn text(look: &Look, records: usize) -> String {
    let mut lines = vec![match &look.position {
        Position::Ids { ids, .. } => format!("page {}, details of {} ids", look.number, ids.len()),
        _ => format!("page {}", look.number),
    }];
    if let Some(request) = &look.request {
        lines.push(format!("  request   {} {}", method_name(request.method), request.url));
        lines.extend(request.headers.iter().map(|(name, value)| format!("            {name}: {value}")));
        lines.extend(body(request).map(|body| format!("            {}", short(&one_line(&body), BODY))));
    }
    let latency = match &look.result {
        Ok(page) => page.evidence.latency_ms,
        Err(refusal) => refusal.evidence.latency_ms,
    };
    if let Some(answer) = &look.answer {
        let (kind, size) = (answer.header("content-type").unwrap_or("no content type"), answer.body.len());
        lines.push(format!("  answer    {}, {kind}, {size} bytes in {latency} ms", answer.status));
        lines.push(format!("            {}", head(answer)));
    }
    match &look.result {
        Ok(page) => {
            lines.extend(page_lines(page, records));
            let missing = missing(&look.position, page);
            if !missing.is_empty() {
                lines.push(format!("  missing   {}", few(&missing)));
            }
        }
        Err(refusal) => {
            lines.push(format!("  refused   {} ({})", refusal.fault, refusal.fault.level.as_str()));
            lines.push(format!("  hint      {}", hint(refusal)));
        }
    }
    if let Some(outlook) = &look.outlook {
        lines.push(format!("  next      {}", next_line(outlook, look.following.as_ref())));
        lines.push(format!("            {}", outlook.why()));
    }
    lines.join("\n")
}

fn page_lines(page: &Page, records: usize) -> Vec<String> {
    let facts = &page.facts;
    let total = facts.total.map(|total| format!(", total {total}")).unwrap_or_default();
    let more = facts.has_more.map(|more| format!(", has_more {more}")).unwrap_or_default();
    let mut lines = vec![format!("  items     {}{total}{more}", facts.items)];
    if !page.candidates.is_empty() {
        let ids: Vec<_> = page.candidates.iter().map(|candidate| candidate.id.as_str()).collect();
        lines.push(format!("  ids       {}", few(&ids)));
    }
    lines.extend(page.records.iter().take(records).map(|record| format!("  record    {}", record_line(record))));
    if page.records.len() > records {
        lines.push(format!("            and {} more", page.records.len() - records));
    }
    for rejected in page.rejected.iter().take(records) {
        let id = rejected.key.as_ref().map(|key| format!(" ({key})")).unwrap_or_default();
        lines.push(format!("  rejected  item {}{id}: {}", rejected.index, rejected.reason));
    }
    if page.rejected.len() > records {
        lines.push(format!("            and {} more", page.rejected.len() - records));
    }
    if let Some(skipped) = skipped(page).filter(|skipped| *skipped > 0) {
        lines.push(format!("  skipped   {skipped}: not of the window, or not wanted by record.filter"));
    }
    lines.extend(advice(facts.items, page.rejected.len()).map(|advice| format!("  hint      {advice}")));
    lines
}

/// How many, and the first of them.
fn few(ids: &[&str]) -> String {
    let rest = if ids.len() > IDS { ", …" } else { "" };
    format!("{}: {}{rest}", ids.len(), ids[..ids.len().min(IDS)].join(", "))
}

/// The ids that were asked for and that the answer is silent about. A run sets them aside, unless `two_phase.missing` says
/// otherwise. As there, an answer with as many records as ids is taken to be complete.
fn missing<'l>(position: &'l Position, page: &Page) -> Vec<&'l str> {
    let Position::Ids { ids, .. } = position else { return Vec::new() };
    let rejected = page.rejected.iter().filter_map(|rejected| rejected.key.as_ref());
    let keys: BTreeSet<_> = page.records.iter().map(|record| &record.key).chain(rejected).collect();
    let complete = page.records.len() + page.rejected.len() >= ids.len();
    ids.iter().filter(|id| !complete && !keys.contains(id)).map(String::as_str).collect()
}

/// Items of which nothing became: neither a record, nor an id, nor set aside.
fn skipped(page: &Page) -> Option<usize> {
    (page.facts.items as usize).checked_sub(page.records.len() + page.candidates.len() + page.rejected.len())
}

fn record_line(record: &Record) -> String {
    let fields = if record.fields.is_empty() { "no fields mapped" } else { &record.fields };
    short(&format!("{}  {}  {fields}", record.key, record.version.updated_at.to_short_text()), WIDEST)
}

fn next_line(outlook: &Outlook, following: Option<&Request>) -> String {
    match (outlook, following) {
        (Outlook::Next { position, .. }, Some(request)) => {
            // What differs is in the body, which is too long to find it there.
            let place = request.body.as_ref().map(|_| format!(" at {}", json!(position))).unwrap_or_default();
            format!("{} {}{place}", method_name(request.method), request.url)
        }
        (Outlook::Next { position, .. }, None) => format!("a request that cannot be rendered: {}", json!(position)),
        (Outlook::End { .. }, _) => "the end".into(),
        (Outlook::Cut { .. }, _) => "none: a run cuts the window into narrower ones, down to min_window".into(),
        (Outlook::Partial { .. }, _) => "none: a run ends here, PARTIAL".into(),
        (Outlook::Broken { .. }, _) => "none: a run fails here".into(),
    }
}

pub(super) fn value(look: &Look, records: usize) -> Value {
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

fn refusal_value(refusal: &Refusal) -> Value {
    json!({
        "code": refusal.fault.code,
        "level": refusal.fault.level,
        "message": refusal.fault.message,
        "throttled": refusal.throttled,
        "retry_after_secs": refusal.retry_after.map(|wait| wait.as_secs_f64()),
        "hint": hint(refusal),
    })
}

fn request_value(request: &Request) -> Value {
    let headers: Map<_, _> = request.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({ "method": method_name(request.method), "url": request.url, "headers": headers, "body": body(request) })
}

fn body(request: &Request) -> Option<String> {
    request.body.as_deref().map(|body| String::from_utf8_lossy(body).into_owned())
}

/// The beginning of a body, in one line.
fn head(answer: &Response) -> String {
    // A character may be cut in two at the end; it is left out.
    let bytes = &answer.body[..answer.body.len().min(HEAD)];
    let text = String::from_utf8_lossy(bytes);
    let rest = if answer.body.len() > HEAD { "…" } else { "" };
    format!("{}{rest}", one_line(text.trim_end_matches(char::REPLACEMENT_CHARACTER)))
}

/// Without anything that could move the cursor of a terminal.
fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn short(text: &str, widest: usize) -> String {
    if text.chars().count() > widest { text.chars().take(widest - 1).chain(['…']).collect() } else { text.to_owned() }
}
