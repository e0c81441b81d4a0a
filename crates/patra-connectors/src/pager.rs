//! The one way to talk to a far side: render, (the caller sends), read. Used by the executor; with no commit behind it
//! also by everything that only looks.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use url::Url;

use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::{self, Request, Response};
use patra_core::protocol::run::{Evidence, Page, Refusal};
use patra_core::{CredentialId, Fault, Ts, Window, hash};
use patra_spec::Snapshot;

use crate::auth::Authoriser;
use crate::classify::{self, Refused, Statuses};
use crate::decode::{Decoded, Decoder};
use crate::headers::Headers;
use crate::request::{Rendered, Renderer};

/// An endpoint, ready to be read.
#[derive(Debug)]
pub struct Pager {
    phase: Phase,
    /// Where the content of the ids is, when the pages give no more than those.
    detail: Option<Phase>,
}

/// One endpoint of a spec: how it is asked, and how it answers.
#[derive(Debug)]
struct Phase {
    renderer: Renderer,
    decoder: Decoder,
    headers: Headers,
    statuses: Statuses,
    authoriser: Arc<Authoriser>,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub position: &'a Position,
    pub window: Window,
    pub page_size: u32,
    pub params: &'a Params,
    /// What `now()` gives.
    pub now: Ts,
}

/// One request on its way.
#[derive(Debug)]
pub struct Exchange {
    pub request: Request,
    digest: String,
    window: Window,
    is_detail: bool,
}

impl Exchange {
    /// Keeps in the digest which credential the request went out with (C-59).
    pub fn note_credential(&mut self, id: CredentialId) {
        if let Ok(serde_json::Value::Object(mut digest)) = serde_json::from_str(&self.digest) {
            digest.insert("credentialId".into(), id.0.into());
            self.digest = serde_json::Value::Object(digest).to_string();
        }
    }

    /// What is known of an exchange that did not come about.
    pub fn evidence(self, latency: Duration) -> Evidence {
        Evidence { latency_ms: millis(latency), request_digest: self.digest, ..Evidence::default() }
    }
}

impl Phase {
    fn new(spec: &Snapshot, decoder: Decoder) -> Result<Phase, Fault> {
        Ok(Phase {
            renderer: Renderer::new(spec)?,
            decoder,
            headers: Headers::new(spec),
            statuses: Statuses::new(spec),
            authoriser: Arc::new(Authoriser::new(spec)?),
        })
    }
}

impl Pager {
    pub fn new(spec: &Snapshot) -> Result<Pager, Fault> {
        let Some(two_phase) = &spec.two_phase else {
            return Ok(Pager { phase: Phase::new(spec, Decoder::new(spec)?)?, detail: None });
        };
        let ids = Decoder::of_ids(spec, two_phase.version_path.as_deref())?;
        let detail = &two_phase.detail;
        Ok(Pager { phase: Phase::new(spec, ids)?, detail: Some(Phase::new(detail, Decoder::of_details(detail)?)?) })
    }

    /// The request for the page at a position. A request that cannot be rendered is not sent and not skipped (C-39).
    pub fn request(&self, ask: &Ask<'_>) -> Result<Exchange, Box<Refusal>> {
        let is_detail = matches!(ask.position, Position::Ids { .. });
        match self.phase(is_detail).renderer.render(ask) {
            Ok(Rendered { request, digest }) => Ok(Exchange { request, digest, window: ask.window, is_detail }),
            Err(fault) => Err(refuse(fault.into(), Evidence::default())),
        }
    }

    /// Who says who asks, for this exchange.
    pub fn authoriser(&self, exchange: &Exchange) -> &Arc<Authoriser> {
        &self.phase(exchange.is_detail).authoriser
    }

    /// The same for the first request of the endpoint.
    pub fn first_authoriser(&self) -> &Arc<Authoriser> {
        &self.phase.authoriser
    }

    fn phase(&self, is_detail: bool) -> &Phase {
        self.detail.as_ref().filter(|_| is_detail).unwrap_or(&self.phase)
    }

    /// What came of it.
    pub fn read(
        &self,
        exchange: Exchange,
        answer: Result<Response, transport::Error>,
        latency: Duration,
        now: Ts,
    ) -> Result<Box<Page>, Box<Refusal>> {
        let mut evidence =
            Evidence { latency_ms: millis(latency), request_digest: exchange.digest, ..Evidence::default() };
        let response = match answer {
            Ok(response) => response,
            Err(error) => return Err(refuse(Fault::from(error).into(), evidence)),
        };
        evidence.status = response.status;
        evidence.bytes = response.body.len() as u64;
        evidence.response_digest = response_digest(&response);
        let phase = self.phase(exchange.is_detail);
        if let Some(refused) = phase.statuses.refusal(&response, now) {
            return Err(refuse(refused, evidence));
        }
        let mut decoded = match phase.decoder.decode(&response.body, exchange.window) {
            Ok(decoded) => decoded,
            Err(mut refused) => {
                let hint = response.header("retry-after").filter(|_| refused.throttled);
                refused.retry_after = hint.and_then(|hint| classify::retry_after(hint, now));
                return Err(refuse(refused, evidence));
            }
        };
        phase.headers.tell(&response, &mut decoded.facts);
        if let Some(next) = &mut decoded.facts.next_url {
            absolute(next, &exchange.request.url);
        }
        let Decoded { facts, records, rejected, candidates, content } = decoded;
        Ok(Box::new(Page { facts, records, rejected, candidates, content, evidence }))
    }
}

/// A next URL is meant relative to the page that names it. One that is unreadable stays, to be refused when it is used.
fn absolute(next: &mut String, request: &str) {
    if let Ok(url) = Url::parse(request).and_then(|base| base.join(next)) {
        *next = url.into();
    }
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
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
