//! Limits for clients: `Retry-After`, rates and credentials.

use std::time::Duration;

use patra_upstream::{FaultSchedule, RetryAfter, Script};

use crate::client::TestClient;
use crate::start;

/// 429 on the first request, with this `Retry-After`.
fn throttled(retry_after: RetryAfter) -> Script {
    Script { e429: FaultSchedule::at([1]), retry_after, ..Script::default() }
}

#[tokio::test]
async fn early_requests_after_retry_after_are_counted() {
    let (server, mut client) = start(throttled(RetryAfter::Seconds(1))).await;
    let response = client.get("/page").await;
    assert_eq!((response.status, response.header("retry-after")), (429, Some("1")));
    assert_eq!(response.error_code(), "too_many_requests");
    assert_eq!(client.get("/page").await.status, 200);
    assert_eq!(server.stats().too_early, 1);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    client.get("/page").await;
    assert_eq!(server.stats().too_early, 1);
}

#[tokio::test]
async fn retry_after_zero_is_no_wait() {
    let (server, mut client) = start(throttled(RetryAfter::Seconds(0))).await;
    assert_eq!(client.get("/page").await.header("retry-after"), Some("0"));
    client.get("/page").await;
    assert_eq!(server.stats().too_early, 0);
}

#[tokio::test]
async fn retry_after_as_a_date_or_not_at_all() {
    let (server, mut client) = start(throttled(RetryAfter::HttpDate(2))).await;
    let response = client.get("/page").await;
    let date = response.header("retry-after").unwrap();
    assert!(date.ends_with(" GMT") && date.len() == 29 && date > "A", "{date}");
    assert_ne!(Some(date), response.header("date"));
    client.get("/page").await;
    assert_eq!(server.stats().too_early, 1);

    let (server, mut client) = start(throttled(RetryAfter::Absent)).await;
    assert_eq!(client.get("/page").await.header("retry-after"), None);
    client.get("/page").await;
    assert_eq!(server.stats().too_early, 0);
}

#[tokio::test]
async fn rate_is_limited_by_the_second() {
    let (server, mut client) = start(Script { rate_per_sec: 3, ..Script::default() }).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(client.get("/page?size=1").await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(client.get("/page?size=1").await.status, 200);
    assert_eq!(server.stats().r429, 2);
}

#[tokio::test]
async fn required_credentials_are_checked() {
    let (server, mut client) = start(Script::default()).await;
    let pair = |name: &str| Some((name.to_owned(), "s3".to_owned()));
    server.script().update(|script| script.require_query = pair("key"));
    let response = client.get("/page").await;
    assert_eq!((response.status, response.error_code().as_str()), (401, "unauthorized"));
    assert_eq!(client.get("/page?key=other").await.status, 401);
    assert_eq!(client.get("/page?key=s3").await.status, 200);

    server.script().update(|script| script.require_header = pair("X-Key"));
    assert_eq!(client.get("/page?key=s3").await.status, 401);
    client.send("GET /page?key=s3 HTTP/1.1\r\nHost: x\r\nx-key: s3\r\n\r\n").await;
    assert_eq!(client.receive().await.unwrap().status, 200);
    assert_eq!((server.stats().r401, server.stats().ok), (3, 2));
}

#[tokio::test]
async fn concurrency_is_measured() {
    let (server, mut first) = start(Script { latency_ms: 50, ..Script::default() }).await;
    let mut second = TestClient::connect(server.addr()).await;
    first.get("/page").await;
    assert_eq!(server.stats().max_concurrent, 1);
    tokio::join!(first.get("/page"), second.get("/page"));
    assert_eq!(server.stats().max_concurrent, 2);
}
