//! Checks the authentication of a data request in its head, query and body.

use serde_json::Value;
use tokio::time::Instant;

use super::data::wall_clock;
use super::head::RequestHead;
use super::state::{ServerState, lock};
use crate::access::signing::{self, HEADERS, PARAMETERS, PresentedSignature, SigningInput};
use crate::base64;
use crate::query::Query;
use crate::script::{MockAuth, Script};

pub(super) fn is_allowed(
    state: &ServerState,
    script: &Script,
    head: &RequestHead<'_>,
    query: &Query,
    body: &[u8],
) -> bool {
    match &script.auth {
        MockAuth::Open => true,
        MockAuth::Header { name, value } => head.header(name) == Some(value),
        MockAuth::Query { name, value } => query.get(name) == Some(value),
        MockAuth::Body { name, value } => field(body, name).as_ref() == Some(value),
        MockAuth::Bearer { token } => bearer(head) == Some(token),
        MockAuth::Basic { user, password } => basic(head).is_some_and(|(u, p)| u == *user && p == *password),
        MockAuth::Cookie { name, value } => cookie(head, name) == Some(value),
        MockAuth::OAuth => bearer(head).is_some_and(|token| lock(&state.tokens).use_token(Instant::now(), token)),
        MockAuth::Session => {
            let presented = head.header("X-Session-Token").or_else(|| cookie(head, "session")).or_else(|| bearer(head));
            presented.is_some_and(|session| lock(&state.tokens).use_session(Instant::now(), session))
        }
        MockAuth::Signed => is_signed(script, head, query, body),
    }
}

pub(super) fn bearer<'a>(head: &RequestHead<'a>) -> Option<&'a str> {
    scheme(head, "bearer")
}

/// User and password of Basic authentication.
pub(super) fn basic(head: &RequestHead<'_>) -> Option<(String, String)> {
    let decoded = String::from_utf8(base64::decode(scheme(head, "basic")?)?).ok()?;
    decoded.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}

/// A field of a JSON object, or of a form if the body is not JSON.
pub(super) fn field(body: &[u8], name: &str) -> Option<String> {
    match serde_json::from_slice::<Value>(body) {
        Ok(json) => json[name].as_str().map(str::to_owned),
        Err(_) => Query::parse(std::str::from_utf8(body).ok()?).get(name).map(str::to_owned),
    }
}

fn scheme<'a>(head: &RequestHead<'a>, expected: &str) -> Option<&'a str> {
    let (scheme, credentials) = head.header("Authorization")?.split_once(' ')?;
    scheme.eq_ignore_ascii_case(expected).then(|| credentials.trim())
}

fn cookie<'a>(head: &RequestHead<'a>, name: &str) -> Option<&'a str> {
    let mut pairs = head.header("Cookie")?.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn is_signed(script: &Script, head: &RequestHead<'_>, query: &Query, body: &[u8]) -> bool {
    let presented = HEADERS.map(|name| head.header(name));
    let presented = if presented[2].is_some() { presented } else { PARAMETERS.map(|name| query.get(name)) };
    let [Some(key_id), Some(timestamp), Some(signature)] = presented else { return false };
    let (path, query) = head.path_and_query();
    let body_sha256 = signing::body_sha256(body);
    let request = SigningInput { method: head.method, path, query, body_sha256: &body_sha256, timestamp: 0 };
    let now = wall_clock().as_secs() as i64;
    signing::is_valid(&script.signing, PresentedSignature { key_id, timestamp, signature }, &request, now)
}
