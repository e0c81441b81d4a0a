//! One step of an exchange: what is sent to one URL. A redirect makes the next hop out of this one.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use patra_core::port::transport::{Error, Method, Request};

/// What hyper decides about the connection. A request that could set these could send a second request inside the first.
const CONNECTION_HEADERS: &[HeaderName] = &[
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The headers that say nothing about who is asking: they may be logged, and follow a redirect to another host.
pub(crate) const PLAIN_HEADERS: &[HeaderName] =
    &[header::ACCEPT, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE, header::USER_AGENT];

/// What [`crate::body`] can decode.
const ENCODINGS: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");
const NO_ENCODING: HeaderValue = HeaderValue::from_static("identity");

#[derive(Clone)]
pub(crate) struct Hop {
    pub(crate) method: http::Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

impl Hop {
    pub(crate) fn first(request: Request) -> Result<Hop, Error> {
        let url = Url::parse(&request.url).map_err(|error| invalid(format!("the URL cannot be read: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("only http and https URLs can be asked".to_owned()));
        }
        let method = match request.method {
            Method::Get => http::Method::GET,
            Method::Post => http::Method::POST,
        };
        let mut headers = headers(&request.headers)?;
        let accepted = if request.compression { ENCODINGS } else { NO_ENCODING };
        headers.entry(header::ACCEPT_ENCODING).or_insert(accepted);
        Ok(Hop { method, url, headers, body: request.body })
    }

    /// The host, the only part of a URL that may be shown.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

fn headers(pairs: &[(String, String)]) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::with_capacity(pairs.len() + 3);
    for (index, (name, value)) in pairs.iter().enumerate() {
        // A name that is none may be a secret in the wrong place: the number of the header must do.
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("the name of header {} is not allowed in HTTP", index + 1)))?;
        if CONNECTION_HEADERS.contains(&name) {
            return Err(invalid(format!("the header {name} belongs to the connection and cannot be set")));
        }
        let mut value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| invalid(format!("the value of header {name} is not allowed in HTTP")))?;
        // Keeps the value out of the debug output of every library below us.
        value.set_sensitive(!PLAIN_HEADERS.contains(&name));
        headers.append(name, value);
    }
    Ok(headers)
}

fn invalid(reason: String) -> Error {
    Error::Invalid { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str, name: &str, value: &str) -> String {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let request = Request { headers, ..Request::new(Method::Get, url) };
        match Hop::first(request) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused_without_showing_it() {
        let cases = [
            ("http://a.test/", "x-key", "v", "accepted"),
            ("a.test/?key=canary", "x-key", "v", "the URL cannot be read"),
            ("http://canary:canary@/", "x-key", "v", "the URL cannot be read"),
            ("file:///etc/passwd?canary", "x-key", "v", "only http and https"),
            ("ftp://a.test/canary", "x-key", "v", "only http and https"),
            ("http://a.test/", "canary canary", "v", "the name of header 1"),
            ("http://a.test/", "x-key", "canary\r\nx: y", "the value of header x-key"),
            ("http://a.test/", "Content-Length", "5", "content-length belongs to the connection"),
            ("http://a.test/", "Transfer-Encoding", "chunked", "transfer-encoding belongs to the connection"),
        ];
        for (url, name, value, expected) in cases {
            let refusal = refusal(url, name, value);
            assert!(refusal.contains(expected), "{url}: {refusal}");
            assert!(!refusal.contains("canary"), "{url}: {refusal}");
        }
    }
}
