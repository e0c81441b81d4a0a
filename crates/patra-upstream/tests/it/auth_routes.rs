//! The auth routes: tokens, sessions, signatures.

use std::time::Duration;

use patra_upstream::{
    FaultSchedule, LoginEndpoint, MockApi, MockAuth, RequestSigning, Script, SessionLocation, SignatureLocation,
    TokenEndpoint,
};
use serde_json::json;

use crate::client::{TestClient, TestResponse};
use crate::start;

const CLIENT: &str = "client_id=client&client_secret=client-secret";

async fn guarded(auth: MockAuth) -> (MockApi, TestClient) {
    start(Script { auth, ..Script::default() }).await
}

async fn grant(client: &mut TestClient) -> TestResponse {
    client.post("/oauth/token", &format!("grant_type=client_credentials&{CLIENT}")).await
}

async fn refresh(client: &mut TestClient, token: &str) -> TestResponse {
    client.post("/oauth/token", &format!("grant_type=refresh_token&refresh_token={token}&{CLIENT}")).await
}

fn text(response: &TestResponse, field: &str) -> String {
    response.json()[field].as_str().unwrap().to_owned()
}

async fn read(client: &mut TestClient, token: &str) -> u16 {
    client.get_with("/page", &format!("Authorization: Bearer {token}\r\n")).await.status
}

#[tokio::test]
async fn client_gets_a_token_by_form_or_basic() {
    let (server, mut client) = guarded(MockAuth::OAuth).await;
    let by_form = grant(&mut client).await;
    assert_eq!((by_form.status, by_form.json()["expires_in"].as_u64()), (200, Some(3600)));
    assert_eq!(by_form.json().get("refresh_token"), None);
    // base64 of client:client-secret
    let basic = "Authorization: Basic Y2xpZW50OmNsaWVudC1zZWNyZXQ=\r\n";
    let by_basic = client.post_with("/oauth/token", basic, "grant_type=client_credentials").await;
    for response in [by_form, by_basic] {
        assert_eq!(read(&mut client, &text(&response, "access_token")).await, 200);
    }
    for (body, status, error) in [
        ("grant_type=client_credentials&client_id=client&client_secret=no", 401, "invalid_client"),
        ("grant_type=client_credentials", 401, "invalid_client"),
        ("", 401, "invalid_client"),
        (&format!("grant_type=password&{CLIENT}"), 400, "unsupported_grant_type"),
        (&format!("grant_type=refresh_token&refresh_token=no&{CLIENT}"), 400, "invalid_grant"),
        (&format!("grant_type=refresh_token&{CLIENT}"), 400, "invalid_grant"),
    ] {
        let response = client.post("/oauth/token", body).await;
        assert_eq!((response.status, text(&response, "error").as_str()), (status, error), "{body}");
    }
    assert_eq!(read(&mut client, "made-up").await, 401);
    let stats = server.stats();
    assert_eq!((stats.access.tokens_issued, stats.access.tokens_refused, stats.r401), (2, 6, 1));
    assert_eq!(stats.data_requests, 3, "auth routes are not data routes");
}

#[tokio::test]
async fn refresh_token_works_exactly_once() {
    let (server, mut client) = guarded(MockAuth::OAuth).await;
    let first = refresh(&mut client, "refresh-0").await;
    let second = refresh(&mut client, &text(&first, "refresh_token")).await;
    let token = text(&second, "access_token");
    assert_eq!(read(&mut client, &token).await, 200);
    // A reused refresh token revokes the whole family.
    assert_eq!(refresh(&mut client, "refresh-0").await.status, 400);
    assert_eq!(read(&mut client, &token).await, 401);
    assert_eq!(refresh(&mut client, &text(&second, "refresh_token")).await.status, 400);
    let access = server.stats().access;
    assert_eq!((access.refreshes, access.refresh_reuses, access.tokens_refused), (2, 1, 2));
    // The operator may set a new one.
    server.script().update(|script| script.oauth.refresh_token = "renewed".to_owned());
    assert_eq!(refresh(&mut client, "renewed").await.status, 200);
}

#[tokio::test]
async fn tokens_end_by_time_use_and_revocation() {
    let oauth = TokenEndpoint { expires_in_secs: 1, ..TokenEndpoint::default() };
    let (server, mut client) = start(Script { auth: MockAuth::OAuth, oauth, ..Script::default() }).await;
    let token = text(&grant(&mut client).await, "access_token");
    assert_eq!(read(&mut client, &token).await, 200);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(read(&mut client, &token).await, 401);

    server.script().update(|script| script.oauth = TokenEndpoint { max_uses: 2, ..TokenEndpoint::default() });
    let token = text(&grant(&mut client).await, "access_token");
    for status in [200, 200, 401] {
        assert_eq!(read(&mut client, &token).await, status);
    }

    server.script().update(|script| script.oauth = TokenEndpoint { issue_refresh: true, ..TokenEndpoint::default() });
    let granted = grant(&mut client).await;
    client.get("/revoke?what=tokens").await;
    assert_eq!(read(&mut client, &text(&granted, "access_token")).await, 401);
    let again = refresh(&mut client, &text(&granted, "refresh_token")).await;
    assert_eq!(read(&mut client, &text(&again, "access_token")).await, 200);
    server.revoke_tokens();
    assert_eq!(read(&mut client, &text(&again, "access_token")).await, 401);
    assert_eq!(client.get("/revoke?what=all").await.status, 400);
}

