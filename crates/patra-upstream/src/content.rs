//! What a data request ends in, before it is an answer: something to send, or a refusal.

use bytes::Bytes;

use crate::paging::Page;
use crate::query::BadParameter;

pub(crate) const JSON: &str = "application/json";

#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) records: usize,
    /// The body, in order.
    pub(crate) parts: Vec<Bytes>,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) content_type: &'static str,
}

impl Content {
    pub(crate) fn json(records: usize, parts: Vec<Bytes>) -> Self {
        Self { records, parts, headers: Vec::new(), content_type: JSON }
    }
}

impl From<Page> for Content {
    fn from(page: Page) -> Self {
        let headers = page.link.map(|link| ("Link", link)).into_iter().collect();
        Self { headers, ..Self::json(page.records, page.parts) }
    }
}

/// Answered as `{"error":{"code","message"}}` with the status, or in words of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The body, for those who refuse otherwise.
    pub(crate) body: Option<String>,
}

impl Refused {
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), body: None }
    }

    pub(crate) fn saying(status: u16, body: &serde_json::Value) -> Self {
        Self { body: Some(body.to_string()), ..Self::new(status, "refused", "") }
    }

    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::new(404, "not_found", what)
    }
}

impl From<BadParameter> for Refused {
    fn from(BadParameter(message): BadParameter) -> Self {
        Self::new(400, "bad_parameter", message)
    }
}
