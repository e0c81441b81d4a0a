//! Replays, diagnostic bundles and redrives: the equivalents of `patra replay` and `patra bundle`. A replay writes
//! nothing; an export is recorded before the bundle is returned; a redrive runs in production.

use axum::Extension;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::port::query::View;
use patra_core::tx::{KeyScope, RedriveTarget, Redriven};
use patra_core::{Code, RunId, TaskId};
use patra_engine::bundle::{self, BundleRequest};
use patra_engine::replay::{self, Recording, redrive};

use super::input::Given;
use crate::Api;
use crate::auth::{self, Caller, Tenant};
use crate::envelope::{Failure, success};
use crate::key::random_hex;
use crate::request_id::RequestId;

/// Run and number of a batch, from the path.
pub(crate) type BatchPath = Result<Path<(i64, u32)>, PathRejection>;

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    #[default]
    Archive,
    Live,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayParams {
    #[serde(default)]
    mode: Mode,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Redrive {
    /// Idempotency key: the same id again is the same request.
    request: Option<String>,
    by: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Export {
    reason: String,
    by: Option<String>,
    #[serde(default)]
    with_raw: bool,
}

pub(super) async fn replay(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    path: BatchPath,
    params: Result<Query<ReplayParams>, QueryRejection>,
) -> Response {
    match replayed(&api, &tenant, path, params).await {
        Ok(report) => success(&id, &report, json!({})),
        Err(failure) => failure.respond(&id),
    }
}

async fn replayed(
    api: &Api,
    tenant: &Tenant,
    path: BatchPath,
    params: Result<Query<ReplayParams>, QueryRejection>,
) -> Result<replay::ReplayReport, Failure> {
    let (run, batch_no) = batch(api, tenant, path).await?;
    let Query(ReplayParams { mode }) = params.map_err(|error| Failure::bad_request(error.body_text()))?;
    report(api, run, batch_no, mode).await
}

/// Replays a batch and reports differences.
pub(crate) async fn report(api: &Api, run: RunId, batch_no: u32, mode: Mode) -> Result<replay::ReplayReport, Failure> {
    let recording = Recording::load(&*api.store, run, batch_no).await.map_err(refused)?;
    let report = match (mode, &api.live) {
        (Mode::Archive, _) => replay::from_archive(&recording, Some(&*api.store)).await,
        (Mode::Live, Some(live)) => replay::live(&recording, &*api.store, live).await,
        (Mode::Live, None) => return Err(Failure::bad_request("this process cannot send requests to upstreams")),
    };
    report.map_err(refused)
}

pub(super) async fn export_bundle(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    Extension(granted): Extension<KeyScope>,
    Extension(caller): Extension<Caller>,
    path: BatchPath,
    body: Given<Export>,
) -> Response {
    match exported(&api, &tenant, granted, &caller, path, body).await {
        Ok(package) => success(&id, &package, json!({})),
        Err(failure) => failure.respond(&id),
    }
}

async fn exported(
    api: &Api,
    tenant: &Tenant,
    granted: KeyScope,
    caller: &Caller,
    path: BatchPath,
    body: Given<Export>,
) -> Result<Value, Failure> {
    auth::require(granted, KeyScope::Admin)?;
    let (run, batch_no) = batch(api, tenant, path).await?;
    let Export { reason, by, with_raw } = body.read()?;
    let by = on_record(by.as_deref(), caller);
    package(api, BundleRequest { run, batch_no, by: &by, reason: &reason, with_raw }).await
}

/// Exports a diagnostic bundle, after the export is recorded.
pub(crate) async fn package(api: &Api, request: BundleRequest<'_>) -> Result<Value, Failure> {
    let vault = api.vault.get().ok_or_else(|| {
        let message = "diagnostic bundles are signed with the master key, and this server has none";
        Failure::new(StatusCode::CONFLICT, Code::NotConfigured, message).hint("start it with PATRA_MASTER_KEY")
    })?;
    bundle::export(&*api.store, vault, &api.clock, request).await.map_err(|error| {
        let message = error.to_string();
        match error {
            bundle::Error::Replay(error) => refused(error),
            bundle::Error::Invalid(_) => Failure::bad_request(message),
            _ => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, message),
        }
    })
}

pub(super) async fn redrive_batch(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    path: BatchPath,
    body: Given<Redrive>,
) -> Response {
    let what = batch(&api, &tenant, path).await.map(|(run, batch_no)| RedriveTarget::Batch { run, batch_no });
    redriven(&api, &id, &caller, what, body).await
}

pub(super) async fn redrive_task(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<i64>, PathRejection>,
    body: Given<Redrive>,
) -> Response {
    let what = task(&api, &tenant, path).await.map(RedriveTarget::Task);
    redriven(&api, &id, &caller, what, body).await
}

async fn redriven(
    api: &Api,
    id: &RequestId,
    caller: &Caller,
    what: Result<RedriveTarget, Failure>,
    body: Given<Redrive>,
) -> Response {
    match drive(api, caller, what, body).await {
        Ok((status, data)) => (status, success(id, &data, json!({}))).into_response(),
        Err(failure) => failure.respond(id),
    }
}

async fn drive(
    api: &Api,
    caller: &Caller,
    what: Result<RedriveTarget, Failure>,
    body: Given<Redrive>,
) -> Result<(StatusCode, Value), Failure> {
    let what = what?;
    let Redrive { request, by } = body.read()?;
    let request = match request {
        Some(request) => request,
        None => format!("redrive-{}", random_hex::<8>().map_err(|error| internal(error.to_string()))?),
    };
    drive_again(api, what, &request, &on_record(by.as_deref(), caller)).await
}

/// Runs a batch or a task again in production.
pub(crate) async fn drive_again(
    api: &Api,
    what: RedriveTarget,
    request: &str,
    by: &str,
) -> Result<(StatusCode, Value), Failure> {
    match redrive::redrive(&*api.store, what, request, by).await {
        Ok(Redriven::ReadBack { batch, stats, next }) => {
            Ok((StatusCode::OK, json!({ "outcome": "READ_BACK", "batch": batch, "stats": stats, "next": next })))
        }
        Ok(Redriven::Queued { task, existed }) => {
            (api.nudge)();
            let status = if existed { StatusCode::OK } else { StatusCode::ACCEPTED };
            Ok((status, json!({ "outcome": "QUEUED", "task": task, "existed": existed, "request": request })))
        }
        Ok(Redriven::NotFound) | Err(redrive::Error::NotFound) => Err(missing(redrive::Error::NotFound.to_string())),
        Err(error @ redrive::Error::Invalid(_)) => Err(Failure::bad_request(error.to_string())),
        Err(error @ (redrive::Error::NotEnded | redrive::Error::Refused(_))) => {
            Err(Failure::new(StatusCode::CONFLICT, Code::TaskConflict, error.to_string()))
        }
        Err(redrive::Error::Store(error)) => Err(error.into()),
    }
}

/// Name of the caller for the record: the name in the request, and the public part of the key.
fn on_record(name: Option<&str>, caller: &Caller) -> String {
    let Caller(prefix) = caller;
    match name.map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => format!("{name} (key {prefix})"),
        None => format!("key {prefix}"),
    }
}

