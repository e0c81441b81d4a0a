//! A provider of tweets in the manner of TwitterAPI.io: `GET /twitter/user/last_tweets?userName=&cursor=`,
//! `GET /twitter/list/tweets?listId=&cursor=`, `POST /twitter/bookmarks_v2` and `GET /twitter/user/info?userName=`, each for whoever
//! shows the key. Any number of users, newest tweets first; [`crate::Tweets`] says who they are and what goes wrong.

mod timeline;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::content::{Content, Refused};
use crate::query::Query;
use crate::script::{TweetAnswer, TweetEnvelope, Tweets};

/// When users joined, as `user/info` writes it.
const JOINED: &str = "2010-08-27T20:13:59.000000Z";

/// Which door of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    LastTweets,
    ListTweets,
    Bookmarks,
    UserInfo,
}

/// One request to it.
pub(crate) struct Request<'a> {
    pub(crate) door: Door,
    pub(crate) key: Option<&'a str>,
    pub(crate) query: &'a Query,
    pub(crate) body: &'a [u8],
    /// Which request for this user it is, from 1.
    pub(crate) nth: u64,
}

/// Whose tweets are asked for; those of a list and bookmarks have names of their own.
pub(crate) fn subject(door: Door, query: &Query) -> String {
    let named = |name: &str| query.get(name).unwrap_or_default().to_ascii_lowercase();
    match door {
        Door::LastTweets | Door::UserInfo => named("userName"),
        Door::ListTweets => format!("list:{}", named("listId")),
        Door::Bookmarks => "bookmarks".to_owned(),
    }
}

/// How long an answer is waited for.
pub(crate) fn pause(script: &Tweets, subject: &str, nth: u64) -> Option<u64> {
    match script.fault(subject, nth) {
        Some(TweetAnswer::Late(millis)) => Some(millis),
        _ => None,
    }
}

pub(crate) fn answer(script: &Tweets, request: &Request<'_>) -> Result<Content, Refused> {
    if request.key != Some(script.key.as_str()) {
        let body =
            if script.key_status == 403 { json!({ "error": "Forbidden" }) } else { json!({ "error": "Unauthorized" }) };
        return Err(Refused::saying(script.key_status, &body));
    }
    let subject = subject(request.door, request.query);
    match script.fault(&subject, request.nth) {
        Some(TweetAnswer::Status(status)) => {
            return Err(Refused::saying(status, &json!({ "detail": "failed on purpose" })));
        }
        Some(TweetAnswer::Error) => return Ok(content(0, &json!({ "status": "error", "msg": "Error message" }))),
        Some(TweetAnswer::NoList) => return Ok(content(0, &json!({ "status": "success", "msg": "success" }))),
        Some(TweetAnswer::Late(_)) | None => {}
    }
    match request.door {
        Door::UserInfo => Ok(content(0, &user_info(script, &required(request.query, "userName")?))),
        Door::LastTweets => {
            let user = required(request.query, "userName")?;
            let page = page(script, std::slice::from_ref(&user), request.query.get("cursor"))?;
            let pinned = (script.pinned && script.count(&user) > 0).then(|| timeline::tweet(&user, 0));
            Ok(envelope(script.envelope, page, pinned.as_ref()))
        }
        Door::ListTweets => {
            let id = required(request.query, "listId")?;
            let members = script.lists.iter().find(|(list, _)| *list == id).map(|(_, members)| members.as_slice());
            let page = page(script, members.unwrap_or_default(), request.query.get("cursor"))?;
            Ok(envelope(TweetEnvelope::Documented, page, None))
        }
        Door::Bookmarks => {
            let asked: Value = serde_json::from_slice(request.body).unwrap_or_default();
            for name in ["login_cookies", "proxy"] {
                if asked[name].as_str().is_none_or(str::is_empty) {
                    return Err(Refused::saying(400, &json!({ "detail": format!("{name} is required") })));
                }
            }
            let page = page(script, &["bookmarks".to_owned()], asked["cursor"].as_str())?;
            Ok(envelope(TweetEnvelope::Documented, page, None))
        }
    }
}

fn required(query: &Query, name: &str) -> Result<String, Refused> {
    let value = query.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
    value.ok_or_else(|| Refused::saying(400, &json!({ "detail": format!("{name} is required") })))
}

fn content(records: usize, body: &Value) -> Content {
    Content::json(records, vec![Bytes::from(body.to_string())])
}

fn user_info(script: &Tweets, user: &str) -> Value {
    if script.unknown.iter().any(|name| name.eq_ignore_ascii_case(user)) {
        return json!({ "status": "error", "msg": "user not found", "data": null });
    }
    json!({ "status": "success", "msg": "success", "data": timeline::author(user, JOINED) })
}

struct Page {
    tweets: Vec<Value>,
    has_next_page: bool,
    next_cursor: String,
}

/// A cursor is the id that everything on its page lies below: what comes later moves nothing.
fn page(script: &Tweets, users: &[String], cursor: Option<&str>) -> Result<Page, Refused> {
    let below = match cursor.unwrap_or_default() {
        "" => u64::MAX,
        cursor => {
            let id = cursor.strip_prefix('c').and_then(|id| id.parse().ok());
            id.ok_or_else(|| Refused::saying(400, &json!({ "detail": "invalid cursor" })))?
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
    Ok(Page { tweets, has_next_page, next_cursor })
}

fn envelope(form: TweetEnvelope, page: Page, pinned: Option<&Value>) -> Content {
    let Page { tweets, has_next_page, next_cursor } = page;
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
