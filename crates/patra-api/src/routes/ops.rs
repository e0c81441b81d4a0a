//! Boards: queue, throughput, errors, cursors, budgets, and an overview (ING-14.7). A key that is bound to a project
//! sees only that project.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use patra_core::port::board::{CursorFilter, MAX_ROWS, MAX_STEPS, WorkFilter};
use patra_core::port::query::View;
use patra_core::{Level, RunId, Ts, Window};
use patra_engine::board::{self, MAX_NAMESPACES, OverviewPorts};

use super::input::{self, PathText};
use crate::Api;
use crate::auth::Tenant;
use crate::envelope::{Failure, success};
use crate::request_id::RequestId;

type QueryParams<T> = Result<Query<T>, QueryRejection>;

/// Default number of rows of a board.
const USUAL_ROWS: u32 = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueParams {
    provenance: Option<String>,
    endpoint: Option<String>,
    operation: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpanParams {
    provenance: Option<String>,
    endpoint: Option<String>,
    operation: Option<String>,
    from: Option<Ts>,
    to: Option<Ts>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeriesParams {
    provenance: Option<String>,
    endpoint: Option<String>,
    operation: Option<String>,
    from: Option<Ts>,
    to: Option<Ts>,
    /// Minutes per step.
    step: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorParams {
    provenance: Option<String>,
    endpoint: Option<String>,
    operation: Option<String>,
    from: Option<Ts>,
    to: Option<Ts>,
    level: Option<String>,
    limit: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimelineParams {
    provenance: Option<String>,
    endpoint: Option<String>,
    operation: Option<String>,
    from: Option<Ts>,
    to: Option<Ts>,
    namespace: Option<String>,
    limit: Option<u32>,
}

pub(super) async fn overview(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
) -> Response {
    let found = async {
        let store = &*api.store;
        let sight = OverviewPorts { boards: store, queries: store, crawls: store, clock: &*api.clock };
        Ok(json!(board::overview(sight, tenant.sight()?.map(str::to_owned)).await?))
    };
    respond(&id, found.await)
}

pub(super) async fn queue(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: QueryParams<QueueParams>,
) -> Response {
    let found = async {
        let QueueParams { provenance, endpoint, operation } = given(params)?;
        let about = about(&tenant, provenance, endpoint, operation)?;
        Ok(json!({ "items": board::queue(&*api.store, &*api.store, &*api.clock, about).await? }))
    };
    respond(&id, found.await)
}

pub(super) async fn throughput(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: QueryParams<SeriesParams>,
) -> Response {
    let found = async {
        let SeriesParams { provenance, endpoint, operation, from, to, step } = given(params)?;
        let about = about(&tenant, provenance, endpoint, operation)?;
        let window = window(&api, from, to)?;
        let minutes = step.unwrap_or_else(|| board::step_minutes(window, api.clock.now()));
        let steps = window.to.since(window.from).as_secs() / 60 / u64::from(minutes.max(1));
        if minutes == 0 || steps >= u64::from(MAX_STEPS) {
            return Err(Failure::bad_request(format!("step must make fewer than {MAX_STEPS} steps of the window")));
        }
        Ok(json!(board::throughput(&*api.store, about, window, minutes).await?))
    };
    respond(&id, found.await)
}

pub(super) async fn errors(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: QueryParams<ErrorParams>,
) -> Response {
    let found = async {
        let ErrorParams { provenance, endpoint, operation, from, to, level, limit } = given(params)?;
        let about = about(&tenant, provenance, endpoint, operation)?;
        let level = level.map(|word| word.trim().to_uppercase().parse::<Level>()).transpose();
        let level = level.map_err(|_| Failure::bad_request("level must be one of L1, L2, L3, L4"))?;
        let limit = rows(limit, MAX_ROWS)?;
        Ok(json!({ "items": api.store.errors(about, level, window(&api, from, to)?, limit).await? }))
    };
    respond(&id, found.await)
}

pub(super) async fn timeline(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: QueryParams<TimelineParams>,
) -> Response {
    let found = async {
        let TimelineParams { provenance, endpoint, operation, from, to, namespace, limit } = given(params)?;
        input::without_nul("namespace", namespace.as_deref())?;
        let about = about(&tenant, provenance, endpoint, operation)?;
        let filter = CursorFilter { work: about, namespace, limit: rows(limit, MAX_NAMESPACES)? };
        Ok(json!({ "items": board::timeline(&*api.store, &*api.clock, filter, window(&api, from, to)?).await? }))
    };
    respond(&id, found.await)
}

pub(super) async fn budget(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: QueryParams<SpanParams>,
) -> Response {
    let found = async {
        let SpanParams { provenance, endpoint, operation, from, to } = given(params)?;
        let about = about(&tenant, provenance, endpoint, operation)?;
        let window = window(&api, from, to)?;
        Ok(json!({ "items": board::budget(&*api.store, &*api.store, &*api.clock, about, window).await? }))
    };
    respond(&id, found.await)
}

/// HTTP statuses of the responses of a run.
pub(super) async fn statuses(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    run: PathText,
) -> Response {
    let found = async {
        let run = input::number(run)?;
        if !tenant.sees(&api, View::Runs, run).await? {
            return Err(input::missing("there is no such run"));
        }
        Ok(json!({ "items": api.store.statuses(RunId(run)).await? }))
    };
    respond(&id, found.await)
}

/// Lists every alert that was ever evaluated, with its state.
pub(super) async fn alerts(State(api): State<Api>, Extension(id): Extension<RequestId>) -> Response {
    respond(&id, async { Ok(json!({ "items": api.store.alerts().await? })) }.await)
}

fn respond(id: &RequestId, found: Result<Value, Failure>) -> Response {
    match found {
        Ok(data) => success(id, &data, json!({})),
        Err(failure) => failure.respond(id),
    }
}

fn given<T: DeserializeOwned>(params: QueryParams<T>) -> Result<T, Failure> {
    params.map(|Query(params)| params).map_err(|error| Failure::bad_request(error.body_text()))
}

fn about(
    tenant: &Tenant,
    provenance_code: Option<String>,
    endpoint_name: Option<String>,
    operation: Option<String>,
) -> Result<WorkFilter, Failure> {
    input::without_nul("provenance", provenance_code.as_deref())?;
    input::without_nul("endpoint", endpoint_name.as_deref())?;
    let operation = operation.map(|word| input::operation(&word)).transpose()?;
    Ok(WorkFilter { project_key: tenant.sight()?.map(str::to_owned), provenance_code, endpoint_name, operation })
}

fn window(api: &Api, from: Option<Ts>, to: Option<Ts>) -> Result<Window, Failure> {
    board::window(from, to, api.clock.now()).map_err(|error| Failure::bad_request(error.to_string()))
}

fn rows(limit: Option<u32>, most: u32) -> Result<u32, Failure> {
    match limit.unwrap_or(USUAL_ROWS) {
        limit if (1..=most).contains(&limit) => Ok(limit),
        _ => Err(Failure::bad_request(format!("limit must be between 1 and {most}"))),
    }
}
