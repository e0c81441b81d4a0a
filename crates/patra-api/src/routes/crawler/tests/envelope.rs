//! Single responses, batches and the table of codes.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use patra_core::Code;
use patra_engine::crawler::CrawlFailure;

use super::super::{Reply, several};
use crate::request_id::RequestId;

fn reply() -> Reply {
    Reply { cookie_used: Some("account_01".into()), ..Reply::to(RequestId::of("wf-1-abc-detail")) }
}

/// The status and the body of a response, whose latency must be a number.
async fn read(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let mut body: Value = serde_json::from_slice(&bytes).unwrap();
    assert!(body["meta"].as_object_mut().unwrap().remove("latency_ms").unwrap().is_u64());
    (status, body)
}

fn failed(code: Code) -> Result<Value, CrawlFailure> {
    Err(CrawlFailure::new(code, "why"))
}

async fn batch(results: Vec<Result<Value, CrawlFailure>>) -> (StatusCode, Value) {
    let results = results.into_iter().enumerate().map(|(no, result)| (format!("note_{no}"), result)).collect();
    read(several(&reply(), results)).await
}

// covers: CRAWL-60, CRAWL-61, CRAWL-62, CRAWL-63
#[tokio::test]
async fn single_response_has_data_or_error() {
    let meta = json!({ "request_id": "wf-1-abc-detail", "cookie_used": "account_01" });
    let (status, body) = read(reply().give(Ok(json!({ "note_id": "n" })))).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body, json!({ "success": true, "data": { "note_id": "n" }, "error": null, "meta": meta }));
    let (status, body) = read(reply().give(failed(Code::TimeoutError))).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    let error = json!({ "code": "TIMEOUT_ERROR", "message": "why", "retryable": true });
    assert_eq!(body, json!({ "success": false, "data": null, "error": error, "meta": meta }));
    let detailed = Err(CrawlFailure::new(Code::InvalidInput, "why").detail("field", "keyword".into()));
    let (_, body) = read(Reply::to(RequestId::of("r")).give(detailed)).await;
    assert_eq!(body["error"]["details"], json!({ "field": "keyword" }));
    assert_eq!(body["meta"], json!({ "request_id": "r", "cookie_used": null }), "no cookie was used");
}

// covers: CRAWL-RULE-8, CRAWL-64, CRAWL-65, CRAWL-66, CRAWL-67, CRAWL-68, CRAWL-71, CRAWL-80, CRAWL-DAY3-3
#[tokio::test]
async fn partial_batch_reports_each_item() {
    let (status, body) = batch(vec![Ok(json!({ "title": "A" })), failed(Code::TimeoutError), Ok(json!({}))]).await;
    assert_eq!(status, StatusCode::MULTI_STATUS);
    let error = json!({ "code": "TIMEOUT_ERROR", "message": "why", "retryable": true });
    let expected = json!({
        "success": false,
        "items": [
            { "id": "note_0", "success": true, "data": { "title": "A" } },
            { "id": "note_1", "success": false, "error": error },
            { "id": "note_2", "success": true, "data": {} },
        ],
        "summary": { "total": 3, "succeeded": 2, "failed": 1 },
        "error": {
            "code": "PARTIAL_FAIL", "message": "1 of 3 items failed", "retryable": true,
            "details": { "failed_ids": ["note_1"] },
        },
        "meta": { "request_id": "wf-1-abc-detail", "cookie_used": "account_01" },
    });
    assert_eq!(body, expected);
    let (status, body) = batch(vec![Ok(json!({})), Ok(json!({}))]).await;
    assert_eq!((status, &body["success"], &body["error"]), (StatusCode::OK, &json!(true), &Value::Null));
}

// covers: CRAWL-69, CRAWL-71
#[tokio::test]
async fn failed_batch_has_the_common_code_or_partial_fail() {
    let (status, body) = batch(vec![failed(Code::PlatformError), failed(Code::PlatformError)]).await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::BAD_GATEWAY, &json!("PLATFORM_ERROR")));
    let (status, body) = batch(vec![failed(Code::TimeoutError)]).await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::GATEWAY_TIMEOUT, &json!("TIMEOUT_ERROR")));
    let (status, body) = batch(vec![failed(Code::PlatformError), failed(Code::NotFound)]).await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::MULTI_STATUS, &json!("PARTIAL_FAIL")));
    assert_eq!(body["summary"], json!({ "total": 2, "succeeded": 0, "failed": 2 }));
}

// covers: CRAWL-75, CRAWL-76, CRAWL-77, CRAWL-78, CRAWL-79, CRAWL-80, CRAWL-81, CRAWL-82, CRAWL-DAY1-3
#[tokio::test]
async fn every_code_has_a_status_and_a_retryable_flag() {
    for (code, name, retryable, status) in [
        (Code::CookieExhausted, "COOKIE_EXHAUSTED", false, 503),
        (Code::CookieInvalid, "COOKIE_INVALID", true, 502),
        (Code::PlatformError, "PLATFORM_ERROR", true, 502),
        (Code::TimeoutError, "TIMEOUT_ERROR", true, 504),
        (Code::NetworkError, "NETWORK_ERROR", true, 503),
        (Code::PartialFail, "PARTIAL_FAIL", true, 207),
        (Code::InvalidInput, "INVALID_INPUT", false, 400),
        (Code::Unauthorized, "UNAUTHORIZED", false, 401),
        (Code::Forbidden, "FORBIDDEN", false, 403),
        (Code::NotFound, "NOT_FOUND", false, 404),
        (Code::LockLost, "LOCK_LOST", false, 409),
        (Code::NotConfigured, "NOT_CONFIGURED", false, 503),
        (Code::RateLimited, "RATE_LIMITED", true, 429),
        (Code::InternalError, "INTERNAL_ERROR", true, 500),
    ] {
        let (given, body) = read(reply().give(failed(code))).await;
        assert_eq!(given.as_u16(), status, "{name}");
        assert_eq!((&body["error"]["code"], &body["error"]["retryable"]), (&json!(name), &json!(retryable)));
    }
}