#[tokio::test]
async fn login_returns_a_session_in_three_locations() {
    let (server, mut client) = guarded(MockAuth::Session).await;
    let json = json!({"user": "user", "password": "password"}).to_string();
    let by_json = client.post("/login", &json).await;
    let by_form = client.post("/login", "user=user&password=password").await;
    for response in [by_json, by_form] {
        assert_eq!(read(&mut client, &text(&response, "token")).await, 200);
    }
    server.script().update(|script| script.login.location = SessionLocation::Header);
    let response = client.post("/login", &json).await;
    assert_eq!(response.json().get("token"), None);
    let session = format!("X-Session-Token: {}\r\n", response.header("x-session-token").unwrap());
    assert_eq!(client.get_with("/page", &session).await.status, 200);

    server.script().update(|script| script.login.location = SessionLocation::Cookie);
    let response = client.post("/login", &json).await;
    let (cookie, attributes) = response.header("set-cookie").unwrap().split_once(';').unwrap();
    assert!(attributes.contains("Max-Age=3600") && cookie.starts_with("session="), "{cookie}");
    let cookie = format!("Cookie: {cookie}\r\n");
    assert_eq!(client.get_with("/page", &cookie).await.status, 200);

    server.revoke_sessions();
    assert_eq!(client.get_with("/page", &cookie).await.status, 401);
    for body in ["user=user&password=no", "", "{}", r#"{"user": "user"}"#] {
        let response = client.post("/login", body).await;
        assert_eq!((response.status, response.error_code().as_str()), (401, "unauthorized"), "{body}");
    }
    let access = server.stats().access;
    assert_eq!((access.logins, access.logins_refused), (4, 4));
}

#[tokio::test]
async fn sessions_end() {
    let login = LoginEndpoint { max_uses: 1, ..LoginEndpoint::default() };
    let (server, mut client) = start(Script { auth: MockAuth::Session, login, ..Script::default() }).await;
    let session = text(&client.post("/login", "user=user&password=password").await, "token");
    assert_eq!(read(&mut client, &session).await, 200);
    assert_eq!(read(&mut client, &session).await, 401);
    server.script().update(|script| script.login = LoginEndpoint { expires_in_secs: 1, ..LoginEndpoint::default() });
    let session = text(&client.post("/login", "user=user&password=password").await, "token");
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(read(&mut client, &session).await, 401);
}

/// The response of `/sign` makes a request valid, in headers or query.
#[tokio::test]
async fn sign_route_signs_requests() {
    let (server, mut client) = guarded(MockAuth::Signed).await;
    let url = format!("{}/page?size=3&order=desc", server.base_url());
    let request = json!({"method": "GET", "url": url, "headers": {"accept": "*/*"}}).to_string();
    let signed = client.post("/sign", &request).await.json();
    assert_eq!(signed["query"], json!({}));
    let headers: String = signed["headers"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap()))
        .collect();
    assert_eq!(client.get_with("/page?size=3&order=desc", &headers).await.ids().len(), 3);
    assert_eq!(client.get_with("/page?size=4&order=desc", &headers).await.status, 401);

    server.script().update(|script| script.signing.location = SignatureLocation::Query);
    let body = r#"{"ids": ["W1"]}"#;
    let hash = patra_upstream::body_sha256(body.as_bytes());
    let request = json!({"method": "POST", "url": "/details?a=b", "body_sha256": hash}).to_string();
    let signed = client.post("/sign", &request).await.json();
    assert_eq!(signed["headers"], json!({}));
    let pairs = signed["query"].as_object().unwrap().iter();
    let query: String = pairs.map(|(name, value)| format!("&{name}={}", value.as_str().unwrap())).collect();
    assert_eq!(client.post(&format!("/details?a=b{query}"), body).await.status, 200);
    assert_eq!(client.post(&format!("/details?a=b{query}"), r#"{"ids": ["W2"]}"#).await.status, 401);

    server
        .script()
        .update(|script| script.signing = RequestSigning { token: Some("t1".to_owned()), ..RequestSigning::default() });
    assert_eq!(client.post("/sign", &request).await.status, 401);
    assert_eq!(client.post_with("/sign", "Authorization: Bearer t1\r\n", &request).await.status, 200);
    assert_eq!(client.post_with("/sign", "Authorization: Bearer t1\r\n", "{}").await.status, 400);
    assert_eq!(server.stats().access.signatures, 3);
}

#[tokio::test]
async fn auth_routes_have_their_own_faults() {
    let script = Script {
        auth_e500: FaultSchedule::at([2]),
        auth_latency_ms: 30,
        e500: FaultSchedule::every(1),
        ..Script::default()
    };
    let (server, mut client) = start(script).await;
    let mut statuses = Vec::new();
    let started = tokio::time::Instant::now();
    for _ in 0..3 {
        statuses.push(grant(&mut client).await.status);
    }
    assert_eq!(statuses, [200, 500, 200]);
    assert!(started.elapsed() >= Duration::from_millis(90));
    server.reset();
    assert_eq!((server.stats().access.tokens_issued, grant(&mut client).await.status), (0, 200));
    assert_eq!(grant(&mut client).await.status, 500);
}
