//! The crawler's contract (CRAWL-58..109): requests to platforms with immediate responses, and what external
//! orchestrators need to cooperate. It has an envelope of its own: `{success, data, error, meta}`.

pub(super) mod cookies;
pub(super) mod locks;
pub(super) mod notes;

use std::collections::BTreeMap;
use tokio::time::Instant;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use patra_core::Code;
use patra_core::tx::KeyScope;
use patra_engine::crawler::flow::{self, FlowError};
use patra_engine::crawler::{
    CrawlContext, CrawlFailure, CrawlReply, Crawler, FoundNote, MAX_BATCH, NoteRequest, SearchRequest,
};

use super::input::{Given, PathText, path_text};
use crate::Api;
use crate::auth::{Tenant, require};
use crate::envelope::Failure;
use crate::request_id::RequestId;

/// Most bytes of a note id and of a token; most tokens of a note.
const MAX_NOTE_ID: usize = patra_core::crawl::MAX_NAME;
const MAX_TOKEN: usize = 4 << 10;
const MAX_TOKENS: usize = 16;

/// Whether a path belongs to this contract.
pub(crate) fn is_ours(path: &str) -> bool {
    path.starts_with("/api/v1/crawler/") || matches!(path, "/api/v1/crawler" | "/api/search" | "/api/note/detail")
}

/// A response in progress.
pub(super) struct Reply {
    id: RequestId,
    began: Instant,
    cookie_used: Option<String>,
}

impl Reply {
    pub(super) fn to(id: RequestId) -> Reply {
        Reply { id, began: Instant::now(), cookie_used: None }
    }

    fn meta(&self) -> Value {
        let latency = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        json!({ "request_id": self.id.as_str(), "latency_ms": latency, "cookie_used": self.cookie_used })
    }

    pub(super) fn give(&self, result: Result<Value, CrawlFailure>) -> Response {
        match result {
            Ok(data) => {
                Json(json!({ "success": true, "data": data, "error": null, "meta": self.meta() })).into_response()
            }
            Err(failure) => {
                let error = error(&failure);
                let body = json!({ "success": false, "data": null, "error": error, "meta": self.meta() });
                (status(failure.code), Json(body)).into_response()
            }
        }
    }
}

/// A failure of a shared layer, in this envelope.
pub(crate) fn refuse(failure: Failure, id: &RequestId) -> Response {
    let (given, failure) = (failure.status, CrawlFailure::from(failure));
    let code = failure.code;
    let mut response = Reply::to(id.clone()).give(Err(failure));
    // A method that is not allowed has no code of its own, so its status is kept.
    if code == Code::InvalidInput {
        *response.status_mut() = given;
    }
    response
}

impl From<Failure> for CrawlFailure {
    fn from(failure: Failure) -> CrawlFailure {
        let message = match &failure.hint {
            Some(hint) => format!("{}: {hint}", failure.message),
            None => failure.message,
        };
        CrawlFailure::new(failure.code, message).with(failure.details)
    }
}

fn error(failure: &CrawlFailure) -> Value {
    let mut error = json!({ "code": failure.code, "message": failure.message, "retryable": failure.is_retryable() });
    if !failure.details.is_empty() {
        error["details"] = Value::Object(failure.details.clone());
    }
    error
}

