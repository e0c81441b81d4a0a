//! The result of a data request before it becomes an HTTP response: content, or an error.

use bytes::Bytes;

use crate::paging::ListPage;
use crate::query::BadParameter;

pub(crate) const JSON: &str = "application/json";

#[derive(Debug)]
pub(crate) struct DataContent {
    pub(crate) records: usize,
    /// The parts of the body, in order.
    pub(crate) parts: Vec<Bytes>,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) content_type: &'static str,
}

impl DataContent {
    pub(crate) fn json(records: usize, parts: Vec<Bytes>) -> Self {
        Self { records, parts, headers: Vec::new(), content_type: JSON }
    }
}

impl From<ListPage> for DataContent {
    fn from(page: ListPage) -> Self {
        let headers = page.link.map(|link| ("Link", link)).into_iter().collect();
        Self { headers, ..Self::json(page.records, page.parts) }
    }
}

/// An error response: `{"error":{"code","message"}}`, or a custom body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DataError {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Custom body, for API styles with another error format.
    pub(crate) body: Option<String>,
}

impl DataError {
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), body: None }
    }

    pub(crate) fn with_body(status: u16, body: &serde_json::Value) -> Self {
        Self { body: Some(body.to_string()), ..Self::new(status, "refused", "") }
    }

    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::new(404, "not_found", what)
    }
}

impl From<BadParameter> for DataError {
    fn from(BadParameter(message): BadParameter) -> Self {
        Self::new(400, "bad_parameter", message)
    }
}
