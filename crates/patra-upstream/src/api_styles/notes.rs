//! A notes platform in the style of Xiaohongshu: search, token, detail. `POST /api/sns/web/v1/search/notes`, `POST
//! /api/sns/web/v1/feed` and `GET /api/sns/web/v1/user/selfinfo`, each with a cookie with `a1` and `web_session`.
//! Errors are in a 200, `{code, success, msg, data}`.
//!
//! The value of `web_session` controls the account: `expired` means that the login has expired (-100), `flagged` that
//! the account is under suspicion (300011), `captcha` that it is challenged (461), `blocked` that the client's address
//! is blocked (300012).

use bytes::Bytes;
use serde_json::{Value, json};

use crate::content::{DataContent, DataError};
use crate::rng::scatter;
use crate::script::Script;

const MAX_PAGE_SIZE: u64 = 50;
/// 2026-01-01, in milliseconds.
const FIRST_NOTE: u64 = 1_767_225_600_000;

/// Route of the notes platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotesRoute {
    Search,
    Feed,
    SelfInfo,
}

pub(crate) fn respond(
    script: &Script,
    route: NotesRoute,
    cookie: Option<&str>,
    body: &[u8],
) -> Result<DataContent, DataError> {
    let reply = match account(cookie)? {
        Some((code, message)) => error(code, message),
        None => {
            let request: Value = serde_json::from_slice(body).unwrap_or_default();
            match route {
                NotesRoute::Search => search(script, &request),
                NotesRoute::Feed => feed(script, &request),
                NotesRoute::SelfInfo => success(&json!({ "result": { "success": true }, "nickname": "somebody" })),
            }
        }
    };
    Ok(DataContent::json(0, vec![Bytes::from(reply.to_string())]))
}

