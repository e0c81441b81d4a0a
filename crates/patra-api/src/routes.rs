//! The routes. One file per resource; `served` is the whole list, and the document is made of it.

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
use axum::http::{StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::{Extension, Router};

use patra_core::Code;
use patra_core::tx::KeyScope;

use crate::envelope::Failure;
use crate::openapi::{Needs, Operation, Served, delete, get, post, put};
use crate::request_id::{self, RequestId};
use crate::{Api, auth, console};
use docs::Told;
use fields::*;

pub use metrics::metrics_router;

/// Largest request body, and longest time for one answer.
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
        .layer(Extension(Told::new(operations)))
        .layer(middleware::from_fn(request_id::layer))
        .with_state(api)
}

/// Everything that there is, with what is told of it.
fn served(api: &Api) -> Served {
    let in_time = |router: Router<Api>| router.layer(middleware::from_fn(deadline));
    let with_key = |router: Router<Api>| router.layer(middleware::from_fn_with_state(api.clone(), auth::layer));
    let quick = owned().merge(operating()).layered(in_time);
    open().merge(quick.merge(crawling()).layered(with_key))
}

fn open() -> Served {
    Served::default()
        .route(get("/health", "Whether all is well").open().troubles(&[503]), health::health)
        .route(get("/healthz", "Whether the process runs").open().media(TEXT), health::alive)
        .route(get("/readyz", "Whether the database answers").open().media(TEXT).answers(&[200, 503]), health::ready)
}

/// What is of a project: each sees its own.
fn owned() -> Served {
    let list = |path, says| get(path, says).query(LIST);
    Served::default()
        .route(get("/openapi.json", "This document"), docs::openapi)
        .route(get("/docs", "This document, for people").media(HTML), docs::docs)
        .route(list("/api/v1/jobs", "Jobs, newest first"), jobs::list)
        .route(post("/api/v1/jobs", "Asks for work").body(NEW_JOB).answers(&[200, 202]).troubles(&[422]), jobs::create)
        .route(get("/api/v1/jobs/{public_id}", "What became of a job"), jobs::show)
        .route(post("/api/v1/jobs/{public_id}/cancel", "Ends a job for good").body(WHY), operations::cancel_job)
        .route(
            post("/api/v1/{level}/{id}/cancel", "Ends a plan, a slice or a task for good").body(WHY),
            operations::cancel,
        )
        .route(list("/api/v1/signals", "Records that must be fetched again"), operations::signals)
        .route(
            post("/api/v1/signals", "Says of records that they must be fetched again")
                .body(NEW_SIGNAL)
                .answers(&[201])
                .troubles(&[422]),
            operations::signal,
        )
        .route(post("/api/v1/quarantine/{id}/abandon", "Gives a quarantined record up"), operations::abandon)
        .route(post("/api/v1/outbox/retry", "Delivers all failed events again"), operations::retry_events)
        .route(post("/api/v1/outbox/{id}/retry", "Delivers a failed event again"), operations::retry_event)
        .old_path("/api/v1/outbox/retell", operations::retry_events)
        .old_path("/api/v1/outbox/{id}/retell", operations::retry_event)
        .route(
            get("/api/v1/plans/{id}/lineage", "A plan with everything that came of it").query(LINEAGE),
            operations::lineage,
        )
        .route(
            post("/api/v1/runs/{run}/batches/{no}/replay", "Reads a batch once more").query(HOW).troubles(&[409, 502]),
            replay::replay,
        )
        .route(
            post("/api/v1/runs/{run}/batches/{no}/redrive", "Drives a batch again")
                .body(REDRIVE)
                .answers(&[200, 202])
                .troubles(&[409]),
            replay::redrive_batch,
        )
        .route(
            post("/api/v1/runs/{run}/batches/{no}/bundle", "Exports everything known about a batch, signed")
                .admin()
                .body(EXPORT)
                .troubles(&[409]),
            replay::export_bundle,
        )
        .old_path("/api/v1/runs/{run}/batches/{no}/blackbox", replay::export_bundle)
        .route(
            post("/api/v1/tasks/{id}/redrive", "Drives a task again")
                .body(REDRIVE)
                .answers(&[200, 202])
                .troubles(&[409]),
            replay::redrive_task,
        )
        .route(get("/api/v1/dictionary", "The codes that the program knows"), specs::dictionary)
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
        .route(get("/api/v1/ops/queue", "What is queued, and why it waits").query(QUEUE), ops::queue)
        .route(get("/api/v1/ops/throughput", "What was done over time").query(SERIES), ops::throughput)
        .route(get("/api/v1/ops/errors", "The most frequent errors").query(ERRORS), ops::errors)
        .route(get("/api/v1/ops/timeline", "Cursors, their lag and their steps").query(TIMELINE), ops::timeline)
        .route(get("/api/v1/ops/budget", "Requests beside what is allowed").query(SPAN), ops::budget)
        .route(get("/api/v1/ops/runs/{id}/statuses", "What the upstream answered to a run"), ops::statuses)
        .route(
            get("/api/v1/ops/lineage/{id}", "A plan with everything that came of it").query(LINEAGE),
            operations::lineage,
        )
}

