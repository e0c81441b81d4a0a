//! Operations on work: pause, resume, cancel, signal, abandon, redeliver, and the lineage of a plan.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::port::CommandsExt;
use patra_core::port::query::{BatchPage, View};
use patra_core::state::{Operation, PauseKind};
use patra_core::tx::{AbandonRecord, CancelSubject, CancelWork, PauseSelector, PauseSubject, PauseWork, ResumeWork};
use patra_core::{PauseId, PlanId, SliceId, TaskId, Ts, Window};

use super::input::{self, Given, PathText, missing, number};
use super::views::{self, QueryParams};
use crate::Api;
use crate::auth::Tenant;
use crate::envelope::{Failure, success};
use crate::request_id::RequestId;

/// Author of an action when the request names none.
const SOMEBODY: &str = "api";
const NOTHING_TO_CANCEL: &str = "there is no such work to cancel";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPause {
    provenance: Option<String>,
    endpoint: Option<String>,
    operation: Option<Operation>,
    plan: Option<i64>,
    slice: Option<i64>,
    task: Option<i64>,
    #[serde(default)]
    reason: String,
    by: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CancelBody {
    reason: String,
    by: Option<String>,
}

pub(super) async fn pauses(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: QueryParams,
) -> Response {
    views::rows(&api, &id, &tenant, View::Holds, params).await
}

/// Lists every key of the rate gate, like `patra get gates`.
pub(super) async fn gates(State(api): State<Api>, Extension(id): Extension<RequestId>) -> Response {
    match patra_engine::operations::gates(&*api.store, &*api.clock).await {
        Ok(gates) => success(&id, &json!({ "items": gates }), json!({})),
        Err(error) => Failure::from(error).respond(&id),
    }
}

pub(super) async fn signals(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: QueryParams,
) -> Response {
    views::rows(&api, &id, &tenant, View::Signals, params).await
}

pub(super) async fn pause(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    body: Given<NewPause>,
) -> Response {
    respond(&id, add_pause(&api, body).await)
}

async fn add_pause(api: &Api, body: Given<NewPause>) -> Result<(StatusCode, Value), Failure> {
    let pause = body.read()?;
    let texts = [("provenance", &pause.provenance), ("endpoint", &pause.endpoint), ("by", &pause.by)];
    for (name, text) in texts {
        input::without_nul(name, text.as_deref())?;
    }
    input::without_nul("reason", Some(&pause.reason))?;
    let normal = |code: Option<String>| code.map(|code| code.trim().to_lowercase());
    let subject = PauseSubject {
        provenance_code: normal(pause.provenance),
        endpoint_name: normal(pause.endpoint),
        operation: pause.operation,
        credential: None,
        plan: pause.plan.map(PlanId),
        slice: pause.slice.map(SliceId),
        task: pause.task.map(TaskId),
    };
    if let Some(flaw) = subject.invalid_reason() {
        return Err(Failure::bad_request(flaw));
    }
    patra_engine::operations::check_pause_subject(&*api.store, &subject).await?;
    let text = subject.to_text();
    let by = pause.by.unwrap_or_else(|| SOMEBODY.to_owned());
    let added = api.store.run(PauseWork { subject, kind: PauseKind::Pause, reason: pause.reason, by }).await?;
    let status = if added.existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, json!({ "hold": added.pause, "subject": text, "existed": added.existed })))
}

pub(super) async fn resume(State(api): State<Api>, Extension(id): Extension<RequestId>, pause: PathText) -> Response {
    respond(&id, end_pause(&api, pause).await)
}

async fn end_pause(api: &Api, pause: PathText) -> Result<(StatusCode, Value), Failure> {
    let target = PauseSelector::Id(PauseId(number(pause)?));
    let resumed = api.store.run(ResumeWork { target, by: SOMEBODY.to_owned() }).await?.resumed;
    if resumed == 0 {
        return Err(missing("there is no such pause, or it has already ended"));
    }
    (api.nudge)();
    Ok((StatusCode::OK, json!({ "released": resumed })))
}

pub(super) async fn cancel_job(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    job: PathText,
    body: Given<CancelBody>,
) -> Response {
    let done = async {
        let job = input::path_text(job)?;
        let (job, _) = super::jobs::named(&api, &tenant, &job).await?;
        cancel_target(&api, CancelSubject::Job(job), body).await
    };
    respond(&id, done.await)
}

pub(super) async fn cancel(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    axum::extract::Path((level, number)): axum::extract::Path<(String, String)>,
    body: Given<CancelBody>,
) -> Response {
    let done = async {
        let number = number.parse::<i64>().map_err(|_| missing("expected a number"))?;
        let (view, target) = match level.as_str() {
            "plans" => (View::Plans, CancelSubject::Plan(PlanId(number))),
            "slices" => (View::Slices, CancelSubject::Slice(SliceId(number))),
            "tasks" => (View::Tasks, CancelSubject::Task(TaskId(number))),
            _ => return Err(missing("only jobs, plans, slices and tasks can be cancelled")),
        };
        if !tenant.sees(&api, view, number).await? {
            return Err(missing(NOTHING_TO_CANCEL));
        }
        cancel_target(&api, target, body).await
    };
    respond(&id, done.await)
}

async fn cancel_target(
    api: &Api,
    target: CancelSubject,
    body: Given<CancelBody>,
) -> Result<(StatusCode, Value), Failure> {
    let cancel = body.read()?;
    input::without_nul("reason", Some(&cancel.reason))?;
    input::without_nul("by", cancel.by.as_deref())?;
    let by = cancel.by.unwrap_or_else(|| SOMEBODY.to_owned());
    end(api, CancelWork { target, reason: cancel.reason, by }).await
}