/// The HTTP status of a code (CRAWL-75..82).
fn status(code: Code) -> StatusCode {
    match code {
        Code::InvalidInput => StatusCode::BAD_REQUEST,
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::Forbidden | Code::RobotsDisallowed => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::LockLost | Code::TaskConflict => StatusCode::CONFLICT,
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::CookieInvalid | Code::PlatformError => StatusCode::BAD_GATEWAY,
        Code::CookieExhausted | Code::NetworkError | Code::NotConfigured => StatusCode::SERVICE_UNAVAILABLE,
        Code::TimeoutError => StatusCode::GATEWAY_TIMEOUT,
        Code::PartialFail => StatusCode::MULTI_STATUS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Responds with the result of a route that sends no request to a platform.
pub(super) async fn respond(id: &RequestId, work: impl Future<Output = Result<Value, CrawlFailure>>) -> Response {
    let reply = Reply::to(id.clone());
    reply.give(work.await)
}

pub(super) fn wrong(message: impl Into<String>) -> CrawlFailure {
    CrawlFailure::new(Code::InvalidInput, message)
}

pub(super) fn no_store(error: patra_core::tx::TxError) -> CrawlFailure {
    CrawlFailure::from(Failure::from(error))
}

/// Checks a text: 1 to `most` characters, none of them a control character.
pub(super) fn text(name: &str, given: &str, most: usize) -> Result<(), CrawlFailure> {
    let length = given.chars().count();
    if (1..=most).contains(&length) && !given.chars().any(char::is_control) {
        return Ok(());
    }
    Err(wrong(format!("{name} must have 1 to {most} characters, none of them a control character"))
        .detail("field", name.into()))
}

/// Like [`text`], for an optional text.
pub(super) fn maybe(name: &str, given: Option<&str>, most: usize) -> Result<(), CrawlFailure> {
    given.map_or(Ok(()), |given| text(name, given, most))
}

fn crawler(api: &Api) -> Result<&Crawler, CrawlFailure> {
    let crawler = api.crawler.as_ref();
    let missing =
        || CrawlFailure::new(Code::NotConfigured, "COOKIE_MASTER_KEY is not set: cookies cannot be decrypted");
    api.vault.get().ok_or_else(missing)?;
    crawler.ok_or_else(|| CrawlFailure::new(Code::NotConfigured, "this process cannot send requests to platforms"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchBody {
    platform: String,
    keyword: String,
    page: Option<u64>,
    page_size: Option<u32>,
    sort_type: Option<String>,
    note_type: Option<String>,
    search_id: Option<String>,
    cookie_name: Option<String>,
    #[serde(default)]
    exclude_cookies: Vec<String>,
    /// Other parameters of the platform.
    #[serde(default)]
    params: BTreeMap<String, String>,
}

pub(super) async fn search(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Given<SearchBody>,
) -> Response {
    let mut reply = Reply::to(id);
    let result = searched(&api, &tenant, &mut reply, given).await;
    reply.give(result)
}

async fn searched(
    api: &Api,
    tenant: &Tenant,
    reply: &mut Reply,
    given: Given<SearchBody>,
) -> Result<Value, CrawlFailure> {
    let body = given.read()?;
    text("platform", &body.platform, 64)?;
    let page = body.page.unwrap_or(1);
    if page == 0 || body.page_size == Some(0) {
        return Err(wrong("page and page_size begin with 1"));
    }
    let mut params = body.params;
    let options = [("sort_type", body.sort_type), ("note_type", body.note_type)];
    params.extend(options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    let behalf = behalf(reply, tenant, body.cookie_name, body.exclude_cookies)?;
    let (platform, keyword) = (body.platform.clone(), body.keyword.clone());
    let search = SearchRequest {
        platform: body.platform,
        keyword: body.keyword,
        page,
        page_size: body.page_size,
        search_id: body.search_id,
        params,
    };
    let CrawlReply { result, cookie_used } = crawler(api)?.search(search, &behalf).await;
    reply.cookie_used = cookie_used;
    let found = result?;
    let items: Vec<_> = found.notes.into_iter().map(found_note).collect();
    let mut data = json!({
        "platform": platform, "keyword": keyword, "page": page, "page_size": found.page_size,
        "has_more": found.has_more, "items": items,
    });
    if let Some(search_id) = found.search_id {
        data["search_id"] = search_id.into();
    }
    Ok(data)
}

fn found_note(note: FoundNote) -> Value {
    let mut item = Map::new();
    item.insert("note_id".to_owned(), note.note_id.into());
    item.extend(note.fields);
    if !note.tokens.is_empty() {
        item.insert("tokens".to_owned(), json!(note.tokens));
    }
    Value::Object(item)
}

fn behalf(
    reply: &Reply,
    tenant: &Tenant,
    cookie_name: Option<String>,
    exclude_cookies: Vec<String>,
) -> Result<CrawlContext, CrawlFailure> {
    for name in cookie_name.iter().chain(&exclude_cookies) {
        text("cookie_name", name, 64)?;
    }
    let project_key = tenant.sight()?.map(str::to_owned);
    let request_id = reply.id.as_str().to_owned();
    Ok(CrawlContext { request_id, project_key, cookie_name, exclude_cookies, check: false })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchBody {
    platform: String,
    note_ids: Vec<String>,
    /// Tokens by note id.
    #[serde(default)]
    tokens: BTreeMap<String, BTreeMap<String, String>>,
    cookie_name: Option<String>,
    #[serde(default)]
    exclude_cookies: Vec<String>,
}

pub(super) async fn batch(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    given: Given<BatchBody>,
) -> Response {
    let mut reply = Reply::to(id);
    match fetched(&api, &tenant, &mut reply, given).await {
        Ok(results) => several(&reply, results),
        Err(failure) => {
            let body = json!({
                "success": false, "items": [], "summary": { "total": 0, "succeeded": 0, "failed": 0 },
                "error": error(&failure), "meta": reply.meta(),
            });
            (status(failure.code), Json(body)).into_response()
        }
    }
}

async fn fetched(
    api: &Api,
    tenant: &Tenant,
    reply: &mut Reply,
    given: Given<BatchBody>,
) -> Result<Vec<(String, Result<Value, CrawlFailure>)>, CrawlFailure> {
    let mut body = given.read()?;
    text("platform", &body.platform, 64)?;
    if body.note_ids.is_empty() || body.note_ids.len() > MAX_BATCH {
        return Err(wrong(format!("note_ids holds 1 to {MAX_BATCH} ids, not {}", body.note_ids.len())));
    }
    for note_id in &body.note_ids {
        text("note_ids", note_id, MAX_NOTE_ID)?;
    }
    let behalf = behalf(reply, tenant, body.cookie_name, body.exclude_cookies)?;
    let crawler = crawler(api)?;
    let mut requests = Vec::new();
    for note_id in body.note_ids {
        let tokens = body.tokens.remove(&note_id).unwrap_or_default();
        requests.push(note_request(api, tenant, &body.platform, note_id, tokens).await?);
    }
    let batch = crawler.details(&body.platform, requests, &behalf).await?;
    reply.cookie_used = batch.cookie_used;
    Ok(batch.result)
}

async fn note_request(
    api: &Api,
    tenant: &Tenant,
    platform: &str,
    note_id: String,
    tokens: BTreeMap<String, String>,
) -> Result<NoteRequest, CrawlFailure> {
    few(&tokens)?;
    let request = flow::note_request(&*api.store, &api.vault, tenant.project()?, platform, note_id, tokens).await;
    request.map_err(|error| match error {
        FlowError::Store(error) => no_store(error),
        error => CrawlFailure::new(Code::NotConfigured, error.to_string()),
    })
}

/// Checks the number and size of the tokens of a note.
fn few(tokens: &BTreeMap<String, String>) -> Result<(), CrawlFailure> {
    let fits = |(name, token): (&String, &String)| {
        name.len() <= MAX_TOKEN && token.len() <= MAX_TOKEN && !token.contains('\0')
    };
    if tokens.len() <= MAX_TOKENS && tokens.iter().all(fits) {
        return Ok(());
    }
    Err(wrong(format!("a note has at most {MAX_TOKENS} tokens of {MAX_TOKEN} bytes, without NUL")))
}

/// The response of a batch (CRAWL-64..73).
fn several(reply: &Reply, results: Vec<(String, Result<Value, CrawlFailure>)>) -> Response {
    let failed: Vec<_> = results.iter().filter_map(|(id, result)| Some((id, result.as_ref().err()?.clone()))).collect();
    let (total, lost) = (results.len(), failed.len());
    let failed_ids: Vec<_> = failed.iter().map(|(id, _)| (*id).clone()).collect();
    let common = failed
        .first()
        .map(|(_, failure)| failure.code)
        .filter(|code| lost == total && failed.iter().all(|(_, failure)| failure.code == *code));
    let failure = (lost > 0).then(|| {
        let code = common.unwrap_or(Code::PartialFail);
        let message = match failed.first() {
            Some((_, first)) if common.is_some() && total == 1 => first.message.clone(),
            _ => format!("{lost} of {total} items failed"),
        };
        let mut failure = CrawlFailure::new(code, message).detail("failed_ids", json!(failed_ids));
        if let Some((_, first)) = failed.first().filter(|_| common.is_some()) {
            failure.details.extend(first.details.clone());
        }
        failure
    });
    let status = failure.as_ref().map_or(StatusCode::OK, |failure| status(failure.code));
    let items: Vec<_> = results
        .into_iter()
        .map(|(id, result)| match result {
            Ok(data) => json!({ "id": id, "success": true, "data": data }),
            Err(failure) => json!({ "id": id, "success": false, "error": error(&failure) }),
        })
        .collect();
    let body = json!({
        "success": lost == 0, "items": items,
        "summary": { "total": total, "succeeded": total - lost, "failed": lost },
        "error": failure.as_ref().map(error), "meta": reply.meta(),
    });
    (status, Json(body)).into_response()
}

/// `platform` and `cookie_name`; every other parameter is a token.
type SingleParams = BTreeMap<String, String>;

pub(super) async fn single(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    Extension(tenant): Extension<Tenant>,
    note_id: PathText,
    params: Result<Query<SingleParams>, QueryRejection>,
) -> Response {
    let mut reply = Reply::to(id);
    let result = async {
        // A GET that uses an account at the platform needs the scope `write`.
        require(granted, KeyScope::Write)?;
        let note_id = path_text(note_id)?;
        text("note_id", &note_id, MAX_NOTE_ID)?;
        let Query(mut params) = params.map_err(|error| wrong(error.body_text()))?;
        let platform = params.remove("platform").ok_or_else(|| wrong("platform is missing"))?;
        text("platform", &platform, 64)?;
        let behalf = behalf(&reply, &tenant, params.remove("cookie_name"), Vec::new())?;
        let crawler = crawler(&api)?;
        let request = note_request(&api, &tenant, &platform, note_id, params).await?;
        let CrawlReply { result, cookie_used } = crawler.detail(&platform, &request, &behalf).await;
        reply.cookie_used = cookie_used;
        result
    }
    .await;
    reply.give(result)
}

#[cfg(test)]
mod tests;
