//! Reads some pages of an endpoint as an executor would, and reports the results and the next request, without storing.
//! Uses the gate like every request, and has no port that could write records.

mod mask;
mod outlook;
mod pace;

use std::sync::Arc;

use patra_connectors::auth::Authoriser;
use patra_connectors::{PageExchange, PageRequest, Pager};
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::{HttpRequest, HttpResponse};
use patra_core::port::{Clock, Transport};
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::protocol::token::TokenRefused;
use patra_core::{Code, Fault, Level, Window};
use patra_spec::Snapshot;

use crate::credentials::{CookieChoice, Credentials, GatePass, OutgoingRequest, PermitSource, SentRequest};
use crate::decoding::Received;
use crate::gate::{RateGate, RateLane};
use crate::robots::{RobotsCache, RobotsClient};
pub(crate) use pace::TryPace;

pub use mask::masked;
pub use outlook::{NextStep, TryWalk};

/// Parameters of a try of pages.
#[derive(Clone, Copy, Debug)]
pub struct TryOptions<'a> {
    pub spec: &'a Snapshot,
    pub window: Window,
    pub params: &'a Params,
    /// Most pages to read, without details.
    pub pages: u32,
    /// None: endpoints that require a credential are refused, and others are requested without one.
    pub credentials: Option<&'a Credentials>,
    /// The gate that all processes share; without one, only this try keeps the declared rate.
    pub gate: Option<&'a Arc<RateGate>>,
}

/// One exchange of a try: a page, or the details of the first ids of a page.
#[derive(Debug)]
pub struct TriedPage {
    /// Number of the page; details have the number of the page that names their ids.
    pub number: u32,
    pub position: Position,
    /// The request without secrets. None when it could not be rendered.
    pub request: Option<HttpRequest>,
    /// None when no response came.
    pub answer: Option<HttpResponse>,
    pub result: Result<Box<FetchedPage>, Box<PageFailure>>,
    /// None for details and refusals.
    pub outlook: Option<NextStep>,
    /// The next request, without secrets.
    pub following: Option<HttpRequest>,
}

/// Sends requests at the rate of the spec.
struct TryClient<'a> {
    transport: &'a dyn Transport,
    clock: &'a dyn Clock,
    permits: Arc<dyn PermitSource>,
    pager: Pager,
    robots: RobotsCache,
    probe: TryOptions<'a>,
    page_size: u32,
}

/// Reads pages and hands each to `show`. Stops at the end, at a refusal, or after the requested number. Of a two-phase
/// endpoint, the details of the first ids are read too.
pub async fn read_pages(
    transport: &Arc<dyn Transport>,
    clock: &Arc<dyn Clock>,
    probe: TryOptions<'_>,
    mut show: impl FnMut(&TriedPage),
) -> Result<(), Fault> {
    let mut walk = TryWalk::new(probe.spec);
    let line = TryClient {
        transport: &**transport,
        clock: &**clock,
        permits: match probe.gate {
            Some(gate) => Arc::new(GatePass::new(Arc::clone(gate), RateLane::of(probe.spec), false, None)),
            None => Arc::new(TryPace::new(probe.spec.rate(), Arc::clone(clock))),
        },
        pager: Pager::new(probe.spec)?,
        robots: RobotsCache::default(),
        probe,
        page_size: walk.page_size(),
    };
    let (mut position, mut details_seen) = (walk.first(), false);
    for number in 1..=probe.pages {
        let mut look = line.look(number, position.clone()).await;
        look.outlook = look.result.as_ref().ok().map(|page| walk.after(&position, page));
        let next = look.outlook.as_ref().and_then(NextStep::next).cloned();
        look.following = next.as_ref().and_then(|next| line.preview(next));
        show(&look);
        let ids = if details_seen { None } else { line.first_ids(&look) };
        if let Some(ids) = ids {
            details_seen = true;
            let details = line.look(number, Position::Ids { at: Box::new(position), ids }).await;
            show(&details);
            if details.result.is_err() {
                break;
            }
        }
        let Some(next) = next else { break };
        position = next;
    }
    Ok(())
}

