use std::time::Duration;

use patra_core::port::transport::{Error, TransferLimits, Transport};
use patra_http::{AddressGuard, Client};
use tokio::time::Instant;

use crate::server::{ServerStep, TestServer, chunked, client, fetch, get, reply, send};

const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_body_that_ends_early_is_broken() {
    let part = vec![b'x'; 5_000];
    for (name, steps) in [
        ("length", vec![send("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n"), send(&part), ServerStep::Close]),
        ("no byte", vec![send("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n"), ServerStep::Close]),
        (
            "chunk",
            vec![send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2328\r\n"), send(&part), ServerStep::Close],
        ),
        (
            "no last chunk",
            vec![send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n"), ServerStep::Close],
        ),
        ("bad chunk", vec![send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), ServerStep::Close]),
        (
            "reset",
            vec![send("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\nxx"), ServerStep::Wait(SHORT), ServerStep::Reset],
        ),
        ("no head", vec![ServerStep::Close]),
        ("reset at once", vec![ServerStep::Reset]),
        ("half a head", vec![send("HTTP/1.1 200 OK\r\ncontent-le"), ServerStep::Close]),
        ("not http", vec![send("SSH-2.0-OpenSSH_9.6\r\n"), ServerStep::Close]),
        (
            "bad length",
            vec![send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"), ServerStep::Close],
        ),
    ] {
        let server = TestServer::fixed(steps).await;
        let result = fetch(&server).await;
        assert!(matches!(result, Err(Error::Broken { .. })), "{name}: {result:?}");
    }
}

#[tokio::test]
async fn an_oversize_body_is_refused() {
    let body = vec![b'x'; 300_001];
    for (name, steps) in [
        ("announced", vec![send("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n"), ServerStep::Wait(LONG)]),
        ("with length", reply("200 OK", "", &body)),
        ("chunked", chunked("", body.chunks(1_000))),
        ("until close", vec![send("HTTP/1.1 200 OK\r\n\r\n"), send(&body), ServerStep::Close]),
        ("compressed", reply("200 OK", "content-encoding: gzip\r\n", &body)),
    ] {
        let server = TestServer::fixed(steps).await;
        let mut request = get(server.url("/"));
        request.limits.max_body = 300_000;
        let result = client().send(request.clone()).await;
        assert_eq!(result.unwrap_err(), Error::TooLarge { limit: 300_000 }, "{name}");
        if !matches!(name, "announced" | "compressed") {
            request.limits.max_body += 1;
            assert_eq!(client().send(request).await.unwrap().body, body, "{name}");
        }
    }
}

async fn times_out(name: &str, steps: Vec<ServerStep>, limits: TransferLimits) {
    let server = TestServer::fixed(steps).await;
    let mut request = get(server.url("/"));
    request.limits = limits;
    let started = Instant::now();
    let result = client().send(request).await;
    assert_eq!(result.unwrap_err(), Error::Timeout { after: SHORT }, "{name}");
    assert!(started.elapsed() >= SHORT && started.elapsed() < LONG, "{name}: {:?}", started.elapsed());
}

#[tokio::test]
async fn silence_ends_after_the_read_timeout() {
    let limits =
        TransferLimits { read_timeout: SHORT, connect_timeout: LONG, total_timeout: LONG, ..TransferLimits::default() };
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
    let compressed = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 9\r\n\r\n\x1f";
    times_out("head", vec![ServerStep::Wait(LONG)], limits).await;
    times_out("half a head", vec![send("HTTP/1.1 2"), ServerStep::Wait(LONG)], limits).await;
    times_out("body", vec![send(head), ServerStep::Wait(LONG)], limits).await;
    times_out("half a body", vec![send(head), send("xx"), ServerStep::Wait(LONG)], limits).await;
    times_out("compressed body", vec![send(compressed), ServerStep::Wait(LONG)], limits).await;
}

#[tokio::test]
async fn the_deadline_holds_even_if_bytes_keep_coming() {
    let limits =
        TransferLimits { read_timeout: LONG, connect_timeout: LONG, total_timeout: SHORT, ..TransferLimits::default() };
    let head = send("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n");
    let trickle = (0..2_000).flat_map(|_| [send("x"), ServerStep::Wait(Duration::from_millis(10))]);
    times_out("trickle", std::iter::once(head).chain(trickle).collect(), limits).await;
    times_out("nothing", vec![ServerStep::Wait(LONG)], limits).await;
}

#[tokio::test]
async fn a_slow_but_steady_body_is_read_to_its_end() {
    let timeout = Duration::from_secs(1);
    let pieces = (0..4).flat_map(|_| [send("x"), ServerStep::Wait(timeout * 2 / 5)]);
    let head = send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n");
    let server = TestServer::fixed(std::iter::once(head).chain(pieces).collect()).await;
    let mut request = get(server.url("/"));
    request.limits.read_timeout = timeout;
    assert_eq!(client().send(request).await.unwrap().body, "xxxx");
}

/// A lookup that never returns stands for every kind of connection that does not come about.
#[tokio::test]
async fn connecting_has_a_timeout_of_its_own_per_request() {
    let lookup = std::sync::Arc::new(|_| Box::pin(std::future::pending()) as patra_core::port::BoxFuture<'static, _>);
    let client = Client::with_lookup(AddressGuard::default(), lookup).unwrap();
    for (connect, read, after) in [(1, 100, 1), (2, 100, 2), (6, 1, 6)] {
        let step = SHORT / 3;
        let mut request = get("http://a.test/");
        request.limits =
            TransferLimits { connect_timeout: step * connect, read_timeout: step * read, ..request.limits };
        let started = Instant::now();
        assert_eq!(client.send(request).await.unwrap_err(), Error::Timeout { after: step * after });
        let waited = started.elapsed();
        assert!(waited >= step * after && waited < step * 100, "{waited:?}");
    }
}

#[tokio::test]
async fn nobody_listening_is_a_connect_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/?key=canary", listener.local_addr().unwrap());
    drop(listener);
    let error = client().send(get(url)).await.unwrap_err();
    assert_eq!(error.to_string(), "connecting to 127.0.0.1 failed: Connection refused (os error 111)");
}

#[tokio::test]
async fn a_dropped_exchange_leaves_the_client_usable() {
    let steps = vec![send("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\nx"), ServerStep::Wait(SHORT)];
    let slow = TestServer::fixed(steps).await;
    let quick = TestServer::fixed(reply("200 OK", "", "x")).await;
    let client = client();
    for wait in [0, 1, 5, 20, 50] {
        let sending = client.send(get(slow.url("/")));
        assert!(tokio::time::timeout(Duration::from_millis(wait), sending).await.is_err());
    }
    assert_eq!(client.send(get(quick.url("/"))).await.unwrap().body, "x");
}

#[tokio::test]
async fn timeouts_can_be_disabled() {
    let steps = vec![send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n"), ServerStep::Wait(SHORT), send("x")];
    let server = TestServer::fixed(steps).await;
    let mut request = get(server.url("/"));
    let (max, limits) = (Duration::MAX, request.limits);
    request.limits = TransferLimits { connect_timeout: max, read_timeout: max, total_timeout: max, ..limits };
    assert_eq!(client().send(request).await.unwrap().body, "x");
}
