//! One fetched page as text.

use serde_json::json;

use patra_core::paging::Position;
use patra_core::port::transport::HttpRequest;
use patra_core::protocol::run::FetchedPage;
use patra_core::record::Record;
use patra_engine::try_run::{advice, head, hint, method_name, missing, one_line, skipped};
use patra_engine::{NextStep, TriedPage};

/// Characters of a record that are shown.
const WIDEST: usize = 160;
/// Characters of a request's body that are shown.
const BODY: usize = 1_000;
/// Ids of a page that are shown.
const IDS: usize = 10;

pub(super) fn text(tried: &TriedPage, records: usize) -> String {
    let mut lines = vec![match &tried.position {
        Position::Ids { ids, .. } => format!("page {}, details of {} ids", tried.number, ids.len()),
        _ => format!("page {}", tried.number),
    }];
    if let Some(request) = &tried.request {
        lines.push(format!("  request   {} {}", method_name(request.method), request.url));
        lines.extend(request.headers.iter().map(|(name, value)| format!("            {name}: {value}")));
        lines.extend(body(request).map(|body| format!("            {}", short(&one_line(&body), BODY))));
    }
    let latency = match &tried.result {
        Ok(page) => page.evidence.latency_ms,
        Err(refusal) => refusal.evidence.latency_ms,
    };
    if let Some(response) = &tried.answer {
        let (kind, size) = (response.header("content-type").unwrap_or("no content type"), response.body.len());
        lines.push(format!("  response  {}, {kind}, {size} bytes in {latency} ms", response.status));
        lines.push(format!("            {}", head(response)));
    }
    match &tried.result {
        Ok(page) => {
            lines.extend(page_lines(page, records));
            let missing = missing(&tried.position, page);
            if !missing.is_empty() {
                lines.push(format!("  missing   {}", few(&missing)));
            }
        }
        Err(refusal) => {
            lines.push(format!("  refused   {} ({})", refusal.fault, refusal.fault.level.label()));
            lines.push(format!("  hint      {}", hint(refusal)));
        }
    }
    if let Some(outlook) = &tried.outlook {
        lines.push(format!("  next      {}", next_line(outlook, tried.following.as_ref())));
        lines.push(format!("            {}", outlook.why()));
    }
    lines.join("\n")
}

fn page_lines(page: &FetchedPage, records: usize) -> Vec<String> {
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
        lines.push(format!("  skipped   {skipped}: outside of the window, or left out by record.filter"));
    }
    lines.extend(advice(facts.items, page.rejected.len()).map(|advice| format!("  hint      {advice}")));
    lines
}

/// The number of ids and the first of them.
fn few(ids: &[&str]) -> String {
    let rest = if ids.len() > IDS { ", …" } else { "" };
    format!("{}: {}{rest}", ids.len(), ids[..ids.len().min(IDS)].join(", "))
}

fn record_line(record: &Record) -> String {
    let fields = if record.fields.is_empty() { "no fields mapped" } else { &record.fields };
    short(&format!("{}  {}  {fields}", record.key, record.version.updated_at.to_short_text()), WIDEST)
}

fn next_line(outlook: &NextStep, following: Option<&HttpRequest>) -> String {
    match (outlook, following) {
        (NextStep::Next { position, .. }, Some(request)) => {
            // The difference is in the body, which is too long to find it there.
            let place = request.body.as_ref().map(|_| format!(" at {}", json!(position))).unwrap_or_default();
            format!("{} {}{place}", method_name(request.method), request.url)
        }
        (NextStep::Next { position, .. }, None) => format!("a request that cannot be rendered: {}", json!(position)),
        (NextStep::End { .. }, _) => "the end".into(),
        (NextStep::Cut { .. }, _) => "none: a run splits the window into narrower ones, down to min_window".into(),
        (NextStep::Partial { .. }, _) => "none: a run ends here, PARTIAL".into(),
        (NextStep::Broken { .. }, _) => "none: a run fails here".into(),
    }
}

fn body(request: &HttpRequest) -> Option<String> {
    request.body.as_deref().map(|body| String::from_utf8_lossy(body).into_owned())
}

fn short(text: &str, widest: usize) -> String {
    if text.chars().count() > widest { text.chars().take(widest - 1).chain(['…']).collect() } else { text.to_owned() }
}
