//! Sends requests of live replays and tries: through the gate, with the credential, and with a store that refuses to
//! write. A replay does not renew an expired token: that would be a write, and production does it anyway.

use std::sync::Arc;

use patra_connectors::{PageExchange, Pager};
use patra_core::port::{Clock, Transport};
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::protocol::token::TokenRefused;
use patra_core::{Code, Fault};

use super::recording::ParsedRecording;
use super::{Error, ReadOnlyStore};
use crate::credentials::{CookieChoice, CredentialOptions, Credentials, GatePass, OutgoingRequest, PermitSource};
use crate::decoding::Received;
use crate::gate::{RateGate, RateLane};
use crate::shared::Ports;
use crate::try_pages::{self, TriedPage, TryOptions, TryPace};
use crate::try_run::TryTarget;

#[derive(Clone, Debug)]
pub struct LiveReplay {
    credentials: Credentials,
    clock: Arc<dyn Clock>,
    /// The gate of the process, if any; otherwise a bucket of its own.
    gate: Option<Arc<RateGate>>,
}

impl LiveReplay {
    pub fn new(
        store: ReadOnlyStore,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
        options: CredentialOptions,
        owner: impl Into<String>,
    ) -> LiveReplay {
        let ports = Ports { store: Arc::new(store), transport, clock: Arc::clone(&clock) };
        LiveReplay { credentials: Credentials::new(ports, options, owner), clock, gate: None }
    }

    /// Uses the gate that all processes share.
    pub fn through(self, gate: Arc<RateGate>) -> LiveReplay {
        LiveReplay { gate: Some(gate), ..self }
    }

    /// Reads pages of a try, and hands each to `show`. Nothing is stored.
    pub async fn try_out(
        &self,
        trial: &TryTarget,
        pages: u32,
        show: impl FnMut(&TriedPage) + Send,
    ) -> Result<(), Fault> {
        let TryTarget { spec, window, params, .. } = trial;
        let (credentials, gate) = (Some(&self.credentials), self.gate.as_ref());
        let look = TryOptions { spec, window: *window, params, pages, credentials, gate };
        try_pages::read_pages(self.credentials.transport(), &self.clock, look, show).await
    }

    /// Sends one exchange as a run would, under a correlation id that marks it as a replay.
    pub(super) async fn ask(
        &self,
        case: &ParsedRecording,
        pager: &Pager,
        mut exchange: PageExchange,
    ) -> Result<Result<Box<FetchedPage>, Box<PageFailure>>, Error> {
        let permits = self.permits(case);
        let correlation = format!("replay-{}-{}", case.keys.run_id, case.keys.batch_no);
        exchange.request.headers.push(("X-Ingest-Correlation-Id".into(), correlation));
        let authoriser = Arc::clone(pager.authoriser(&exchange));
        let (request, pool) = (exchange.request.clone(), CookieChoice::default());
        let outgoing = OutgoingRequest { authoriser, pinned: case.credential, request, permits, pool };
        let began = self.clock.steady();
        let sent = self.credentials.send(&outgoing).await;
        let latency = self.clock.steady().since(began);
        Ok(match sent {
            Ok(sent) => Received { exchange, answer: sent.answer, latency, now: case.now }.read(pager).await,
            Err(TokenRefused { fault, .. }) if fault.code == Code::RateLimited => {
                return Err(Error::NotSent(fault.message));
            }
            Err(TokenRefused { fault, retry_after }) => {
                let (throttled, evidence) = (retry_after.is_some(), exchange.evidence(latency));
                Err(Box::new(PageFailure { fault, throttled, retry_after, evidence, offline: false }))
            }
        })
    }

    fn permits(&self, case: &ParsedRecording) -> Arc<dyn PermitSource> {
        match &self.gate {
            Some(gate) => Arc::new(GatePass::new(Arc::clone(gate), RateLane::of(&case.snapshot), false, None)),
            None => Arc::new(TryPace::new(case.snapshot.rate(), Arc::clone(&self.clock))),
        }
    }
}
