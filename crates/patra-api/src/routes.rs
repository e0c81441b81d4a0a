//! The routes, one file per resource. `served` is the complete list, and the OpenAPI document is made from it.

pub(crate) mod crawler;
mod credentials;
mod docs;
mod fields;
mod health;
pub(crate) mod input;
pub(crate) mod jobs;
pub(crate) mod manifests;
mod metrics;
pub(crate) mod operations;
mod ops;
pub(crate) mod pool;
mod projects;
pub(crate) mod replay;
mod scrape;
pub(crate) mod sources;
mod specs;
pub(crate) mod views;

use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::{Extension, Router};

use patra_core::Code;
use patra_core::tx::KeyScope;

use crate::auth::PublicPaths;
use crate::envelope::Failure;
use crate::openapi::{Needs, Operation, Served, delete, get, post, put};
use crate::request_id::{self, RequestId};
use crate::{Api, auth, connection, console};
use docs::Operations;
use fields::*;

pub use health::waiting_router;
pub use metrics::metrics_router;

/// Most bytes of a request body, and longest time for one response.
const MAX_BODY: usize = 1 << 20;
const DEADLINE: Duration = Duration::from_secs(10);

const TEXT: &str = "text/plain";
const OPENMETRICS: &str = "application/openmetrics-text";
const HTML: &str = "text/html";

pub fn router(api: Api) -> Router {
    let Served { router, operations } = served(&api);
    router
        .merge(console::router(api.clone()))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(Extension(Operations::new(operations)))
        .layer(middleware::from_fn(connection::layer))
        .layer(middleware::from_fn(harden))
        .layer(middleware::from_fn(request_id::layer))
        .with_state(api)
}

/// All routes with their descriptions.
fn served(api: &Api) -> Served {
    let in_time = |router: Router<Api>| router.layer(middleware::from_fn(deadline));
    let with_key = |router: Router<Api>| router.layer(middleware::from_fn_with_state(api.clone(), auth::layer));
    let quick = owned().merge(operating()).layered(in_time);
    let keyed = quick.merge(crawling());
    let public = PublicPaths::of(&keyed.operations);
    open().merge(keyed.layered(with_key).layered(|router| router.layer(Extension(public))))
}

fn open() -> Served {
    Served::default()
        .route(get("/health", "Health of the server").open().failures(&[503]), health::health)
        .route(get("/healthz", "Liveness of the process").open().media(TEXT), health::alive)
        .route(
            get("/readyz", "Readiness: whether the database responds").open().media(TEXT).statuses(&[200, 503]),
            health::ready,
        )
}

/// Routes for data of a project: each key sees its own.
fn owned() -> Served {
    let list = |path, says| get(path, says).query(LIST);
    Served::default()
        .route(get("/openapi.json", "This document"), docs::openapi)
        .route(get("/docs", "This document, for people").media(HTML), docs::docs)
        .route(list("/api/v1/jobs", "Jobs, newest first"), jobs::list)
        .route(
            post("/api/v1/jobs", "Requests a job").body(NEW_JOB).statuses(&[200, 202]).failures(&[422]),
            jobs::create,
        )
        .route(get("/api/v1/jobs/{public_id}", "A job with its result"), jobs::show)
        .route(post("/api/v1/jobs/{public_id}/cancel", "Cancels a job").body(CANCEL), operations::cancel_job)
        .route(
            post("/api/v1/{level}/{id}/cancel", "Cancels a plan, a slice or a task").body(CANCEL),
            operations::cancel,
        )
        .route(
            post("/api/v1/cursors/gaps", "Lets a cursor pass a window that stays incomplete")
                .body(NEW_GAP)
                .statuses(&[200, 201])
                .failures(&[422]),
            operations::accept_gap,
        )
        .route(list("/api/v1/signals", "Records that are marked to be fetched again"), operations::signals)
        .route(
            post("/api/v1/signals", "Marks records to be fetched again")
                .body(NEW_SIGNAL)
                .statuses(&[201])
                .failures(&[422]),
            operations::signal,
        )
        .route(post("/api/v1/quarantine/{id}/abandon", "Gives up a quarantined record"), operations::abandon)
        .route(post("/api/v1/outbox/retry", "Delivers all failed events again"), operations::retry_events)
        .route(post("/api/v1/outbox/{id}/retry", "Delivers a failed event again"), operations::retry_event)
        .old_path("/api/v1/outbox/retell", operations::retry_events)
        .old_path("/api/v1/outbox/{id}/retell", operations::retry_event)
        .route(
            get("/api/v1/plans/{id}/lineage", "A plan with its slices, tasks, runs and batches").query(LINEAGE),
            operations::lineage,
        )
        .route(
            post("/api/v1/runs/{run}/batches/{no}/replay", "Replays a batch").query(REPLAY).failures(&[409, 502]),
            replay::replay,
        )
        .route(
            post("/api/v1/runs/{run}/batches/{no}/redrive", "Runs a batch again in production")
                .body(REDRIVE)
                .statuses(&[200, 202])
                .failures(&[409]),
            replay::redrive_batch,
        )
        .route(
            post("/api/v1/runs/{run}/batches/{no}/bundle", "Exports everything known about a batch, signed")
                .admin()
                .body(EXPORT)
                .failures(&[409]),
            replay::export_bundle,
        )
        .old_path("/api/v1/runs/{run}/batches/{no}/blackbox", replay::export_bundle)
        .route(
            post("/api/v1/tasks/{id}/redrive", "Runs a task again in production")
                .body(REDRIVE)
                .statuses(&[200, 202])
                .failures(&[409]),
            replay::redrive_task,
        )
        .route(get("/api/v1/dictionary", "The codes that manifests may use"), specs::dictionary)
        .route(get("/api/v1/schema", "The JSON Schema of manifests").media("application/schema+json"), specs::schema)
        .merge(boards())
        .merge(pool())
        .route(get("/api/v1/projects", "Projects"), projects::projects)
        .route(list("/api/v1/{view}", "Rows of a view, newest first"), views::list)
        .merge(collecting())
}

