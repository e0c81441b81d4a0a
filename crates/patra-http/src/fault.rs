//! Converts reqwest errors to errors of the port. A reqwest error prints the URL with its query, which may contain
//! keys, so only its root cause is ever printed.

use std::error::Error as StdError;
use std::io;

use patra_core::port::transport::{Error, TransferLimits};

use crate::connect::ConnectTimedOut;
use crate::guard::DeniedAddress;

/// The error for a request to `host`, through `proxy` if there is one, that got no response head.
pub(crate) fn sending(error: &reqwest::Error, host: &str, proxy: Option<&str>, limits: &TransferLimits) -> Error {
    if let Some(denied) = find::<DeniedAddress>(error) {
        // With a proxy, its host is the only name that we resolve while connecting.
        Error::Refused { host: proxy.unwrap_or(host).to_owned(), reason: denied.to_string() }
    } else if find::<ConnectTimedOut>(error).is_some() {
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

/// The error for a body that ended early.
pub(crate) fn reading(error: &reqwest::Error) -> Error {
    Error::Broken { reason: root_cause(error) }
}

/// The error for failed decompression: one of ours that passed through the decoders, or one of the decoders themselves.
pub(crate) fn decoding(error: &io::Error) -> Error {
    let ours = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match (ours, error.kind()) {
        (Some(ours), _) => ours.clone(),
        // Like a truncated plain body: a retry may succeed.
        (None, io::ErrorKind::UnexpectedEof) => {
            Error::Broken { reason: "the compressed data ends too early".to_owned() }
        }
        (None, _) => Error::Encoding { reason: error.to_string() },
    }
}

/// The innermost error; for a reqwest error without a source, a description of its kind.
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
