//! The pager: renders a request, which the caller sends, and reads the response. Used by the executor, and by
//! everything that reads pages without committing them.

use std::sync::Arc;
use std::time::Duration;

use url::Url;

use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::{self, HttpRequest, HttpResponse};
use patra_core::protocol::run::{ExchangeEvidence, FetchedPage, PageFailure};
use patra_core::record::HeldMemory;
use patra_core::source::Validators;
use patra_core::{CredentialId, Fault, Ts, Window, hash};
use patra_spec::Snapshot;

use crate::auth::Authoriser;
use crate::classify::{RefusedResponse, StatusClassifier};
use crate::decode::{Decoded, Decoder, PageContext, StatusRules};
use crate::evidence::{BodyRetention, ResponseDigester};
use crate::explain;
use crate::feed::SharedIds;
use crate::headers::PagingHeaders;
use crate::hints::RateLimitHeaders;
use crate::request::{RenderedRequest, RequestRenderer};
use crate::stored_response;

/// An endpoint, ready to be read.
#[derive(Debug)]
pub struct Pager {
    phase: PagerPhase,
    /// The detail phase, when the pages give only ids.
    detail: Option<PagerPhase>,
    /// Whether an unchanged response is not decoded again.
    recognises: bool,
}

/// One endpoint of a spec: its requests and its responses.
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

/// Parameters of a page's request.
#[derive(Clone, Debug)]
pub struct PageRequest<'a> {
    pub position: &'a Position,
    pub window: Window,
    pub page_size: u32,
    pub params: &'a Params,
    /// Value of `now()`.
    pub now: Ts,
}

/// A request in progress.
#[derive(Debug)]
pub struct PageExchange {
    pub request: HttpRequest,
    digest: String,
    window: Window,
    /// Records up to this id are known.
    until: Option<String>,
    is_detail: bool,
    keep: Option<Duration>,
    /// Validators that recognise an unchanged response.
    known: Option<Box<Validators>>,
    /// Rate information of the gate's permit.
    rate: Option<serde_json::Map<String, serde_json::Value>>,
}

impl PageExchange {
    /// Makes the request conditional on a change since the last response from the same URL (COLL-119).
    pub fn condition(&mut self, known: Option<Box<Validators>>) {
        let Some(known) = known.filter(|known| known.url == self.request.url) else { return };
        let headers = &mut self.request.headers;
        headers.extend(known.etag.clone().map(|etag| ("If-None-Match".to_owned(), etag)));
        headers.extend(known.last_modified.clone().map(|at| ("If-Modified-Since".to_owned(), at)));
        self.known = Some(known);
    }

    /// Keeps the response with the evidence, for this long.
    pub fn keep(&mut self, keep: Option<Duration>) {
        self.keep = keep;
    }

    /// Adds the rate information of the permit to the response digest (ING-4.10-33).
    pub fn note_rate(&mut self, rate: serde_json::Map<String, serde_json::Value>) {
        self.rate = Some(rate);
    }

    /// The request digest for the ledger: JSON, redacted.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Adds the used credential to the digest (C-59).
    pub fn note_credential(&mut self, id: CredentialId) {
        if let Ok(serde_json::Value::Object(mut digest)) = serde_json::from_str(&self.digest) {
            digest.insert("credentialId".into(), id.0.into());
            self.digest = serde_json::Value::Object(digest).to_string();
        }
    }

