//! What is told of the routes.

use std::sync::Arc;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde_json::Value;

use crate::openapi::{self, Operation};

/// All that is served. The document is made when somebody asks for it, which is rare.
pub(super) type Told = Arc<Vec<Operation>>;

pub(super) async fn openapi(Extension(told): Extension<Told>) -> Json<Value> {
    Json(openapi::document(&told))
}

pub(super) async fn docs(Extension(told): Extension<Told>) -> Response {
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, "default-src 'none'")];
    (headers, openapi::page(&told)).into_response()
}
