//! The cookie pool. Values can be stored but never read.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::Query;
use axum::extract::State;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::cookie::CookieCounts;
use patra_core::port::crawl::{CookieFilter, CookieView, MAX_ROWS};
use patra_core::secret::Secret;
use patra_core::tx::KeyScope;
use patra_core::{Code, Ts};
use patra_engine::cookies::{self, CookieSettings, NewCookie};
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
    /// As a browser sends it, or a file that a browser has exported.
    cookie_value: Secret,
    /// Of a file, the cookies of this domain are taken.
    domain: Option<String>,
    priority: Option<i32>,
    daily_limit: Option<u32>,
    expires_at: Option<Ts>,
    max_parallel: Option<u32>,
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
            wrong(
                "the body is not a cookie: expected cookie_name, platform, cookie_value, domain, priority, daily_limit, \
                 expires_at, max_parallel",
            )
        })?;
        text("platform", &new.platform, 64)?;
        maybe("domain", new.domain.as_deref(), 253)?;
        crawler(&api)?.platform(&new.platform).await?;
        let vault = api.vault.get().ok_or_else(no_key)?;
        let name = new.cookie_name.clone();
        let (store, domain) = (&*api.store, new.domain.as_deref());
        let read = cookies::import(store, &new.platform, domain, &new.cookie_value, api.clock.now()).await;
        let (value, expires_at) = read.map_err(Failure::from)?;
        let settings = CookieSettings {
            priority: new.priority,
            daily_limit: new.daily_limit,
            expires_at: new.expires_at.or(expires_at),
            max_parallel: new.max_parallel,
        };
        let cookie = NewCookie { name: new.cookie_name, platform: new.platform, value, settings };
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
    /// The name of the last cookie of the page before.
    after: Option<String>,
    limit: Option<u32>,
}

pub(in crate::routes) async fn list(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    params: Result<Query<ListParams>, QueryRejection>,
) -> Response {
    let work = async {
        let Query(params) = params.map_err(|error| wrong(error.body_text()))?;
        maybe("platform", params.platform.as_deref(), 64)?;
        maybe("after", params.after.as_deref(), 64)?;
        let limit = params.limit.unwrap_or(100);
        if limit == 0 || limit > MAX_ROWS {
            return Err(wrong(format!("limit is 1 to {MAX_ROWS}")));
        }
        let (totals, _) = api.store.cookie_totals(params.platform.clone()).await.map_err(no_store)?;
        let mut counts = BTreeMap::<&str, u32>::new();
        for (name, count) in totals.iter().flat_map(|(_, totals)| totals.counts.named()) {
            *counts.entry(name).or_default() += count;
        }
        for (name, _) in CookieCounts::default().named() {
            counts.entry(name).or_default();
        }
        let filter = CookieFilter {
            platform: params.platform,
            after: params.after.unwrap_or_default(),
            limit,
            ..CookieFilter::default()
        };
        let (cookies, now) = api.store.cookies(filter).await.map_err(no_store)?;
        let next = cookies.last().map(|cookie| &cookie.cookie_name).filter(|_| cookies.len() == limit as usize);
        let items: Vec<_> = cookies.iter().map(|cookie| view(cookie, now)).collect();
        let platforms: BTreeMap<_, _> = totals.iter().map(|(platform, totals)| (platform, totals.counts)).collect();
        Ok(json!({ "items": items, "counts": counts, "platforms": platforms, "next_after": next }))
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

pub(in crate::routes) async fn pause(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    name: PathText,
) -> Response {
    respond(&id, set_paused(&api, granted, name, true)).await
}

pub(in crate::routes) async fn resume(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(granted): Extension<KeyScope>,
    name: PathText,
) -> Response {
    respond(&id, set_paused(&api, granted, name, false)).await
}

async fn set_paused(api: &Api, granted: KeyScope, name: PathText, paused: bool) -> Result<Value, CrawlFailure> {
    require(granted, KeyScope::Admin)?;
    let name = path_text(name)?;
    cookies::pause(&*api.store, &name, paused).await.map_err(Failure::from)?;
    tracing::info!(cookie = name, paused, "audit: a cookie was paused or resumed");
    shown(api, &name).await
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
            check: true,
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
    let filter = CookieFilter { name: Some(name.to_owned()), ..CookieFilter::default() };
    let (cookies, now) = api.store.cookies(filter).await.map_err(no_store)?;
    let found = cookies.into_iter().next();
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
        "expires_at": usage.expires_at, "paused_at": usage.paused_at,
        "max_parallel": (usage.max_parallel > 0).then_some(usage.max_parallel), "in_use": usage.in_use,
        "encryption_key_id": cookie.encryption_key_id,
        "created_at": cookie.created_at, "updated_at": cookie.updated_at,
    })
}
