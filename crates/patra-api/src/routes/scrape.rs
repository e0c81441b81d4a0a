//! Tweets: scrapes of users, and stored tweets. `/api/admin/scrape` has no envelope.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use patra_core::port::pool::{StoredTweet, TweetFilter};
use patra_core::port::query::{Cell, View, ViewFilter};
use patra_core::state::TriggerType;
use patra_core::tweet::{MAX_REQUESTED, usernames_of};
use patra_core::tx::KeyScope;
use patra_core::{Code, Ts};
use patra_engine::scrape::{self, Error, MAX_USERS, ScrapeRequest};

use super::input::{Given, PathText, path_text, without_nul};
use super::pool::position;
use crate::Api;
use crate::auth::{Caller, Tenant, require};
use crate::envelope::{Failure, success};
use crate::key::random_uuid;
use crate::request_id::RequestId;

/// Tweets per response: by default, and at most.
const TWEETS: (u32, u32) = (100, 1_000);
/// Most scrapes in a list.
const MAX_SCRAPES: u32 = 100;

#[derive(Debug, Deserialize)]
pub(super) struct ScrapeBody {
    #[serde(default)]
    usernames: Value,
    #[serde(default)]
    limit: Value,
    #[serde(flatten)]
    unknown: serde_json::Map<String, Value>,
}

pub(super) async fn start(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    Extension(granted): Extension<KeyScope>,
    Extension(Caller(key)): Extension<Caller>,
    given: Given<ScrapeBody>,
) -> Response {
    let work = async {
        require(granted, KeyScope::Admin)?;
        let (usernames, limit) = validated(&given.read()?)?;
        api.limits.scrapes.admit(&key, api.clock.steady())?;
        let public_id = random_uuid()
            .map_err(|error| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, error.to_string()))?;
        let request = ScrapeRequest {
            public_id: public_id.clone(),
            project_key: tenant.project()?.to_owned(),
            usernames,
            limit,
            trigger_type: TriggerType::Api,
            request_id: Some(id.as_str().to_owned()),
            upstream: patra_engine::sources::TweetUpstream::default(),
        };
        scrape::begin(&api.store, &request).await.map_err(refused)?;
        (api.nudge)();
        Ok((StatusCode::ACCEPTED, Json(json!({ "task_id": public_id, "status": "pending" }))).into_response())
    };
    work.await.unwrap_or_else(|failure: Failure| failure.respond_bare(&id))
}

/// Validates a request and reports every invalid field (TWEET-107).
fn validated(body: &ScrapeBody) -> Result<(Vec<String>, Option<u32>), Failure> {
    let mut fields = Vec::new();
    let mut wrong = |field: &str, message: String| fields.push(json!({ "field": field, "message": message }));
    let names = usernames_of(&body.usernames).unwrap_or_else(|errors| {
        errors.iter().for_each(|error| wrong("usernames", error.to_string()));
        Vec::new()
    });
    if names.len() > MAX_USERS {
        wrong("usernames", format!("at most {MAX_USERS} users at once"));
    }
    let limit = match &body.limit {
        Value::Null => None,
        value => {
            let limit = value.as_u64().and_then(|limit| u32::try_from(limit).ok());
            let limit = limit.filter(|limit| (1..=MAX_REQUESTED).contains(limit));
            if limit.is_none() {
                wrong("limit", format!("must be between 1 and {MAX_REQUESTED}"));
            }
            limit
        }
    };
    body.unknown.keys().for_each(|field| wrong(field, "there is no such field".to_owned()));
    match fields.len() {
        0 => Ok((names, limit)),
        1 => Err(Failure::bad_request("1 field is invalid").detail("fields", fields.into())),
        many => Err(Failure::bad_request(format!("{many} fields are invalid")).detail("fields", fields.into())),
    }
}

fn refused(error: Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::NotConfigured(_) => Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::NotConfigured, message),
        Error::Conflict { public_id, usernames } => Failure::new(StatusCode::CONFLICT, Code::TaskConflict, message)
            .detail("task_id", public_id.into())
            .detail("usernames", usernames.into()),
        Error::Changed => Failure::new(StatusCode::CONFLICT, Code::TaskConflict, message),
        Error::Refused(_) => Failure::bad_request(message),
        Error::Store(error) => error.into(),
    }
}

