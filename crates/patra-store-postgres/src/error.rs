//! What a failure of the database means: applied, not applied, or unknown; and whether its connection is still good.

use std::error::Error as _;

use patra_core::state::UnknownValue;
use patra_core::tx::TxError;
use tokio_postgres::error::{DbError, Severity};

/// Why an operation stopped.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The operation itself found that it must not go on.
    Answer(TxError),
    /// The database or the way to it failed.
    Db(tokio_postgres::Error),
}

impl From<TxError> for Fail {
    fn from(answer: TxError) -> Fail {
        Fail::Answer(answer)
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
        refused(format!("JSON that is not what it should be: {error}"))
    }
}

pub(crate) fn refused(message: impl Into<String>) -> Fail {
    Fail::Answer(TxError::Refused(message.into()))
}

/// How far an operation had come when it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Nothing that could commit had been sent.
    Open,
    /// A COMMIT, or a statement that commits itself, was on its way.
    CommitSent,
}

/// What is left of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Health {
    Good,
    /// Must not go back to the pool.
    Lost,
}

impl Fail {
    pub(crate) fn settle(self, phase: Phase) -> (TxError, Health) {
        match self {
            Fail::Answer(answer) => (answer, Health::Good),
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
        // The session ends here. With a commit on its way nobody can say on which side of it.
        _ if ended || code.starts_with("08") => (lost(message, phase), Health::Lost),
        // Read-only: this node was demoted. A new connection finds the one that was promoted (river#1225).
        "25006" => (TxError::Unavailable(message), Health::Lost),
        // The statement is gone from the server, as behind a pooler, or the schema changed under it.
        "26000" | "0A000" => (TxError::Unavailable(message), Health::Lost),
        "40001" | "40P01" | "55P03" => (TxError::Busy, Health::Good),
        // Cancelled by statement_timeout: an overloaded server, not a wrong statement.
        "57014" => (TxError::Unavailable(message), Health::Good),
        _ if code.starts_with("53") => (TxError::Unavailable(message), Health::Good),
        "22021" => (
            TxError::Refused(format!("a text is not storable in PostgreSQL (NUL or not UTF-8): {message}")),
            Health::Good,
        ),
        _ => (TxError::Refused(message), Health::Good),
    }
}

/// The connection is gone: before a commit was sent the server rolls back, after it the outcome is open.
pub(crate) fn lost(message: String, phase: Phase) -> TxError {
    match phase {
        Phase::Open => TxError::Unavailable(message),
        Phase::CommitSent => TxError::Unknown(message),
    }
}

/// The primary message with its SQLSTATE and constraint. DETAIL, HINT and CONTEXT may repeat parameter values: left out.
fn message(error: &DbError) -> String {
    let code = error.code().code();
    match error.constraint() {
        Some(constraint) => format!("broken constraint {constraint} (SQLSTATE {code})"),
        // "invalid input syntax for type json: …" and its like quote the value behind a colon.
        None if code.starts_with("22") => {
            let text = error.message();
            format!("{} (SQLSTATE {code})", text.split_once(": ").map_or(text, |(before, _)| before))
        }
        None => format!("{} (SQLSTATE {code})", error.message()),
    }
}

/// An error of the driver with its cause, which never holds a parameter's value.
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
