//! Metrics for Prometheus: on the API's listener with a key, or on a listener of their own.

use std::sync::Arc;

use axum::extract::{FromRef, State};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};

use patra_core::port::Store;
use patra_engine::metrics::Metrics;

use crate::Api;
use crate::connection;
use crate::envelope::Failure;
use crate::request_id::{self, RequestId};

/// State of the route `/metrics`.
#[derive(Clone)]
pub(super) struct Scraped {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
}

impl FromRef<Api> for Scraped {
    fn from_ref(api: &Api) -> Scraped {
        Scraped { store: Arc::clone(&api.store), metrics: Arc::clone(&api.metrics) }
    }
}

/// The route `/metrics` alone, without a key: for a listener that only scrapers can reach.
pub fn metrics_router(store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/metrics", get(self::metrics))
        .fallback(super::not_found)
        .layer(middleware::from_fn(super::deadline))
        .layer(middleware::from_fn(connection::layer))
        .layer(middleware::from_fn(super::harden))
        .layer(middleware::from_fn(request_id::layer))
        .with_state(Scraped { store, metrics })
}

pub(super) async fn metrics(State(scraped): State<Scraped>, Extension(id): Extension<RequestId>) -> Response {
    match scraped.metrics.text(&*scraped.store).await {
        Ok(text) => ([("content-type", Metrics::MEDIA_TYPE)], text).into_response(),
        Err(error) => Failure::from(error).respond(&id),
    }
}
