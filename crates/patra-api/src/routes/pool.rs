//! The URL pool (`/api/v1/resource_pool`), and the resources of a project.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::port::CommandsExt as _;
use patra_core::port::pool::{InvalidListPosition, ListPosition, UrlFilter};
use patra_core::project::{Library, LibraryScope};
use patra_core::tx::{ConfigureCapture, KeyScope, MAX_JOB_TYPES, UrlSource};
use patra_core::{Code, Ts};
use patra_engine::pool::{
    self, CAPTURE_TASKS, DOCUMENTS, EXTRACT_DOCUMENTS, ExtractReport, ExtractRequest, LookBackRequest, PoolRefusal,
    TASKS,
};
use patra_engine::registry;

use super::input::{Given, without_nul};
use crate::Api;
use crate::auth::Tenant;
use crate::envelope::{Failure, success};
use crate::key::random_uuid;
use crate::request_id::RequestId;

pub(super) const EXTRACT_PATH: &str = "/api/v1/resource_pool/extract/from-documents";
pub(super) const LOOK_BACK_PATH: &str = "/api/v1/resource_pool/capture/from-tasks";
/// URLs per page: by default, and at most (POOL-54).
const PAGE: (u32, u32) = (20, 100);
/// URLs per page when it begins behind a position: by default, and at most.
const BEHIND: (u32, u32) = (100, 1_000);
/// Most bytes of a job type, a document type or a state.
const MAX_WORD: usize = 128;

/// Whether the caller of a path waits for a search, unless `async_mode` is set.
pub(super) fn searches(path: &str) -> bool {
    [EXTRACT_PATH, LOOK_BACK_PATH].contains(&path)
}

pub(super) type Done = Result<(StatusCode, Value, Value), Failure>;

pub(super) fn respond(id: &RequestId, done: Done) -> Response {
    match done {
        Ok((status, data, meta)) => (status, success(id, &data, meta)).into_response(),
        Err(failure) => failure.respond(id),
    }
}

pub(super) fn invalid(field: &str, value: impl Into<Value>, message: impl Into<String>) -> Failure {
    Failure::bad_request(message).detail("field", field.into()).detail("value", value.into())
}

/// The library to write to; the project's by default (POOL-06).
fn library(scope: Option<&str>) -> Result<Library, Failure> {
    let Some(scope) = scope else { return Ok(Library::Project) };
    scope.parse().map_err(|_| invalid("scope", scope, "scope must be 'project' or 'shared'"))
}

/// The libraries to read; both by default (POOL-07).
fn sight(scope: Option<&str>) -> Result<LibraryScope, Failure> {
    let Some(scope) = scope else { return Ok(LibraryScope::Effective) };
    scope.parse().map_err(|_| invalid("scope", scope, "scope must be 'shared', 'project' or 'effective'"))
}

fn bounded(field: &str, limit: Option<u32>, (usual, most): (u32, u32)) -> Result<u32, Failure> {
    match limit.unwrap_or(usual) {
        limit if (1..=most).contains(&limit) => Ok(limit),
        limit => Err(invalid(field, limit, format!("{field} must be between 1 and {most}"))),
    }
}

pub(super) fn words(field: &str, words: &[String]) -> Result<(), Failure> {
    for word in words {
        without_nul(field, Some(word))?;
        if word.is_empty() || word.len() > MAX_WORD {
            return Err(invalid(field, word.as_str(), format!("each of {field} has 1 to {MAX_WORD} bytes")));
        }
    }
    Ok(())
}

/// Checks the rights and the rate of a write.
async fn writer(
    api: &Api,
    tenant: &Tenant,
    granted: KeyScope,
    project_key: Option<&str>,
    scope: Option<&str>,
) -> Result<(String, Library), Failure> {
    let library = library(scope)?;
    let key = tenant.named(api, project_key).await?;
    if library == Library::Shared {
        tenant.may_share(granted)?;
    }
    api.limits.pool_writes.admit(&key, api.clock.steady())?;
    Ok((key, library))
}

