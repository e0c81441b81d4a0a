//! Reads one page: renders the request, sends it through the gate, and decodes the response.

use std::sync::Arc;

use patra_connectors::PageRequest;
use patra_core::params::Params;
use patra_core::port::transport;
use patra_core::protocol::run::{FetchedPage, PageFailure, PageFetch};
use patra_core::protocol::token::TokenRefused;
use patra_core::{CredentialId, Ts, Window};

use crate::credentials::GatePass;
use crate::decoding::Received;
use crate::gate::{PermitToken, RateLane};
use crate::prepared::CompiledSpec;
use crate::shared::Shared;

/// Permit, lane and credential of a request.
pub(crate) struct RequestContext {
    pub(crate) token: Option<PermitToken>,
    pub(crate) lane: RateLane,
    pub(crate) first: bool,
    pub(crate) credential: Option<CredentialId>,
}

/// Reads one page. Decodes large bodies off the I/O threads.
pub(crate) async fn read(
    shared: &Arc<Shared>,
    spec: &Arc<CompiledSpec>,
    fetch: &PageFetch,
    window: Option<Window>,
    params: &Params,
    leave: RequestContext,
) -> Result<Box<FetchedPage>, Box<PageFailure>> {
    let clock = &shared.ports.clock;
    let now = clock.now();
    // A request for ids covers all time up to the recorded time, so that it can be rendered again.
    let window = window.unwrap_or(Window { from: Ts::from_secs(0), to: now });
    let ask = PageRequest { position: &fetch.position, window, page_size: fetch.page_size, params, now };
    let mut exchange = spec.pager.request(&ask)?;
    // The publisher of a feed has no use for our numbers.
    if !spec.snapshot.polled {
        exchange.request.headers.push(("X-Ingest-Correlation-Id".into(), fetch.correlation()));
    }
    if let Some(context) = shared.options.trace_context.and_then(|of_current_span| of_current_span()) {
        exchange.request.headers.push(("traceparent".into(), context));
    }
    exchange.keep(spec.snapshot.raw_keep.map(|keep| keep.0));
    exchange.condition(fetch.validators.clone());
    let RequestContext { token, lane, first, credential } = leave;
    if let Some(token) = &token {
        exchange.note_rate(rate_note(&lane, token));
    }
    let permits = Arc::new(GatePass::new(Arc::clone(&shared.gate), lane, first, token));
    let sent = clock.steady();
    let answer = shared.send(spec, credential, &mut exchange, permits).await;
    let (now, latency) = (clock.now(), clock.steady().since(sent));
    let (answer, used) = match answer {
        Ok(sent) => sent,
        Err(TokenRefused { fault, retry_after }) => {
            let (throttled, evidence) = (retry_after.is_some(), exchange.evidence(latency));
            return Err(Box::new(PageFailure { fault, throttled, retry_after, evidence, offline: false }));
        }
    };
    let offline = matches!(&answer, Err(transport::Error::NoMemory { .. }))
        || shared.offline(&exchange.request.url, answer.as_ref().err());
    let received = Received { exchange, answer, latency, now };
    let result = match received.is_large() {
        false => received.read(&spec.pager).await,
        true => received.read_apart(Arc::clone(spec)).await,
    };
    shared.credentials.record_outcome(used, &result).await;
    result.map_err(|refusal| Box::new(PageFailure { offline: offline || refusal.offline, ..*refusal }))
}

/// Rate information of a permit for the ledger (ING-4.10-33).
fn rate_note(lane: &RateLane, token: &PermitToken) -> serde_json::Map<String, serde_json::Value> {
    let waited = token.waited.as_millis() as u64;
    let decision = if waited == 0 { "ALLOW" } else { "WAIT" };
    let mut rate = serde_json::json!({
        "limitKey": &*lane.key, "permitCost": lane.cost, "waitMs": waited, "decision": decision,
    });
    let mut note = serde_json::Map::new();
    if let Some(view) = &token.view {
        rate["r"] = view.rate.into();
        rate["burst"] = view.declared.burst.into();
        if let Some(until) = view.cooldown_until {
            rate["cooldownUntil"] = until.to_string().into();
        }
        if let Some(provider) = &view.provider {
            let window = serde_json::json!({
                "remaining": provider.remaining, "limit": provider.limit, "windowReset": provider.resets_at.to_string(),
            });
            note.insert("quota".into(), window);
        }
    }
    note.insert("rate".into(), rate);
    note
}
