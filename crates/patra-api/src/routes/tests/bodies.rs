//! Responses to unacceptable bodies and after the deadline.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::any;
use axum::{Router, middleware};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use patra_core::tx::KeyScope;

use super::super::{MAX_BODY, deadline, pool, served};
use super::{TestServer, openapi};
use crate::openapi::Body as Takes;
use crate::{request_id, router};

async fn send(router: Router, request: Request<Body>) -> (StatusCode, Value) {
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), MAX_BODY).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Checks the format of a failure, by the contract that the path belongs to (MAP-X-01).
#[track_caller]
fn check_form(path: &str, response: &Value) {
    let enveloped = path.starts_with("/api/v1/") && !path.starts_with("/api/v1/crawler/");
    let crawler = path.starts_with("/api/v1/crawler/") || path == "/api/search" || path == "/api/note/detail";
    assert_eq!(response.get("status"), enveloped.then(|| json!("error")).as_ref(), "{path}: {response}");
    assert_eq!(response.get("success"), crawler.then_some(json!(false)).as_ref(), "{path}: {response}");
    assert!(
        response["error"]["message"].is_string() && response["meta"]["request_id"].is_string(),
        "{path}: {response}"
    );
}

// covers: POOL-20, POOL-23, TWEET-111, MAP-E-01
#[tokio::test]
async fn body_that_is_too_long_or_of_another_type_is_refused_by_every_route() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Admin).await;
    let mut checked = 0;
    for operation in served(&server.api).operations {
        let Takes::Json([_, ..]) = operation.body else { continue };
        let (path, long) = (openapi::example(&operation), " ".repeat(MAX_BODY + 1));
        for (media, body, expected) in [
            ("application/json", long.as_str(), StatusCode::PAYLOAD_TOO_LARGE),
            ("text/plain", "{}", StatusCode::UNSUPPORTED_MEDIA_TYPE),
            ("application/json", "{", StatusCode::BAD_REQUEST),
            ("application/json", "[]", StatusCode::BAD_REQUEST),
        ] {
            let request = Request::builder().method(operation.method).uri(&path).header("content-type", media);
            let request = request.header("authorization", format!("Bearer {key}"));
            let request = request.body(body.to_owned().into()).unwrap();
            let (status, response) = send(router(server.api.clone()), request).await;
            assert!(
                status == expected || expected == StatusCode::BAD_REQUEST && status == StatusCode::NOT_FOUND,
                "{path} {media}: {status} {response}"
            );
            check_form(&path, &response);
            if status != StatusCode::NOT_FOUND {
                assert_eq!(response["error"]["code"], "INVALID_INPUT", "{path} {media}: {response}");
            }
        }
        checked += 1;
    }
    assert!(checked > 20, "{checked}");
}

// covers: TWEET-107, TWEET-140
#[tokio::test]
async fn scrape_without_users_names_the_missing_field() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Admin).await;
    let post = |body: &str| server.send("POST", "/api/admin/scrape", Some(&key), body.to_owned());
    for body in ["", "{}", r#"{"usernames":null}"#] {
        let (status, text) = post(body).await;
        let response: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        assert_eq!(response["error"]["details"]["fields"][0]["field"], "usernames", "{text}");
    }
    let (_, text) = post(r#"{"usernames":"alice","colour":1}"#).await;
    assert!(text.contains(r#"{"field":"colour","message":"there is no such field"}"#), "{text}");
}

#[tokio::test]
async fn invalid_body_is_reported_with_field_and_reason() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Admin).await;
    for (body, expected) in [
        (r#"{"provenance":"a","endpoint":"b","operation":"HARVST"}"#, "the body is not valid: operation: unknown"),
        ("{}", "the body is not valid: missing field `provenance`"),
        ("no JSON", "the body is not JSON: expected ident"),
    ] {
        let (status, text) = server.send("POST", "/api/v1/jobs", Some(&key), body.to_owned()).await;
        let response: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        assert!(response["error"]["message"].as_str().unwrap().starts_with(expected), "{text}");
    }
}

// covers: TWEET-111, TWEET-145, MAP-X-01
#[tokio::test(start_paused = true)]
async fn timeout_has_the_envelope_of_its_path() {
    let never = Router::new().fallback(any(std::future::pending::<()>));
    let never = never.layer(middleware::from_fn(deadline)).layer(middleware::from_fn(request_id::layer));
    for (path, advice) in [
        ("/api/admin/scrape", "try again later"),
        ("/api/v1/items", "try again later"),
        ("/api/v1/crawler/executions", "try again later"),
        (pool::EXTRACT_PATH, "async_mode"),
        (pool::LOOK_BACK_PATH, "async_mode"),
    ] {
        let (status, response) = send(never.clone(), Request::post(path).body(Body::empty()).unwrap()).await;
        assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{path}");
        check_form(path, &response);
        assert!(response["error"].to_string().contains(advice), "{path}: {response}");
    }
}
