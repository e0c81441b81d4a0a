//! How the engine's parts use credentials.

use std::sync::Arc;

use patra_connectors::Exchange;
use patra_core::CredentialId;
use patra_core::gate::{Decision, Rate};
use patra_core::port::Boxed;
use patra_core::port::transport::{self, Response};
use patra_core::protocol::token::Refused;

use super::{Errand, Permits};
use crate::gate::{Gate, Key};
use crate::prepared::Spec;
use crate::shared::Shared;

/// Further requests of an exchange pass the gate under the key of their endpoint.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
    key: Key,
    rate: Rate,
}

impl Pass {
    pub(crate) fn new(gate: Arc<Gate>, key: Key, rate: Rate) -> Pass {
        Pass { gate, key, rate }
    }
}

impl Permits for Pass {
    fn acquire(&self) -> Boxed<'_, Decision> {
        Box::pin(async { self.gate.acquire(&self.key, self.rate) })
    }
}

impl Shared {
    /// Sends the request of an exchange as whoever it should come from, and notes who that was.
    pub(crate) async fn send(
        &self,
        spec: &Spec,
        pinned: Option<CredentialId>,
        exchange: &mut Exchange,
    ) -> Result<Result<Response, transport::Error>, Refused> {
        let authoriser = Arc::clone(spec.pager.authoriser(exchange));
        let (provenance, endpoint) = (&spec.snapshot.provenance_code, &spec.snapshot.endpoint_code);
        let key = (provenance.clone(), endpoint.clone());
        let permits = Arc::new(Pass::new(Arc::clone(&self.gate), key, spec.rate));
        let errand = Errand { authoriser, pinned, request: exchange.request.clone(), permits };
        let sent = self.credentials.send(&errand).await?;
        if let Some(id) = sent.credential {
            exchange.note_credential(id);
        }
        Ok(sent.answer)
    }
}
