//! Why a question has no answer, in the words of the crawler's contract (CRAWL-75..82).

use std::time::Duration;

use serde_json::{Map, Value};

use patra_core::{Code, Fault};

#[derive(Clone, PartialEq, Debug)]
pub struct Trouble {
    pub code: Code,
    pub message: String,
    pub details: Map<String, Value>,
    /// The cookie that was wished for may not be used now; another may.
    pub(super) unusable: bool,
}

impl Trouble {
    pub fn new(code: Code, message: impl Into<String>) -> Trouble {
        Trouble { code, message: message.into(), details: Map::new(), unusable: false }
    }

    #[must_use]
    pub fn with(self, details: Map<String, Value>) -> Trouble {
        Trouble { details, ..self }
    }

    #[must_use]
    pub fn detail(mut self, name: &str, value: Value) -> Trouble {
        self.details.insert(name.to_owned(), value);
        self
    }

    pub(super) fn late(limit: Duration) -> Trouble {
        Trouble::new(Code::TimeoutError, format!("no answer within {} s", limit.as_secs()))
    }

    /// What the far side answered: that it wants less of us is its own error towards whoever asks here.
    pub(super) fn upstream(fault: Fault) -> Trouble {
        match fault.code {
            Code::RateLimited => Trouble::new(Code::PlatformError, fault.message),
            _ => Trouble::from(fault),
        }
    }

    /// Whether the same question may be asked again with hope (CRAWL-75..82).
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.code,
            Code::CookieInvalid
                | Code::PlatformError
                | Code::TimeoutError
                | Code::NetworkError
                | Code::PartialFail
                | Code::RateLimited
                | Code::InternalError
        )
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        let unusable = fault.code == Code::CookieInvalid && fault.level == patra_core::Level::L1;
        let code = match fault.code {
            Code::UpstreamAuthFailed => Code::CookieInvalid,
            Code::QuotaExhausted => Code::RateLimited,
            Code::ParseError | Code::ValidationError => Code::PlatformError,
            Code::ConfigError => Code::InternalError,
            code => code,
        };
        Trouble { unusable, ..Trouble::new(code, fault.message) }
    }
}
