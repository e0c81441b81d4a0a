//! Health, open to everybody and without a word about anything secret.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::Api;

/// The process runs.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// The process can do its work: its database answers.
pub(super) async fn ready(State(api): State<Api>) -> (StatusCode, &'static str) {
    match api.store.ping().await {
        Ok(_) => (StatusCode::OK, "ready\n"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n"),
    }
}

pub(super) async fn health(State(api): State<Api>) -> (StatusCode, Json<Value>) {
    let database = api.store.ping().await;
    let (status, word) = match database {
        Ok(_) => (StatusCode::OK, "healthy"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
    };
    let body = json!({
        "status": word,
        "version": env!("CARGO_PKG_VERSION"),
        "checks": { "database": if database.is_ok() { "ok" } else { "error" } },
        "schema_version": database.ok(),
        "timestamp": api.clock.now(),
    });
    (status, Json(body))
}
