//! Health checks. They need no key and contain no secrets.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::routing::get;
use axum::{Json, Router, middleware};
use serde_json::{Value, json};

use patra_core::cookie::CookieCounts;

use crate::{Api, request_id};

/// Liveness: the process runs.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Readiness: the database responds.
pub(super) async fn ready(State(api): State<Api>) -> (StatusCode, &'static str) {
    match api.store.ping().await {
        Ok(_) => (StatusCode::OK, "ready\n"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the database does not respond\n"),
    }
}

/// Routes of a server that waits for its database at start: alive, but not ready.
pub fn waiting_router() -> Router {
    const WAITING: &str = "waiting for the database\n";
    let refused = || async { (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], WAITING) };
    Router::new()
        .route("/healthz", get(alive))
        .fallback(refused)
        .layer(middleware::from_fn(super::deadline))
        .layer(middleware::from_fn(request_id::layer))
}

pub(super) async fn health(State(api): State<Api>) -> (StatusCode, Json<Value>) {
    let database = api.store.ping().await;
    let (status, word) = match database {
        Ok(_) => (StatusCode::OK, "ok"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "error"),
    };
    let body = json!({
        "status": word,
        "version": env!("CARGO_PKG_VERSION"),
        "time": api.clock.now(),
        "checks": { "database": word, "scheduler": word, "cookies": cookies(&api).await },
        "schema_version": database.ok(),
    });
    (status, Json(body))
}

/// Cookies of each platform by status; empty if the database fails.
async fn cookies(api: &Api) -> BTreeMap<String, CookieCounts> {
    let totals = api.store.cookie_totals(None).await.map(|(totals, _)| totals).unwrap_or_default();
    totals.into_iter().map(|(platform, totals)| (platform, totals.counts)).collect()
}
