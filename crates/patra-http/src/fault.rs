//! From errors of reqwest to those of the port. A reqwest error prints the URL with its query, where keys travel, so
//! none is ever printed whole: only its root cause, which knows nothing of the request.

use std::error::Error as StdError;
use std::io;

use patra_core::port::transport::{Error, Limits};

use crate::connect::TimedOut;
use crate::guard::Denied;

/// Why there was no head of an answer from `host`, asked through `proxy` if there is one.
pub(crate) fn sending(error: &reqwest::Error, host: &str, proxy: Option<&str>, limits: &Limits) -> Error {
    if let Some(denied) = find::<Denied>(error) {
        // With a proxy it is the only host whose name we look up while connecting.
        Error::Refused { host: proxy.unwrap_or(host).to_owned(), reason: denied.to_string() }
    } else if find::<TimedOut>(error).is_some() {
        Error::Timeout { after: limits.connect_timeout }
    } else if error.is_builder() {
        Error::Invalid { reason: root_cause(error) }
    } else if error.is_connect() {
        let host = proxy.map_or_else(|| host.to_owned(), |proxy| format!("{host} through the proxy {proxy}"));
        Error::Connect { host, reason: root_cause(error) }
    } else {
        Error::Broken { reason: root_cause(error) }
    }
}

/// Why the body ended early.
pub(crate) fn reading(error: &reqwest::Error) -> Error {
    Error::Broken { reason: root_cause(error) }
}

/// Why decompression stopped: an error of ours that travelled through the decoders, or a fault they found themselves.
pub(crate) fn decoding(error: &io::Error) -> Error {
    let ours = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match (ours, error.kind()) {
        (Some(ours), _) => ours.clone(),
        // Like a plain body that is cut: it may be whole the next time.
        (None, io::ErrorKind::UnexpectedEof) => {
            Error::Broken { reason: "the compressed data ends too early".to_owned() }
        }
        (None, _) => Error::Encoding { reason: error.to_string() },
    }
}

/// The innermost error; for a reqwest error without a source, its kind in words.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    match chain(error).skip(1).last() {
        Some(root) => root.to_string(),
        None if error.is_builder() => "the request cannot be built".to_owned(),
        None => "the exchange failed".to_owned(),
    }
}

fn find<T: StdError + 'static>(error: &reqwest::Error) -> Option<&T> {
    chain(error).find_map(<dyn StdError>::downcast_ref)
}

fn chain(error: &reqwest::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(Some(error as &(dyn StdError + 'static)), |&error| error.source())
}
