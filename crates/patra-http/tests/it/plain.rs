use std::time::Duration;

use bytes::Bytes;
use patra_core::port::transport::{HttpMethod, Transport};

use crate::server::{ServerStep, TestServer, chunked, client, get, reply, send};

#[tokio::test]
async fn response_arrives_complete() {
    let server = TestServer::fixed(reply("418 Teapot", "X-One: 1\r\nx-two: \u{e9}\r\nx-one: 2\r\n", "hello")).await;
    let response = client().send(get(server.url("/a?b=c#d"))).await.unwrap();
    assert_eq!((response.status, &*response.body), (418, &b"hello"[..]));
    assert_eq!(response.header("x-one"), Some("1"));
    assert_eq!(response.header("x-two"), Some("\u{e9}"));
    assert_eq!(response.header("content-length"), Some("5"));
    assert_eq!(response.headers.iter().filter(|(name, _)| name == "x-one").count(), 2);
    let request = &server.requests()[0];
    assert!(request.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("accept-encoding: gzip, deflate, br, zstd\r\n"), "{request}");
    assert!(request.contains(concat!("user-agent: patra/", env!("CARGO_PKG_VERSION"), "\r\n")), "{request}");
    for absent in ["referer", "cookie", "authorization"] {
        assert!(!request.contains(absent), "{request}");
    }
}

#[tokio::test]
async fn bodies_of_every_framing_are_collected() {
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    let framings: Vec<(Vec<ServerStep>, &[u8])> = vec![
        (reply("200 OK", "", ""), b""),
        (reply("200 OK", "", &large), &large),
        (chunked("", large.chunks(7_777)), &large),
        (chunked("", []), b""),
        (vec![send("HTTP/1.1 200 OK\r\n\r\n"), send(&large), ServerStep::Close], &large),
        (vec![send("HTTP/1.1 204 No Content\r\n\r\n")], b""),
        (vec![send("HTTP/1.1 304 Not Modified\r\ncontent-length: 900\r\n\r\n")], b""),
        (vec![send("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx")], b"x"),
    ];
    for (number, (steps, expected)) in framings.into_iter().enumerate() {
        let server = TestServer::fixed(steps).await;
        let response = client().send(get(server.url("/"))).await.unwrap();
        assert!(response.body == expected, "framing {number}");
    }
}

// covers: ING-13.8-03
#[tokio::test]
async fn a_connection_is_used_again() {
    let bodies = [reply("200 OK", "", vec![b'x'; 900_000]), chunked("", [&b"ab"[..], b"cd"])];
    for steps in bodies {
        let server = TestServer::fixed(steps).await;
        let client = client();
        for _ in 0..5 {
            client.clone().send(get(server.url("/"))).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!((server.connections(), server.requests().len()), (1, 5));
    }
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    let mut steps = reply("200 OK", "", "x");
    steps.push(ServerStep::Close);
    let server = TestServer::fixed(steps).await;
    let client = client();
    for _ in 0..3 {
        client.send(get(server.url("/"))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn request_headers_are_sent_unchanged() {
    let server = TestServer::fixed(reply("200 OK", "", "")).await;
    let mut request = get(server.url("/"));
    request.method = HttpMethod::Post;
    request.body = Some(Bytes::from_static(b"{\"a\":1}"));
    let headers = [("User-Agent", "me/1"), ("Accept-Encoding", "identity"), ("X-Key", "k"), ("x-key", "l")];
    request.headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    client().send(request).await.unwrap();
    let request = &server.requests()[0];
    assert!(request.starts_with("POST / HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"a\":1}"), "{request}");
    for line in ["user-agent: me/1", "accept-encoding: identity", "x-key: k", "x-key: l", "content-length: 7"] {
        assert!(request.contains(&format!("\r\n{line}\r\n")), "{line} in {request}");
    }
}

#[tokio::test]
async fn url_credentials_become_a_header() {
    let server = TestServer::fixed(reply("200 OK", "", "")).await;
    let url = server.url("/").replace("http://", "http://user:p%40ss@");
    client().send(get(url)).await.unwrap();
    let request = &server.requests()[0];
    assert!(request.contains("authorization: Basic dXNlcjpwQHNz\r\n"), "{request}");
}
