//! Driving a batch or a task again in production (C-64): what was executed is read back, the rest is queued once more.

use patra_core::port::{CommandsExt as _, Store};
use patra_core::tx::{RedriveTarget, RedriveWork, Redriven, TxError};

/// Longest id of a request, and longest name of who asks, in bytes.
pub const MAX_ID: usize = 128;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} must have 1 to {MAX_ID} characters, and no NUL among them")]
    Invalid(&'static str),
    #[error("there is no such batch, run or task")]
    NotFound,
    #[error("the task has not ended: it is still at work, or waits for its turn")]
    NotEnded,
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(TxError),
}

/// Asks for it. The same request again finds what the first one made.
pub async fn redrive(store: &dyn Store, what: RedriveTarget, request: &str, by: &str) -> Result<Redriven, Error> {
    for (name, text) in [("the id of the request", request), ("the name of who asks", by)] {
        if text.is_empty() || text.len() > MAX_ID || text.contains('\0') {
            return Err(Error::Invalid(name));
        }
    }
    let redrive = RedriveWork { request: request.to_owned(), target: what, by: by.to_owned() };
    match store.run(redrive).await {
        Ok(Redriven::NotFound) => Err(Error::NotFound),
        Ok(redriven) => {
            tracing::info!(what = ?what, request, by, outcome = word(&redriven), "audit: a redrive was asked for");
            Ok(redriven)
        }
        Err(TxError::Conflict) => Err(Error::NotEnded),
        Err(TxError::Refused(reason)) => Err(Error::Refused(reason)),
        Err(error) => Err(Error::Store(error)),
    }
}

fn word(redriven: &Redriven) -> &'static str {
    match redriven {
        Redriven::NotFound => "not found",
        Redriven::ReadBack { .. } => "read back",
        Redriven::Queued { existed: true, .. } => "queued before",
        Redriven::Queued { existed: false, .. } => "queued",
    }
}