pub(super) async fn show(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    Extension(granted): Extension<KeyScope>,
    task: PathText,
) -> Response {
    let work = async {
        require(granted, KeyScope::Admin)?;
        let task = path_text(task)?;
        let found = scrape::status(&*api.store, tenant.sight()?, &task).await?;
        let unknown = || Failure::new(StatusCode::NOT_FOUND, Code::NotFound, format!("no task {task}"));
        Ok(Json(found.ok_or_else(unknown)?.to_json()).into_response())
    };
    work.await.unwrap_or_else(|failure: Failure| failure.respond_bare(&id))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    status: Option<String>,
}

/// Lists the newest scrapes.
pub(super) async fn list(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    Extension(granted): Extension<KeyScope>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Response {
    let work = async {
        require(granted, KeyScope::Admin)?;
        let Query(ListQuery { status }) = query.map_err(|error| Failure::bad_request(error.body_text()))?;
        if let Some(status) = status.as_deref()
            && !["pending", "running", "completed", "failed"].contains(&status)
        {
            return Err(Failure::bad_request("status is one of pending, running, completed, failed"));
        }
        let filter =
            ViewFilter { job_type: Some(scrape::JOB_TYPE.to_owned()), limit: MAX_SCRAPES, ..ViewFilter::default() };
        let mut shown = Vec::new();
        for row in tenant.store(&api).list(View::Jobs, filter).await? {
            let Some(Cell::Text(public_id)) = View::Jobs.cell(&row, "public_id") else { continue };
            let found = scrape::status(&*api.store, None, &public_id).await?;
            let is_wanted =
                |found: &scrape::ScrapeStatus| status.as_deref().is_none_or(|status| status == found.status);
            shown.extend(found.filter(is_wanted).map(|found| found.to_json()));
        }
        Ok(Json(shown).into_response())
    };
    work.await.unwrap_or_else(|failure: Failure| failure.respond_bare(&id))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TweetsQuery {
    author: Option<String>,
    since: Option<Ts>,
    before: Option<String>,
    limit: Option<u32>,
}

/// Lists stored tweets, newest first (TWEET-103).
pub(super) async fn tweets(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(tenant): Extension<Tenant>,
    Extension(granted): Extension<KeyScope>,
    query: Result<Query<TweetsQuery>, QueryRejection>,
) -> Response {
    let work = async {
        require(granted, KeyScope::Admin)?;
        let Query(TweetsQuery { author, since, before, limit }) =
            query.map_err(|error| Failure::bad_request(error.body_text()))?;
        without_nul("author", author.as_deref())?;
        let (usual, most) = TWEETS;
        let limit = limit.unwrap_or(usual);
        if limit == 0 || limit > most {
            return Err(Failure::bad_request(format!("limit must be between 1 and {most}")));
        }
        let author = author.map(|author| author.trim().trim_start_matches('@').to_owned());
        let before = position(before.as_deref())?;
        let project_key = tenant.sight()?.map(str::to_owned);
        // One more shows whether there is a next page.
        let filter = TweetFilter { project_key, author, since, before, limit: limit + 1 };
        let mut found = api.store.tweets(filter).await?;
        let has_more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let next = found.last().filter(|_| has_more).map(|last| last.position.to_string());
        let items: Vec<_> = found.iter().map(tweet_json).collect();
        Ok(success(&id, &json!({ "items": items }), json!({ "next_before": next })))
    };
    work.await.unwrap_or_else(|failure: Failure| failure.respond(&id))
}

fn tweet_json(tweet: &StoredTweet) -> Value {
    let mut shown: Value = serde_json::from_str(&tweet.fields).unwrap_or_default();
    shown["db_created_at"] = json!(tweet.db_created_at);
    shown["db_updated_at"] = json!(tweet.db_updated_at);
    shown
}
