//! Which requests each kind of [`MockAuth`] allows and rejects.

use std::time::{SystemTime, UNIX_EPOCH};

use patra_upstream::{MockAuth, RequestSigning, Script, SigningInput, body_sha256, sign};

use crate::start;

/// Headers with line ends, and whether the request is allowed.
async fn check(auth: MockAuth, cases: &[(&str, &str, bool)]) {
    let (server, mut client) = start(Script { auth, ..Script::default() }).await;
    for (target, headers, opens) in cases {
        let response = client.get_with(target, headers).await;
        assert_eq!(response.status, if *opens { 200 } else { 401 }, "{target} {headers}");
        if !opens {
            assert_eq!(response.error_code(), "unauthorized");
        }
    }
    let opened = cases.iter().filter(|(.., opens)| *opens).count() as u64;
    let stats = server.stats();
    assert_eq!((stats.ok, stats.r401), (opened, cases.len() as u64 - opened));

    server.script().update(|script| script.auth_status = 403);
    let (target, headers, _) = cases.iter().find(|(.., opens)| !opens).unwrap();
    let response = client.get_with(target, headers).await;
    assert_eq!((response.status, response.error_code().as_str()), (403, "forbidden"));
    assert_eq!(server.stats().r403, 1);
    assert_eq!(client.get("/health").await.status, 200);
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[tokio::test]
async fn api_keys_in_header_query_and_cookie() {
    let (name, value) = pair("X-Key", "s3");
    let wrong = "X-Key: s4\r\n";
    check(
        MockAuth::Header { name, value },
        &[("/page", "x-key: s3\r\n", true), ("/page", wrong, false), ("/page?X-Key=s3", "", false)],
    )
    .await;
    let (name, value) = pair("key", "s3");
    check(
        MockAuth::Query { name, value },
        &[("/page?key=s3", "", true), ("/page?key=s4", "", false), ("/users", "key: s3\r\n", false)],
    )
    .await;
    let (name, value) = pair("sid", "s3");
    check(
        MockAuth::Cookie { name, value },
        &[
            ("/page", "Cookie: a=b; sid=s3\r\n", true),
            ("/page", "Cookie: xsid=s3\r\n", false),
            ("/ids", "Cookie: sid=\r\n", false),
            ("/page", "", false),
        ],
    )
    .await;
}

#[tokio::test]
async fn bearer_and_basic() {
    check(
        MockAuth::Bearer { token: "t1".to_owned() },
        &[
            ("/page", "Authorization: Bearer t1\r\n", true),
            ("/page", "authorization: bearer t1\r\n", true),
            ("/page", "Authorization: Bearer t2\r\n", false),
            ("/rest/issues", "Authorization: t1\r\n", false),
        ],
    )
    .await;
    let (user, password) = pair("user", "p@ss");
    check(
        MockAuth::Basic { user, password },
        &[
            ("/page", "Authorization: Basic dXNlcjpwQHNz\r\n", true),
            ("/page", "Authorization: Basic dXNlcjpwQHN0\r\n", false),
            ("/page", "Authorization: Basic !!\r\n", false),
            ("/page", "Authorization: Bearer dXNlcjpwQHNz\r\n", false),
        ],
    )
    .await;
}

#[tokio::test]
async fn unauthorized_responses_name_the_scheme() {
    let (server, mut client) = start(Script::default()).await;
    for (auth, expected) in [
        (MockAuth::OAuth, Some("Bearer error=\"invalid_token\"")),
        (MockAuth::Basic { user: String::new(), password: String::new() }, Some("Basic realm=\"upstream\"")),
        (MockAuth::Session, None),
    ] {
        server.script().update(|script| script.auth = auth);
        assert_eq!(client.get("/page").await.header("www-authenticate"), expected);
    }
}

#[tokio::test]
async fn api_key_in_the_body_is_accepted() {
    let (name, value) = pair("key", "s3");
    let (_server, mut client) = start(Script { auth: MockAuth::Body { name, value }, ..Script::default() }).await;
    assert_eq!(client.post("/details", r#"{"ids": ["W1"], "key": "s3"}"#).await.status, 200);
    assert_eq!(client.post("/details", r#"{"ids": ["W1"], "key": "s4"}"#).await.status, 401);
    assert_eq!(client.get("/details?ids=W1&key=s3").await.status, 401);
}

#[expect(clippy::disallowed_methods, reason = "the client signs with a clock of its own")]
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

#[tokio::test]
async fn signed_requests() {
    let (server, mut client) = start(Script { auth: MockAuth::Signed, ..Script::default() }).await;
    let RequestSigning { key_id, secret, .. } = RequestSigning::default();
    let signed = |path: &str, query: &str, timestamp: i64| {
        let body_sha256 = body_sha256(b"");
        let request = SigningInput { method: "GET", path, query, body_sha256: &body_sha256, timestamp };
        (timestamp, sign(&secret, &request))
    };
    let headers = |(timestamp, signature): (i64, String)| {
        format!("X-Key-Id: {key_id}\r\nX-Timestamp: {timestamp}\r\nX-Signature: {signature}\r\n")
    };
    let query = "from=2024-01-01&size=3";
    let target = format!("/page?{query}");
    let good = headers(signed("/page", query, now()));
    assert_eq!(client.get_with(&target, &good).await.ids().len(), 3);
    for bad in [
        headers(signed("/page", query, now() - 400)),
        headers(signed("/page", "from=2024-01-01&size=4", now())),
        headers(signed("/offset", query, now())),
        good.replace("X-Signature: ", "X-Signature: 0"),
        String::new(),
    ] {
        assert_eq!(client.get_with(&target, &bad).await.status, 401);
    }
    let (timestamp, signature) = signed("/page", query, now());
    let target = format!("/page?{query}&key_id={key_id}&timestamp={timestamp}&signature={signature}");
    assert_eq!(client.get(&target).await.status, 200);
    assert_eq!(server.stats().ok, 2);
}