impl TryClient<'_> {
    async fn look(&self, number: u32, position: Position) -> TriedPage {
        let look = |request, answer, result| TriedPage {
            number,
            position: position.clone(),
            request,
            answer,
            result,
            outlook: None,
            following: None,
        };
        let exchange = match self.pager.request(&self.ask(&position)) {
            Ok(exchange) => exchange,
            Err(refusal) => return look(None, None, Err(refusal)),
        };
        let authoriser = Arc::clone(self.pager.authoriser(&exchange));
        let start = self.clock.steady();
        let sent = self.send(&authoriser, &exchange).await;
        let latency = self.clock.steady().since(start);
        match sent {
            Ok(SentRequest { answer, credential, .. }) => {
                let shown = match credential {
                    Some(_) => masked(&authoriser, &exchange.request),
                    None => authoriser.anonymous(&exchange.request),
                };
                let seen = answer.as_ref().ok().cloned();
                let received = Received { exchange, answer, latency, now: self.clock.now() };
                look(Some(shown), seen, received.read(&self.pager).await)
            }
            Err(refused) => {
                let shown = masked(&authoriser, &exchange.request);
                let evidence = exchange.evidence(latency);
                let TokenRefused { fault, retry_after } = refused;
                look(
                    Some(shown),
                    None,
                    Err(Box::new(PageFailure { fault, throttled: false, retry_after, evidence, offline: false })),
                )
            }
        }
    }

    async fn send(&self, authoriser: &Arc<Authoriser>, exchange: &PageExchange) -> Result<SentRequest, TokenRefused> {
        if let Some(credentials) = self.probe.credentials {
            let permits = Arc::clone(&self.permits);
            let request = exchange.request.clone();
            let (authoriser, pool) = (Arc::clone(authoriser), CookieChoice::default());
            return credentials.send(&OutgoingRequest { authoriser, pinned: None, request, permits, pool }).await;
        }
        if authoriser.kind().is_some() && authoriser.auth().required {
            return Err(missing(authoriser).into());
        }
        let client = RobotsClient { transport: self.transport, clock: self.clock, permits: &*self.permits };
        let request = authoriser.anonymous(&exchange.request);
        let answer = self.robots.send(client, &exchange.request, request).await?;
        Ok(SentRequest { answer, credential: None, cookie: None })
    }

    /// The request for a position, without secrets.
    fn preview(&self, position: &Position) -> Option<HttpRequest> {
        let exchange = self.pager.request(&self.ask(position)).ok()?;
        Some(masked(self.pager.authoriser(&exchange), &exchange.request))
    }

    fn ask<'p>(&'p self, position: &'p Position) -> PageRequest<'p> {
        let TryOptions { spec, window, params, .. } = self.probe;
        PageRequest {
            position,
            window: spec.request_window(window),
            page_size: self.page_size,
            params,
            now: self.clock.now(),
        }
    }

    /// The ids of the first detail request that a run would make for the page.
    fn first_ids(&self, look: &TriedPage) -> Option<Vec<String>> {
        let candidates = &look.result.as_ref().ok()?.candidates;
        let size = self.probe.spec.batching.id_batch_size.max(1) as usize;
        let mut ids: Vec<_> = candidates.iter().map(|candidate| candidate.id.clone()).collect();
        ids.sort();
        ids.dedup();
        ids.truncate(size);
        (!ids.is_empty()).then_some(ids)
    }
}

/// A cell without a vault.
fn missing(authoriser: &Authoriser) -> Fault {
    let (provenance, endpoint) = authoriser.place();
    let message = format!("{provenance}/{endpoint} needs the credential `{}`", authoriser.auth().credential_ref);
    Fault::new(Code::NotConfigured, Level::L4, message)
}
