//! The OpenAPI document and the page for people.

use std::sync::Arc;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde_json::Value;

use crate::openapi::{self, Operation};

/// All routes. The document is rendered for each request, since requests are rare.
pub(super) type Operations = Arc<Vec<Operation>>;

pub(super) async fn openapi(Extension(operations): Extension<Operations>) -> Json<Value> {
    Json(openapi::document(&operations))
}

pub(super) async fn docs(Extension(operations): Extension<Operations>) -> Response {
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, "default-src 'none'")];
    (headers, openapi::page(&operations)).into_response()
}
