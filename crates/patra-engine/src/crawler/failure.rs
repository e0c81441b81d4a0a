//! Errors of the crawler, by its contract (CRAWL-75..82).

use std::time::Duration;

use serde_json::{Map, Value};

use patra_core::{Code, Fault};

#[derive(Clone, PartialEq, Debug)]
pub struct CrawlFailure {
    pub code: Code,
    pub message: String,
    pub details: Map<String, Value>,
    /// The requested cookie is not usable now; another may be.
    pub(super) unusable: bool,
}

impl CrawlFailure {
    pub fn new(code: Code, message: impl Into<String>) -> CrawlFailure {
        CrawlFailure { code, message: message.into(), details: Map::new(), unusable: false }
    }

    #[must_use]
    pub fn with(self, details: Map<String, Value>) -> CrawlFailure {
        CrawlFailure { details, ..self }
    }

    #[must_use]
    pub fn detail(mut self, name: &str, value: Value) -> CrawlFailure {
        self.details.insert(name.to_owned(), value);
        self
    }

    pub(super) fn late(limit: Duration) -> CrawlFailure {
        CrawlFailure::new(Code::TimeoutError, format!("no response within {} s", limit.as_secs()))
    }

    /// An error of the upstream. A rate limit of the upstream is an error of the platform for the caller.
    pub(super) fn upstream(fault: Fault) -> CrawlFailure {
        match fault.code {
            Code::RateLimited => CrawlFailure::new(Code::PlatformError, fault.message),
            _ => CrawlFailure::from(fault),
        }
    }

    /// Whether the same request may succeed later (CRAWL-75..82).
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

impl From<Fault> for CrawlFailure {
    fn from(fault: Fault) -> CrawlFailure {
        let unusable = fault.code == Code::CookieInvalid && fault.level == patra_core::Level::L1;
        let code = match fault.code {
            Code::UpstreamAuthFailed => Code::CookieInvalid,
            Code::QuotaExhausted => Code::RateLimited,
            Code::ParseError | Code::ValidationError => Code::PlatformError,
            Code::ConfigError => Code::InternalError,
            code => code,
        };
        CrawlFailure { unusable, ..CrawlFailure::new(code, fault.message) }
    }
}
