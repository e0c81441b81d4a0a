//! Queries with more records than the ceiling.

use patra_upstream::{CeilingMode, Script};

use crate::start;

#[tokio::test]
async fn requests_beyond_the_ceiling_are_rejected() {
    let (server, mut client) = start(Script { ceiling: Some(20), ..Script::default() }).await;
    let page = client.get("/offset?offset=15&limit=10").await;
    assert_eq!((page.ids().len(), page.json()["total"].as_u64()), (5, Some(50)));
    assert_eq!(client.get("/page?page=2&size=10").await.json()["has_more"], true);
    let link = client.get("/link?page=2&size=10").await.json()["next"].as_str().unwrap().to_owned();
    let cursor = client.get("/cursor?rows=20").await.json()["message"]["next-cursor"].as_str().unwrap().to_owned();
    for target in [
        "/offset?offset=20",
        "/page?page=3&size=10",
        link.strip_prefix("http://api.test:80").unwrap(),
        &format!("/cursor?rows=20&cursor={}", cursor.replace('+', "%2B")),
        "/ids?offset=20",
    ] {
        let response = client.get(target).await;
        assert_eq!((response.status, response.error_code().as_str()), (400, "result_window_too_large"), "{target}");
    }
    assert_eq!(server.stats().bad, 5);
    assert_eq!(client.get("/window?limit=30").await.json()["truncated"], true);
}

#[tokio::test]
async fn clamped_ceiling_ends_silently() {
    let script = Script { ceiling: Some(20), ceiling_mode: CeilingMode::Clamp, ..Script::default() };
    let (_server, mut client) = start(script).await;
    let page = client.get("/page?page=2&size=10").await.json();
    assert_eq!((&page["has_more"], &page["total"]), (&false.into(), &50.into()));
    assert_eq!(client.get("/link?page=2&size=10").await.json()["next"], serde_json::Value::Null);
    let page = client.get("/cursor?rows=20").await.json();
    assert_eq!((&page["message"]["next-cursor"], &page["message"]["total-results"]), (&().into(), &50.into()));
    let beyond = client.get("/offset?offset=20").await;
    assert_eq!((beyond.status, beyond.ids().len(), beyond.json()["total"].as_u64()), (200, 0, Some(50)));
}

/// Windows that are narrow enough return all records.
#[tokio::test]
async fn smaller_window_is_complete() {
    let (server, mut client) = start(Script { ceiling: Some(20), ..Script::default() }).await;
    let start = server.dataset().get(0).unwrap().1 / 1_000_000;
    let mut windows = vec![(start, start + 3600)];
    let mut all = Vec::new();
    while let Some((from, to)) = windows.pop() {
        let page = client.get(&format!("/offset?from={from}&to={to}")).await;
        if page.json()["total"].as_u64() > Some(20) {
            let middle = i64::midpoint(from, to);
            windows.extend([(middle, to), (from, middle)]);
        } else {
            all.extend(page.ids());
        }
    }
    assert_eq!(all, server.dataset().records().map(|(id, ..)| id).collect::<Vec<_>>());
}
