//! How the engine's parts use credentials.

use std::sync::{Arc, Mutex};

use patra_connectors::Exchange;
use patra_core::gate::Decision;
use patra_core::port::Boxed;
use patra_core::port::transport::{self, Response};
use patra_core::protocol::token::Refused;
use patra_core::{CredentialId, Ts};

use super::{Errand, LONGEST_WAIT, Permits, Pool, Used};
use crate::gate::{Asker, Gate, Lane, Token};
use crate::prepared::Spec;
use crate::shared::{Shared, lock};

/// The requests of an exchange pass the gate in the lane of their endpoint.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
    lane: Lane,
    first: bool,
    /// What the run has got for the first of them.
    token: Mutex<Option<Token>>,
}

impl Pass {
    pub(crate) fn new(gate: Arc<Gate>, lane: Lane, first: bool, token: Option<Token>) -> Pass {
        Pass { gate, lane, first, token: Mutex::new(token) }
    }
}

impl Permits for Pass {
    fn acquire(&self) -> Boxed<'_, Decision> {
        let token = lock(&self.token).take();
        Box::pin(async {
            // One that has come too late is worth nothing: the request needs another.
            if token.is_some_and(Token::spend) {
                return Decision::Allow;
            }
            let asker = Asker { lane: &self.lane, first: self.first, percent: 100, deadline: LONGEST_WAIT };
            match self.gate.acquire(asker).await {
                Ok(token) => {
                    if token.spend() {
                        Decision::Allow
                    } else {
                        Decision::WaitUntil(Ts::MIN)
                    }
                }
                Err((_, until)) => Decision::WaitUntil(until),
            }
        })
    }
}

impl Shared {
    /// Sends the request of an exchange as whoever it should come from, and notes who that was.
    pub(crate) async fn send(
        &self,
        spec: &Spec,
        pinned: Option<CredentialId>,
        exchange: &mut Exchange,
        permits: Arc<dyn Permits>,
    ) -> Result<(Result<Response, transport::Error>, Option<Used>), Refused> {
        let authoriser = Arc::clone(spec.pager.authoriser(exchange));
        let errand = Errand { authoriser, pinned, request: exchange.request.clone(), permits, pool: Pool::default() };
        let sent = self.credentials.send(&errand).await?;
        if let Some(id) = sent.credential {
            exchange.note_credential(id);
        }
        Ok((sent.answer, sent.cookie))
    }
}
