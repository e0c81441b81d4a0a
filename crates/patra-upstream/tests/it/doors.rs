//! Where one gets what data requests must show.

use std::time::Duration;

use patra_upstream::{Auth, Login, LoginAnswer, OAuth, Script, Server, SignaturePlace, Signing, When};
use serde_json::json;

use crate::client::{Client, Response};
use crate::start;

const CLIENT: &str = "client_id=client&client_secret=client-secret";

async fn guarded(auth: Auth) -> (Server, Client) {
    start(Script { auth, ..Script::default() }).await
}

async fn grant(client: &mut Client) -> Response {
    client.post("/oauth/token", &format!("grant_type=client_credentials&{CLIENT}")).await
}

async fn refresh(client: &mut Client, token: &str) -> Response {
    client.post("/oauth/token", &format!("grant_type=refresh_token&refresh_token={token}&{CLIENT}")).await
}

fn text(response: &Response, field: &str) -> String {
    response.json()[field].as_str().unwrap().to_owned()
}

async fn read(client: &mut Client, token: &str) -> u16 {
    client.get_with("/page", &format!("Authorization: Bearer {token}\r\n")).await.status
}

#[tokio::test]
async fn a_client_gets_a_token_by_form_or_basic() {
    let (server, mut client) = guarded(Auth::OAuth).await;
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
    assert_eq!(stats.data_requests, 3, "doors are no data");
}

#[tokio::test]
async fn a_refresh_token_works_exactly_once() {
    let (server, mut client) = guarded(Auth::OAuth).await;
    let first = refresh(&mut client, "refresh-0").await;
    let second = refresh(&mut client, &text(&first, "refresh_token")).await;
    let token = text(&second, "access_token");
    assert_eq!(read(&mut client, &token).await, 200);
    // Somebody else comes with what was used already: everybody must begin anew.
    assert_eq!(refresh(&mut client, "refresh-0").await.status, 400);
    assert_eq!(read(&mut client, &token).await, 401);
    assert_eq!(refresh(&mut client, &text(&second, "refresh_token")).await.status, 400);
    let access = server.stats().access;
    assert_eq!((access.refreshes, access.refresh_reuses, access.tokens_refused), (2, 1, 2));
    // The operator may give out a new one.
    server.script().update(|script| script.oauth.refresh_token = "renewed".to_owned());
    assert_eq!(refresh(&mut client, "renewed").await.status, 200);
}

#[tokio::test]
async fn tokens_end_by_time_by_use_and_by_word() {
    let oauth = OAuth { expires_in_secs: 1, ..OAuth::default() };
    let (server, mut client) = start(Script { auth: Auth::OAuth, oauth, ..Script::default() }).await;
    let token = text(&grant(&mut client).await, "access_token");
    assert_eq!(read(&mut client, &token).await, 200);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(read(&mut client, &token).await, 401);

    server.script().update(|script| script.oauth = OAuth { max_uses: 2, ..OAuth::default() });
    let token = text(&grant(&mut client).await, "access_token");
    for status in [200, 200, 401] {
        assert_eq!(read(&mut client, &token).await, status);
    }

    server.script().update(|script| script.oauth = OAuth { issue_refresh: true, ..OAuth::default() });
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
async fn a_login_gives_a_session_in_three_ways() {
    let (server, mut client) = guarded(Auth::Session).await;
    let json = json!({"user": "user", "password": "password"}).to_string();
    let by_json = client.post("/login", &json).await;
    let by_form = client.post("/login", "user=user&password=password").await;
    for response in [by_json, by_form] {
        assert_eq!(read(&mut client, &text(&response, "token")).await, 200);
    }
    server.script().update(|script| script.login.answer = LoginAnswer::Header);
    let response = client.post("/login", &json).await;
    assert_eq!(response.json().get("token"), None);
    let session = format!("X-Session-Token: {}\r\n", response.header("x-session-token").unwrap());
    assert_eq!(client.get_with("/page", &session).await.status, 200);

    server.script().update(|script| script.login.answer = LoginAnswer::Cookie);
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
    let login = Login { max_uses: 1, ..Login::default() };
    let (server, mut client) = start(Script { auth: Auth::Session, login, ..Script::default() }).await;
    let session = text(&client.post("/login", "user=user&password=password").await, "token");
    assert_eq!(read(&mut client, &session).await, 200);
    assert_eq!(read(&mut client, &session).await, 401);
    server.script().update(|script| script.login = Login { expires_in_secs: 1, ..Login::default() });
    let session = text(&client.post("/login", "user=user&password=password").await, "token");
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(read(&mut client, &session).await, 401);
}

/// What `/sign` answers is what a signed request needs, in either place.
#[tokio::test]
async fn the_signer_signs_for_others() {
    let (server, mut client) = guarded(Auth::Signed).await;
    let url = format!("{}/page?size=3&order=desc", server.base_url());
    let ask = json!({"method": "GET", "url": url, "headers": {"accept": "*/*"}}).to_string();
    let signed = client.post("/sign", &ask).await.json();
    assert_eq!(signed["query"], json!({}));
    let headers: String = signed["headers"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap()))
        .collect();
    assert_eq!(client.get_with("/page?size=3&order=desc", &headers).await.ids().len(), 3);
    assert_eq!(client.get_with("/page?size=4&order=desc", &headers).await.status, 401);

    server.script().update(|script| script.signing.place = SignaturePlace::Query);
    let body = r#"{"ids": ["W1"]}"#;
    let hash = patra_upstream::body_sha256(body.as_bytes());
    let ask = json!({"method": "POST", "url": "/details?a=b", "body_sha256": hash}).to_string();
    let signed = client.post("/sign", &ask).await.json();
    assert_eq!(signed["headers"], json!({}));
    let pairs = signed["query"].as_object().unwrap().iter();
    let query: String = pairs.map(|(name, value)| format!("&{name}={}", value.as_str().unwrap())).collect();
    assert_eq!(client.post(&format!("/details?a=b{query}"), body).await.status, 200);
    assert_eq!(client.post(&format!("/details?a=b{query}"), r#"{"ids": ["W2"]}"#).await.status, 401);

    server.script().update(|script| script.signing = Signing { token: Some("t1".to_owned()), ..Signing::default() });
    assert_eq!(client.post("/sign", &ask).await.status, 401);
    assert_eq!(client.post_with("/sign", "Authorization: Bearer t1\r\n", &ask).await.status, 200);
    assert_eq!(client.post_with("/sign", "Authorization: Bearer t1\r\n", "{}").await.status, 400);
    assert_eq!(server.stats().access.signatures, 3);
}

#[tokio::test]
async fn doors_have_faults_of_their_own() {
    let script = Script { door_e500: When::at([2]), door_latency_ms: 30, e500: When::every(1), ..Script::default() };
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