    /// The evidence of an exchange that failed before its request was sent.
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
            // When the first page is unchanged, later pages may still be needed.
            let limited = spec.pagination.as_ref().is_some_and(|paging| paging.limit_param.is_some());
            let phase = PagerPhase::new(spec, Decoder::new(spec)?)?;
            return Ok(Pager { phase, detail: None, recognises: spec.polled && !limited });
        };
        let ids = Decoder::of_ids(spec, two_phase.version_path.as_deref())?;
        let detail = &two_phase.detail;
        let detail = Some(PagerPhase::new(detail, Decoder::of_details(detail)?)?);
        Ok(Pager { phase: PagerPhase::new(spec, ids)?, detail, recognises: spec.polled })
    }

    /// An endpoint that is requested directly, without a plan: records are kept whatever their time.
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

    /// The authoriser of this exchange.
    pub fn authoriser(&self, exchange: &PageExchange) -> &Arc<Authoriser> {
        &self.phase(exchange.is_detail).authoriser
    }

    /// The authoriser of the endpoint's first request.
    pub fn first_authoriser(&self) -> &Arc<Authoriser> {
        &self.phase.authoriser
    }

    fn phase(&self, is_detail: bool) -> &PagerPhase {
        self.detail.as_ref().filter(|_| is_detail).unwrap_or(&self.phase)
    }

    /// Bytes that reading this response may take, in addition to its body.
    pub fn decoding_cost(&self, exchange: &PageExchange, response: &HttpResponse) -> usize {
        if (200..300).contains(&response.status) {
            self.phase(exchange.is_detail).decoder.cost(&response.body)
        } else {
            response.body.len()
        }
    }

    /// Reads the result of an exchange.
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
        let recognised =
            self.recognises.then(|| validators(&response, &exchange.request.url, exchange.known.as_deref()));
        let read = match &recognised {
            Some((_, true)) => Ok(Decoded::nothing()),
            _ => {
                let (url, window, until) = (&exchange.request.url, exchange.window, exchange.until.as_deref());
                let none = SharedIds::new();
                let shared_ids = exchange.known.as_ref().map_or(&none, |known| &known.shared_ids);
                phase.read(&response, PageContext { url, window, until, shared_ids }, now)
            }
        };
        evidence.raw = exchange.keep.and_then(|keep| stored_response::pack(&response, keep, phase.headers.declared()));
        let kept = match (exchange.keep, &evidence.raw) {
            (None, _) => BodyRetention::NotRequested,
            (Some(_), Some(_)) => BodyRetention::Yes,
            (Some(_), None) => BodyRetention::TooLarge,
        };
        evidence.quota = phase.hints.read(&response, now);
        evidence.response_digest = phase.digest.of(&response, read.as_ref(), kept, exchange.rate);
        match read {
            Ok(Decoded {
                facts,
                records,
                rejected,
                skipped,
                excluded,
                candidates,
                content,
                warnings,
                cut,
                shared_ids,
            }) => {
                let moved_to = response.redirected.and_then(|redirected| redirected.moved_to);
                let validators = recognised.map(|(validators, unchanged)| match unchanged {
                    true => validators,
                    false => Validators { shared_ids, ..validators },
                });
                Ok(Box::new(FetchedPage {
                    facts,
                    records,
                    rejected,
                    skipped,
                    excluded,
                    candidates,
                    content,
                    evidence,
                    validators,
                    moved_to,
                    capture: None,
                    warnings,
                    cut,
                    memory: HeldMemory::default(),
                }))
            }
            Err(mut refused) => {
                // An error from a successful response has its reason already.
                if !(200..300).contains(&response.status) {
                    refused.fault = explain::explain(refused.fault, &evidence.request_digest, &response.body);
                }
                Err(refuse(refused, evidence))
            }
        }
    }
}

impl PagerPhase {
    /// The page in a response, or why it has none.
    fn read(&self, response: &HttpResponse, asked: PageContext<'_>, now: Ts) -> Result<Decoded, RefusedResponse> {
        if let Some(refused) = self.statuses.refusal(response, now) {
            return Err(self.meanings.refine(refused, response));
        }
        let found = response.redirected.as_ref().map_or(asked.url, |redirected| redirected.url.as_str());
        let asked = PageContext { url: found, ..asked };
        let mut decoded = self.decoder.decode(response, &asked).map_err(|mut refused| {
            refused.retry_after = self.statuses.retry_after(response, now).filter(|_| refused.throttled);
            refused
        })?;
        self.headers.read_into(response, &mut decoded.facts);
        if let Some(next) = &mut decoded.facts.next_url {
            absolute(next, found);
        }
        Ok(decoded)
    }
}

/// The validators of the response, and whether it is unchanged: the upstream says so, or the body is the same.
fn validators(response: &HttpResponse, url: &str, known: Option<&Validators>) -> (Validators, bool) {
    let header = |name| response.header(name).map(str::to_owned);
    if let (304, Some(known)) = (response.status, known) {
        let etag = header("etag").or_else(|| known.etag.clone());
        let last_modified = header("last-modified").or_else(|| known.last_modified.clone());
        return (Validators { etag, last_modified, ..known.clone() }, true);
    }
    let body_hash = hash::sha256_hex(&response.body);
    let same = response.status == 200 && known.is_some_and(|known| known.body_hash.as_ref() == Some(&body_hash));
    let current = Validators {
        url: url.to_owned(),
        etag: header("etag"),
        last_modified: header("last-modified"),
        body_hash: Some(body_hash),
        feed_url: None,
        shared_ids: known.map(|known| known.shared_ids.clone()).unwrap_or_default(),
    };
    (current, same)
}

/// Makes a next URL absolute, relative to its page. An unreadable one stays, and is refused when it is used.
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
