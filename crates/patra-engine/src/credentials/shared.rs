//! How the engine's parts use credentials.

use std::sync::{Arc, Mutex};

use patra_connectors::PageExchange;
use patra_core::gate::GateDecision;
use patra_core::port::BoxFuture;
use patra_core::port::transport::{self, HttpResponse};
use patra_core::protocol::token::TokenRefused;
use patra_core::{CredentialId, Ts};

use super::{CookieChoice, LONGEST_WAIT, OutgoingRequest, PermitSource, UsedCookie};
use crate::gate::{PermitRequester, PermitToken, RateGate, RateLane};
use crate::prepared::CompiledSpec;
use crate::shared::{Shared, lock};

/// The requests of an exchange pass the gate in the lane of their endpoint.
#[derive(Debug)]
pub(crate) struct GatePass {
    gate: Arc<RateGate>,
    lane: RateLane,
    first: bool,
    /// What the run has got for the first of them.
    token: Mutex<Option<PermitToken>>,
}

impl GatePass {
    pub(crate) fn new(gate: Arc<RateGate>, lane: RateLane, first: bool, token: Option<PermitToken>) -> GatePass {
        GatePass { gate, lane, first, token: Mutex::new(token) }
    }
}

impl PermitSource for GatePass {
    fn acquire(&self) -> BoxFuture<'_, GateDecision> {
        let token = lock(&self.token).take();
        Box::pin(async {
            // One that has come too late is worth nothing: the request needs another.
            if token.is_some_and(PermitToken::spend) {
                return GateDecision::Allow;
            }
            let asker = PermitRequester { lane: &self.lane, first: self.first, percent: 100, deadline: LONGEST_WAIT };
            match self.gate.acquire(asker).await {
                Ok(token) => {
                    if token.spend() {
                        GateDecision::Allow
                    } else {
                        GateDecision::WaitUntil(Ts::MIN)
                    }
                }
                Err((_, until)) => GateDecision::WaitUntil(until),
            }
        })
    }
}

impl Shared {
    /// Sends the request of an exchange as whoever it should come from, and notes who that was.
    pub(crate) async fn send(
        &self,
        spec: &CompiledSpec,
        pinned: Option<CredentialId>,
        exchange: &mut PageExchange,
        permits: Arc<dyn PermitSource>,
    ) -> Result<(Result<HttpResponse, transport::Error>, Option<UsedCookie>), TokenRefused> {
        let authoriser = Arc::clone(spec.pager.authoriser(exchange));
        let errand = OutgoingRequest {
            authoriser,
            pinned,
            request: exchange.request.clone(),
            permits,
            pool: CookieChoice::default(),
        };
        let sent = self.credentials.send(&errand).await?;
        if let Some(id) = sent.credential {
            exchange.note_credential(id);
        }
        Ok((sent.answer, sent.cookie))
    }
}
