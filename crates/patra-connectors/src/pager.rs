//! The one way to talk to an upstream: render, (the caller sends), read. Used by the executor; with no commit behind it
//! also by everything that only looks.

use std::sync::Arc;
use std::time::Duration;

use url::Url;

use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::{self, HttpRequest, HttpResponse};
use patra_core::protocol::run::{ExchangeEvidence, FetchedPage, PageFailure};
use patra_core::source::Validators;
use patra_core::{CredentialId, Fault, Ts, Window, hash};
use patra_spec::Snapshot;

use crate::auth::Authoriser;
use crate::classify::{self, RefusedResponse, StatusClassifier};
use crate::decode::{Decoded, Decoder, PageContext, StatusRules};
use crate::evidence::{BodyRetention, ResponseDigester};
use crate::explain;
use crate::headers::PagingHeaders;
use crate::hints::RateLimitHeaders;
use crate::request::{RenderedRequest, RequestRenderer};
use crate::stored_response;

/// An endpoint, ready to be read.
#[derive(Debug)]
pub struct Pager {
    phase: PagerPhase,
    /// Where the content of the ids is, when the pages give no more than those.
    detail: Option<PagerPhase>,
    /// An answer that is the last one again is not read again.
    recognises: bool,
}

/// One endpoint of a spec: how it is asked, and how it answers.
#[derive(Debug)]
struct PagerPhase {
    renderer: RequestRenderer,
    decoder: Decoder,
    headers: PagingHeaders,
    hints: RateLimitHeaders,
    statuses: StatusClassifier,
    meanings: StatusRules,
    digest: ResponseDigester,
    authoriser: Arc<Authoriser>,
    /// The param that holds the id up to which records are known.
    until_param: Option<String>,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct PageRequest<'a> {
    pub position: &'a Position,
    pub window: Window,
    pub page_size: u32,
    pub params: &'a Params,
    /// What `now()` gives.
    pub now: Ts,
}

/// One request on its way.
#[derive(Debug)]
pub struct PageExchange {
    pub request: HttpRequest,
    digest: String,
    window: Window,
    /// Records are known up to this id.
    until: Option<String>,
    is_detail: bool,
    keep: Option<Duration>,
    /// An unchanged answer is recognised by these.
    known: Option<Box<Validators>>,
    /// What the gate had to do with it.
    rate: Option<serde_json::Map<String, serde_json::Value>>,
}

impl PageExchange {
    /// Asks for the answer only if it is another one than the last, where that was from the same URL (COLL-119).
    pub fn condition(&mut self, known: Option<Box<Validators>>) {
        let Some(known) = known.filter(|known| known.url == self.request.url) else { return };
        let headers = &mut self.request.headers;
        headers.extend(known.etag.clone().map(|etag| ("If-None-Match".to_owned(), etag)));
        headers.extend(known.last_modified.clone().map(|at| ("If-Modified-Since".to_owned(), at)));
        self.known = Some(known);
    }

    /// Keeps the answer with the evidence, for so long.
    pub fn keep(&mut self, keep: Option<Duration>) {
        self.keep = keep;
    }

    /// Keeps in the digest of the answer what the gate had to do with the request (ING-4.10-33).
    pub fn note_rate(&mut self, rate: serde_json::Map<String, serde_json::Value>) {
        self.rate = Some(rate);
    }

    /// What the ledger keeps of the request: JSON, redacted.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Keeps in the digest which credential the request went out with (C-59).
    pub fn note_credential(&mut self, id: CredentialId) {
        if let Ok(serde_json::Value::Object(mut digest)) = serde_json::from_str(&self.digest) {
            digest.insert("credentialId".into(), id.0.into());
            self.digest = serde_json::Value::Object(digest).to_string();
        }
    }

    /// What is known of an exchange that did not come about.
    pub fn evidence(self, latency: Duration) -> ExchangeEvidence {
        ExchangeEvidence { latency_ms: millis(latency), request_digest: self.digest, ..ExchangeEvidence::default() }
    }
}

impl PagerPhase {
    fn new(spec: &Snapshot, decoder: Decoder) -> Result<PagerPhase, Fault> {
        Ok(PagerPhase {
            renderer: RequestRenderer::new(spec)?,
            decoder,
            hints: RateLimitHeaders::new(spec),
            headers: PagingHeaders::new(spec),
            statuses: StatusClassifier::new(spec),
            meanings: StatusRules::new(spec)?,
            until_param: spec.pagination.as_ref().and_then(|paging| paging.until_param.clone()),
            digest: ResponseDigester::new(spec),
            authoriser: Arc::new(Authoriser::new(spec)?),
        })
    }
}

impl Pager {
    pub fn new(spec: &Snapshot) -> Result<Pager, Fault> {
        let Some(two_phase) = &spec.two_phase else {
            // Where the first page is the same as last time, more of them may be wanted this time.
            let limited = spec.pagination.as_ref().is_some_and(|paging| paging.limit_param.is_some());
            let phase = PagerPhase::new(spec, Decoder::new(spec)?)?;
            return Ok(Pager { phase, detail: None, recognises: spec.polled && !limited });
        };
        let ids = Decoder::of_ids(spec, two_phase.version_path.as_deref())?;
        let detail = &two_phase.detail;
        let detail = Some(PagerPhase::new(detail, Decoder::of_details(detail)?)?);
        Ok(Pager { phase: PagerPhase::new(spec, ids)?, detail, recognises: spec.polled })
    }

    /// An endpoint that is asked by itself, by nobody's plan: whatever the time of a record, it is wanted.
    pub fn alone(spec: &Snapshot) -> Result<Pager, Fault> {
        Ok(Pager { phase: PagerPhase::new(spec, Decoder::alone(spec)?)?, detail: None, recognises: false })
    }

