//! Error codes and levels, one list for all interfaces (mapping.md, section 3). The engine decides on the level,
//! never on a message.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::state::UnknownValue;

/// Severity of an error, which decides what happens next (ING-12.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Level {
    /// Transient: wait and retry.
    L1,
    /// The request or its business meaning is wrong: stop this task.
    L2,
    /// One record is unusable: quarantine it, continue.
    L3,
    /// Fatal for the source: halt it until a person has looked.
    L4,
}

impl Level {
    pub const ALL: &[Level] = &[Level::L1, Level::L2, Level::L3, Level::L4];

    pub fn as_str(self) -> &'static str {
        match self {
            Level::L1 => "L1",
            Level::L2 => "L2",
            Level::L3 => "L3",
            Level::L4 => "L4",
        }
    }

    /// The code with its word, as people read it.
    pub fn label(self) -> &'static str {
        match self {
            Level::L1 => "L1 transient",
            Level::L2 => "L2 request",
            Level::L3 => "L3 data",
            Level::L4 => "L4 fatal",
        }
    }
}

impl FromStr for Level {
    type Err = UnknownValue;
    fn from_str(text: &str) -> Result<Level, UnknownValue> {
        let found = Level::ALL.iter().copied().find(|level| level.as_str() == text);
        found.ok_or_else(|| UnknownValue { kind: "level", value: text.to_owned() })
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        /// Stable names that users, tables and clients see.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    InvalidInput = "INVALID_INPUT",
    Unauthorized = "UNAUTHORIZED",
    Forbidden = "FORBIDDEN",
    NotFound = "NOT_FOUND",
    TaskConflict = "TASK_CONFLICT",
    LockLost = "LOCK_LOST",
    RateLimited = "RATE_LIMITED",
    CookieInvalid = "COOKIE_INVALID",
    UpstreamAuthFailed = "UPSTREAM_AUTH_FAILED",
    CookieExhausted = "COOKIE_EXHAUSTED",
    QuotaExhausted = "QUOTA_EXHAUSTED",
    NetworkError = "NETWORK_ERROR",
    TimeoutError = "TIMEOUT_ERROR",
    PlatformError = "PLATFORM_ERROR",
    PartialFail = "PARTIAL_FAIL",
    /// The robots.txt of a host disallows a page.
    RobotsDisallowed = "ROBOTS_DISALLOWED",
    ParseError = "PARSE_ERROR",
    ValidationError = "VALIDATION_ERROR",
    ConfigError = "CONFIG_ERROR",
    InternalError = "INTERNAL_ERROR",
    NotConfigured = "NOT_CONFIGURED",
}

impl FromStr for Code {
    type Err = UnknownValue;
    fn from_str(text: &str) -> Result<Code, UnknownValue> {
        let found = Code::ALL.iter().copied().find(|code| code.as_str() == text);
        found.ok_or_else(|| UnknownValue { kind: "error code", value: text.to_owned() })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error during collection: decided on by level, and stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Fault {
    pub code: Code,
    pub level: Level,
    pub message: String,
}

impl Fault {
    /// Longest message that is stored; an upstream's error text may be a whole page.
    pub const MAX_MESSAGE: usize = 500;

    pub fn new(code: Code, level: Level, message: impl Into<String>) -> Fault {
        let mut message = message.into();
        if message.len() > Self::MAX_MESSAGE {
            let cut = crate::text::beginning(&message, Self::MAX_MESSAGE).len();
            message.truncate(cut);
            message.push('…');
        }
        Fault { code, level, message }
    }

    pub fn transient(code: Code, message: impl Into<String>) -> Fault {
        Fault::new(code, Level::L1, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let fault = Fault::transient(Code::NetworkError, "ü".repeat(400));
        assert!(fault.message.len() <= Fault::MAX_MESSAGE + '…'.len_utf8());
        assert!(fault.message.ends_with('…'));
    }

    #[test]
    fn codes_are_unique() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
