use std::time::Duration;

use patra_core::port::transport::{Error, Limits, Transport};
use patra_http::{Client, Guard};
use tokio::time::Instant;

use crate::server::{Server, Step, answer, chunked, client, fetch, get, send};

const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_body_that_ends_early_is_broken() {
    let part = vec![b'x'; 5_000];
    for (name, steps) in [
        ("length", vec![send("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n"), send(&part), Step::Close]),
        ("no byte", vec![send("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n"), Step::Close]),
        (
            "chunk",
            vec![send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2328\r\n"), send(&part), Step::Close],
        ),
        ("no last chunk", vec![send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n"), Step::Close]),
        ("bad chunk", vec![send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), Step::Close]),
        ("reset", vec![send("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\nxx"), Step::Wait(SHORT), Step::Reset]),
        ("no head", vec![Step::Close]),
        ("reset at once", vec![Step::Reset]),
        ("half a head", vec![send("HTTP/1.1 200 OK\r\ncontent-le"), Step::Close]),
        ("not http", vec![send("SSH-2.0-OpenSSH_9.6\r\n"), Step::Close]),
        ("bad length", vec![send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"), Step::Close]),
    ] {
        let server = Server::fixed(steps).await;
        let result = fetch(&server).await;
        assert!(matches!(result, Err(Error::Broken { .. })), "{name}: {result:?}");
    }
}

#[tokio::test]
async fn an_oversize_body_is_refused() {
    let body = vec![b'x'; 300_001];
    for (name, steps) in [
        ("announced", vec![send("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n"), Step::Wait(LONG)]),
        ("with length", answer("200 OK", "", &body)),
        ("chunked", chunked("", body.chunks(1_000))),
        ("until close", vec![send("HTTP/1.1 200 OK\r\n\r\n"), send(&body), Step::Close]),
        ("packed", answer("200 OK", "content-encoding: gzip\r\n", &body)),
    ] {
        let server = Server::fixed(steps).await;
        let mut request = get(server.url("/"));
        request.limits.max_body = 300_000;
        let result = client().send(request.clone()).await;
        assert_eq!(result.unwrap_err(), Error::TooLarge { limit: 300_000 }, "{name}");
        if !matches!(name, "announced" | "packed") {
            request.limits.max_body += 1;
            assert_eq!(client().send(request).await.unwrap().body, body, "{name}");
        }
    }
}

async fn times_out(name: &str, steps: Vec<Step>, limits: Limits) {
    let server = Server::fixed(steps).await;
    let mut request = get(server.url("/"));
    request.limits = limits;
    let started = Instant::now();
    let result = client().send(request).await;
    assert_eq!(result.unwrap_err(), Error::Timeout { after: SHORT }, "{name}");
    assert!(started.elapsed() >= SHORT && started.elapsed() < LONG / 4, "{name}: {:?}", started.elapsed());
}

#[tokio::test]
async fn silence_ends_after_the_read_timeout() {
    let limits = Limits { read_timeout: SHORT, connect_timeout: LONG, total_timeout: LONG, ..Limits::default() };
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
    let packed = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 9\r\n\r\n\x1f";
    times_out("head", vec![Step::Wait(LONG)], limits).await;
    times_out("half a head", vec![send("HTTP/1.1 2"), Step::Wait(LONG)], limits).await;
    times_out("body", vec![send(head), Step::Wait(LONG)], limits).await;
    times_out("half a body", vec![send(head), send("xx"), Step::Wait(LONG)], limits).await;
    times_out("packed body", vec![send(packed), Step::Wait(LONG)], limits).await;
}

#[tokio::test]
async fn the_deadline_holds_even_if_bytes_keep_coming() {
    let limits = Limits { read_timeout: LONG, connect_timeout: LONG, total_timeout: SHORT, ..Limits::default() };
    let head = send("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n");
    let trickle = (0..2_000).flat_map(|_| [send("x"), Step::Wait(Duration::from_millis(10))]);
    times_out("trickle", std::iter::once(head).chain(trickle).collect(), limits).await;
    times_out("nothing", vec![Step::Wait(LONG)], limits).await;
}

#[tokio::test]
async fn a_slow_but_steady_body_is_read_to_its_end() {
    let pieces = (0..8).flat_map(|_| [send("x"), Step::Wait(SHORT / 3)]);
    let head = send("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n");
    let server = Server::fixed(std::iter::once(head).chain(pieces).collect()).await;
    let mut request = get(server.url("/"));
    request.limits.read_timeout = SHORT;
    assert_eq!(client().send(request).await.unwrap().body, "xxxxxxxx");
}

/// A lookup that never answers stands for every way in which a connection can fail to come about.
#[tokio::test]
async fn connecting_has_a_timeout_of_its_own_per_request() {
    let lookup = std::sync::Arc::new(|_| Box::pin(std::future::pending()) as patra_core::port::Boxed<'static, _>);
    let client = Client::with_lookup(Guard::default(), lookup).unwrap();
    for (connect, read, after) in [(1, 100, 1), (2, 100, 2), (6, 1, 6)] {
        let step = SHORT / 3;
        let mut request = get("http://a.test/");
        request.limits = Limits { connect_timeout: step * connect, read_timeout: step * read, ..request.limits };
        let started = Instant::now();
        assert_eq!(client.send(request).await.unwrap_err(), Error::Timeout { after: step * after });
        let waited = started.elapsed();
        assert!(waited >= step * after && waited < step * after + Duration::from_secs(2), "{waited:?}");
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
    let steps = vec![send("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\nx"), Step::Wait(SHORT)];
    let slow = Server::fixed(steps).await;
    let quick = Server::fixed(answer("200 OK", "", "x")).await;
    let client = client();
    for wait in [0, 1, 5, 20, 50] {
        let sending = client.send(get(slow.url("/")));
        assert!(tokio::time::timeout(Duration::from_millis(wait), sending).await.is_err());
    }
    assert_eq!(client.send(get(quick.url("/"))).await.unwrap().body, "x");
}

#[tokio::test]
async fn no_timeout_at_all_can_be_asked_for() {
    let steps = vec![send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n"), Step::Wait(SHORT), send("x")];
    let server = Server::fixed(steps).await;
    let mut request = get(server.url("/"));
    let (max, limits) = (Duration::MAX, request.limits);
    request.limits = Limits { connect_timeout: max, read_timeout: max, total_timeout: max, ..limits };
    assert_eq!(client().send(request).await.unwrap().body, "x");
}