    /// The request for the page at a position. A request that cannot be rendered is not sent and not skipped (C-39).
    pub fn request(&self, ask: &PageRequest<'_>) -> Result<PageExchange, Box<PageFailure>> {
        let is_detail = matches!(ask.position, Position::Ids { .. });
        let phase = self.phase(is_detail);
        let until = phase.until_param.as_ref().and_then(|param| ask.params.get(param)).cloned();
        match phase.renderer.render(ask) {
            Ok(RenderedRequest { request, digest }) => {
                let window = ask.window;
                Ok(PageExchange { request, digest, window, until, is_detail, keep: None, known: None, rate: None })
            }
            Err(fault) => Err(refuse(fault.into(), ExchangeEvidence::default())),
        }
    }

    /// Who says who asks, for this exchange.
    pub fn authoriser(&self, exchange: &PageExchange) -> &Arc<Authoriser> {
        &self.phase(exchange.is_detail).authoriser
    }

    /// The same for the first request of the endpoint.
    pub fn first_authoriser(&self) -> &Arc<Authoriser> {
        &self.phase.authoriser
    }

    fn phase(&self, is_detail: bool) -> &PagerPhase {
        self.detail.as_ref().filter(|_| is_detail).unwrap_or(&self.phase)
    }

    /// What came of it.
    pub fn read(
        &self,
        exchange: PageExchange,
        answer: Result<HttpResponse, transport::Error>,
        latency: Duration,
        now: Ts,
    ) -> Result<Box<FetchedPage>, Box<PageFailure>> {
        let mut evidence = ExchangeEvidence {
            latency_ms: millis(latency),
            request_digest: exchange.digest,
            ..ExchangeEvidence::default()
        };
        let response = match answer {
            Ok(response) => response,
            Err(error) => return Err(refuse(Fault::from(error).into(), evidence)),
        };
        evidence.status = response.status;
        evidence.bytes = response.body.len() as u64;
        let phase = self.phase(exchange.is_detail);
        let seen = self.recognises.then(|| seen(&response, &exchange.request.url, exchange.known.as_deref()));
        let read = match &seen {
            Some((_, true)) => Ok(Decoded::nothing()),
            _ => {
                let (url, window, until) = (&exchange.request.url, exchange.window, exchange.until.as_deref());
                phase.read(&response, PageContext { url, window, until }, now)
            }
        };
        evidence.raw = exchange.keep.and_then(|keep| stored_response::pack(&response, keep, phase.headers.declared()));
        let kept = match (exchange.keep, &evidence.raw) {
            (None, _) => BodyRetention::NotAsked,
            (Some(_), Some(_)) => BodyRetention::Yes,
            (Some(_), None) => BodyRetention::TooLarge,
        };
        evidence.quota = phase.hints.read(&response, now);
        evidence.response_digest = phase.digest.of(&response, read.as_ref(), kept, exchange.rate);
        match read {
            Ok(Decoded { facts, records, rejected, candidates, content, warnings }) => {
                let moved_to = response.redirected.and_then(|redirected| redirected.moved_to);
                let seen = seen.map(|(seen, _)| seen);
                Ok(Box::new(FetchedPage {
                    facts,
                    records,
                    rejected,
                    candidates,
                    content,
                    evidence,
                    validators: seen,
                    moved_to,
                    capture: None,
                    warnings,
                }))
            }
            Err(mut refused) => {
                // What is read from an answer of success tells its reason already.
                if !(200..300).contains(&response.status) {
                    refused.fault = explain::explain(refused.fault, &evidence.request_digest, &response.body);
                }
                Err(refuse(refused, evidence))
            }
        }
    }
}

impl PagerPhase {
    /// The page in an answer, or what it is instead.
    fn read(&self, response: &HttpResponse, asked: PageContext<'_>, now: Ts) -> Result<Decoded, RefusedResponse> {
        if let Some(refused) = self.statuses.refusal(response, now) {
            return Err(self.meanings.refine(refused, response));
        }
        let found = response.redirected.as_ref().map_or(asked.url, |redirected| redirected.url.as_str());
        let asked = PageContext { url: found, ..asked };
        let mut decoded = self.decoder.decode(response, &asked).map_err(|mut refused| {
            let hint = response.header("retry-after").filter(|_| refused.throttled);
            refused.retry_after = hint.and_then(|hint| classify::retry_after(hint, now));
            refused
        })?;
        self.headers.tell(response, &mut decoded.facts);
        if let Some(next) = &mut decoded.facts.next_url {
            absolute(next, found);
        }
        Ok(decoded)
    }
}

/// What the answer is recognised by the next time, and whether it is the last one again: the upstream says so, or the body
/// is the same.
fn seen(response: &HttpResponse, url: &str, known: Option<&Validators>) -> (Validators, bool) {
    let header = |name| response.header(name).map(str::to_owned);
    if let (304, Some(known)) = (response.status, known) {
        let etag = header("etag").or_else(|| known.etag.clone());
        let last_modified = header("last-modified").or_else(|| known.last_modified.clone());
        return (Validators { etag, last_modified, ..known.clone() }, true);
    }
    let body_hash = hash::sha256_hex(&response.body);
    let same = response.status == 200 && known.is_some_and(|known| known.body_hash.as_ref() == Some(&body_hash));
    let seen = Validators {
        url: url.to_owned(),
        etag: header("etag"),
        last_modified: header("last-modified"),
        body_hash: Some(body_hash),
        feed_url: None,
    };
    (seen, same)
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

fn refuse(refused: RefusedResponse, evidence: ExchangeEvidence) -> Box<PageFailure> {
    let RefusedResponse { fault, throttled, retry_after } = refused;
    Box::new(PageFailure { fault, throttled, retry_after, evidence, offline: false })
}
