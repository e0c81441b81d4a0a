//! The way out: one HTTP exchange. Retrying, pacing and reading the body's meaning belong to the callers.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::Boxed;
use crate::error::{Code, Fault, Level};

/// One request, fully rendered.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Bytes>,
    pub limits: Limits,
    /// An HTTP proxy to go through, `http://host:port` without credentials; the environment's own is never used.
    pub proxy: Option<String>,
    /// Whether to offer compression to the far side. A body that comes encoded is decoded either way.
    pub compression: bool,
}

impl Request {
    /// A request without headers and body, with the default limits: straight to the far side, compression offered.
    pub fn new(method: Method, url: impl Into<String>) -> Request {
        Request {
            method,
            url: url.into(),
            headers: Vec::new(),
            body: None,
            limits: Limits::default(),
            proxy: None,
            compression: true,
        }
    }
}

/// Without query, credentials, header values and body: any of them may hold a secret.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &bare(&self.url))
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// A URL without what may be secret in it: user and password, query and fragment.
fn bare(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    path.map_or_else(|| format!("{scheme}{host}"), |path| format!("{scheme}{host}/{path}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

/// What one exchange may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connect_timeout: Duration,
    /// Longest silence while reading.
    pub read_timeout: Duration,
    /// Deadline of the whole exchange.
    pub total_timeout: Duration,
    /// Largest body after decompression, in bytes.
    pub max_body: usize,
    /// Redirects to follow; each hop is checked like the first (ING-4.2-09).
    pub max_redirects: u8,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(120),
            max_body: 16 << 20,
            max_redirects: 0,
        }
    }
}

/// A complete answer, whatever its status.
#[derive(Clone)]
pub struct Response {
    pub status: u16,
    /// Lower-case names, in order of arrival.
    pub headers: Vec<(String, String)>,
    /// Decompressed, never longer than `Limits::max_body`.
    pub body: Bytes,
    pub redirected: Option<Redirected>,
}

/// Where an answer was found when it was not where it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirected {
    pub url: String,
    /// As far as the redirects said that it has moved there for good (301, 308), up to the first that did not.
    pub moved_to: Option<String>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Without header values and body: a session cookie or a token may be among them.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("connecting to {host} failed: {reason}")]
    Connect { host: String, reason: String },
    #[error("no answer within {} ms", after.as_millis())]
    Timeout { after: Duration },
    #[error("the connection broke while reading: {reason}")]
    Broken { reason: String },
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body cannot be decompressed: {reason}")]
    Encoding { reason: String },
    #[error("{host} is refused by the address guard: {reason}; --allow-net opens a network that is not public")]
    Refused { host: String, reason: String },
    #[error("redirected where Patra does not follow: {reason}")]
    Redirect { reason: String },
    #[error("the request is invalid: {reason}")]
    Invalid { reason: String },
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let (code, level) = match &error {
            Error::Timeout { .. } => (Code::TimeoutError, Level::L1),
            Error::Connect { .. } | Error::Broken { .. } => (Code::NetworkError, Level::L1),
            // A body over the cap, or one that cannot be unpacked, will be so the next time too.
            Error::TooLarge { .. } | Error::Encoding { .. } => (Code::ParseError, Level::L2),
            Error::Refused { .. } => (Code::Forbidden, Level::L2),
            Error::Redirect { .. } => (Code::PlatformError, Level::L2),
            Error::Invalid { .. } => (Code::InvalidInput, Level::L2),
        };
        Fault::new(code, level, error.to_string())
    }
}

pub trait Transport: fmt::Debug + Send + Sync {
    fn send(&self, request: Request) -> Boxed<'_, Result<Response, Error>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_nothing_that_may_be_secret() {
        for (url, shown) in [
            ("http://a.test/b?key=canary", "http://a.test/b"),
            ("https://canary:canary@a.test:8/b/c#canary", "https://a.test:8/b/c"),
            ("http://canary@canary@a.test?canary", "http://a.test"),
            ("a.test/b?canary", "a.test/b"),
            ("canary:canary@a.test", "a.test"),
            ("", ""),
        ] {
            let mut request = Request::new(Method::Post, url);
            request.headers = vec![("x-key".to_owned(), "canary".to_owned())];
            request.body = Some(Bytes::from_static(b"canary"));
            request.proxy = Some("http://canary:canary@b.test".to_owned());
            let text = format!("{request:?}");
            assert!(text.contains(&format!("url: {shown:?}")) && text.contains("x-key"), "{text}");
            assert!(!text.contains("canary"), "{text}");
        }
        let headers = vec![("set-cookie".to_owned(), "canary".to_owned())];
        let response = Response { status: 200, headers, body: Bytes::from_static(b"canary"), redirected: None };
        let text = format!("{response:?}");
        assert_eq!(text, r#"Response { status: 200, headers: ["set-cookie"], body_bytes: 6 }"#);
    }
}
