//! Errors as users see them: `error[CODE]: message`, and a `hint:` that says what to do. The exit code follows the
//! class.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use patra_core::Code;
use patra_core::mask::mask;
use patra_core::tx::TxError;
use patra_engine::registry;
use patra_engine::try_run::{TryRefusal, TryRefusalKind};

/// The exit code of the program, by class of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok,
    /// The command ran to its end, and part of the work failed.
    Failures,
    Unexpected,
    Usage,
    Configuration,
}

impl Exit {
    pub(crate) const ALL: &[Exit] = &[Exit::Ok, Exit::Failures, Exit::Unexpected, Exit::Usage, Exit::Configuration];

    fn number(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Failures => 1,
            Exit::Unexpected => 2,
            Exit::Usage => 64,
            Exit::Configuration => 78,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Exit::Ok => "0",
            Exit::Failures => "1",
            Exit::Unexpected => "2",
            Exit::Usage => "64",
            Exit::Configuration => "78",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.number())
    }
}

#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) exit: Exit,
    code: Code,
    message: String,
    hint: Option<String>,
    /// The database is away: the same may succeed later.
    is_passing: bool,
}

impl Error {
    fn new(exit: Exit, code: Code, message: impl Into<String>) -> Error {
        Error { exit, code, message: message.into(), hint: None, is_passing: false }
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

    /// Like [`Error::not_found`], with an exit code that scripts can distinguish from wrong settings (COLL-111).
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

    /// Marks an error that passes by itself once the database is back.
    pub(crate) fn passing(self) -> Error {
        Error { is_passing: true, ..self }
    }

    pub(crate) fn is_passing(&self) -> bool {
        self.is_passing
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn print(&self) {
        // If stderr is closed or full, nobody can read the error anyway.
        if !self.message.is_empty() {
            let _ = writeln!(std::io::stderr(), "{}", mask(&self.to_string()));
        }
    }

    /// The reader of the output is gone. Pipelines end like that, so it is no error.
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
                "try again; repeating the command loses nothing"
            }
            _ => return Error::unexpected(error.to_string()),
        };
        Error::unexpected(error.to_string()).hint(hint).passing()
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

impl From<TryRefusal> for Error {
    fn from(unfit: TryRefusal) -> Error {
        let error = match unfit.kind {
            TryRefusalKind::Usage => Error::usage(unfit.message),
            TryRefusalKind::NotFound => Error::not_found(unfit.message),
            TryRefusalKind::Manifest => Error::configuration(unfit.message),
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
