//! `try`: the author's loop. One endpoint of a manifest file is read for real, and everything is shown: the request, the
//! answer, the records, and what the next request would be or why there is none. Nothing is stored.

use std::sync::Arc;

use serde_json::{Value, json};

use patra_core::Window;
use patra_core::paging::Next;
use patra_core::port::Clock;
use patra_core::record::Record;
use patra_engine::Look;
use patra_spec::{Manifest, Operation};

use super::apply;
use crate::cli::{Global, Output, Try};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::{host, output};

pub(crate) async fn run(global: &Global, args: &Try) -> Result<Exit, Error> {
    let (manifest, warnings) = apply::read(&args.file)?.map_err(|problems| {
        say(&problems.to_string());
        Error::configuration(format!("{} has problems", args.file.display())).hint("mend what is listed above")
    })?;
    for warning in warnings {
        say(&format!("warning: {warning}"));
    }
    let endpoint = endpoint(&manifest, args.endpoint.as_deref())?;
    let spec = patra_spec::compile(&manifest, &endpoint, Operation::Harvest)
        .map_err(|problems| Error::configuration(problems.to_string()))?
        .snapshot;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let to = args.to.unwrap_or_else(|| clock.now() - spec.safety_lag());
    let from = args.from.unwrap_or(to - spec.cut().max_width);
    let window = Window::new(from, to).ok_or_else(|| Error::usage("--from must lie before --to"))?;
    let transport = host::transport(global)?;
    let (mut failed, mut broken) = (false, Ok(()));
    patra_engine::probe(&transport, &clock, &spec, window, args.pages, |look| {
        failed |= look.result.is_err() || matches!(look.next, Next::Broken(_));
        if broken.is_ok() {
            broken = show(global.output, look, args.records);
        }
    })
    .await
    .map_err(|fault| Error::configuration(fault.message))?;
    broken?;
    Ok(if failed { Exit::Failures } else { Exit::Ok })
}

pub(crate) fn endpoint(manifest: &Manifest, wish: Option<&str>) -> Result<String, Error> {
    let known: Vec<_> = manifest.endpoints.keys().map(String::as_str).collect();
    let hint = format!("it has: {}", known.join(", "));
    match (wish, &known[..]) {
        (Some(wish), _) if known.contains(&wish) => Ok(wish.to_owned()),
        (Some(wish), _) => Err(Error::not_found(format!("the manifest has no endpoint `{wish}`")).hint(hint)),
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => Err(Error::usage("the manifest has several endpoints: name one with --endpoint").hint(hint)),
    }
}

fn show(format: Output, look: &Look, records: usize) -> Result<(), Error> {
    let value = value(look, records);
    if format != Output::Table {
        return output::result(format, "", &value);
    }
    let mut lines = vec![format!("page {}", look.number)];
    if let Some(request) = &look.request {
        lines.push(format!("  request   {} {}", value["request"]["method"].as_str().unwrap_or_default(), request.url));
        for name in request.headers.iter().map(|(name, _)| name) {
            lines.push(format!("            {name}: ***"));
        }
    }
    match &look.result {
        Ok(page) => {
            let evidence = &page.evidence;
            lines.push(format!(
                "  answer    {}, {} bytes in {} ms",
                evidence.status, evidence.bytes, evidence.latency_ms
            ));
            let total = page.facts.total.map(|total| format!(", total {total}")).unwrap_or_default();
            lines.push(format!("  items     {}{total}", page.facts.items));
            lines
                .extend(page.records.iter().take(records).map(|record| format!("  record    {}", record_text(record))));
            for rejected in page.rejected.iter().take(records) {
                lines.push(format!("  rejected  item {}: {}", rejected.index, rejected.reason));
            }
        }
        Err(refusal) => {
            let evidence = &refusal.evidence;
            if evidence.status > 0 {
                lines.push(format!(
                    "  answer    {}, {} bytes in {} ms",
                    evidence.status, evidence.bytes, evidence.latency_ms
                ));
            }
            lines.push(format!("  refused   {} ({})", refusal.fault, refusal.fault.level.as_str()));
        }
    }
    lines.push(format!(
        "  next      {}",
        value["next"].as_str().map_or_else(|| value["next"].to_string(), str::to_owned)
    ));
    output::line(&lines.join("\n"))
}

fn value(look: &Look, records: usize) -> Value {
    let request = look.request.as_ref().map(|request| {
        let headers: Vec<_> = request.headers.iter().map(|(name, _)| name).collect();
        json!({ "method": format!("{:?}", request.method).to_uppercase(), "url": request.url, "headers": headers })
    });
    let next = match (&look.next, &look.result) {
        (Next::At(position) | Next::Perhaps(position), _) => json!(position),
        (Next::End, Ok(_)) => json!("the end: this was the last page"),
        (Next::End, Err(_)) => json!("nothing: the page was refused"),
        (Next::Broken(reason), _) => json!(format!("stopped: {reason}")),
    };
    let (page, refusal) = match &look.result {
        Ok(page) => {
            let shown: Vec<_> = page.records.iter().take(records).map(record_value).collect();
            let rejected: Vec<_> =
                page.rejected.iter().take(records).map(|r| json!({ "index": r.index, "reason": r.reason })).collect();
            let facts = &page.facts;
            (
                json!({ "items": facts.items, "total": facts.total, "has_more": facts.has_more, "records": shown, "rejected": rejected }),
                Value::Null,
            )
        }
        Err(refusal) => (Value::Null, json!(refusal.fault)),
    };
    json!({ "page": look.number, "position": look.position, "request": request, "answer": page, "refusal": refusal, "next": next })
}

pub(crate) fn record_value(record: &Record) -> Value {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    let payload = std::str::from_utf8(&record.payload).map(json).unwrap_or_default();
    json!({ "id": record.key, "updated_at": record.version.updated_at, "fields": json(&record.fields), "payload": payload })
}

fn record_text(record: &Record) -> String {
    let fields = if record.fields.is_empty() { "no fields mapped" } else { &record.fields };
    let text = format!("{}  {}  {fields}", record.key, record.version.updated_at.to_short_text());
    if text.chars().count() > 160 { text.chars().take(159).chain(['…']).collect() } else { text }
}
