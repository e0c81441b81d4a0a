//! Misbehaving clients over real sockets. Waits are upper bounds; no test depends on speed.

mod hostile;

use std::net::SocketAddr;

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::*;

const LIMITS: Limits = Limits {
    capacity: Capacity { total: 8, per_network: 8, reserved: 2 },
    head: Duration::from_millis(300),
    stall: NEVER,
    drain: Duration::from_millis(300),
};
const PATIENCE: Duration = Duration::from_secs(60);
const NEVER: Duration = Duration::from_secs(3_600);

async fn start(limits: Limits) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let router = Router::new()
        .route("/", get(|| async { "ok" }))
        .route("/much", get(|| async { "x".repeat(64 << 20) }))
        .route("/never", get(std::future::pending::<()>));
    start_with(router, limits).await
}

async fn start_with(router: Router, limits: Limits) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let stopped = stop.clone();
    let server = tokio::spawn(async move { serve_within(listener, &router, limits, None, &stopped).await });
    (address, stop, server)
}

async fn open(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Reads until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection stays open").ok();
    String::from_utf8(bytes).unwrap()
}

async fn expect_ok(address: SocketAddr) {
    let text = rest(open(address, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await).await;
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
}

#[tokio::test]
async fn half_sent_head_is_closed_without_delaying_others() {
    let (address, _stop, _server) = start(Limits { head: Duration::from_secs(3), ..LIMITS }).await;
    let mut half = std::pin::pin!(rest(open(address, "GET / HTTP/1.1\r\nhos").await));
    tokio::select! {
        biased;
        _ = &mut half => panic!("another client waited for the slow one"),
        () = expect_ok(address) => {}
    }
    let text = half.await;
    assert!(!text.contains("200 OK"), "{text}");
}

#[tokio::test]
async fn silent_clients_at_the_limit_are_closed() {
    let (address, _stop, _server) = start(LIMITS).await;
    let mut silent = Vec::new();
    for _ in 0..3 * LIMITS.capacity.total {
        silent.push(open(address, "GET /").await);
    }
    tokio::time::timeout(PATIENCE, expect_ok(address)).await.expect("waits behind silent clients");
}

#[tokio::test]
async fn idle_connection_is_closed() {
    let (address, _stop, _server) = start(LIMITS).await;
    let kept = rest(open(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await).await;
    assert!(kept.ends_with("ok"), "{kept}");
}

#[tokio::test]
async fn client_that_does_not_read_is_closed() {
    let limits = Limits {
        capacity: Capacity { total: 1, ..LIMITS.capacity },
        head: NEVER,
        stall: Duration::from_millis(300),
        ..LIMITS
    };
    let (address, _stop, _server) = start(limits).await;
    let _deaf = open(address, "GET /much HTTP/1.1\r\nhost: x\r\n\r\n").await;
    tokio::time::timeout(PATIENCE, expect_ok(address)).await.expect("the only connection is never closed");
}

#[tokio::test]
async fn stop_does_not_wait_for_endless_requests() {
    let (address, stop, server) = start(Limits { head: NEVER, ..LIMITS }).await;
    let stuck = open(address, "GET /never HTTP/1.1\r\nhost: x\r\n\r\n").await;
    expect_ok(address).await;
    stop.cancel();
    tokio::time::timeout(PATIENCE, server).await.expect("the stop hangs").unwrap();
    assert_eq!(rest(stuck).await, "");
}

#[tokio::test]
async fn busy_server_serves_health_only() {
    let capacity = Capacity { total: 1, per_network: 1, reserved: 1 };
    let server = crate::routes::tests::TestServer::new();
    let (started, mut running) = tokio::sync::mpsc::unbounded_channel();
    let never = async move || {
        started.send(()).unwrap();
        std::future::pending::<()>().await;
    };
    let router = crate::router(server.api).route("/never", get(never));
    let (address, _stop, _server) = start_with(router, Limits { capacity, head: NEVER, ..LIMITS }).await;
    let _busy = open(address, "GET /never HTTP/1.1\r\nhost: x\r\n\r\n").await;
    running.recv().await.unwrap();
    let get = async |path: &str| {
        rest(open(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await).await
    };
    let refused = get("/docs").await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after: 1") && refused.contains("no free connection"), "{refused}");
    for path in ["/healthz", "/readyz", "/health"] {
        let text = get(path).await;
        assert!(text.starts_with("HTTP/1.1 200"), "{path}: {text}");
    }
}
