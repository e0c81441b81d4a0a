//! Runs a batch or a task again in production (C-64): executed work is read back, the rest is queued once more.

use patra_core::port::{CommandsExt as _, Store};
use patra_core::tx::{RedriveTarget, RedriveWork, Redriven, TxError};

/// Longest request id, and longest name of the requester, in bytes.
pub const MAX_ID: usize = 128;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} must have 1 to {MAX_ID} characters, and no NUL among them")]
    Invalid(&'static str),
    #[error("there is no such batch, run or task")]
    NotFound,
    #[error("the task has not ended: it is running, or waits for its turn")]
    NotEnded,
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(TxError),
}

/// Requests a redrive. Repeating a request returns the result of the first one.
pub async fn redrive(store: &dyn Store, what: RedriveTarget, request: &str, by: &str) -> Result<Redriven, Error> {
    for (name, text) in [("the id of the request", request), ("the name of the requester", by)] {
        if text.is_empty() || text.len() > MAX_ID || text.contains('\0') {
            return Err(Error::Invalid(name));
        }
    }
    let redrive = RedriveWork { request: request.to_owned(), target: what, by: by.to_owned() };
    match store.run(redrive).await {
        Ok(Redriven::NotFound) => Err(Error::NotFound),
        Ok(redriven) => {
            tracing::info!(what = ?what, request, by, outcome = word(&redriven), "audit: a redrive was requested");
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
