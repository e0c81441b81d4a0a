//! Targets of redirects, and the headers that follow them. Pure: the guard checks the address of the next hop when it
//! is sent, like that of the first.

use http::header::{self, HeaderMap};
use http::{Method, StatusCode};
use url::Url;

use patra_core::port::transport::Error;

use crate::hop::{PLAIN_HEADERS, RequestHop};

/// The target of a redirect response. Other 3xx responses (304, 300, no `Location`) are final.
pub(crate) fn location(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    // Servers send UTF-8 here, although the standard forbids it.
    headers.get(header::LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// The hop that follows `hop` after a redirect to `location`.
pub(crate) fn next(hop: &RequestHop, status: StatusCode, location: &str) -> Result<RequestHop, Error> {
    let from = hop.host();
    let mut url = hop.url.join(location).map_err(|error| refused(format!("{from} names no valid URL: {error}")))?;
    match (hop.url.scheme(), url.scheme()) {
        (_, "https") | ("http", "http") => {}
        (_, "http") => return Err(refused(format!("{from} leads from https to http"))),
        _ => return Err(refused(format!("{from} leads out of http"))),
    }
    // Credentials in a `Location` are dropped. Neither call can fail for http.
    let _ = url.set_username("");
    let _ = url.set_password(None);

    let mut next = RequestHop { url, ..hop.clone() };
    match status.as_u16() {
        // The request was processed; the redirect target shows the result.
        301..=303 => {
            next.method = Method::GET;
            next.body = None;
            drop_body_headers(&mut next.headers);
        }
        _ if next.method != Method::GET => {
            return Err(refused(format!("{from} wants a {} repeated elsewhere", next.method)));
        }
        _ => {}
    }
    if !same_host(&hop.url, &next.url) {
        next.headers = std::mem::take(&mut next.headers)
            .into_iter()
            .scan(None, |last, (name, value)| {
                // `HeaderMap` yields a name once, then only the further values.
                *last = name.or_else(|| last.take());
                last.clone().map(|name| (name, value))
            })
            .filter(|(name, _)| PLAIN_HEADERS.contains(name))
            .collect();
    }
    Ok(next)
}

/// Another port is another server; an upgrade to https on the default ports is not.
fn same_host(from: &Url, to: &Url) -> bool {
    let ports = (from.port_or_known_default(), to.port_or_known_default());
    let upgrade = from.scheme() == "http" && to.scheme() == "https" && ports == (Some(80), Some(443));
    from.host() == to.host() && (ports.0 == ports.1 || upgrade)
}

fn drop_body_headers(headers: &mut HeaderMap) {
    for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE, header::CONTENT_LOCATION] {
        headers.remove(name);
    }
}

fn refused(reason: String) -> Error {
    Error::Redirect { reason }
}

#[cfg(test)]
mod tests;
