//! The way out of a live replay, and of a trial: the gate, the credential, and a store that refuses to write. A token that has run out is not
//! renewed by a replay: that would be a write, and production does it anyway.

use std::sync::Arc;

use patra_connectors::{Exchange, Pager};
use patra_core::port::{Clock, Transport};
use patra_core::protocol::run::{Page, Refusal};
use patra_core::protocol::token::Refused;
use patra_core::{Code, Fault};

use super::recording::Case;
use super::{Error, ReadOnly};
use crate::credentials::{CredentialOptions, Credentials, Errand, Pass, Permits, Pool};
use crate::gate::{Gate, Lane};
use crate::probe::{self, Look, Pace, Probe};
use crate::shared::Ports;
use crate::trial::Trial;

#[derive(Clone, Debug)]
pub struct Live {
    credentials: Credentials,
    clock: Arc<dyn Clock>,
    /// The gate of the process, where there is one; otherwise a pace of its own.
    gate: Option<Arc<Gate>>,
}

impl Live {
    pub fn new(
        store: ReadOnly,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
        options: CredentialOptions,
        owner: impl Into<String>,
    ) -> Live {
        let ports = Ports { store: Arc::new(store), transport, clock: Arc::clone(&clock) };
        Live { credentials: Credentials::new(ports, options, owner), clock, gate: None }
    }

    /// The same through the gate that all processes share.
    pub fn through(self, gate: Arc<Gate>) -> Live {
        Live { gate: Some(gate), ..self }
    }

    /// Reads pages of what is tried, and hands each to `show`. Nothing is stored.
    pub async fn try_out(&self, trial: &Trial, pages: u32, show: impl FnMut(&Look) + Send) -> Result<(), Fault> {
        let Trial { spec, window, params, .. } = trial;
        let (credentials, gate) = (Some(&self.credentials), self.gate.as_ref());
        let look = Probe { spec, window: *window, params, pages, credentials, gate };
        probe::probe(self.credentials.transport(), &self.clock, look, show).await
    }

    /// One exchange as a run would make it, under a correlation id that says it is none.
    pub(super) async fn ask(
        &self,
        case: &Case,
        pager: &Pager,
        mut exchange: Exchange,
    ) -> Result<Result<Box<Page>, Box<Refusal>>, Error> {
        let permits = self.permits(case);
        let correlation = format!("replay-{}-{}", case.keys.run_id, case.keys.batch_no);
        exchange.request.headers.push(("X-Ingest-Correlation-Id".into(), correlation));
        let authoriser = Arc::clone(pager.authoriser(&exchange));
        let (request, pool) = (exchange.request.clone(), Pool::default());
        let errand = Errand { authoriser, pinned: case.credential, request, permits, pool };
        let began = self.clock.steady();
        let sent = self.credentials.send(&errand).await;
        let latency = self.clock.steady().since(began);
        Ok(match sent {
            Ok(sent) => pager.read(exchange, sent.answer, latency, case.now),
            Err(Refused { fault, .. }) if fault.code == Code::RateLimited => {
                return Err(Error::NotAsked(fault.message));
            }
            Err(Refused { fault, retry_after }) => {
                let (throttled, evidence) = (retry_after.is_some(), exchange.evidence(latency));
                Err(Box::new(Refusal { fault, throttled, retry_after, evidence, offline: false }))
            }
        })
    }

    fn permits(&self, case: &Case) -> Arc<dyn Permits> {
        match &self.gate {
            Some(gate) => Arc::new(Pass::new(Arc::clone(gate), Lane::of(&case.snapshot), false, None)),
            None => Arc::new(Pace::new(case.snapshot.rate(), Arc::clone(&self.clock))),
        }
    }
}