// --- extraction ------------------------------------------------------------------------------------------------------

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtractBody {
    project_key: Option<String>,
    scope: Option<String>,
    #[serde(default)]
    filters: Filters,
    #[serde(default)]
    async_mode: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Filters {
    doc_type: Vec<String>,
    state: Vec<String>,
    document_ids: Option<Vec<i64>>,
    limit: Option<u32>,
    before_id: Option<i64>,
    include_uri: bool,
}

pub(super) async fn extract(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    Extension(granted): Extension<KeyScope>,
    given: Given<ExtractBody>,
) -> Response {
    let done = async {
        let ExtractBody { project_key, scope, filters, async_mode } = given.read()?;
        let Filters { doc_type, state, document_ids, limit, before_id, include_uri } = filters;
        words("filters.doc_type", &doc_type)?;
        words("filters.state", &state)?;
        let limit = bounded("filters.limit", limit, DOCUMENTS)?;
        if document_ids.as_ref().is_some_and(|ids| ids.len() > limit as usize) {
            let message = format!("there are more document_ids than filters.limit ({limit}) allows");
            return Err(invalid("filters.document_ids", limit, message));
        }
        let (project_key, library) = writer(&api, &tenant, granted, project_key.as_deref(), scope.as_deref()).await?;
        let request = ExtractRequest {
            project_key,
            library,
            doc_types: doc_type,
            states: state,
            document_ids,
            limit,
            before: before_id,
            include_uri,
        };
        if async_mode {
            return queued(&api, &id, &request.project_key, EXTRACT_DOCUMENTS, &request).await;
        }
        let tally = pool::extract(&*api.store, &request).await;
        finished(tally, "documents_scanned", library, |missing| {
            format!("{missing} documents do not exist in project {}", request.project_key)
        })
    };
    respond(&id, done.await)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LookBackBody {
    project_key: Option<String>,
    scope: Option<String>,
    task_ids: Option<Vec<String>>,
    job_type: Option<String>,
    since: Option<Ts>,
    limit: Option<u32>,
    #[serde(default)]
    async_mode: bool,
}

pub(super) async fn look_back(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    Extension(granted): Extension<KeyScope>,
    given: Given<LookBackBody>,
) -> Response {
    let done = async {
        let LookBackBody { project_key, scope, task_ids, job_type, since, limit, async_mode } = given.read()?;
        let limit = bounded("limit", limit, TASKS)?;
        words("task_ids", task_ids.as_deref().unwrap_or_default())?;
        words("job_type", job_type.as_slice())?;
        if task_ids.as_ref().is_some_and(|ids| ids.len() > limit as usize) {
            return Err(invalid("task_ids", limit, format!("there are more task_ids than limit ({limit}) allows")));
        }
        let (project_key, library) = writer(&api, &tenant, granted, project_key.as_deref(), scope.as_deref()).await?;
        let request = LookBackRequest { project_key, library, task_ids, job_type, since, limit };
        if async_mode {
            return queued(&api, &id, &request.project_key, CAPTURE_TASKS, &request).await;
        }
        let tally = pool::look_back(&*api.store, &request).await;
        finished(tally, "tasks_scanned", library, |missing| {
            format!("{missing} tasks do not exist in project {}, or have not ended", request.project_key)
        })
    };
    respond(&id, done.await)
}

/// Queues a search as a background job (POOL-37).
async fn queued(api: &Api, id: &RequestId, project_key: &str, job_type: &str, request: &impl serde::Serialize) -> Done {
    let task_id = random_uuid()
        .map_err(|error| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, error.to_string()))?;
    let request_id = Some(id.as_str().to_owned());
    pool::enqueue(&*api.store, task_id.clone(), project_key, job_type, request, request_id).await?;
    (api.nudge)();
    let data = json!({ "task_id": task_id, "async": true, "status": "queued", "result": null });
    Ok((StatusCode::ACCEPTED, data, json!({})))
}

fn finished(
    tally: Result<ExtractReport, PoolRefusal>,
    scanned: &str,
    library: Library,
    missing: impl FnOnce(usize) -> String,
) -> Done {
    match tally {
        Ok(tally) => {
            let result = tally.to_json(scanned, library);
            let data = json!({ "task_id": null, "async": false, "status": "finished", "result": result });
            Ok((StatusCode::OK, data, json!({})))
        }
        Err(PoolRefusal::Missing(ids)) => {
            let failure = Failure::new(StatusCode::NOT_FOUND, Code::NotFound, missing(ids.len()));
            Err(failure.detail("missing_ids", ids.into()))
        }
        Err(PoolRefusal::Store(error)) => Err(error.into()),
    }
}

// --- the list --------------------------------------------------------------------------------------------------------

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UrlsQuery {
    scope: Option<String>,
    page: Option<String>,
    page_size: Option<String>,
    before: Option<String>,
    limit: Option<String>,
    source: Option<String>,
    domain: Option<String>,
}

fn number(field: &str, text: Option<&str>, usual: u32, most: u32) -> Result<u32, Failure> {
    let Some(text) = text else { return Ok(usual) };
    let wrong = || invalid(field, text, format!("{field} must be a whole number from 1 to {most}"));
    text.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(wrong)
}

/// Parses the position that a page begins behind.
pub(crate) fn position(before: Option<&str>) -> Result<Option<ListPosition>, Failure> {
    let Some(text) = before else { return Ok(None) };
    let parsed = text.parse().map_err(|error: InvalidListPosition| invalid("before", text, error.to_string()));
    parsed.map(Some)
}

/// Where a page of URLs begins: at a number of pages, or behind a position.
struct PagePlace {
    page: Option<u32>,
    before: Option<ListPosition>,
    limit: u32,
}

impl PagePlace {
    fn of(query: &UrlsQuery) -> Result<PagePlace, Failure> {
        if query.before.is_none() && query.limit.is_none() {
            let page = number("page", query.page.as_deref(), 1, u32::MAX)?;
            let limit = number("page_size", query.page_size.as_deref(), PAGE.0, PAGE.1)?;
            return Ok(PagePlace { page: Some(page), before: None, limit });
        }
        for (field, value) in [("page", &query.page), ("page_size", &query.page_size)] {
            if let Some(value) = value {
                return Err(invalid(field, value.as_str(), format!("{field} does not go with before or limit")));
            }
        }
        let limit = number("limit", query.limit.as_deref(), BEHIND.0, BEHIND.1)?;
        Ok(PagePlace { page: None, before: position(query.before.as_deref())?, limit })
    }

    fn offset(&self) -> u64 {
        self.page.map_or(0, |page| u64::from(page - 1) * u64::from(self.limit))
    }
}

pub(super) async fn urls(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    query: Result<Query<UrlsQuery>, QueryRejection>,
) -> Response {
    let done = async {
        let Query(query) = query.map_err(|error| Failure::bad_request(error.body_text()))?;
        let sight = sight(query.scope.as_deref())?;
        let place = PagePlace::of(&query)?;
        let source = match query.source.as_deref() {
            None => None,
            Some(source) => Some(
                source
                    .parse::<UrlSource>()
                    .map_err(|_| invalid("source", source, "source must be 'document' or 'task'"))?,
            ),
        };
        without_nul("domain", query.domain.as_deref())?;
        // The shared library is readable even if there is no project yet (POOL-51).
        let project_key = match sight {
            LibraryScope::Shared => String::new(),
            _ => tenant.one()?,
        };
        let found = api
            .store
            .pool_urls(UrlFilter {
                project_key,
                scope: sight,
                source,
                domain: query.domain.filter(|domain| !domain.is_empty()).map(|domain| domain.to_lowercase()),
                offset: place.offset(),
                before: place.before,
                // One more shows whether there is a next page.
                limit: place.limit + 1,
            })
            .await?;
        let has_more = found.items.len() > place.limit as usize;
        let shown: Vec<_> = found.items.iter().take(place.limit as usize).collect();
        let next = shown.last().filter(|_| has_more).map(|last| last.position().to_string());
        let items: Vec<_> = shown.iter().map(|url| url.to_json(tenant.is_project())).collect();
        let mut pagination = json!({ "total": found.total, "next_before": next });
        match place.page {
            Some(page) => {
                pagination["page"] = page.into();
                pagination["page_size"] = place.limit.into();
                pagination["total_pages"] = found.total.div_ceil(u64::from(place.limit)).into();
            }
            None => pagination["limit"] = place.limit.into(),
        }
        Ok((StatusCode::OK, json!({ "items": items }), json!({ "pagination": pagination })))
    };
    respond(&id, done.await)
}

// --- capture ---------------------------------------------------------------------------------------------------------

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaptureBody {
    project_key: Option<String>,
    scope: Option<String>,
    job_types: Vec<String>,
    enabled: Option<bool>,
}

pub(super) async fn enable_capture(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    Extension(granted): Extension<KeyScope>,
    given: Given<CaptureBody>,
) -> Response {
    let done = async {
        let CaptureBody { project_key, scope, mut job_types, enabled } = given.read()?;
        if job_types.is_empty() || job_types.len() > MAX_JOB_TYPES {
            let message = format!("job_types must name 1 to {MAX_JOB_TYPES}");
            return Err(invalid("job_types", job_types.len(), message));
        }
        words("job_types", &job_types)?;
        job_types.sort();
        job_types.dedup();
        let (project_key, library) = writer(&api, &tenant, granted, project_key.as_deref(), scope.as_deref()).await?;
        let enabled = enabled.unwrap_or(true);
        api.store.run(ConfigureCapture { project_key: project_key.clone(), library, job_types, enabled }).await?;
        Ok((StatusCode::OK, capture_json(&api, &project_key).await?, json!({})))
    };
    respond(&id, done.await)
}

pub(super) async fn capture_config(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
) -> Response {
    let done = async {
        let key = tenant.one()?;
        Ok((StatusCode::OK, capture_json(&api, &key).await?, json!({})))
    };
    respond(&id, done.await)
}

async fn capture_json(api: &Api, project_key: &str) -> Result<Value, Failure> {
    let rules = api.store.capture_rules(Some(project_key)).await?;
    let items = rules.iter().map(|rule| {
        json!({ "job_type": rule.job_type, "scope": rule.library, "enabled": rule.enabled, "updated_at": rule.updated_at })
    });
    let known = pool::job_types(&*api.store, project_key).await?;
    let unknown: Vec<_> = rules.iter().map(|rule| &rule.job_type).filter(|of| !known.contains(*of)).collect();
    Ok(json!({
        "project_key": project_key, "items": items.collect::<Vec<_>>(), "unknown_job_types": unknown,
    }))
}

// --- what can be collected -------------------------------------------------------------------------------------------

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourcesQuery {
    scope: Option<String>,
}

/// Lists connectors and sources that a project can use (POOL-91..95).
pub(super) async fn news_resources(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    query: Result<Query<ResourcesQuery>, QueryRejection>,
) -> Response {
    let done = async {
        let Query(ResourcesQuery { scope }) = query.map_err(|error| Failure::bad_request(error.body_text()))?;
        let sight = sight(scope.as_deref())?;
        let key = tenant.one()?;
        let items = registry::news_resources(&*api.store, &key, sight).await?;
        let items: Vec<_> = items
            .iter()
            .map(|item| json!({ "resource_id": item.code, "name": item.name, "scope": item.library }))
            .collect();
        Ok((StatusCode::OK, json!({ "items": items, "scope": sight }), json!({})))
    };
    respond(&id, done.await)
}