fn boards() -> Served {
    Served::default()
        .route(get("/api/v1/ops/overview", "Everything at a glance"), ops::overview)
        .route(get("/api/v1/ops/queue", "Queued work, and why it waits").query(QUEUE), ops::queue)
        .route(get("/api/v1/ops/throughput", "Completed work over time").query(SERIES), ops::throughput)
        .route(get("/api/v1/ops/errors", "The most frequent errors").query(ERRORS), ops::errors)
        .route(get("/api/v1/ops/timeline", "Cursors, their lag and their steps").query(TIMELINE), ops::timeline)
        .route(get("/api/v1/ops/budget", "Actual and allowed rate of requests").query(SPAN), ops::budget)
        .route(get("/api/v1/ops/runs/{id}/statuses", "HTTP statuses of the responses of a run"), ops::statuses)
        .route(
            get("/api/v1/ops/lineage/{id}", "A plan with its slices, tasks, runs and batches").query(LINEAGE),
            operations::lineage,
        )
}

fn pool() -> Served {
    let searching = &[200, 202];
    Served::default()
        .route(post(pool::EXTRACT_PATH, "Searches documents for URLs").body(EXTRACT).statuses(searching), pool::extract)
        .route(
            post(pool::LOOK_BACK_PATH, "Searches finished jobs for URLs").body(LOOK_BACK).statuses(searching),
            pool::look_back,
        )
        .route(
            post("/api/v1/resource_pool/capture/enable", "Chooses the job types whose URLs are captured").body(CAPTURE),
            pool::enable_capture,
        )
        .route(get("/api/v1/resource_pool/capture/config", "Job types whose URLs are captured"), pool::capture_config)
        .route(get("/api/v1/resource_pool/urls", "URLs of the pool").query(URLS), pool::urls)
        .route(get("/api/v1/ingest/news-resources", "Domains of the pool").query(RESOURCES), pool::news_resources)
        .route(
            post("/api/v1/documents", "Stores a document").body(DOCUMENT).statuses(&[200, 201]),
            projects::put_document,
        )
}

