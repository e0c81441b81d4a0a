//! Endpoints of manifests, read through a [`Pager`] from recorded and made-up responses.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod auth;
mod bodies;
mod details;
mod errors;
mod evidence;
mod limits;
mod links;
mod paging;
mod records;
mod table;
mod tweets;
mod values;
mod xml;

use std::time::Duration;

use bytes::Bytes;

use patra_connectors::{PageRequest, Pager};
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::{HttpRequest, HttpResponse};
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::{Ts, Window};
use patra_spec::Operation;

/// The time of all tests.
const NOW: Ts = Ts::from_secs(1_700_000_000);

/// The lines of an endpoint in a manifest; address and window are added when they are left out.
fn pager(endpoint: &str) -> Pager {
    let mut yaml = String::from("provenance: far\nendpoints:\n  list:\n");
    if !endpoint.contains("http:") {
        yaml.push_str("    http: { base_url: \"https://api.example.org/v1\", path: /list }\n");
    }
    if !endpoint.contains("window:") {
        yaml.push_str("    window: { watermark_key: updated_at, initial: 2020-01-01 }\n");
    }
    for line in endpoint.lines() {
        yaml.push_str(&format!("    {line}\n"));
    }
    let manifest = patra_spec::read("far.yaml", &yaml).unwrap_or_else(|problems| panic!("{problems}\n{yaml}"));
    let compiled = patra_spec::compile(&manifest, "list", Operation::Harvest);
    let snapshot = compiled.unwrap_or_else(|problems| panic!("{problems}")).snapshot;
    // The stored form of the snapshot is used.
    let stored = patra_spec::Snapshot::from_body(&snapshot.body()).unwrap();
    assert_eq!(stored, snapshot);
    Pager::new(&stored).unwrap()
}

fn window() -> Window {
    Window { from: "1900-01-01".parse().unwrap(), to: "2100-01-01".parse().unwrap() }
}

/// The request for a page of two without params.
fn ask<'a>(position: &'a Position) -> PageRequest<'a> {
    static NONE: Params = Params::new();
    PageRequest { position, window: window(), page_size: 2, params: &NONE, now: NOW }
}

fn request(pager: &Pager, position: &Position) -> HttpRequest {
    pager.request(&ask(position)).unwrap().request
}

fn answer(headers: &[(&str, &str)], body: &str) -> HttpResponse {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    HttpResponse { status: 200, headers, body: Bytes::copy_from_slice(body.as_bytes()), redirected: None }
}

fn read_at(pager: &Pager, position: &Position, response: HttpResponse) -> Result<Box<FetchedPage>, Box<PageFailure>> {
    let exchange = pager.request(&ask(position)).unwrap();
    pager.read(exchange, Ok(response), Duration::ZERO, Ts::from_secs(0))
}

/// A response without headers.
fn read(endpoint: &str, body: &str) -> Result<Box<FetchedPage>, Box<PageFailure>> {
    read_at(&pager(endpoint), &Position::Time, answer(&[], body))
}

fn page(endpoint: &str, body: &str) -> Box<FetchedPage> {
    read(endpoint, body).unwrap_or_else(|refusal| panic!("{}", refusal.fault))
}

fn fixture(path: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/fixtures/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn keys(page: &FetchedPage) -> Vec<&str> {
    page.records.iter().map(|record| record.key.as_str()).collect()
}

fn payload(page: &FetchedPage, at: usize) -> serde_json::Value {
    serde_json::from_str(&page.records[at].payload).unwrap()
}

fn fields(page: &FetchedPage, at: usize) -> serde_json::Value {
    serde_json::from_str(&page.records[at].fields).unwrap()
}
