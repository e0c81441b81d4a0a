//! The one way to talk to a far side: render, (the caller sends), read. Used by the executor; with no commit behind it
//! also by everything that only looks.

use std::time::Duration;

use serde_json::json;

use patra_core::paging::Position;
use patra_core::port::transport::{self, Request, Response};
use patra_core::protocol::run::{Evidence, Page, Refusal};
use patra_core::{Fault, Ts, Window, hash};
use patra_spec::Snapshot;

use crate::classify;
use crate::json::Decoder;
use crate::request::Renderer;

/// An endpoint, ready to be read.
#[derive(Debug)]
pub struct Pager {
    renderer: Renderer,
    decoder: Decoder,
}

/// One request on its way.
#[derive(Debug)]
pub struct Exchange {
    pub request: Request,
    digest: String,
    window: Window,
}

impl Pager {
    pub fn new(spec: &Snapshot) -> Result<Pager, Fault> {
        Ok(Pager { renderer: Renderer::new(spec)?, decoder: Decoder::new(spec)? })
    }

    /// The request for the page at `position`. A request that cannot be rendered is not sent and not skipped (C-39).
    pub fn request(&self, position: &Position, window: Window, page_size: u32) -> Result<Exchange, Box<Refusal>> {
        match self.renderer.render(position, window, page_size) {
            Ok(rendered) => Ok(Exchange { request: rendered.request, digest: rendered.digest, window }),
            Err(fault) => Err(refuse(fault, Evidence::default())),
        }
    }

    /// What came of it.
    pub fn read(
        &self,
        exchange: Exchange,
        answer: Result<Response, transport::Error>,
        latency: Duration,
        now: Ts,
    ) -> Result<Box<Page>, Box<Refusal>> {
        let latency_ms = u32::try_from(latency.as_millis()).unwrap_or(u32::MAX);
        let mut evidence = Evidence { latency_ms, request_digest: exchange.digest, ..Evidence::default() };
        let response = match answer {
            Ok(response) => response,
            Err(error) => return Err(refuse(error.into(), evidence)),
        };
        evidence.status = response.status;
        evidence.bytes = response.body.len() as u64;
        evidence.response_digest = response_digest(&response);
        if let Some(refused) = classify::refusal(&response, now) {
            let classify::Refused { fault, throttled, retry_after } = refused;
            return Err(Box::new(Refusal { fault, throttled, retry_after, evidence }));
        }
        match self.decoder.decode(&response.body, exchange.window) {
            Ok(decoded) => Ok(Box::new(Page {
                facts: decoded.facts,
                records: decoded.records,
                rejected: decoded.rejected,
                content: decoded.content,
                evidence,
            })),
            Err(fault) => Err(refuse(fault, evidence)),
        }
    }
}

fn refuse(fault: Fault, evidence: Evidence) -> Box<Refusal> {
    Box::new(Refusal { fault, throttled: false, retry_after: None, evidence })
}

/// Status, the hints among the headers, and a hash of the body's beginning: enough to tell two answers apart, nothing of
/// what they say.
fn response_digest(response: &Response) -> String {
    const SAMPLE: usize = 1_024;
    let sample = &response.body[..response.body.len().min(SAMPLE)];
    json!({
        "status": response.status,
        "headerHints": {
            "retryAfter": response.header("retry-after"),
            "rateLimitRemaining": response.header("x-ratelimit-remaining"),
        },
        "bytes": response.body.len(),
        "sample": format!("sha256:{}", hash::sha256_hex(sample)),
    })
    .to_string()
}