pub(crate) async fn batch(api: &Api, tenant: &Tenant, path: BatchPath) -> Result<(RunId, u32), Failure> {
    let (run, batch_no) = number(path)?;
    match tenant.sees(api, View::Runs, run).await? {
        true => Ok((RunId(run), batch_no)),
        false => Err(refused(replay::Error::NotFound { run: RunId(run), batch_no })),
    }
}

async fn task(api: &Api, tenant: &Tenant, path: Result<Path<i64>, PathRejection>) -> Result<TaskId, Failure> {
    let task = number(path)?;
    match tenant.sees(api, View::Tasks, task).await? {
        true => Ok(TaskId(task)),
        false => Err(missing(redrive::Error::NotFound.to_string())),
    }
}

fn number<T>(path: Result<Path<T>, PathRejection>) -> Result<T, Failure> {
    let path = path.map_err(|error| Failure { status: error.status(), ..Failure::bad_request(error.body_text()) })?;
    Ok(path.0)
}

fn refused(error: replay::Error) -> Failure {
    let message = error.to_string();
    match error {
        replay::Error::Store(error) => error.into(),
        replay::Error::NotFound { .. } => missing(message),
        replay::Error::NotKept(_) => missing(message).hint("mode=live sends the request to the upstream again"),
        replay::Error::NotPacked(_) => missing(message),
        replay::Error::NotSent(_) => Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::RateLimited, message),
        replay::Error::Damaged(_) => internal(message),
    }
}

fn missing(message: String) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, Code::NotFound, message)
}

fn internal(message: String) -> Failure {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, message)
}
