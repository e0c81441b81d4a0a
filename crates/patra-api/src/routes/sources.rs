//! Sources, their items, and the state of the collector: the routes under `/api` that have no envelope. Failures are
//! `{error, meta}`.

use std::sync::Arc;

use axum::extract::rejection::{QueryRejection, StringRejection};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use patra_core::port::CommandsExt as _;
use patra_core::port::source::{ItemFilter, RawItem, SourceFilter, StoredSource};
use patra_core::state::{PausedReason, TriggerType};
use patra_core::tx::{ChangeSource, KeyScope, SaveSources, SourceChanged, TxError};
use patra_core::{Code, Ts};
use patra_engine::sources::{self, ImportReport, SourceDraft};
use patra_engine::{PollRequested, check_source, poll_now};

use super::input::{Given, PathText, path_text};
use crate::Api;
use crate::auth::Tenant;
use crate::envelope::Failure;
use crate::request_id::RequestId;

/// Items of `GET /api/raw-items` and `/for-digest`: by default, and at most.
const ITEMS: (u32, u32) = (100, 500);
const DIGEST_ITEMS: (u32, u32) = (500, 1_000);

type RouteResult = Result<Response, Failure>;

fn respond(id: &RequestId, work: RouteResult) -> Response {
    work.unwrap_or_else(|failure| failure.respond_bare(id))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSource {
    #[serde(default)]
    name: Option<String>,
    r#type: String,
    #[serde(default)]
    config: Value,
    #[serde(default)]
    is_public: bool,
    #[serde(default)]
    is_active: Option<bool>,
    #[serde(default)]
    last_fetched_at: Option<Ts>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    name: Option<String>,
    config: Option<Value>,
    is_public: Option<bool>,
    is_active: Option<bool>,
}

pub(super) async fn list(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
) -> Response {
    let work = async {
        let sources = tenant.store(&api).sources(mine(&tenant)?).await?;
        let shown: Vec<_> = sources.iter().map(|source| source_json(source, tenant.sees_public_only())).collect();
        Ok(Json(shown).into_response())
    };
    respond(&id, work.await)
}

pub(super) async fn create(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    Extension(tenant): Extension<Tenant>,
    body: Given<NewSource>,
) -> Response {
    respond(&id, add(&api, granted, &tenant, body).await)
}

async fn add(api: &Api, granted: KeyScope, tenant: &Tenant, body: Given<NewSource>) -> RouteResult {
    let NewSource { name, r#type, config, is_public, is_active, last_fetched_at } = body.read()?;
    tenant.may_name_networks(granted, &config)?;
    let draft = SourceDraft { r#type, name, config, is_public, is_active, last_fetched_at };
    let id = save(api, tenant.project()?, draft).await?;
    Ok((StatusCode::CREATED, Json(source_json(&read(api, tenant, id).await?, false))).into_response())
}

/// Adds a source and returns its id.
pub(crate) async fn save(api: &Api, project_key: &str, draft: SourceDraft) -> Result<i64, Failure> {
    let source = sources::checked(draft).map_err(Failure::bad_request)?;
    check_source(&*api.store, &source.r#type, &source.config).await?.map_err(Failure::bad_request)?;
    let save = SaveSources { project_key: project_key.to_owned(), sources: vec![source] };
    let saved = api.store.run(Arc::new(save)).await?;
    let saved = saved.sources.first().ok_or_else(|| unexpected("nothing was stored"))?;
    if saved.existed {
        let message = format!("this source already exists: {}", saved.id);
        return Err(Failure::new(StatusCode::CONFLICT, Code::TaskConflict, message)
            .detail("source_id", saved.id.0.into())
            .hint("change that one with PUT"));
    }
    (api.nudge)();
    Ok(saved.id.0)
}

pub(super) async fn show(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    path: PathText,
) -> Response {
    let work = async {
        let source = read(&api, &tenant, number(path)?).await?;
        Ok(Json(source_json(&source, tenant.sees_public_only())).into_response())
    };
    respond(&id, work.await)
}

pub(super) async fn change(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    Extension(tenant): Extension<Tenant>,
    path: PathText,
    body: Given<Change>,
) -> Response {
    let work = async {
        let number = number(path)?;
        let Change { name, config, is_public, is_active } = body.read()?;
        let source = read(&api, &tenant, number).await?;
        let name = name.as_deref().map(sources::checked_name).transpose().map_err(Failure::bad_request)?;
        tenant.may_change_networks(granted, &source.config, config.as_ref())?;
        let checked = config.map(|config| sources::checked_config(&source.r#type, config));
        let config = checked.transpose().map_err(Failure::bad_request)?;
        // An equal configuration is no change, and queued work continues.
        let config = config.filter(|config| config.config != source.config);
        if let Some(config) = &config {
            check_source(&*api.store, &source.r#type, &config.config).await?.map_err(Failure::bad_request)?;
        }
        update(&api, ChangeSource { name, config, is_public, is_active, ..of(&tenant, number)? }).await?;
        Ok(Json(source_json(&read(&api, &tenant, number).await?, false)).into_response())
    };
    respond(&id, work.await)
}

pub(super) async fn delete(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    path: PathText,
) -> Response {
    let work = async {
        let number = number(path)?;
        update(&api, ChangeSource { delete: true, ..of(&tenant, number)? }).await?;
        Ok(Json(json!({ "id": number, "is_deleted": true })).into_response())
    };
    respond(&id, work.await)
}

pub(super) async fn pause(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    path: PathText,
) -> Response {
    respond(&id, set_active(&api, &tenant, path, false).await)
}

pub(super) async fn resume(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    path: PathText,
) -> Response {
    respond(&id, set_active(&api, &tenant, path, true).await)
}

async fn set_active(api: &Api, tenant: &Tenant, path: PathText, is_active: bool) -> RouteResult {
    let number = number(path)?;
    update(api, ChangeSource { is_active: Some(is_active), ..of(tenant, number)? }).await?;
    Ok(Json(source_json(&read(api, tenant, number).await?, false)).into_response())
}

pub(super) async fn collect(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    path: PathText,
) -> Response {
    let work = async {
        let number = number(path)?;
        let source = read(&api, &tenant, number).await?;
        match poll_now(&api.store, source.id, TriggerType::Api).await? {
            PollRequested::Task(task) => {
                (api.nudge)();
                let data = json!({ "task_id": task, "source_id": number, "status": "pending" });
                Ok((StatusCode::ACCEPTED, Json(data)).into_response())
            }
            PollRequested::Skipped(reason) => {
                let skipped = json!({ "source_id": number, "status": "skipped", "reason": reason });
                Ok(Json(skipped).into_response())
            }
            PollRequested::Refused(reason) => Err(Failure::bad_request(reason)),
        }
    };
    respond(&id, work.await)
}

/// Adds the feeds of an OPML list.
pub(super) async fn import_opml(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    body: Result<String, StringRejection>,
) -> Response {
    let work = async {
        let outlines = sources::opml::read(&body.map_err(|error| unread(&error))?).map_err(Failure::bad_request)?;
        let entries = outlines.into_iter().map(|outline| Ok(SourceDraft::outlined("rss", outline))).collect();
        let ImportReport { added, existed, unusable } =
            sources::import(&*api.store, tenant.project()?, entries).await?;
        (api.nudge)();
        let unusable: Vec<_> =
            unusable.iter().map(|(entry, reason)| json!({ "entry": entry, "reason": reason })).collect();
        Ok(Json(json!({ "added": added, "existed": existed, "unusable": unusable })).into_response())
    };
    respond(&id, work.await)
}

/// Exports the feeds as OPML.
pub(super) async fn export_opml(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
) -> Response {
    let work = async {
        let found = tenant.store(&api).sources(mine(&tenant)?).await?;
        let kind = [(axum::http::header::CONTENT_TYPE, "text/x-opml; charset=utf-8")];
        Ok((kind, sources::to_opml(&found)).into_response())
    };
    respond(&id, work.await)
}

/// Filter for the sources that the caller may see: those of its project and, without a key, only public ones.
fn mine(tenant: &Tenant) -> Result<SourceFilter, Failure> {
    let (project_key, public_only) = (Some(tenant.project()?.to_owned()), tenant.sees_public_only());
    Ok(SourceFilter { project_key, public_only, ..SourceFilter::default() })
}

fn of(tenant: &Tenant, id: i64) -> Result<ChangeSource, Failure> {
    Ok(ChangeSource { id, project_key: tenant.project()?.to_owned(), ..ChangeSource::default() })
}

pub(crate) async fn update(api: &Api, change: ChangeSource) -> Result<(), Failure> {
    let id = change.id;
    match api.store.run(change).await {
        Ok(SourceChanged::Changed) => {
            (api.nudge)();
            Ok(())
        }
        Ok(SourceChanged::Unknown) => Err(unknown(id)),
        Err(TxError::Conflict) => {
            let message = "another source has this address already";
            Err(Failure::new(StatusCode::CONFLICT, Code::TaskConflict, message))
        }
        Err(error) => Err(error.into()),
    }
}

async fn read(api: &Api, tenant: &Tenant, id: i64) -> Result<StoredSource, Failure> {
    let filter = SourceFilter { ids: Some(vec![id]), ..mine(tenant)? };
    tenant.store(api).sources(filter).await?.pop().ok_or_else(|| unknown(id))
}

pub(crate) fn unknown(id: i64) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, Code::NotFound, format!("there is no source {id}"))
}

fn unexpected(message: &str) -> Failure {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, message)
}

fn number(path: PathText) -> Result<i64, Failure> {
    let text = path_text(path)?;
    text.parse().map_err(|_| Failure::bad_request(format!("{text:?} is not the id of a source")))
}

fn unread(error: &StringRejection) -> Failure {
    Failure { status: error.status(), ..Failure::bad_request(error.body_text()) }
}

fn source_json(source: &StoredSource, anonymous: bool) -> Value {
    let state = &source.state;
    let mut shown = json!({
        "id": source.id,
        "name": source.name,
        "type": source.r#type,
        "config": config(source),
        "is_active": state.paused.is_none(),
        "is_public": source.is_public,
        "is_deleted": false,
        "last_fetched_at": state.last_fetched_at.map(millis),
        "fetch_count": state.fetch_count,
        "fetch_error_count": state.fetch_error_count,
        "last_error": state.last_error,
        "created_at": millis(source.created_at),
        "updated_at": millis(source.updated_at),
    });
    if let (Some(map), false) = (shown.as_object_mut(), anonymous) {
        map.insert("fetch_interval_minutes".into(), source.interval.minutes.into());
        map.insert("next_fetch_at".into(), source.next_fetch_at().map(millis).into());
        map.insert("paused_reason".into(), state.paused.map(PausedReason::as_str).into());
        map.insert("paused_at".into(), state.paused_at.map(millis).into());
    }
    shown
}

fn config(source: &StoredSource) -> Value {
    serde_json::from_str(&source.config).unwrap_or_default()
}

/// RFC 3339, always with milliseconds.
fn millis(at: Ts) -> String {
    at.to_millis_text()
}

pub(super) async fn status(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
) -> Response {
    respond(&id, collector_status(&api, &tenant).await)
}

async fn collector_status(api: &Api, tenant: &Tenant) -> RouteResult {
    let (sources, doing) =
        (tenant.store(api).sources(mine(tenant)?).await?, api.store.collector_stats(tenant.project()?).await?);
    let now = doing.now.unwrap_or_else(|| api.clock.now());
    let shown: Vec<_> = sources.iter().map(status_json).collect();
    let paused = sources.iter().filter(|source| source.state.paused.is_some()).count();
    let by_error =
        sources.iter().filter(|source| source.state.paused.is_some_and(|why| why != PausedReason::User)).count();
    let rate = |part: i64| (doing.fetches_24h > 0).then(|| part as f64 / doing.fetches_24h as f64);
    let beat = doing.heartbeats.iter().find(|beat| !beat.leaving).or(doing.heartbeats.first());
    // A tick can be late; after a second missing one the collector counts as dead.
    let alive = beat.is_some_and(|beat| {
        let late = std::time::Duration::from_secs(u64::try_from(beat.tick_seconds).unwrap_or(60).max(5));
        !beat.leaving && now <= beat.next_tick_at + late
    });
    let body = json!({
        "sources": shown,
        "stats": {
            "total_sources": sources.len(),
            "active_sources": sources.len() - paused,
            "paused_sources": paused,
            "paused_by_error": by_error,
            "fetches_24h": doing.fetches_24h,
            "errors_24h": doing.errors_24h,
            "success_rate_24h": rate(doing.fetches_24h - doing.errors_24h),
            "failure_rate_24h": rate(doing.errors_24h),
            "raw_items_24h": doing.items_24h,
            "items_24h": doing.items_24h,
        },
        "collector": {
            "alive": alive,
            "last_tick_at": beat.map(|beat| millis(beat.last_tick_at)),
            "next_tick_at": beat.filter(|_| alive).map(|beat| millis(beat.next_tick_at)),
            "tick_seconds": beat.map(|beat| beat.tick_seconds),
            "concurrency": beat.map(|beat| beat.concurrency),
            "running": doing.running,
        },
    });
    Ok(Json(body).into_response())
}

fn status_json(source: &StoredSource) -> Value {
    let state = &source.state;
    json!({
        "id": source.id,
        "name": source.name,
        "type": source.r#type,
        "interval_minutes": source.interval.minutes,
        "interval_from": source.interval.from.as_str(),
        "last_fetched_at": state.last_fetched_at.map(millis),
        "next_fetch_at": source.next_fetch_at().map(millis),
        "next_attempt_at": source.next_attempt_at().map(millis),
        "fetch_count": state.fetch_count,
        "fetch_error_count": state.fetch_error_count,
        "last_error": state.last_error,
        "last_error_at": state.last_error_at.map(millis),
        "status": source.status(),
        "paused_reason": state.paused.map(PausedReason::as_str),
        "reason": source.unsupported,
    })
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemParams {
    source_id: Option<i64>,
    source_ids: Option<String>,
    since: Option<Ts>,
    limit: Option<u32>,
    offset: Option<u32>,
}

pub(super) async fn items(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: Result<Query<ItemParams>, QueryRejection>,
) -> Response {
    respond(&id, raw_items(&api, &tenant, params, ITEMS).await)
}

pub(super) async fn for_digest(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    params: Result<Query<ItemParams>, QueryRejection>,
) -> Response {
    respond(&id, raw_items(&api, &tenant, params, DIGEST_ITEMS).await)
}

async fn raw_items(
    api: &Api,
    tenant: &Tenant,
    params: Result<Query<ItemParams>, QueryRejection>,
    (usual, most): (u32, u32),
) -> RouteResult {
    let Query(params) = params
        .map_err(|error| Failure { status: StatusCode::BAD_REQUEST, ..Failure::bad_request(error.body_text()) })?;
    let several = params.source_ids.as_deref().map(numbers).transpose()?;
    let filter = ItemFilter {
        project_key: tenant.project()?.to_owned(),
        sources: several.or(params.source_id.map(|one| vec![one])),
        since: params.since,
        limit: params.limit.unwrap_or(usual).clamp(1, most),
        offset: params.offset.unwrap_or(0),
    };
    let items = tenant.store(api).raw_items(filter).await?;
    Ok(Json(items.iter().map(item_json).collect::<Vec<_>>()).into_response())
}

/// Parses ids such as `1,2,3`.
fn numbers(text: &str) -> Result<Vec<i64>, Failure> {
    let wrong = |part: &str| Failure::bad_request(format!("source_ids: {part:?} is not the id of a source"));
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_err(|_| wrong(part))).collect()
}

fn item_json(item: &RawItem) -> Value {
    let mut fields: Map<String, Value> = serde_json::from_str(&item.fields).unwrap_or_default();
    let mut take = |name: &str| fields.remove(name).unwrap_or_default();
    let (title, url, author) = (take("title"), take("url"), take("author"));
    let (content, published_at, updated_at) = (take("content"), take("published_at"), take("updated_at"));
    let time = |value: Value| value.as_str().and_then(|text| text.parse::<Ts>().ok()).map(millis);
    json!({
        "id": item.id,
        "source_id": item.source,
        "source_name": item.source_name,
        "source_type": item.source_type,
        "title": title,
        "url": url,
        "author": author,
        "content": content,
        "published_at": time(published_at),
        "updated_at": time(updated_at),
        "fetched_at": millis(item.fetched_at),
        "dedup_key": format!("{}:{}", item.source, item.dedup_key),
        "metadata": fields,
    })
}

pub(super) async fn stats(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
) -> Response {
    let work = async {
        let stats = api.store.raw_item_stats(tenant.project()?).await?;
        let shown = stats.iter().map(|of| {
            json!({
                "source_id": of.source,
                "name": of.name,
                "type": of.r#type,
                "total_items": of.total_items,
                "items_24h": of.items_24h,
                "last_item_at": of.last_item_at.map(millis),
            })
        });
        Ok(Json(shown.collect::<Vec<_>>()).into_response())
    };
    respond(&id, work.await)
}
