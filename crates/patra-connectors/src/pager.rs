//! The one way to talk to a far side: render, (the caller sends), read. Used by the executor; with no commit behind it
//! also by everything that only looks.

use std::time::Duration;

use serde_json::json;
use url::Url;

use patra_core::paging::{Facts, Position};
use patra_core::port::transport::{self, Request, Response};
use patra_core::protocol::run::{Evidence, Page, Refusal};
use patra_core::{Code, Fault, Level, Ts, Window, hash};
use patra_spec::Snapshot;

use crate::classify::{self, Refused};
use crate::decode::{Decoded, Decoder};
use crate::headers::Headers;
use crate::request::Renderer;

/// An endpoint, ready to be read.
#[derive(Debug)]
pub struct Pager {
    renderer: Renderer,
    decoder: Decoder,
    headers: Headers,
    ceiling: Option<Ceiling>,
}

/// How many records of one query the far side gives out (ING-15-02).
#[derive(Debug)]
struct Ceiling {
    records: u64,
    page_base: u64,
}

/// One request on its way.
#[derive(Debug)]
pub struct Exchange {
    pub request: Request,
    digest: String,
    window: Window,
    /// Records before this page, where the position says so.
    before: Option<u64>,
}

impl Pager {
    pub fn new(spec: &Snapshot) -> Result<Pager, Fault> {
        let paging = spec.pagination.clone().unwrap_or_default();
        let page_base = u64::from(paging.base1 == Some(true));
        Ok(Pager {
            renderer: Renderer::new(spec)?,
            decoder: Decoder::new(spec)?,
            headers: Headers::new(spec),
            ceiling: paging.result_ceiling.map(|records| Ceiling { records, page_base }),
        })
    }

    /// The request for the page at `position`. A request that cannot be rendered is not sent and not skipped (C-39).
    pub fn request(
        &self,
        position: &Position,
        window: Window,
        page_size: u32,
        now: Ts,
    ) -> Result<Exchange, Box<Refusal>> {
        let before = self.ceiling.as_ref().and_then(|ceiling| ceiling.before(position, page_size));
        if let (Some(ceiling), Some(before)) = (&self.ceiling, before)
            && before >= ceiling.records
        {
            return Err(refuse(ceiling.exceeded(None).into(), Evidence::default()));
        }
        match self.renderer.render(position, window, page_size, now) {
            Ok(rendered) => Ok(Exchange { request: rendered.request, digest: rendered.digest, window, before }),
            Err(fault) => Err(refuse(fault.into(), Evidence::default())),
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
            Err(error) => return Err(refuse(Fault::from(error).into(), evidence)),
        };
        evidence.status = response.status;
        evidence.bytes = response.body.len() as u64;
        evidence.response_digest = response_digest(&response);
        if let Some(refused) = classify::refusal(&response, now) {
            return Err(refuse(refused, evidence));
        }
        let mut decoded = match self.decoder.decode(&response.body, exchange.window) {
            Ok(decoded) => decoded,
            Err(mut refused) => {
                let hint = response.header("retry-after").filter(|_| refused.throttled);
                refused.retry_after = hint.and_then(|hint| classify::retry_after(hint, now));
                return Err(refuse(refused, evidence));
            }
        };
        self.headers.tell(&response, &mut decoded.facts);
        if let Some(next) = &mut decoded.facts.next_url {
            absolute(next, &exchange.request.url);
        }
        if let Some(ceiling) = &self.ceiling
            && let Err(fault) = ceiling.check(exchange.before, &mut decoded.facts)
        {
            return Err(refuse(fault.into(), evidence));
        }
        let Decoded { facts, records, rejected, content } = decoded;
        Ok(Box::new(Page { facts, records, rejected, content, evidence }))
    }
}

impl Ceiling {
    fn before(&self, position: &Position, page_size: u32) -> Option<u64> {
        match position {
            Position::Offset(offset) => Some(*offset),
            Position::Page(no) => Some(no.saturating_sub(self.page_base).saturating_mul(u64::from(page_size))),
            Position::Token(_) | Position::Url(_) | Position::Time => None,
        }
    }

    fn check(&self, before: Option<u64>, facts: &mut Facts) -> Result<(), Fault> {
        let Some(total) = facts.total else { return Ok(()) };
        if total > self.records {
            return Err(self.exceeded(Some(total)));
        }
        // The page that ends at the ceiling is the last: asking behind it would be refused, and the total says that
        // nothing is there.
        let read = before.map(|before| before.saturating_add(u64::from(facts.items)));
        if read.is_some_and(|read| read >= self.records) && facts.has_more.is_none() {
            facts.has_more = Some(false);
        }
        Ok(())
    }

    /// Nothing is clamped in silence: whoever cuts windows must cut this one narrower.
    fn exceeded(&self, total: Option<u64>) -> Fault {
        let found = total.map_or_else(|| "more".to_owned(), |total| total.to_string());
        let reason = format!(
            "the window holds {found} records and the far side gives out {} of a query: it must be narrower than it is",
            self.records
        );
        Fault::new(Code::PartialFail, Level::L2, reason)
    }
}

/// A next URL is meant relative to the page that names it. One that is unreadable stays, to be refused when it is used.
fn absolute(next: &mut String, request: &str) {
    if let Ok(url) = Url::parse(request).and_then(|base| base.join(next)) {
        *next = url.into();
    }
}

fn refuse(refused: Refused, evidence: Evidence) -> Box<Refusal> {
    let Refused { fault, throttled, retry_after } = refused;
    Box::new(Refusal { fault, throttled, retry_after, evidence })
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