/// The error of the account or of the client's address, if any.
fn account(cookie: Option<&str>) -> Result<Option<(i64, &'static str)>, DataError> {
    let value = |name: &str| {
        let pairs = cookie.unwrap_or_default().split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    let (Some(_), Some(session)) = (value("a1"), value("web_session")) else {
        return Ok(Some((-100, "login expired")));
    };
    match session {
        session if session.contains("captcha") => Err(DataError::new(461, "verify", "verification needed")),
        session if session.contains("expired") => Ok(Some((-100, "login expired"))),
        session if session.contains("flagged") => Ok(Some((300_011, "the account is under suspicion"))),
        session if session.contains("blocked") => Ok(Some((300_012, "the network is blocked"))),
        _ => Ok(None),
    }
}

fn success(data: &Value) -> Value {
    json!({ "code": 0, "success": true, "msg": "ok", "data": data })
}

fn error(code: i64, message: &str) -> Value {
    json!({ "code": code, "success": false, "msg": message, "data": {} })
}

fn search(script: &Script, request: &Value) -> Value {
    let Some(keyword) = request["keyword"].as_str().filter(|word| !word.is_empty()) else {
        return error(-1, "keyword is missing");
    };
    if request["search_id"].as_str().is_none_or(str::is_empty) {
        return error(-1, "search_id is missing");
    }
    let size = request["page_size"].as_u64().unwrap_or(20).clamp(1, MAX_PAGE_SIZE) as usize;
    let page = request["page"].as_u64().unwrap_or(1).max(1) as usize;
    let first = (page - 1).saturating_mul(size).min(script.notes);
    let last = (first + size).min(script.notes);
    let item = |n: usize| {
        let id = note_id(keyword, n);
        json!({
            "id": id, "model_type": "note", "xsec_token": token(&id),
            "note_card": { "type": "normal", "display_title": format!("{keyword} {n}"), "user": user(n) },
        })
    };
    let mut items: Vec<Value> = (first..last).map(item).collect();
    // Suggestions between the notes, which are not notes.
    if page == 1 && !items.is_empty() {
        items.insert(1, json!({ "id": "suggestion", "model_type": "rec_query", "rec_query": {} }));
    }
    success(&json!({ "has_more": last < script.notes, "items": items }))
}

fn feed(script: &Script, request: &Value) -> Value {
    let id = request["source_note_id"].as_str().unwrap_or_default();
    let Some((keyword, n)) = named(id) else { return error(-510_001, "the note is gone") };
    if request["xsec_token"].as_str() != Some(&token(id)) || request["xsec_source"].as_str().is_none_or(str::is_empty) {
        return error(-104, "no permission");
    }
    if script.notes_gone.contains(&n) {
        return error(-510_001, "the note is gone");
    }
    if script.notes_broken.contains(&n) {
        return error(-1, "something went wrong");
    }
    let time = FIRST_NOTE + n as u64 * 60_000;
    let card = json!({
        "note_id": id, "type": "normal", "title": format!("{keyword} {n}"), "desc": format!("All about {keyword}, number {n}. 你好"),
        "time": time, "last_update_time": time, "user": user(n),
        "interact_info": { "liked_count": "1.2万", "collected_count": "", "comment_count": "10+", "share_count": n.to_string() },
    });
    success(&json!({ "items": [{ "id": id, "model_type": "note", "note_card": card }], "current_time": time }))
}

/// Delay of the details of a note, if the script sets one.
pub(crate) fn pause(script: &Script, body: &[u8]) -> Option<u64> {
    if script.notes_slow.is_empty() {
        return None;
    }
    let request: Value = serde_json::from_slice(body).ok()?;
    let (_, n) = named(request["source_note_id"].as_str()?)?;
    script.notes_slow.contains(&n).then_some(script.notes_slow_ms)
}

fn user(n: usize) -> Value {
    json!({ "user_id": format!("u{}", n % 7), "nickname": format!("writer {}", n % 7) })
}

/// 24 hex digits: the number of the note and its keyword.
fn note_id(keyword: &str, n: usize) -> String {
    let word: String = keyword.bytes().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{n:06x}00{word:0<16}")
}

fn named(id: &str) -> Option<(String, usize)> {
    let (number, word) = (id.get(..6)?, id.get(8..24)?);
    let bytes: Option<Vec<u8>> = (0..8).map(|at| u8::from_str_radix(word.get(2 * at..2 * at + 2)?, 16).ok()).collect();
    let keyword = String::from_utf8_lossy(&bytes?).trim_end_matches('\0').to_owned();
    Some((keyword, usize::from_str_radix(number, 16).ok()?))
}

fn token(id: &str) -> String {
    let sum = id.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    format!("AB{:016x}=", scatter(sum, 5))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIE: Option<&str> = Some("a1=x; web_session=good");

    fn send(route: NotesRoute, cookie: Option<&str>, body: &Value) -> Value {
        let script = Script { notes: 25, notes_gone: vec![3], ..Script::default() };
        let content = respond(&script, route, cookie, body.to_string().as_bytes()).unwrap();
        serde_json::from_slice(&content.parts.concat()).unwrap()
    }

    #[test]
    fn search_returns_the_tokens_for_details() {
        let search = json!({ "keyword": "tea", "page": 2, "page_size": 20, "search_id": "s" });
        let results = send(NotesRoute::Search, COOKIE, &search);
        assert_eq!(results["data"]["has_more"], false);
        let item = &results["data"]["items"][4];
        let request =
            json!({ "source_note_id": item["id"], "xsec_token": item["xsec_token"], "xsec_source": "pc_search" });
        let note = send(NotesRoute::Feed, COOKIE, &request);
        assert_eq!(note["data"]["items"][0]["note_card"]["title"], "tea 24");
        let bare = send(NotesRoute::Feed, COOKIE, &json!({ "source_note_id": item["id"] }));
        assert_eq!(bare["code"], -104);
    }

    // covers: CRAWL-187
    #[test]
    fn account_and_note_faults_have_their_codes() {
        for (session, code) in [("expired", -100), ("flagged", 300_011), ("blocked", 300_012)] {
            let cookie = format!("a1=x; web_session={session}");
            assert_eq!(send(NotesRoute::SelfInfo, Some(&cookie), &Value::Null)["code"], code);
        }
        assert_eq!(send(NotesRoute::SelfInfo, None, &Value::Null)["code"], -100);
        let captcha = respond(&Script::default(), NotesRoute::SelfInfo, Some("a1=x; web_session=captcha"), b"");
        assert_eq!(captcha.unwrap_err().status, 461);
        let id = note_id("tea", 3);
        let request = json!({ "source_note_id": id, "xsec_token": token(&id), "xsec_source": "pc_search" });
        assert_eq!(send(NotesRoute::Feed, COOKIE, &request)["code"], -510_001);
    }
}
