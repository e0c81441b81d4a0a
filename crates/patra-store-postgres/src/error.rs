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
        // The server itself does not know whether the statement took effect.
        "40003" => (lost(message, phase), Health::Lost),
        "40001" | "40P01" | "55P03" => (TxError::Busy, Health::Good),
        "22021" => (
            TxError::Refused(format!("a text is not storable in PostgreSQL (NUL or not UTF-8): {message}")),
            Health::Good,
        ),
        _ if is_own_fault(code) => (TxError::Refused(message), Health::Good),
        _ => (TxError::Unavailable(message), if is_of_session(code) { Health::Lost } else { Health::Good }),
    }
}

/// Whether the statement or its values are wrong, so that no repetition succeeds: data exceptions (22), broken
/// constraints (23), and wrong statements (42), except for a missing permission (42501), which an administrator grants.
/// Everything else passes: full disks, I/O errors, overload, restarts, and codes that nobody has thought of.
pub(crate) fn is_own_fault(code: &str) -> bool {
    matches!(code.get(..2), Some("22" | "23" | "42")) && code != "42501"
}

/// Whether another connection may do better: the node was demoted and is read-only (25006, river#1225) or the
/// transaction is in a wrong state (25), the prepared statement is gone, as behind a pooler (26), or the schema changed
/// under it (0A).
fn is_of_session(code: &str) -> bool {
    matches!(code.get(..2), Some("25" | "26" | "0A"))
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

    /// Every class of PostgreSQL's list of error codes, and some that it does not have.
    const CLASSES: &str = "00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 20 21 22 23 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 40 42 \
                           44 53 54 55 57 58 72 F0 HV P0 XX 99 ZZ";

    #[test]
    fn only_wrong_statements_and_values_are_refused_for_good() {
        for class in CLASSES.split(' ') {
            for rest in ["000", "001", "501", "P01"] {
                let code = format!("{class}{rest}");
                let expected = matches!(class, "22" | "23" | "42") && code != "42501";
                assert_eq!(is_own_fault(&code), expected, "{code}");
            }
        }
        assert!(!is_own_fault("") && !is_own_fault("4"));
    }
}
