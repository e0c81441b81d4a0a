//! Database failures: whether the operation was applied, and whether its connection is still usable.

use std::error::Error as _;

use patra_core::state::UnknownValue;
use patra_core::tx::TxError;
use tokio_postgres::error::{DbError, Severity};

/// Why an operation stopped.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The operation's own refusal.
    Operation(TxError),
    /// The database or the connection to it failed.
    Db(tokio_postgres::Error),
}

impl From<TxError> for Fail {
    fn from(error: TxError) -> Fail {
        Fail::Operation(error)
    }
}

impl From<tokio_postgres::Error> for Fail {
    fn from(error: tokio_postgres::Error) -> Fail {
        Fail::Db(error)
    }
}

impl From<UnknownValue> for Fail {
    fn from(error: UnknownValue) -> Fail {
        refused(format!("a row is corrupt: {error}"))
    }
}

impl From<serde_json::Error> for Fail {
    fn from(error: serde_json::Error) -> Fail {
        refused(format!("invalid JSON: {error}"))
    }
}

pub(crate) fn refused(message: impl Into<String>) -> Fail {
    Fail::Operation(TxError::Refused(message.into()))
}

/// Progress of an operation when it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// No COMMIT had been sent.
    Open,
    /// A COMMIT, or a statement that commits by itself, had been sent.
    CommitSent,
}

/// State of the connection after the failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Health {
    Good,
    /// The connection must not go back to the pool.
    Lost,
}

impl Fail {
    pub(crate) fn settle(self, phase: Phase) -> (TxError, Health) {
        match self {
            Fail::Operation(error) => (error, Health::Good),
            Fail::Db(error) => settle(&error, phase),
        }
    }
}

fn settle(error: &tokio_postgres::Error, phase: Phase) -> (TxError, Health) {
    if let Some(error) = error.as_db_error() {
        return settle_db(error, phase);
    }
    let is_io = error.source().and_then(|source| source.downcast_ref::<std::io::Error>()).is_some();
    if error.is_closed() || is_io {
        return (lost(describe(error), phase), Health::Lost);
    }
    // A parameter that cannot be written or a column that cannot be read.
    (TxError::Refused(describe(error)), Health::Good)
}

fn settle_db(error: &DbError, phase: Phase) -> (TxError, Health) {
    let code = error.code().code();
    let message = message(error);
    let ended = matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) || code.starts_with("57P");
    match code {
        // The session ends here. If a COMMIT had been sent, the outcome is unknown.
        _ if ended || code.starts_with("08") => (lost(message, phase), Health::Lost),
        // Read-only: this node was demoted. A new connection reaches the promoted one (river#1225).
        "25006" => (TxError::Unavailable(message), Health::Lost),
        // The prepared statement is gone, as behind a pooler, or the schema changed under it.
        "26000" | "0A000" => (TxError::Unavailable(message), Health::Lost),
        "40001" | "40P01" | "55P03" => (TxError::Busy, Health::Good),
        // Cancelled by statement_timeout: the server is overloaded, the statement is not wrong.
        "57014" => (TxError::Unavailable(message), Health::Good),
        _ if code.starts_with("53") => (TxError::Unavailable(message), Health::Good),
        "22021" => (
            TxError::Refused(format!("a text is not storable in PostgreSQL (NUL or not UTF-8): {message}")),
            Health::Good,
        ),
        _ => (TxError::Refused(message), Health::Good),
    }
}

/// The connection is gone. Before a COMMIT was sent the server rolls back; after it the outcome is unknown.
pub(crate) fn lost(message: String, phase: Phase) -> TxError {
    match phase {
        Phase::Open => TxError::Unavailable(message),
        Phase::CommitSent => TxError::Unknown(message),
    }
}

/// The primary message with its SQLSTATE and constraint. DETAIL, HINT and CONTEXT are left out, because they may repeat
/// parameter values.
fn message(error: &DbError) -> String {
    let code = error.code().code();
    match error.constraint() {
        Some(constraint) => format!("broken constraint {constraint} (SQLSTATE {code})"),
        // Messages such as "invalid input syntax for type json: …" quote the value after a colon.
        None if code.starts_with("22") => {
            let text = error.message();
            format!("{} (SQLSTATE {code})", text.split_once(": ").map_or(text, |(before, _)| before))
        }
        None => format!("{} (SQLSTATE {code})", error.message()),
    }
}

/// An error of the driver with its cause, which never contains a parameter value.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(db), _) => message(db),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_unknown_only_after_a_commit_was_sent() {
        assert!(matches!(lost("gone".into(), Phase::Open), TxError::Unavailable(_)));
        assert!(matches!(lost("gone".into(), Phase::CommitSent), TxError::Unknown(_)));
    }
}
