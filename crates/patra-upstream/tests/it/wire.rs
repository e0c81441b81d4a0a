//! HTTP/1.1: keep-alive, pipelining, partial heads, and rejected requests.

use std::time::Duration;

use patra_upstream::Script;

use crate::start;

#[tokio::test]
async fn connection_is_kept_alive() {
    let (server, mut client) = start(Script::default()).await;
    for _ in 0..100 {
        assert_eq!(client.get("/page?size=1").await.status, 200);
    }
    assert_eq!(server.stats().connections, 1);
}

#[tokio::test]
async fn pipelined_responses_are_in_order() {
    let (_server, mut client) = start(Script::default()).await;
    let requests: String =
        (0..40).map(|n| format!("GET /offset?limit=1&offset={n} HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
    client.send(&requests).await;
    for n in 0..40 {
        assert_eq!(client.receive().await.unwrap().json()["offset"], n);
    }
}

#[tokio::test]
async fn head_may_arrive_in_pieces() {
    let (_server, mut client) = start(Script::default()).await;
    for piece in ["GE", "T /page HT", "TP/1.1\r", "\nHost: x\r\n\r", "\nGET /health HTTP/1.1\r\nHo", "st: x\r\n\r\n"] {
        client.send(piece).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(client.receive().await.unwrap().ids().len(), 50);
    assert_eq!(client.receive().await.unwrap().json()["status"], "ok");
}

#[tokio::test]
async fn body_may_arrive_in_pieces_and_requests_may_follow() {
    let (_server, mut client) = start(Script::default()).await;
    let posts = "POST /details HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{\"ids\": [\"W1\"]}";
    for piece in [&posts[..60], &posts[60..posts.len() - 3], &posts[posts.len() - 3..]] {
        client.send(piece).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.send(&format!("{posts}GET /health HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    for _ in 0..2 {
        assert_eq!(client.receive().await.unwrap().json()["items"], serde_json::json!([]));
    }
    assert_eq!(client.receive().await.unwrap().json()["status"], "ok");
}

#[tokio::test]
async fn connection_close_is_respected() {
    for request in ["GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET /page HTTP/1.0\r\n\r\n"] {
        let (_server, mut client) = start(Script::default()).await;
        client.send(request).await;
        let response = client.receive().await.unwrap();
        assert_eq!((response.status, response.header("connection")), (200, Some("close")));
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn unsupported_requests_are_rejected_and_closed() {
    let huge = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "x".repeat(40_000));
    let cases = [
        ("POST /page HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 405),
        ("GET /login HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        ("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 405),
        ("POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        ("POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n", 413),
        ("GET /page HTTP/1.1\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
        (&huge, 431),
    ];
    for (request, status) in cases {
        let (_server, mut client) = start(Script::default()).await;
        client.send(request).await;
        let response = client.receive().await.unwrap();
        assert_eq!(response.status, status);
        assert_eq!(response.header("connection"), Some("close"));
        assert!(response.json()["error"]["message"].is_string());
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn head_gets_no_body() {
    let (_server, mut client) = start(Script::default()).await;
    client.send("HEAD /page HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let response = client.receive().await.unwrap();
    assert_eq!((response.status, response.body.len(), response.header("connection")), (405, 0, Some("close")));
    assert!(client.is_closed().await);
}