fn pool() -> Served {
    let searching = &[200, 202];
    Served::default()
        .route(post(pool::EXTRACT_PATH, "Searches documents for URLs").body(EXTRACT).answers(searching), pool::extract)
        .route(
            post(pool::LOOK_BACK_PATH, "Searches ended jobs for URLs").body(LOOK_BACK).answers(searching),
            pool::look_back,
        )
        .route(
            post("/api/v1/resource_pool/capture/enable", "Says whose URLs are captured").body(CAPTURE),
            pool::enable_capture,
        )
        .route(get("/api/v1/resource_pool/capture/config", "Whose URLs are captured"), pool::capture_config)
        .route(get("/api/v1/resource_pool/urls", "URLs of the pool").query(URLS), pool::urls)
        .route(get("/api/v1/ingest/news-resources", "Domains of the pool").query(RESOURCES), pool::news_resources)
        .route(
            post("/api/v1/documents", "Stores a document").body(DOCUMENT).answers(&[200, 201]),
            projects::put_document,
        )
}

/// Sources, their items, and scrapes: the contracts without an envelope.
fn collecting() -> Served {
    Served::default()
        .route(get("/api/v1/tweets", "Tweets, newest first").admin().query(TWEETS), scrape::tweets)
        .route(get("/api/admin/scrape", "Scrapes").admin().query(SCRAPES), scrape::list)
        .route(
            post("/api/admin/scrape", "Begins a scrape").admin().body(SCRAPE).answers(&[202]).troubles(&[409]),
            scrape::start,
        )
        .route(get("/api/admin/scrape/{task_id}", "What became of a scrape").admin(), scrape::show)
        .route(get("/api/collector/status", "How collecting goes"), sources::status)
        .route(get("/api/sources", "Sources"), sources::list)
        .route(post("/api/sources", "Adds a source").body(NEW_SOURCE).answers(&[201]).troubles(&[409]), sources::create)
        .route(get("/api/sources/opml", "Feeds as OPML").media("text/x-opml"), sources::export_opml)
        .route(post("/api/sources/opml", "Adds the feeds of an OPML file").body_of("text/x-opml"), sources::import_opml)
        .route(get("/api/sources/{id}", "A source"), sources::show)
        .route(put("/api/sources/{id}", "Changes a source").body(CHANGE).troubles(&[409]), sources::change)
        .route(delete("/api/sources/{id}", "Deletes a source").troubles(&[409]), sources::delete)
        .route(post("/api/sources/{id}/pause", "Pauses a source").troubles(&[409]), sources::pause)
        .route(post("/api/sources/{id}/resume", "Lets a source go on").troubles(&[409]), sources::resume)
        .route(
            post("/api/sources/{id}/collect", "Fetches a source now").answers(&[202]).troubles(&[409]),
            sources::collect,
        )
        .route(get("/api/raw-items", "Items of sources").query(RAW_ITEMS), sources::items)
        .route(get("/api/raw-items/stats", "How many items sources have"), sources::stats)
        .route(get("/api/raw-items/for-digest", "Items for a digest").query(RAW_ITEMS), sources::for_digest)
}

/// What all projects have in common: for who runs the house.
fn operating() -> Served {
    let list = |path, says| get(path, says).query(LIST);
    Served::default()
        .route(list("/api/v1/holds", "What work stands still"), operations::holds)
        .route(
            post("/api/v1/holds", "Stops work").body(NEW_HOLD).answers(&[200, 201]).troubles(&[422]),
            operations::hold,
        )
        .route(delete("/api/v1/holds/{id}", "Lets work go on"), operations::release)
        .route(get("/api/v1/gates", "Every key of the rate gate"), operations::gates)
        .route(get("/api/v1/alerts", "Every alert that is watched"), ops::alerts)
        .route(list("/api/v1/manifests", "Provenances, newest first"), manifests::list)
        .route(
            post("/api/v1/manifests", "Puts a manifest into the registry")
                .admin()
                .query(DRY_RUN)
                .body_of("application/yaml")
                .answers(&[200, 201])
                .troubles(&[422]),
            manifests::apply,
        )
        .route(get("/api/v1/manifests/{code}", "A manifest as the registry has it"), manifests::show)
        .route(delete("/api/v1/manifests/{code}", "Takes a provenance out of the registry").admin(), manifests::remove)
        .route(
            get("/api/v1/specs/{code}/{endpoint}", "What a trigger would be planned with").query(SPEC).troubles(&[422]),
            specs::show,
        )
        .route(list("/api/v1/credentials", "Credentials, without their secrets").admin(), views::credentials)
        .route(
            post("/api/v1/credentials", "Adds a credential, or a version of one")
                .admin()
                .body(NEW_CREDENTIAL)
                .answers(&[201])
                .troubles(&[409]),
            credentials::create,
        )
        .route(
            delete("/api/v1/credentials/{alias}", "Makes a credential useless").admin().query(REVOKE_CREDENTIAL),
            credentials::revoke,
        )
        .route(
            post("/api/v1/projects", "Makes a project").admin().body(PROJECT).answers(&[200, 201]),
            projects::create_project,
        )
        .route(get("/metrics", "Numbers for Prometheus").media(OPENMETRICS), metrics::metrics)
        .for_operators()
}

