//! One request of an exchange, to one URL. A redirect creates the next hop from this one.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use patra_core::port::transport::{Error, HttpMethod, HttpRequest};

/// Connection headers, which only hyper may set. A request that could set these could smuggle a second request inside
/// the first.
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

/// Headers without credentials: they may be logged, and follow a redirect to another host.
pub(crate) const PLAIN_HEADERS: &[HeaderName] =
    &[header::ACCEPT, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE, header::USER_AGENT];

/// Encodings that [`crate::body`] can decode.
const ENCODINGS: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");
const NO_ENCODING: HeaderValue = HeaderValue::from_static("identity");

#[derive(Clone)]
pub(crate) struct RequestHop {
    pub(crate) method: http::Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

impl RequestHop {
    pub(crate) fn first(request: HttpRequest) -> Result<RequestHop, Error> {
        let url = Url::parse(&request.url).map_err(|error| invalid(format!("the URL cannot be read: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("only http and https URLs can be requested".to_owned()));
        }
        let method = match request.method {
            HttpMethod::Get => http::Method::GET,
            HttpMethod::Post => http::Method::POST,
        };
        let mut headers = headers(&request.headers)?;
        let accepted = if request.compression { ENCODINGS } else { NO_ENCODING };
        headers.entry(header::ACCEPT_ENCODING).or_insert(accepted);
        Ok(RequestHop { method, url, headers, body: request.body })
    }

    /// The host, the only part of a URL that may appear in messages.
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
        let request = HttpRequest { headers, ..HttpRequest::new(HttpMethod::Get, url) };
        match RequestHop::first(request) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn invalid_request_error_does_not_show_the_value() {
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