/// Cancels work and counts it.
pub(crate) async fn end(api: &Api, cancel: CancelWork) -> Result<(StatusCode, Value), Failure> {
    let done = api.store.run(cancel).await?;
    if !done.found {
        return Err(missing(NOTHING_TO_CANCEL));
    }
    let counts = json!({ "triggers": done.jobs, "plans": done.plans, "slices": done.slices, "tasks": done.tasks });
    Ok((StatusCode::OK, counts))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewGap {
    provenance: String,
    endpoint: String,
    from: Ts,
    to: Ts,
    operation: Option<Operation>,
    cursor: Option<i64>,
    reason: String,
    by: Option<String>,
}

pub(super) async fn accept_gap(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    body: Given<NewGap>,
) -> Response {
    respond(&id, add_gap(&api, &tenant, body).await)
}

async fn add_gap(api: &Api, tenant: &Tenant, body: Given<NewGap>) -> Result<(StatusCode, Value), Failure> {
    let NewGap { provenance, endpoint, from, to, operation, cursor, reason, by } = body.read()?;
    let by = by.unwrap_or_else(|| SOMEBODY.to_owned());
    for (name, text) in [("provenance", &provenance), ("endpoint", &endpoint), ("reason", &reason), ("by", &by)] {
        input::without_nul(name, Some(text))?;
    }
    let window = Window::new(from, to).ok_or_else(|| Failure::bad_request("`to` must lie after `from`"))?;
    let request = patra_engine::operations::GapRequest {
        project: tenant.sight()?.map(str::to_owned),
        operation: operation.unwrap_or(Operation::Harvest),
        provenance,
        endpoint,
        cursor,
        window,
        reason,
        by,
    };
    let accepted = patra_engine::operations::accept_gap(&*api.store, request).await?;
    (api.nudge)();
    let status = if accepted.existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, json!(accepted)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSignal {
    provenance: String,
    endpoint: String,
    ids: Vec<String>,
    #[serde(default)]
    reason: String,
    by: Option<String>,
}

pub(super) async fn signal(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    body: Given<NewSignal>,
) -> Response {
    respond(&id, set_signal(&api, &tenant, body).await)
}

async fn set_signal(api: &Api, tenant: &Tenant, body: Given<NewSignal>) -> Result<(StatusCode, Value), Failure> {
    let NewSignal { provenance, endpoint, ids, reason, by } = body.read()?;
    for (name, text) in [("provenance", &provenance), ("endpoint", &endpoint), ("reason", &reason)] {
        input::without_nul(name, Some(text))?;
    }
    let by = by.unwrap_or_else(|| SOMEBODY.to_owned());
    input::without_nul("by", Some(&by))?;
    let signal =
        patra_engine::operations::signal(&*api.store, tenant.project()?, &provenance, &endpoint, ids, reason, by)
            .await?;
    let done = api.store.run(signal).await?;
    Ok((StatusCode::CREATED, json!({ "added": done.added, "existing": done.existing })))
}

pub(super) async fn abandon(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    row: PathText,
) -> Response {
    respond(&id, give_up(&api, &tenant, row).await)
}

async fn give_up(api: &Api, tenant: &Tenant, row: PathText) -> Result<(StatusCode, Value), Failure> {
    let quarantine = number(row)?;
    let mine = tenant.sees(api, View::Quarantine, quarantine).await?;
    let done =
        if mine { Some(api.store.run(AbandonRecord { quarantine, by: SOMEBODY.to_owned() }).await?) } else { None };
    let Some(done) = done.filter(|done| done.found) else {
        return Err(missing("there is no such quarantined record"));
    };
    Ok((StatusCode::OK, json!({ "abandoned": done.abandoned })))
}

pub(super) async fn retry_events(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
) -> Response {
    respond(&id, deliver_again(&api, &tenant, None).await)
}

pub(super) async fn retry_event(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    event: PathText,
) -> Response {
    respond(&id, deliver_again(&api, &tenant, Some(event)).await)
}

async fn deliver_again(api: &Api, tenant: &Tenant, event: Option<PathText>) -> Result<(StatusCode, Value), Failure> {
    let event = event.map(number).transpose()?;
    match patra_engine::operations::retry_events(&*api.store, tenant.sight()?, event).await? {
        Some(events) => Ok((StatusCode::OK, json!({ "events": events }))),
        None => Err(missing("there is no such event")),
    }
}

/// Page of the batches of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pages {
    after_batch: Option<i64>,
    limit: Option<u32>,
}

pub(super) async fn lineage(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    plan: PathText,
    pages: Result<Query<Pages>, QueryRejection>,
) -> Response {
    let found = async {
        let Query(Pages { after_batch, limit }) = pages.map_err(|error| Failure::bad_request(error.body_text()))?;
        let batches = BatchPage { after: after_batch.unwrap_or(0), limit: limit.unwrap_or(BatchPage::MAX) };
        if !(1..=BatchPage::MAX).contains(&batches.limit) {
            return Err(Failure::bad_request(format!("limit must be between 1 and {}", BatchPage::MAX)));
        }
        let plan = number(plan)?;
        let found = tenant.store(&api).lineage(PlanId(plan), batches).await?;
        found.ok_or_else(|| missing("there is no such plan"))
    };
    match found.await {
        Ok(lineage) => success(&id, &lineage, json!({ "next_after_batch": lineage.next_after() })),
        Err(failure) => failure.respond(&id),
    }
}

fn respond(id: &RequestId, done: Result<(StatusCode, Value), Failure>) -> Response {
    match done {
        Ok((status, data)) => (status, success(id, &data, json!({}))).into_response(),
        Err(failure) => failure.respond(id),
    }
}
