//! One look at a far side, for people.

use serde_json::json;

use patra_core::paging::Position;
use patra_core::port::transport::Request;
use patra_core::protocol::run::Page;
use patra_core::record::Record;
use patra_engine::trial::{advice, head, hint, method_name, missing, one_line, skipped};
use patra_engine::{Look, Outlook};

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

fn body(request: &Request) -> Option<String> {
    request.body.as_deref().map(|body| String::from_utf8_lossy(body).into_owned())
}

fn short(text: &str, widest: usize) -> String {
    if text.chars().count() > widest { text.chars().take(widest - 1).chain(['…']).collect() } else { text.to_owned() }
}
