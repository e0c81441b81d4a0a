//! The cookie pool. Values can be stored but never read.

use axum::Extension;
use axum::extract::Query;
use axum::extract::State;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::cookie::CookieCounts;
use patra_core::port::crawl::CookieView;
use patra_core::secret::Secret;
use patra_core::tx::KeyScope;
use patra_core::{Code, Ts};
use patra_engine::cookies::{self, NewCookie};
use patra_engine::crawler::{CrawlContext, CrawlFailure, CrawlReply};

use super::super::input::{Given, PathText, path_text};
use super::{Reply, crawler, maybe, no_store, respond, text, wrong};
use crate::Api;
use crate::auth::require;
use crate::envelope::Failure;
use crate::request_id::RequestId;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct CookieBody {
    cookie_name: String,
    platform: String,
    cookie_value: Secret,
    priority: Option<i32>,
    daily_limit: Option<u32>,
}

pub(in crate::routes) async fn store(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    given: Given<CookieBody>,
) -> Response {
    let work = async {
        require(granted, KeyScope::Admin)?;
        // Messages of the JSON parser quote the value.
        let new = given.read().map_err(|_| {
            wrong("the body is not a cookie: expected cookie_name, platform, cookie_value, priority, daily_limit")
        })?;
        text("platform", &new.platform, 64)?;
        crawler(&api)?.platform(&new.platform).await?;
        let vault = api.vault.get().ok_or_else(no_key)?;
        let name = new.cookie_name.clone();
        let cookie = NewCookie {
            name: new.cookie_name,
            platform: new.platform,
            value: new.cookie_value,
            priority: new.priority,
            daily_limit: new.daily_limit,
        };
        let saved = cookies::save(&*api.store, vault, &cookie).await.map_err(Failure::from)?;
        tracing::info!(cookie = name, created = saved.created, "audit: a cookie was put in");
        shown(&api, &name).await
    };
    respond(&id, work).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct ListParams {
    platform: Option<String>,
}

pub(in crate::routes) async fn list(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    params: Result<Query<ListParams>, QueryRejection>,
) -> Response {
    let work = async {
        let Query(params) = params.map_err(|error| wrong(error.body_text()))?;
        maybe("platform", params.platform.as_deref(), 64)?;
        let (cookies, now) = api.store.cookies(params.platform).await.map_err(no_store)?;
        let mut counts = CookieCounts::default();
        cookies.iter().for_each(|cookie| counts.add(cookie.usage.after_cooling(now).status));
        let items: Vec<_> = cookies.iter().map(|cookie| view(cookie, now)).collect();
        Ok(json!({ "items": items, "counts": counts }))
    };
    respond(&id, work).await
}

pub(in crate::routes) async fn reactivate(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    name: PathText,
) -> Response {
    let work = async {
        require(granted, KeyScope::Admin)?;
        let name = path_text(name)?;
        cookies::reactivate(&*api.store, &name).await.map_err(Failure::from)?;
        tracing::info!(cookie = name, "audit: a cookie was reactivated");
        shown(&api, &name).await
    };
    respond(&id, work).await
}

pub(in crate::routes) async fn validate(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    name: PathText,
) -> Response {
    let mut reply = Reply::to(id);
    let result = async {
        let name = path_text(name)?;
        let cookie = find(&api, &name).await?.0;
        let behalf = CrawlContext {
            request_id: reply.id.as_str().to_owned(),
            project_key: None,
            cookie_name: Some(name.clone()),
            exclude_cookies: Vec::new(),
        };
        let CrawlReply { result, cookie_used } = crawler(&api)?.validate(&cookie.platform, &behalf).await;
        reply.cookie_used = cookie_used;
        result?;
        shown(&api, &name).await
    }
    .await;
    reply.give(result)
}

pub(in crate::routes) async fn delete(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    name: PathText,
) -> Response {
    let work = async {
        require(granted, KeyScope::Admin)?;
        let name = path_text(name)?;
        if cookies::delete(&*api.store, &name).await.map_err(Failure::from)? {
            tracing::info!(cookie = name, "audit: a cookie was deleted");
        }
        Ok(json!({ "deleted": true }))
    };
    respond(&id, work).await
}

fn no_key() -> CrawlFailure {
    CrawlFailure::new(Code::NotConfigured, "COOKIE_MASTER_KEY is not set: cookies cannot be encrypted")
}

async fn find(api: &Api, name: &str) -> Result<(CookieView, Ts), CrawlFailure> {
    let (cookies, now) = api.store.cookies(None).await.map_err(no_store)?;
    let found = cookies.into_iter().find(|cookie| cookie.cookie_name == name);
    let missing = || CrawlFailure::new(Code::NotFound, "there is no cookie of this name");
    Ok((found.ok_or_else(missing)?, now))
}

async fn shown(api: &Api, name: &str) -> Result<Value, CrawlFailure> {
    let (cookie, now) = find(api, name).await?;
    Ok(view(&cookie, now))
}

fn view(cookie: &CookieView, now: Ts) -> Value {
    let usage = cookie.usage.after_cooling(now);
    json!({
        "cookie_name": cookie.cookie_name, "platform": cookie.platform, "status": usage.status,
        "priority": cookie.priority, "daily_used": usage.daily_used, "daily_limit": usage.daily_limit,
        "consecutive_errors": usage.consecutive_errors, "total_errors": usage.total_errors,
        "cooling_until": usage.cooling_until, "last_used_at": usage.last_used_at,
        "encryption_key_id": cookie.encryption_key_id,
        "created_at": cookie.created_at, "updated_at": cookie.updated_at,
    })
}
