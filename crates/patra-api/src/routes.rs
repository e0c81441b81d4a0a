//! The routes. One file per resource; `router` is the whole list.

pub(crate) mod crawler;
mod credentials;
mod health;
mod input;
mod jobs;
mod manifests;
mod metrics;
mod operations;
mod pool;
mod projects;
mod replay;
mod scrape;
mod sources;
mod specs;
mod views;

use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{delete, get, post};
use axum::{Extension, Router};

use patra_core::Code;

use crate::envelope::Failure;
use crate::request_id::{self, RequestId};
use crate::{Api, auth};

pub use metrics::metrics_router;

/// Largest request body, and longest time for one answer.
const MAX_BODY: usize = 1 << 20;
const DEADLINE: Duration = Duration::from_secs(10);

pub fn router(api: Api) -> Router {
    let guarded = owned().merge(operating()).layer(middleware::from_fn(deadline));
    let guarded = guarded.merge(crawling()).layer(middleware::from_fn_with_state(api.clone(), auth::layer));
    Router::new()
        .route("/health", get(health::health))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .merge(guarded)
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(request_id::layer))
        .with_state(api)
}

/// What is of a project: each sees its own.
fn owned() -> Router<Api> {
    Router::new()
        .route("/api/v1/jobs", get(jobs::list).post(jobs::create))
        .route("/api/v1/jobs/{public_id}", get(jobs::show))
        .route("/api/v1/jobs/{public_id}/cancel", post(operations::cancel_job))
        .route("/api/v1/{level}/{id}/cancel", post(operations::cancel))
        .route("/api/v1/signals", get(operations::signals).post(operations::signal))
        .route("/api/v1/quarantine/{id}/abandon", post(operations::abandon))
        .route("/api/v1/plans/{id}/lineage", get(operations::lineage))
        .route("/api/v1/runs/{run}/batches/{no}/replay", post(replay::replay))
        .route("/api/v1/runs/{run}/batches/{no}/redrive", post(replay::redrive_batch))
        .route("/api/v1/runs/{run}/batches/{no}/blackbox", post(replay::blackbox))
        .route("/api/v1/tasks/{id}/redrive", post(replay::redrive_task))
        .route("/api/v1/dictionary", get(specs::dictionary))
        .route("/api/v1/schema", get(specs::schema))
        .route("/api/v1/resource_pool/extract/from-documents", post(pool::extract))
        .route("/api/v1/resource_pool/capture/from-tasks", post(pool::look_back))
        .route("/api/v1/resource_pool/capture/enable", post(pool::enable_capture))
        .route("/api/v1/resource_pool/capture/config", get(pool::capture_config))
        .route("/api/v1/resource_pool/urls", get(pool::urls))
        .route("/api/v1/ingest/news-resources", get(pool::news_resources))
        .route("/api/v1/documents", post(projects::put_document))
        .route("/api/v1/tweets", get(scrape::tweets))
        .route("/api/admin/scrape", get(scrape::list).post(scrape::start))
        .route("/api/admin/scrape/{task_id}", get(scrape::show))
        .route("/api/v1/projects", get(projects::projects))
        .route("/api/v1/{view}", get(views::list))
        .route("/api/collector/status", get(sources::status))
        .route("/api/sources", get(sources::list).post(sources::create))
        .route("/api/sources/opml", get(sources::export_opml).post(sources::import_opml))
        .route("/api/sources/{id}", get(sources::show).put(sources::change).delete(sources::delete))
        .route("/api/sources/{id}/pause", post(sources::pause))
        .route("/api/sources/{id}/resume", post(sources::resume))
        .route("/api/sources/{id}/collect", post(sources::collect))
        .route("/api/raw-items", get(sources::items))
        .route("/api/raw-items/stats", get(sources::stats))
        .route("/api/raw-items/for-digest", get(sources::for_digest))
}

/// What all projects have in common: for who runs the house.
fn operating() -> Router<Api> {
    Router::new()
        .route("/api/v1/holds", get(operations::holds).post(operations::hold))
        .route("/api/v1/holds/{id}", delete(operations::release))
        .route("/api/v1/gates", get(operations::gates))
        .route("/api/v1/manifests", get(manifests::list).post(manifests::apply))
        .route("/api/v1/manifests/{code}", get(manifests::show).delete(manifests::remove))
        .route("/api/v1/specs/{code}/{endpoint}", get(specs::show))
        .route("/api/v1/credentials", get(views::credentials).post(credentials::create))
        .route("/api/v1/credentials/{alias}", delete(credentials::revoke))
        .route("/api/v1/projects", post(projects::create_project))
        .route("/metrics", get(metrics::metrics))
        .layer(middleware::from_fn(auth::operators))
}

/// Questions to platforms have limits of their own.
fn crawling() -> Router<Api> {
    use crawler::{cookies, locks, notes};
    let operating = Router::new()
        .route("/api/v1/crawler/recover", post(locks::recover))
        .route("/api/v1/crawler/cookies", get(cookies::list).post(cookies::store))
        .route("/api/v1/crawler/cookies/{cookie_name}", delete(cookies::delete))
        .route("/api/v1/crawler/cookies/{cookie_name}/reactivate", post(cookies::reactivate))
        .route("/api/v1/crawler/cookies/{cookie_name}/validate", post(cookies::validate))
        .layer(middleware::from_fn(auth::operators));
    Router::new()
        .merge(operating)
        .route("/api/search", post(crawler::search))
        .route("/api/note/detail", post(crawler::batch))
        .route("/api/v1/crawler/search", post(crawler::search))
        .route("/api/v1/crawler/notes/detail", post(crawler::batch))
        .route("/api/v1/crawler/notes/{note_id}", get(crawler::single))
        .route("/api/v1/crawler/notes", get(notes::notes).post(notes::write))
        .route("/api/v1/crawler/executions", get(locks::executions))
        .route("/api/v1/crawler/executions/acquire", post(locks::acquire))
        .route("/api/v1/crawler/executions/{execution_id}/heartbeat", post(locks::heartbeat))
        .route("/api/v1/crawler/executions/{execution_id}/release", post(locks::release))
        .route("/api/v1/crawler/candidates", get(notes::candidates).post(notes::add_candidates))
        .route("/api/v1/crawler/candidates/claim", post(notes::claim))
        .route("/api/v1/crawler/candidates/requeue", post(notes::requeue))
        .route("/api/v1/crawler/candidates/{note_id}/fail", post(notes::fail))
}

async fn not_found(Extension(id): Extension<RequestId>, uri: Uri) -> Response {
    Failure::new(StatusCode::NOT_FOUND, Code::NotFound, "there is no such route").answer_at(uri.path(), &id)
}

async fn wrong_method(Extension(id): Extension<RequestId>, uri: Uri) -> Response {
    let message = "this route does not take that method";
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, Code::InvalidInput, message).answer_at(uri.path(), &id)
}

async fn deadline(Extension(id): Extension<RequestId>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(DEADLINE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("no answer within {} s", DEADLINE.as_secs());
            Failure::new(StatusCode::GATEWAY_TIMEOUT, Code::TimeoutError, message).answer(&id)
        }
    }
}

#[cfg(test)]
mod tests;
