//! Use of credentials by the parts of the engine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// Acquires permits for an exchange from the gate, in the lane of its endpoint.
#[derive(Debug)]
pub(crate) struct GatePass {
    gate: Arc<RateGate>,
    lane: RateLane,
    first: bool,
    /// The permit that the run has acquired for the first request.
    token: Mutex<Option<PermitToken>>,
}

impl GatePass {
    pub(crate) fn new(gate: Arc<RateGate>, lane: RateLane, first: bool, token: Option<PermitToken>) -> GatePass {
        GatePass { gate, lane, first, token: Mutex::new(token) }
    }
}

impl PermitSource for GatePass {
    fn space(&self, least: Option<Duration>) {
        self.gate.space(&self.lane.key, least);
    }

    fn acquire(&self) -> BoxFuture<'_, GateDecision> {
        let token = lock(&self.token).take();
        Box::pin(async {
            // A permit that has expired is dropped: the request acquires another.
            if token.is_some_and(PermitToken::spend) {
                return GateDecision::Allow;
            }
            let requester =
                PermitRequester { lane: &self.lane, first: self.first, percent: 100, deadline: LONGEST_WAIT };
            match self.gate.acquire(requester).await {
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
    /// Sends the request of an exchange with a credential, and records which one was used.
    pub(crate) async fn send(
        &self,
        spec: &CompiledSpec,
        pinned: Option<CredentialId>,
        exchange: &mut PageExchange,
        permits: Arc<dyn PermitSource>,
    ) -> Result<(Result<HttpResponse, transport::Error>, Option<UsedCookie>), TokenRefused> {
        let authoriser = Arc::clone(spec.pager.authoriser(exchange));
        let outgoing = OutgoingRequest {
            authoriser,
            pinned,
            request: exchange.request.clone(),
            permits,
            pool: CookieChoice::default(),
        };
        let sent = self.credentials.send(&outgoing).await?;
        if let Some(id) = sent.credential {
            exchange.note_credential(id);
        }
        Ok((sent.answer, sent.cookie))
    }
}
