//! Meaning of HTTP statuses for a run (ING-4.11-02, C-38), and the pause of `Retry-After`.

use std::time::Duration;

use patra_core::port::transport::HttpResponse;
use patra_core::{Code, Fault, Level, Ts};
use patra_spec::{Snapshot, snapshot};

/// The longest pause that one header of an upstream can impose.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3_600);
/// The longest pause of a source: it does without its host for longer (COLL-120).
pub const MAX_SOURCE_RETRY_AFTER: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A response that is not a page.
#[derive(Debug)]
pub struct RefusedResponse {
    pub fault: Fault,
    pub throttled: bool,
    pub retry_after: Option<Duration>,
}

impl From<Fault> for RefusedResponse {
    fn from(fault: Fault) -> RefusedResponse {
        RefusedResponse { fault, throttled: false, retry_after: None }
    }
}

/// Meanings of the statuses of one endpoint.
#[derive(Clone, Debug)]
pub struct StatusClassifier {
    retry: snapshot::RetrySpec,
    auth: snapshot::AuthSpec,
    /// The longest pause that is obeyed.
    longest: Duration,
}

impl StatusClassifier {
    pub fn new(spec: &Snapshot) -> StatusClassifier {
        let longest = if spec.polled { MAX_SOURCE_RETRY_AFTER } else { MAX_RETRY_AFTER };
        StatusClassifier { retry: spec.retry.clone(), auth: spec.auth.clone(), longest }
    }

    /// `None` for a success.
    pub fn refusal(&self, response: &HttpResponse, now: Ts) -> Option<RefusedResponse> {
        let retry_after = self.retry_after(response, now);
        let status = response.status;
        let (code, level) = match status {
            200..=299 => return None,
            rejected if self.auth.is_rejection(rejected) => (Code::UpstreamAuthFailed, Level::L4),
            // 429 is always a pause, whatever else is declared.
            429 => (Code::RateLimited, Level::L1),
            passing if self.retry.is_retryable(passing) => (Code::PlatformError, Level::L1),
            _ => (Code::PlatformError, Level::L2),
        };
        Some(RefusedResponse {
            fault: Fault::new(code, level, format!("the upstream returned {status}")),
            // A response with `Retry-After` asks for a pause, whatever its status.
            throttled: status == 429 || (status == 503 && level == Level::L1 && retry_after.is_some()),
            retry_after,
        })
    }

    /// The pause that the response asks for.
    pub(crate) fn retry_after(&self, response: &HttpResponse, now: Ts) -> Option<Duration> {
        retry_after(response.header("retry-after")?, now, self.longest)
    }
}

/// Seconds or an HTTP date, at most `longest`. Zero, past times and unreadable text are no hint (ING-15-05).
pub fn retry_after(value: &str, now: Ts, longest: Duration) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse::<u64>() {
        Ok(secs) => Duration::from_secs(secs),
        Err(_) => {
            let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
            Ts::from_secs(date.as_second()).since(now)
        }
    };
    (!wait.is_zero()).then(|| wait.min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, retry_after: Option<&str>) -> HttpResponse {
        let headers = retry_after.map(|value| ("retry-after".to_owned(), value.to_owned())).into_iter().collect();
        HttpResponse { status, headers, body: bytes::Bytes::new(), redirected: None }
    }

    fn plain() -> StatusClassifier {
        StatusClassifier {
            retry: snapshot::RetrySpec::default(),
            auth: snapshot::AuthSpec::default(),
            longest: MAX_RETRY_AFTER,
        }
    }

    fn level(status: u16) -> Option<Level> {
        plain().refusal(&answer(status, None), Ts::from_secs(0)).map(|refused| refused.fault.level)
    }

    // covers: ING-4.11-02, ING-12.1-01, ING-12.1-02, ING-4.13-01, ING-4.13-02
    #[test]
    fn statuses_have_levels() {
        assert_eq!(level(200), None);
        for transient in [408, 429, 500, 502, 503, 504] {
            assert_eq!(level(transient), Some(Level::L1), "{transient}");
        }
        for business in [301, 400, 403, 404, 422] {
            assert_eq!(level(business), Some(Level::L2), "{business}");
        }
        assert_eq!(level(401), Some(Level::L4));
    }

    // covers: ING-4.11-01, ING-4.11-02, ING-3.4-05
    #[test]
    fn declared_statuses_replace_the_default_and_a_rejected_credential_is_fatal() {
        let mut declared = plain();
        declared.retry.retryable_status = Some(vec![409, 503]);
        declared.auth.credential_status = vec![403];
        let level =
            |status| declared.refusal(&answer(status, None), Ts::from_secs(0)).map(|r| (r.fault.code, r.fault.level));
        assert_eq!(level(409), Some((Code::PlatformError, Level::L1)));
        assert_eq!(level(500), Some((Code::PlatformError, Level::L2)), "it is not in the list");
        assert_eq!(level(429), Some((Code::RateLimited, Level::L1)), "pacing is always obeyed");
        assert_eq!(level(403), Some((Code::UpstreamAuthFailed, Level::L4)));
        assert_eq!(level(401), Some((Code::UpstreamAuthFailed, Level::L4)));
    }

    // covers: ING-15-05, ING-4.10-37, ING-1.2-03
    #[test]
    fn retry_after_is_seconds_or_a_date_and_never_zero() {
        let now: Ts = "2026-01-01T00:00:00Z".parse().unwrap();
        let check = |value, secs: Option<u64>| {
            assert_eq!(retry_after(value, now, MAX_RETRY_AFTER), secs.map(Duration::from_secs), "{value}");
        };
        check("7", Some(7));
        check(" 7 ", Some(7));
        check("0", None);
        check("Thu, 01 Jan 2026 00:01:00 GMT", Some(60));
        check("Wed, 31 Dec 2025 23:59:00 GMT", None);
        check("soon", None);
        check("-3", None);
        check("99999999999", Some(MAX_RETRY_AFTER.as_secs()));
    }

    // covers: COLL-120
    #[test]
    fn sources_obey_a_pause_of_a_week() {
        let wait = |polled: bool, days: u64| {
            let classifier =
                StatusClassifier { longest: if polled { MAX_SOURCE_RETRY_AFTER } else { MAX_RETRY_AFTER }, ..plain() };
            let seconds = (days * 86_400).to_string();
            let refused = classifier.refusal(&answer(429, Some(&seconds)), Ts::from_secs(0)).unwrap();
            refused.retry_after.unwrap().as_secs() / 86_400
        };
        assert_eq!((wait(true, 3), wait(true, 30), wait(false, 3)), (3, 7, 1));
    }

    #[test]
    fn a_503_with_a_time_is_pacing_not_failure() {
        let now = Ts::from_secs(0);
        assert!(plain().refusal(&answer(503, Some("5")), now).is_some_and(|refused| refused.throttled));
        assert!(plain().refusal(&answer(503, None), now).is_some_and(|refused| !refused.throttled));
    }
}
