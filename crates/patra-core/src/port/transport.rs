//! Transport: one HTTP exchange. Retries, pacing and reading the body belong to the callers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;

use super::BoxFuture;
use crate::error::{Code, Fault, Level};

/// One request, fully rendered.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    pub method: HttpMethod,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Bytes>,
    pub limits: TransferLimits,
    /// HTTP proxy to use, `http://host:port` without credentials; the environment's proxy settings are never used.
    pub proxy: Option<String>,
    /// Whether to offer compression to the upstream. A body that comes encoded is decoded either way.
    pub compression: bool,
    /// The configured URL, if `url` comes from a response of it. A URL from a public host cannot lead into a private
    /// network, even one that is allowed.
    pub origin: Option<String>,
    /// Private networks that this request may reach, in addition to those that the operator allows for all.
    pub allow_net: Arc<[IpNet]>,
    /// Whether the robots.txt of the host decides about this request. Who sends it asks first; the transport does not.
    pub respect_robots: bool,
}

impl HttpRequest {
    /// A request without headers and body, with the default limits, no proxy, and compression offered.
    pub fn new(method: HttpMethod, url: impl Into<String>) -> HttpRequest {
        HttpRequest {
            method,
            url: url.into(),
            headers: Vec::new(),
            body: None,
            limits: TransferLimits::default(),
            proxy: None,
            compression: true,
            origin: None,
            allow_net: Arc::default(),
            respect_robots: false,
        }
    }
}

/// Shows no query, credentials, header values and body: any of them may hold a secret.
impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &bare(&self.url))
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// The URL without parts that may be secret: user and password, query and fragment.
fn bare(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    path.map_or_else(|| format!("{scheme}{host}"), |path| format!("{scheme}{host}/{path}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    Get,
    Post,
}

/// Limits of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferLimits {
    pub connect_timeout: Duration,
    /// Longest silence while reading.
    pub read_timeout: Duration,
    /// Deadline of the whole exchange.
    pub total_timeout: Duration,
    /// Largest body after decompression, in bytes.
    pub max_body: usize,
    /// Redirects to follow; each hop is checked like the first (ING-4.2-09).
    pub max_redirects: u8,
    /// A body that is larger is cut instead of refused, unless it is compressed.
    pub cut: bool,
}

impl Default for TransferLimits {
    fn default() -> TransferLimits {
        TransferLimits {
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(120),
            max_body: 16 << 20,
            max_redirects: 0,
            cut: false,
        }
    }
}

/// A complete response, whatever its status.
#[derive(Clone)]
pub struct HttpResponse {
    pub status: u16,
    /// Lower-case names, in order of arrival.
    pub headers: Vec<(String, String)>,
    /// Decompressed, never longer than [`TransferLimits::max_body`].
    pub body: Bytes,
    pub redirected: Option<Redirect>,
}

/// Where a response came from when the request was redirected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirect {
    pub url: String,
    /// The new permanent URL: as far as the redirects were permanent (301, 308), up to the first that was not.
    pub moved_to: Option<String>,
}

impl HttpResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Shows no header values and body: a session cookie or a token may be among them.
impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("connecting to {host} failed: {reason}")]
    Connect { host: String, reason: String },
    #[error("no response within {} ms", after.as_millis())]
    Timeout { after: Duration },
    #[error("the connection broke while reading: {reason}")]
    Broken { reason: String },
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    /// Other bodies hold the memory. Nothing is wrong with the request, so it may be sent again.
    #[error("no memory became free for the body in time: bodies that are read at once share {budget} bytes")]
    NoMemory { budget: usize },
    #[error("the body cannot be decompressed: {reason}")]
    Encoding { reason: String },
    #[error("{host} is {reason}; Patra only collects from public addresses")]
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
            Error::NoMemory { .. } => (Code::InternalError, Level::L1),
            // A body over the cap, or one that cannot be decompressed, will fail the next time too.
            Error::TooLarge { .. } | Error::Encoding { .. } => (Code::ParseError, Level::L2),
            Error::Refused { .. } => (Code::Forbidden, Level::L2),
            Error::Redirect { .. } => (Code::PlatformError, Level::L2),
            Error::Invalid { .. } => (Code::InvalidInput, Level::L2),
        };
        Fault::new(code, level, error.to_string())
    }
}

pub trait Transport: fmt::Debug + Send + Sync {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, Error>>;
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
            let mut request = HttpRequest::new(HttpMethod::Post, url);
            request.headers = vec![("x-key".to_owned(), "canary".to_owned())];
            request.body = Some(Bytes::from_static(b"canary"));
            request.proxy = Some("http://canary:canary@b.test".to_owned());
            let text = format!("{request:?}");
            assert!(text.contains(&format!("url: {shown:?}")) && text.contains("x-key"), "{text}");
            assert!(!text.contains("canary"), "{text}");
        }
        let headers = vec![("set-cookie".to_owned(), "canary".to_owned())];
        let response = HttpResponse { status: 200, headers, body: Bytes::from_static(b"canary"), redirected: None };
        let text = format!("{response:?}");
        assert_eq!(text, r#"Response { status: 200, headers: ["set-cookie"], body_bytes: 6 }"#);
    }
}