/// Questions to platforms have limits of their own.
fn crawling() -> Served {
    use crawler::{cookies, locks, notes};
    let far = &[409, 429, 502];
    let cookies = Served::default()
        .route(post("/api/v1/crawler/recover", "Takes back the locks of the dead").troubles(far), locks::recover)
        .route(
            get("/api/v1/crawler/cookies", "Cookies, without their values").query(PLATFORM).troubles(far),
            cookies::list,
        )
        .route(
            post("/api/v1/crawler/cookies", "Adds a cookie, or its new value")
                .admin()
                .body(COOKIE)
                .answers(&[200, 201])
                .troubles(far),
            cookies::store,
        )
        .route(
            delete("/api/v1/crawler/cookies/{cookie_name}", "Deletes a cookie").admin().troubles(far),
            cookies::delete,
        )
        .route(
            post("/api/v1/crawler/cookies/{cookie_name}/reactivate", "Trusts a cookie again").admin().troubles(far),
            cookies::reactivate,
        )
        .route(
            post("/api/v1/crawler/cookies/{cookie_name}/validate", "Asks the platform about a cookie").troubles(far),
            cookies::validate,
        )
        .for_operators();
    let ask = |path, says| post(path, says).answers(&[200, 207]).troubles(far);
    cookies
        .route(ask("/api/search", "Searches a platform").body(SEARCH), crawler::search)
        .route(ask("/api/note/detail", "Notes in full").body(DETAILS), crawler::batch)
        .route(ask("/api/v1/crawler/search", "Searches a platform").body(SEARCH), crawler::search)
        .route(ask("/api/v1/crawler/notes/detail", "Notes in full").body(DETAILS), crawler::batch)
        .route(
            Operation {
                needs: Needs::Key(KeyScope::Write),
                ..get("/api/v1/crawler/notes/{note_id}", "A note in full")
            }
            .query(PLATFORM)
            .troubles(far),
            crawler::single,
        )
        .route(get("/api/v1/crawler/notes", "Notes that are stored").query(CRAWL_LIST).troubles(far), notes::notes)
        .route(
            post("/api/v1/crawler/notes", "Stores a note once").body(NOTE).answers(&[200, 201]).troubles(far),
            notes::write,
        )
        .route(get("/api/v1/crawler/executions", "Named locks").query(CRAWL_LIST).troubles(far), locks::executions)
        .route(
            post("/api/v1/crawler/executions/acquire", "Gets a named lock")
                .body(ACQUIRE)
                .answers(&[200, 201])
                .troubles(far),
            locks::acquire,
        )
        .route(
            post("/api/v1/crawler/executions/{execution_id}/heartbeat", "Keeps a lock").body(TALLY).troubles(far),
            locks::heartbeat,
        )
        .route(
            post("/api/v1/crawler/executions/{execution_id}/release", "Gives a lock back").body(TALLY).troubles(far),
            locks::release,
        )
        .route(
            get("/api/v1/crawler/candidates", "Notes that wait for their details").query(CRAWL_LIST).troubles(far),
            notes::candidates,
        )
        .route(
            post("/api/v1/crawler/candidates", "Adds notes to be fetched")
                .body(CANDIDATES)
                .answers(&[200, 201])
                .troubles(far),
            notes::add_candidates,
        )
        .route(
            post("/api/v1/crawler/candidates/claim", "Locks notes to be fetched").body(CLAIM).troubles(far),
            notes::claim,
        )
        .route(
            post("/api/v1/crawler/candidates/requeue", "Tries failed notes again").body(REQUEUE).troubles(far),
            notes::requeue,
        )
        .route(
            post("/api/v1/crawler/candidates/{note_id}/fail", "Says that a note could not be had")
                .body(FAIL)
                .troubles(far),
            notes::fail,
        )
}

async fn not_found(Extension(id): Extension<RequestId>, uri: Uri) -> Response {
    Failure::new(StatusCode::NOT_FOUND, Code::NotFound, "there is no such route").answer_at(uri.path(), &id)
}

async fn wrong_method(Extension(id): Extension<RequestId>, uri: Uri) -> Response {
    let message = "this route does not take that method";
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, Code::InvalidInput, message).answer_at(uri.path(), &id)
}

pub(crate) async fn deadline(Extension(id): Extension<RequestId>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    match tokio::time::timeout(DEADLINE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("no answer within {} s", DEADLINE.as_secs());
            let hint = match pool::searches(&path) {
                true => "send \"async_mode\": true, and it is done in the background",
                false => "try again later",
            };
            Failure::new(StatusCode::GATEWAY_TIMEOUT, Code::TimeoutError, message).hint(hint).answer_at(&path, &id)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