/// Sources, their items, and scrapes: the contracts without an envelope.
fn collecting() -> Served {
    Served::default()
        .route(get("/api/v1/tweets", "Tweets, newest first").admin().query(TWEETS), scrape::tweets)
        .route(get("/api/admin/scrape", "Scrapes").admin().query(SCRAPES), scrape::list)
        .route(
            post("/api/admin/scrape", "Begins a scrape").admin().body(SCRAPE).statuses(&[202]).failures(&[409]),
            scrape::start,
        )
        .route(get("/api/admin/scrape/{task_id}", "A scrape with its result").admin(), scrape::show)
        .route(get("/api/collector/status", "State of the collector"), sources::status)
        .route(get("/api/sources", "Sources").public(), sources::list)
        .route(
            post("/api/sources", "Adds a source").body(NEW_SOURCE).statuses(&[201]).failures(&[409]),
            sources::create,
        )
        .route(get("/api/sources/opml", "Feeds as OPML").public().media("text/x-opml"), sources::export_opml)
        .route(post("/api/sources/opml", "Adds the feeds of an OPML file").body_of("text/x-opml"), sources::import_opml)
        .route(get("/api/sources/{id}", "A source").public(), sources::show)
        .route(put("/api/sources/{id}", "Changes a source").body(CHANGE).failures(&[409]), sources::change)
        .route(delete("/api/sources/{id}", "Deletes a source").failures(&[409]), sources::delete)
        .route(post("/api/sources/{id}/pause", "Pauses a source").failures(&[409]), sources::pause)
        .route(post("/api/sources/{id}/resume", "Resumes a source").failures(&[409]), sources::resume)
        .route(
            post("/api/sources/{id}/collect", "Fetches a source now").statuses(&[202]).failures(&[409]),
            sources::collect,
        )
        .route(get("/api/raw-items", "Items of sources").query(RAW_ITEMS), sources::items)
        .route(get("/api/raw-items/stats", "Number of items per source"), sources::stats)
        .route(get("/api/raw-items/for-digest", "Items for a digest").query(RAW_ITEMS), sources::for_digest)
}

/// Administration: routes for data that all projects share.
fn operating() -> Served {
    let list = |path, says| get(path, says).query(LIST);
    Served::default()
        .route(list("/api/v1/holds", "Pauses and halts"), operations::pauses)
        .route(
            post("/api/v1/holds", "Pauses work").body(NEW_PAUSE).statuses(&[200, 201]).failures(&[422]),
            operations::pause,
        )
        .route(delete("/api/v1/holds/{id}", "Resumes work"), operations::resume)
        .route(get("/api/v1/gates", "Every key of the rate gate"), operations::gates)
        .route(get("/api/v1/alerts", "Alerts with their state"), ops::alerts)
        .route(list("/api/v1/manifests", "Provenances, newest first"), manifests::list)
        .route(
            post("/api/v1/manifests", "Applies a manifest")
                .admin()
                .query(DRY_RUN)
                .body_of("application/yaml")
                .statuses(&[200, 201])
                .failures(&[422]),
            manifests::apply,
        )
        .route(get("/api/v1/manifests/{code}", "A manifest from the registry"), manifests::show)
        .route(delete("/api/v1/manifests/{code}", "Removes a provenance from the registry").admin(), manifests::remove)
        .route(
            get("/api/v1/specs/{code}/{endpoint}", "The spec that a job would be planned with")
                .query(SPEC)
                .failures(&[422]),
            specs::show,
        )
        .route(list("/api/v1/credentials", "Credentials, without their secrets").admin(), views::credentials)
        .route(
            post("/api/v1/credentials", "Adds a credential, or a version of one")
                .admin()
                .body(NEW_CREDENTIAL)
                .statuses(&[201])
                .failures(&[409]),
            credentials::create,
        )
        .route(
            delete("/api/v1/credentials/{alias}", "Revokes a credential").admin().query(REVOKE_CREDENTIAL),
            credentials::revoke,
        )
        .route(
            post("/api/v1/projects", "Creates a project").admin().body(PROJECT).statuses(&[200, 201]),
            projects::create_project,
        )
        .route(get("/metrics", "Metrics for Prometheus").media(OPENMETRICS), metrics::metrics)
        .for_operators()
}

