//! Errors as people see them: `error[CODE]: what`, and a `hint:` that says what to do. The exit code follows the class.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use patra_core::Code;
use patra_core::mask::mask;
use patra_core::tx::TxError;
use patra_engine::registry;
use patra_engine::trial::{Unfit, UnfitKind};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok,
    /// It ran to its end, and some of it failed.
    Failures,
    Unexpected,
    Usage,
    Configuration,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Ok => 0,
            Exit::Failures => 1,
            Exit::Unexpected => 2,
            Exit::Usage => 64,
            Exit::Configuration => 78,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) exit: Exit,
    code: Code,
    message: String,
    hint: Option<String>,
}

impl Error {
    fn new(exit: Exit, code: Code, message: impl Into<String>) -> Error {
        Error { exit, code, message: message.into(), hint: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error::new(Exit::Usage, Code::InvalidInput, message)
    }

    pub(crate) fn configuration(message: impl Into<String>) -> Error {
        Error::new(Exit::Configuration, Code::ConfigError, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Error {
        Error::new(Exit::Configuration, Code::NotFound, message)
    }

    /// The same where a script must tell it from settings that are wrong (COLL-111).
    pub(crate) fn unknown(message: impl Into<String>) -> Error {
        Error::new(Exit::Unexpected, Code::NotFound, message)
    }

    pub(crate) fn failed(message: impl Into<String>) -> Error {
        Error::new(Exit::Failures, Code::PartialFail, message)
    }

    pub(crate) fn unexpected(message: impl Into<String>) -> Error {
        Error::new(Exit::Unexpected, Code::InternalError, message)
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Error {
        Error { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn print(&self) {
        // Nobody reads a closed pipe's errors, and a stderr that cannot be written is nobody to tell.
        if !self.message.is_empty() {
            let _ = writeln!(std::io::stderr(), "{}", mask(&self.to_string()));
        }
    }

    /// The reader of our output went away: that is how pipelines end, not an error.
    pub(crate) fn broken_pipe() -> Error {
        Error::new(Exit::Ok, Code::InternalError, "")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<TxError> for Error {
    fn from(error: TxError) -> Error {
        let hint = match &error {
            TxError::Unavailable(_) | TxError::Busy | TxError::Unknown(_) => {
                "try again; nothing is lost by repeating the command"
            }
            _ => return Error::unexpected(error.to_string()),
        };
        Error::unexpected(error.to_string()).hint(hint)
    }
}

impl From<registry::Error> for Error {
    fn from(error: registry::Error) -> Error {
        match error {
            registry::Error::Store(error) => error.into(),
            registry::Error::NotFound(message, hint) => Error::not_found(message).hint(hint),
            registry::Error::Problems(_) => Error::configuration(error.to_string()),
        }
    }
}

impl From<Unfit> for Error {
    fn from(unfit: Unfit) -> Error {
        let error = match unfit.kind {
            UnfitKind::Usage => Error::usage(unfit.message),
            UnfitKind::NotFound => Error::not_found(unfit.message),
            UnfitKind::Manifest => Error::configuration(unfit.message),
        };
        unfit.hint.into_iter().fold(error, Error::hint)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Error::broken_pipe()
        } else {
            Error::unexpected(error.to_string())
        }
    }
}
