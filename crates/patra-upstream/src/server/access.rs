//! Whether a request may read: what the script asks for, found in its head, query and body.

use serde_json::Value;
use tokio::time::Instant;

use super::data::wall_clock;
use super::head::Head;
use super::state::{State, lock};
use crate::access::signing::{self, HEADERS, PARAMETERS, Shown, ToSign};
use crate::base64;
use crate::query::Query;
use crate::script::{Auth, Script};

pub(super) fn is_allowed(state: &State, script: &Script, head: &Head<'_>, query: &Query, body: &[u8]) -> bool {
    match &script.auth {
        Auth::Open => true,
        Auth::Header { name, value } => head.header(name) == Some(value),
        Auth::Query { name, value } => query.get(name) == Some(value),
        Auth::Body { name, value } => field(body, name).as_ref() == Some(value),
        Auth::Bearer { token } => bearer(head) == Some(token),
        Auth::Basic { user, password } => basic(head).is_some_and(|(u, p)| u == *user && p == *password),
        Auth::Cookie { name, value } => cookie(head, name) == Some(value),
        Auth::OAuth => bearer(head).is_some_and(|token| lock(&state.vault).use_token(Instant::now(), token)),
        Auth::Session => {
            let shown = head.header("X-Session-Token").or_else(|| cookie(head, "session")).or_else(|| bearer(head));
            shown.is_some_and(|session| lock(&state.vault).use_session(Instant::now(), session))
        }
        Auth::Signed => is_signed(script, head, query, body),
    }
}

pub(super) fn bearer<'a>(head: &Head<'a>) -> Option<&'a str> {
    scheme(head, "bearer")
}

/// User and password.
pub(super) fn basic(head: &Head<'_>) -> Option<(String, String)> {
    let decoded = String::from_utf8(base64::decode(scheme(head, "basic")?)?).ok()?;
    decoded.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}

/// A field of a JSON object or, if it is none, of a form.
pub(super) fn field(body: &[u8], name: &str) -> Option<String> {
    match serde_json::from_slice::<Value>(body) {
        Ok(json) => json[name].as_str().map(str::to_owned),
        Err(_) => Query::parse(std::str::from_utf8(body).ok()?).get(name).map(str::to_owned),
    }
}

fn scheme<'a>(head: &Head<'a>, wanted: &str) -> Option<&'a str> {
    let (scheme, credentials) = head.header("Authorization")?.split_once(' ')?;
    scheme.eq_ignore_ascii_case(wanted).then(|| credentials.trim())
}

fn cookie<'a>(head: &Head<'a>, name: &str) -> Option<&'a str> {
    let mut pairs = head.header("Cookie")?.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn is_signed(script: &Script, head: &Head<'_>, query: &Query, body: &[u8]) -> bool {
    let shown = HEADERS.map(|name| head.header(name));
    let shown = if shown[2].is_some() { shown } else { PARAMETERS.map(|name| query.get(name)) };
    let [Some(key_id), Some(timestamp), Some(signature)] = shown else { return false };
    let (path, query) = head.path_and_query();
    let body_sha256 = signing::body_sha256(body);
    let request = ToSign { method: head.method, path, query, body_sha256: &body_sha256, timestamp: 0 };
    let now = wall_clock().as_secs() as i64;
    signing::is_valid(&script.signing, Shown { key_id, timestamp, signature }, &request, now)
}
