//! What is said of a body that cannot be taken, and of an answer that does not come in time.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::any;
use axum::{Router, middleware};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use patra_core::tx::KeyScope;

use super::super::{MAX_BODY, deadline, pool, served};
use super::{Door, openapi};
use crate::openapi::Body as Takes;
use crate::{request_id, router};

async fn told(router: Router, request: Request<Body>) -> (StatusCode, Value) {
    let answer = router.oneshot(request).await.unwrap();
    let status = answer.status();
    let bytes = axum::body::to_bytes(answer.into_body(), MAX_BODY).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// The form of a failure, by the contract that a path belongs to (MAP-X-01).
#[track_caller]
fn check_form(path: &str, answer: &Value) {
    let enveloped = path.starts_with("/api/v1/") && !path.starts_with("/api/v1/crawler/");
    let crawler = path.starts_with("/api/v1/crawler/") || path == "/api/search" || path == "/api/note/detail";
    assert_eq!(answer.get("status"), enveloped.then(|| json!("error")).as_ref(), "{path}: {answer}");
    assert_eq!(answer.get("success"), crawler.then_some(json!(false)).as_ref(), "{path}: {answer}");
    assert!(answer["error"]["message"].is_string() && answer["meta"]["request_id"].is_string(), "{path}: {answer}");
}

// covers: POOL-20, POOL-23, TWEET-111, MAP-E-01
#[tokio::test]
async fn every_route_refuses_a_body_that_is_too_long_or_of_another_type_alike() {
    let door = Door::new();
    let key = door.key(KeyScope::Admin).await;
    let mut asked = 0;
    for operation in served(&door.api).operations {
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
            let (status, answer) = told(router(door.api.clone()), request.body(body.to_owned().into()).unwrap()).await;
            assert!(
                status == expected || expected == StatusCode::BAD_REQUEST && status == StatusCode::NOT_FOUND,
                "{path} {media}: {status} {answer}"
            );
            check_form(&path, &answer);
            if status != StatusCode::NOT_FOUND {
                assert_eq!(answer["error"]["code"], "INVALID_INPUT", "{path} {media}: {answer}");
            }
        }
        asked += 1;
    }
    assert!(asked > 20, "{asked}");
}

// covers: TWEET-107, TWEET-140
#[tokio::test]
async fn a_scrape_without_users_is_told_which_field_is_missing() {
    let door = Door::new();
    let key = door.key(KeyScope::Admin).await;
    let asked = |body: &str| door.send("POST", "/api/admin/scrape", Some(&key), body.to_owned());
    for body in ["", "{}", r#"{"usernames":null}"#] {
        let (status, text) = asked(body).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        assert_eq!(answer["error"]["details"]["fields"][0]["field"], "usernames", "{text}");
    }
    let (_, text) = asked(r#"{"usernames":"alice","colour":1}"#).await;
    assert!(text.contains(r#"{"field":"colour","message":"there is no such field"}"#), "{text}");
}

// covers: TWEET-111, TWEET-145, MAP-X-01
#[tokio::test(start_paused = true)]
async fn what_is_not_answered_in_time_is_told_in_the_form_of_its_path() {
    let never = Router::new().fallback(any(std::future::pending::<()>));
    let never = never.layer(middleware::from_fn(deadline)).layer(middleware::from_fn(request_id::layer));
    for (path, advice) in [
        ("/api/admin/scrape", "try again later"),
        ("/api/v1/items", "try again later"),
        ("/api/v1/crawler/executions", "try again later"),
        (pool::EXTRACT_PATH, "async_mode"),
        (pool::LOOK_BACK_PATH, "async_mode"),
    ] {
        let (status, answer) = told(never.clone(), Request::post(path).body(Body::empty()).unwrap()).await;
        assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{path}");
        check_form(path, &answer);
        assert!(answer["error"].to_string().contains(advice), "{path}: {answer}");
    }
}
