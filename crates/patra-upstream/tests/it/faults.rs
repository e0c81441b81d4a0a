//! Each fault: which requests it applies to, and its effect on the connection and the counters.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use patra_upstream::{FaultSchedule, LateRecord, Script, TruncateMode};

use crate::client::{TestClient, TestResponse};
use crate::start;

async fn statuses(client: &mut TestClient, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(client.get("/offset?limit=1").await.status);
    }
    statuses
}

#[tokio::test]
async fn errors_apply_to_every_kth_request_since_the_reset() {
    let script = Script { e429: FaultSchedule::every(3), e500: FaultSchedule::at([2]), ..Script::default() };
    let (server, mut client) = start(script).await;
    assert_eq!(statuses(&mut client, 6).await, [200, 500, 429, 200, 200, 429]);
    let stats = server.stats();
    assert_eq!((stats.data_requests, stats.ok, stats.r429, stats.r500), (6, 3, 2, 1));
    server.reset();
    assert_eq!(statuses(&mut client, 3).await, [200, 500, 429]);
}

#[tokio::test]
async fn reset_fault_resets_the_connection() {
    let (server, mut client) = start(Script { reset: FaultSchedule::at([2]), ..Script::default() }).await;
    assert_eq!(client.get("/page").await.status, 200);
    assert_eq!(client.try_get("/page").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut second = TestClient::connect(server.addr()).await;
    assert_eq!(second.get("/page").await.status, 200);
    let stats = server.stats();
    assert_eq!((stats.resets, stats.ok, stats.connections), (1, 2, 2));
    assert_eq!(server.log()[1].status, 0);
}

#[tokio::test]
async fn closed_body_is_half_of_the_announced_length() {
    let (server, mut client) = start(Script { truncate: FaultSchedule::at([1]), ..Script::default() }).await;
    let response = client.get("/page").await;
    let promised: usize = response.header("content-length").unwrap().parse().unwrap();
    assert_eq!((response.status, response.cut, response.body.len()), (200, true, promised / 2));
    assert_eq!(response.header("connection"), None);
    let stats = server.stats();
    assert_eq!((stats.truncated, stats.ok, stats.records), (1, 0, 0));
}

#[tokio::test]
async fn truncated_body_is_complete_but_not_json() {
    let script = Script { truncate: FaultSchedule::at([1]), truncate_mode: TruncateMode::Cut, ..Script::default() };
    let (_server, mut client) = start(script).await;
    let response = client.get("/page").await;
    assert!(!response.cut && serde_json::from_slice::<serde_json::Value>(&response.body).is_err());
    assert_eq!(client.get("/page").await.ids().len(), 50);
}

#[tokio::test]
async fn oversized_body_is_still_json() {
    let (server, mut client) =
        start(Script { oversize: FaultSchedule::at([1]), oversize_mib: 3, ..Script::default() }).await;
    let response = client.get("/page").await;
    assert_eq!((response.body.len(), response.ids().len()), (3 << 20, 50));
    assert!(client.get("/page").await.body.len() < 1 << 20);
    let stats = server.stats();
    assert_eq!((stats.oversized, stats.ok), (1, 1));
}

#[tokio::test]
async fn slow_body_is_delayed() {
    let script = Script { slow: FaultSchedule::at([1]), slow_chunk_bytes: 512, slow_pause_ms: 5, ..Script::default() };
    let (_server, mut client) = start(script).await;
    let (response, took) = timed(&mut client, "/page?size=20").await;
    let pieces = u32::try_from(response.body.len().div_ceil(512)).unwrap();
    assert!(took >= Duration::from_millis(5) * pieces, "{took:?} for {pieces} pieces");
    assert_eq!(response.ids().len(), 20);
}

#[tokio::test]
async fn latency_delays_the_response() {
    let (_server, mut client) = start(Script { latency_ms: 60, ..Script::default() }).await;
    assert!(timed(&mut client, "/page").await.1 >= Duration::from_millis(60));
    assert!(timed(&mut client, "/health").await.1 < Duration::from_millis(60));
}

#[expect(clippy::disallowed_methods, reason = "the test is the client, and measures")]
async fn timed(client: &mut TestClient, target: &str) -> (TestResponse, Duration) {
    let start = Instant::now();
    let response = client.get(target).await;
    (response, start.elapsed())
}

#[tokio::test]
async fn repeated_token_never_ends() {
    let (_server, mut client) = start(Script { repeat_token_after: Some(1), ..Script::default() }).await;
    let token = |response: &TestResponse| response.json()["message"]["next-cursor"].as_str().unwrap().to_owned();
    let first = client.get("/cursor?rows=5").await;
    let target = format!("/cursor?rows=5&cursor={}", token(&first).replace('+', "%2B"));
    let (second, third) = (client.get(&target).await, client.get(&target).await);
    assert_eq!((token(&first), second.ids()), (token(&second), third.ids()));
    assert_eq!(second.body, third.body);
}

#[tokio::test]
async fn totals_lie() {
    let (server, mut client) = start(Script { total_delta: 7, ..Script::default() }).await;
    assert_eq!(client.get("/offset").await.json()["total"], 57);
    server.script().update(|script| script.total_drift = true);
    let (second, third) = (client.get("/offset").await, client.get("/offset").await);
    assert_eq!((&second.json()["total"], &third.json()["total"]), (&59.into(), &60.into()));
}

#[tokio::test]
async fn late_rows_appear_behind_the_client() {
    let (server, mut client) =
        start(Script { late: vec![LateRecord { index: 4, after: 2 }], ..Script::default() }).await;
    let id = server.dataset().get(4).unwrap().0.to_owned();
    for number in 1..=3 {
        let page = client.get("/offset").await;
        assert_eq!((page.ids().contains(&id), page.ids().len()), if number > 2 { (true, 50) } else { (false, 49) });
    }
}

#[tokio::test]
async fn records_become_visible_while_serving() {
    let (server, mut client) = start(Script { visible: Some(10), ..Script::default() }).await;
    assert_eq!(client.get("/offset").await.json()["total"], 10);
    server.script().update(|script| script.visible = Some(20));
    assert_eq!(client.get("/offset").await.json()["total"], 20);
    assert_eq!(client.get("/visible?n=30").await.json()["visible"], 30);
    assert_eq!(client.get("/window").await.ids().len(), 30);
}
