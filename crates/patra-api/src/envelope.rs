//! The response envelope under `/api/v1`: `{status, data, error, meta}`.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use patra_core::tx::TxError;
use patra_core::{Code, Level};

use crate::request_id::RequestId;
use crate::routes::crawler;

/// A failed request, to be sent as a response.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Single problems, where there can be more than one.
    pub(crate) problems: Vec<Value>,
    /// Details for programs.
    pub(crate) details: serde_json::Map<String, Value>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, code: Code, message: impl Into<String>) -> Failure {
        Failure {
            status,
            code,
            message: message.into(),
            hint: None,
            problems: Vec::new(),
            details: serde_json::Map::new(),
        }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn detail(mut self, name: &str, value: Value) -> Failure {
        self.details.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, Code::InvalidInput, message)
    }

    /// Response of routes without an envelope: `{error, meta}`.
    pub(crate) fn respond_bare(self, id: &RequestId) -> Response {
        let message = match &self.hint {
            Some(hint) => format!("{}: {hint}", self.message),
            None => self.message,
        };
        let error = json!({ "code": self.code, "message": message, "details": self.details });
        let wait = retry_after(&self.details);
        (self.status, wait, Json(json!({ "error": error, "meta": { "request_id": id.as_str() } }))).into_response()
    }

    /// Response in the envelope of the contract that the path belongs to (MAP-X-01).
    pub(crate) fn respond_at(self, path: &str, id: &RequestId) -> Response {
        match path {
            path if crawler::is_ours(path) => crawler::refuse(self, id),
            path if path.starts_with("/api/") && !path.starts_with("/api/v1/") => self.respond_bare(id),
            _ => self.respond(id),
        }
    }

    pub(crate) fn respond(self, id: &RequestId) -> Response {
        let wait = retry_after(&self.details);
        let mut error =
            json!({ "code": self.code, "message": self.message, "details": self.details, "hint": self.hint });
        if !self.problems.is_empty() {
            error["problems"] = self.problems.into();
        }
        let body =
            json!({ "status": "error", "data": Value::Null, "error": error, "meta": { "request_id": id.as_str() } });
        (self.status, wait, Json(body)).into_response()
    }
}

/// The header `Retry-After`, if the details contain a delay.
fn retry_after(details: &serde_json::Map<String, Value>) -> HeaderMap {
    let seconds = details.get("retry_after_seconds").and_then(Value::as_u64);
    let value = seconds.and_then(|seconds| HeaderValue::try_from(seconds.to_string()).ok());
    value.map(|value| (RETRY_AFTER, value)).into_iter().collect()
}

impl From<TxError> for Failure {
    fn from(error: TxError) -> Failure {
        // Messages of the database go to the log, not to callers.
        tracing::warn!(error = %error, level = Level::L1.as_str(), "a query failed");
        match error {
            TxError::Refused(_) => {
                Failure::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, "the database refused the request")
            }
            _ => Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::InternalError, "the database is not available")
                .hint("try again in a moment"),
        }
    }
}

#[derive(Serialize)]
struct Success<'a, D> {
    status: &'static str,
    data: &'a D,
    error: Option<()>,
    meta: Value,
}

pub(crate) fn success(id: &RequestId, data: &impl Serialize, mut meta: Value) -> Response {
    if let Some(map) = meta.as_object_mut() {
        map.insert("request_id".into(), id.as_str().into());
    }
    Json(Success { status: "ok", data, error: None, meta }).into_response()
}
