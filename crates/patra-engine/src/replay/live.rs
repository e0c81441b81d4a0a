//! The way out of a live replay, and of a trial: the gate, the credential, and a store that refuses to write. A token that has run out is not
//! renewed by a replay: that would be a write, and production does it anyway.

use std::sync::Arc;

use patra_connectors::{PageExchange, Pager};
use patra_core::port::{Clock, Transport};
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::protocol::token::TokenRefused;
use patra_core::{Code, Fault};

use super::recording::ParsedRecording;
use super::{Error, ReadOnlyStore};
use crate::credentials::{CookieChoice, CredentialOptions, Credentials, GatePass, OutgoingRequest, PermitSource};
use crate::gate::{RateGate, RateLane};
use crate::shared::Ports;
use crate::try_pages::{self, TriedPage, TryOptions, TryPace};
use crate::try_run::TryTarget;

#[derive(Clone, Debug)]
pub struct LiveReplay {
    credentials: Credentials,
    clock: Arc<dyn Clock>,
    /// The gate of the process, where there is one; otherwise a pace of its own.
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

    /// The same through the gate that all processes share.
    pub fn through(self, gate: Arc<RateGate>) -> LiveReplay {
        LiveReplay { gate: Some(gate), ..self }
    }

    /// Reads pages of what is tried, and hands each to `show`. Nothing is stored.
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

    /// One exchange as a run would make it, under a correlation id that says it is none.
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
        let errand = OutgoingRequest { authoriser, pinned: case.credential, request, permits, pool };
        let began = self.clock.steady();
        let sent = self.credentials.send(&errand).await;
        let latency = self.clock.steady().since(began);
        Ok(match sent {
            Ok(sent) => pager.read(exchange, sent.answer, latency, case.now),
            Err(TokenRefused { fault, .. }) if fault.code == Code::RateLimited => {
                return Err(Error::NotAsked(fault.message));
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
