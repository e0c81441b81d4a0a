//! Endpoints as manifests declare them, and the invariants of any page that is read through one.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use patra_connectors::{PageRequest, Pager};
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::HttpResponse;
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::record::MAX_KEY_BYTES;
use patra_core::{Fault, Ts, Window};
use patra_spec::{Operation, Snapshot};

/// The fixed time of all targets.
pub(crate) const NOW: Ts = Ts::from_secs(1_700_000_000);

/// The spec of an endpoint, given by the lines that follow its address and window in a manifest.
pub(crate) fn snapshot(lines: &str) -> Snapshot {
    let head = "provenance: fuzz\nendpoints:\n  list:\n    http: { base_url: \"https://api.example.org/v1\", path: /list }\n    window: { watermark_key: updated_at, initial: 2020-01-01 }\n";
    let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    let yaml = format!("{head}{lines}");
    let manifest = patra_spec::read("fuzz.yaml", &yaml).unwrap_or_else(|problems| panic!("{problems}\n{yaml}"));
    let compiled = patra_spec::compile(&manifest, "list", Operation::Harvest);
    compiled.unwrap_or_else(|problems| panic!("{problems}\n{yaml}")).snapshot
}

pub(crate) fn pager(lines: &str) -> Pager {
    Pager::new(&snapshot(lines)).unwrap_or_else(|fault| panic!("{fault}\n{lines}"))
}

pub(crate) fn page_request<'a>(position: &'a Position, params: &'a Params) -> PageRequest<'a> {
    let window = Window { from: Ts::from_secs(0), to: Ts::from_secs(4_000_000_000) };
    PageRequest { position, window, page_size: 20, params, now: NOW }
}

/// Reads a response body, and checks the result.
pub(crate) fn read(pager: &Pager, body: &Bytes) -> Result<Box<FetchedPage>, Box<PageFailure>> {
    let exchange = pager.request(&page_request(&Position::Time, &Params::new()));
    let exchange = exchange.unwrap_or_else(|failure| panic!("no request: {}", failure.fault));
    let response = HttpResponse { status: 200, headers: Vec::new(), body: body.clone(), redirected: None };
    let read = pager.read(exchange, Ok(response), Duration::ZERO, NOW);
    match &read {
        Ok(page) => check_page(page),
        Err(failure) => check_fault(&failure.fault),
    }
    read
}

pub(crate) fn check_fault(fault: &Fault) {
    assert!(!fault.message.trim().is_empty(), "a fault without a message: {fault:?}");
    assert!(fault.message.len() <= Fault::MAX_MESSAGE + '…'.len_utf8(), "{} bytes", fault.message.len());
}

fn check_page(page: &FetchedPage) {
    let items = usize::try_from(page.facts.items).unwrap_or(usize::MAX);
    let (records, rejected) = (page.records.len(), page.rejected.len());
    assert!(records + rejected <= items, "{records} records and {rejected} rejected of {items} items");
    for record in &page.records {
        assert!((1..=MAX_KEY_BYTES).contains(&record.key.len()) && !record.key.contains('\0'), "key {:?}", record.key);
        let payload = serde_json::from_str::<&RawValue>(&record.payload);
        assert!(payload.is_ok(), "a payload that is no JSON: {}", record.payload);
        let fields = serde_json::from_str::<BTreeMap<String, &RawValue>>(&record.fields);
        assert!(record.fields.is_empty() || fields.is_ok(), "fields that are no object: {}", record.fields);
    }
    let mut next = 0;
    for rejected in &page.rejected {
        assert!((next..page.facts.items).contains(&rejected.index), "{rejected:?}");
        next = rejected.index + 1;
        assert!(!rejected.reason.is_empty());
    }
}