/// Routes of the crawler. Requests to platforms have time limits of their own.
fn crawling() -> Served {
    use crawler::{cookies, locks, notes};
    let errors = &[409, 429, 502];
    let cookies = Served::default()
        .route(post("/api/v1/crawler/recover", "Recovers expired locks").failures(errors), locks::recover)
        .route(
            get("/api/v1/crawler/cookies", "Cookies, without their values").query(COOKIES).failures(errors),
            cookies::list,
        )
        .route(
            post("/api/v1/crawler/cookies", "Adds a cookie, or its new value")
                .admin()
                .body(COOKIE)
                .statuses(&[200, 201])
                .failures(errors),
            cookies::store,
        )
        .route(
            delete("/api/v1/crawler/cookies/{cookie_name}", "Deletes a cookie").admin().failures(errors),
            cookies::delete,
        )
        .route(
            post("/api/v1/crawler/cookies/{cookie_name}/reactivate", "Reactivates a cookie").admin().failures(errors),
            cookies::reactivate,
        )
        .route(
            post("/api/v1/crawler/cookies/{cookie_name}/pause", "Pauses a cookie").admin().failures(errors),
            cookies::pause,
        )
        .route(
            post("/api/v1/crawler/cookies/{cookie_name}/resume", "Resumes a paused cookie").admin().failures(errors),
            cookies::resume,
        )
        .route(
            post("/api/v1/crawler/cookies/{cookie_name}/validate", "Checks a cookie with its platform")
                .failures(errors),
            cookies::validate,
        )
        .for_operators();
    let query = |path, says| post(path, says).statuses(&[200, 207]).failures(errors);
    cookies
        .route(query("/api/search", "Searches a platform").body(SEARCH), crawler::search)
        .route(query("/api/note/detail", "Notes in full").body(DETAILS), crawler::batch)
        .route(query("/api/v1/crawler/search", "Searches a platform").body(SEARCH), crawler::search)
        .route(query("/api/v1/crawler/notes/detail", "Notes in full").body(DETAILS), crawler::batch)
        .route(
            Operation {
                needs: Needs::Key(KeyScope::Write),
                ..get("/api/v1/crawler/notes/{note_id}", "A note in full")
            }
            .query(PLATFORM)
            .failures(errors),
            crawler::single,
        )
        .route(get("/api/v1/crawler/notes", "Notes that are stored").query(CRAWL_LIST).failures(errors), notes::notes)
        .route(
            post("/api/v1/crawler/notes", "Stores a note once").body(NOTE).statuses(&[200, 201]).failures(errors),
            notes::write,
        )
        .route(get("/api/v1/crawler/executions", "Named locks").query(CRAWL_LIST).failures(errors), locks::executions)
        .route(
            post("/api/v1/crawler/executions/acquire", "Acquires a named lock")
                .body(ACQUIRE)
                .statuses(&[200, 201])
                .failures(errors),
            locks::acquire,
        )
        .route(
            post("/api/v1/crawler/executions/{execution_id}/heartbeat", "Renews a lock").body(TALLY).failures(errors),
            locks::heartbeat,
        )
        .route(
            post("/api/v1/crawler/executions/{execution_id}/release", "Releases a lock").body(TALLY).failures(errors),
            locks::release,
        )
        .route(
            get("/api/v1/crawler/candidates", "Notes that wait for their details").query(CRAWL_LIST).failures(errors),
            notes::candidates,
        )
        .route(
            post("/api/v1/crawler/candidates", "Adds notes to fetch")
                .body(CANDIDATES)
                .statuses(&[200, 201])
                .failures(errors),
            notes::add_candidates,
        )
        .route(
            post("/api/v1/crawler/candidates/claim", "Claims notes to fetch").body(CLAIM).failures(errors),
            notes::claim,
        )
        .route(
            post("/api/v1/crawler/candidates/requeue", "Tries failed notes again").body(REQUEUE).failures(errors),
            notes::requeue,
        )
        .route(
            post("/api/v1/crawler/candidates/{note_id}/fail", "Reports that a note could not be fetched")
                .body(FAIL)
                .failures(errors),
            notes::fail,
        )
}

async fn not_found(Extension(id): Extension<RequestId>, uri: Uri) -> Response {
    Failure::new(StatusCode::NOT_FOUND, Code::NotFound, "there is no such route").respond_at(uri.path(), &id)
}

async fn wrong_method(Extension(id): Extension<RequestId>, uri: Uri) -> Response {
    let message = "this route does not take that method";
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, Code::InvalidInput, message).respond_at(uri.path(), &id)
}

/// Adds the headers that every response has: browsers must not guess media types, and nobody may store responses.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

pub(crate) async fn deadline(Extension(id): Extension<RequestId>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    match tokio::time::timeout(DEADLINE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("no response within {} s", DEADLINE.as_secs());
            let hint = match pool::searches(&path) {
                true => "send \"async_mode\": true, and it runs in the background",
                false => "try again later",
            };
            Failure::new(StatusCode::GATEWAY_TIMEOUT, Code::TimeoutError, message).hint(hint).respond_at(&path, &id)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
