//! `POST /sign` with `{"method", "url", "headers", "body_sha256"}`: returns `{"headers": {…}, "query": {…}}` to add to
//! the request so that it counts as signed.

use serde_json::{Map, Value, json};

use crate::access::signing::{HEADERS, PARAMETERS, SigningInput, body_sha256, sign};
use crate::script::{RequestSigning, SignatureLocation};
use crate::server::access::bearer;
use crate::server::data::wall_clock;
use crate::server::head::RequestHead;
use crate::server::reply::MockReply;
use crate::server::state::{ServerState, lock};

/// Other fields are ignored.
#[derive(serde::Deserialize)]
struct SignRequest {
    method: String,
    url: String,
    body_sha256: Option<String>,
}

pub(super) fn respond(state: &ServerState, signing: &RequestSigning, head: &RequestHead<'_>, body: &[u8]) -> MockReply {
    if signing.token.is_some() && bearer(head) != signing.token.as_deref() {
        return MockReply::error(401, "unauthorized", "the bearer token is missing or wrong");
    }
    let Ok(request) = serde_json::from_slice::<SignRequest>(body) else {
        return MockReply::error(400, "bad_body", "the body must be {\"method\", \"url\", \"body_sha256\"}");
    };
    let (path, query) = path_and_query(&request.url);
    let body_sha256 = request.body_sha256.unwrap_or_else(|| body_sha256(b""));
    let timestamp = wall_clock().as_secs() as i64;
    let to_sign = SigningInput { method: &request.method, path, query, body_sha256: &body_sha256, timestamp };
    let signature = sign(&signing.secret, &to_sign);
    lock(&state.tokens).stats.signatures += 1;
    let values = [signing.key_id.clone(), timestamp.to_string(), signature];
    let named = |names: [&str; 3]| -> Map<String, Value> {
        names.into_iter().zip(&values).map(|(name, value)| (name.to_owned(), value.as_str().into())).collect()
    };
    let (headers, query) = match signing.location {
        SignatureLocation::Headers => (named(HEADERS), Map::new()),
        SignatureLocation::Query => (Map::new(), named(PARAMETERS)),
    };
    MockReply::json(200, json!({"headers": headers, "query": query}).to_string())
}

/// Path and query of an absolute URL, or of a path alone.
fn path_and_query(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest.find(['/', '?']).map_or("/", |at| &rest[at..]));
    let rest = rest.split('#').next().unwrap_or_default();
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    (if path.is_empty() { "/" } else { path }, query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_path_and_query() {
        for (url, expected) in [
            ("http://a.test/b?c=d#e", ("/b", "c=d")),
            ("https://a.test:8/b", ("/b", "")),
            ("http://a.test", ("/", "")),
            ("http://a.test?c=d", ("/", "c=d")),
            ("/b?c", ("/b", "c")),
        ] {
            assert_eq!(path_and_query(url), expected, "{url}");
        }
    }
}
