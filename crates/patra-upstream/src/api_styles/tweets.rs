//! A tweet provider in the style of TwitterAPI.io: `GET /twitter/user/last_tweets?userName=&cursor=`, `GET
//! /twitter/list/tweets?listId=&cursor=`, `POST /twitter/bookmarks_v2` and `GET /twitter/user/info?userName=`, each
//! with the API key. Any number of users, newest tweets first; [`crate::TweetProvider`] sets the users and faults.

mod timeline;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::content::{DataContent, DataError};
use crate::query::Query;
use crate::script::{TweetEnvelope, TweetFaultKind, TweetProvider};

/// When users joined, in the format of `user/info`.
const JOINED: &str = "2010-08-27T20:13:59.000000Z";

/// Route of the tweet provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TweetsRoute {
    LastTweets,
    ListTweets,
    Bookmarks,
    UserInfo,
}

/// One request to the tweet provider.
pub(crate) struct TweetsRequest<'a> {
    pub(crate) route: TweetsRoute,
    pub(crate) key: Option<&'a str>,
    pub(crate) query: &'a Query,
    pub(crate) body: &'a [u8],
    /// Number of the request for this user, from 1.
    pub(crate) nth: u64,
}

/// The user of a request, or `list:ID`, or `bookmarks`.
pub(crate) fn subject(route: TweetsRoute, query: &Query) -> String {
    let named = |name: &str| query.get(name).unwrap_or_default().to_ascii_lowercase();
    match route {
        TweetsRoute::LastTweets | TweetsRoute::UserInfo => named("userName"),
        TweetsRoute::ListTweets => format!("list:{}", named("listId")),
        TweetsRoute::Bookmarks => "bookmarks".to_owned(),
    }
}

/// Delay of the response, if the script sets one.
pub(crate) fn pause(script: &TweetProvider, subject: &str, nth: u64) -> Option<u64> {
    match script.fault(subject, nth) {
        Some(TweetFaultKind::Late(millis)) => Some(millis),
        _ => None,
    }
}

pub(crate) fn respond(script: &TweetProvider, request: &TweetsRequest<'_>) -> Result<DataContent, DataError> {
    if request.key != Some(script.key.as_str()) {
        let body =
            if script.key_status == 403 { json!({ "error": "Forbidden" }) } else { json!({ "error": "Unauthorized" }) };
        return Err(DataError::with_body(script.key_status, &body));
    }
    let subject = subject(request.route, request.query);
    match script.fault(&subject, request.nth) {
        Some(TweetFaultKind::Status(status)) => {
            return Err(DataError::with_body(status, &json!({ "detail": "failed on purpose" })));
        }
        Some(TweetFaultKind::Error) => return Ok(content(0, &json!({ "status": "error", "msg": "Error message" }))),
        Some(TweetFaultKind::NoList) => return Ok(content(0, &json!({ "status": "success", "msg": "success" }))),
        Some(TweetFaultKind::Late(_)) | None => {}
    }
    match request.route {
        TweetsRoute::UserInfo => Ok(content(0, &user_info(script, &required(request.query, "userName")?))),
        TweetsRoute::LastTweets => {
            let user = required(request.query, "userName")?;
            let page = page(script, std::slice::from_ref(&user), request.query.get("cursor"))?;
            let pinned = (script.pinned && script.count(&user) > 0).then(|| timeline::tweet(&user, 0));
            Ok(envelope(script.envelope, page, pinned.as_ref()))
        }
        TweetsRoute::ListTweets => {
            let id = required(request.query, "listId")?;
            let members = script.lists.iter().find(|(list, _)| *list == id).map(|(_, members)| members.as_slice());
            let page = page(script, members.unwrap_or_default(), request.query.get("cursor"))?;
            Ok(envelope(TweetEnvelope::Documented, page, None))
        }
        TweetsRoute::Bookmarks => {
            let fields: Value = serde_json::from_slice(request.body).unwrap_or_default();
            for name in ["login_cookies", "proxy"] {
                if fields[name].as_str().is_none_or(str::is_empty) {
                    return Err(DataError::with_body(400, &json!({ "detail": format!("{name} is required") })));
                }
            }
            let page = page(script, &["bookmarks".to_owned()], fields["cursor"].as_str())?;
            Ok(envelope(TweetEnvelope::Documented, page, None))
        }
    }
}

fn required(query: &Query, name: &str) -> Result<String, DataError> {
    let value = query.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
    value.ok_or_else(|| DataError::with_body(400, &json!({ "detail": format!("{name} is required") })))
}

fn content(records: usize, body: &Value) -> DataContent {
    DataContent::json(records, vec![Bytes::from(body.to_string())])
}

fn user_info(script: &TweetProvider, user: &str) -> Value {
    if script.unknown.iter().any(|name| name.eq_ignore_ascii_case(user)) {
        return json!({ "status": "error", "msg": "user not found", "data": null });
    }
    json!({ "status": "success", "msg": "success", "data": timeline::author(user, JOINED) })
}

struct TweetsPage {
    tweets: Vec<Value>,
    has_next_page: bool,
    next_cursor: String,
}

/// One page. A cursor is an id, and its page has lower ids only, so new tweets move nothing.
fn page(script: &TweetProvider, users: &[String], cursor: Option<&str>) -> Result<TweetsPage, DataError> {
    let below = match cursor.unwrap_or_default() {
        "" => u64::MAX,
        cursor => {
            let id = cursor.strip_prefix('c').and_then(|id| id.parse().ok());
            id.ok_or_else(|| DataError::with_body(400, &json!({ "detail": "invalid cursor" })))?
        }
    };
    let mut written: Vec<_> = users
        .iter()
        .flat_map(|user| (0..script.count(user)).map(move |n| (timeline::id(user, n), user, n)))
        .filter(|(id, ..)| *id < below)
        .collect();
    written.sort_unstable_by(|one, other| other.cmp(one));
    let more = written.len() > script.page_size;
    written.truncate(script.page_size);
    let last = written.last().map_or(below, |(id, ..)| *id);
    let next_cursor = match more {
        true => format!("c{last}"),
        false if script.repeat_cursor => format!("c{below}"),
        false if script.always_more => format!("c{}", last.saturating_sub(1)),
        false => String::new(),
    };
    let has_next_page = more || script.always_more || script.repeat_cursor;
    let tweets = written.into_iter().map(|(_, user, n)| timeline::tweet(user, n)).collect();
    Ok(TweetsPage { tweets, has_next_page, next_cursor })
}

fn envelope(form: TweetEnvelope, page: TweetsPage, pinned: Option<&Value>) -> DataContent {
    let TweetsPage { tweets, has_next_page, next_cursor } = page;
    let records = tweets.len();
    let body = match form {
        TweetEnvelope::Wire => json!({
            "status": "success", "code": 0, "msg": "success", "data": { "pin_tweet": pinned, "tweets": tweets },
            "has_next_page": has_next_page, "next_cursor": next_cursor,
        }),
        TweetEnvelope::Documented => json!({
            "tweets": tweets, "has_next_page": has_next_page, "next_cursor": next_cursor,
            "status": "success", "message": "success",
        }),
    };
    content(records, &body)
}
