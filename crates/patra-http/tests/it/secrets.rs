//! Errors show nothing that could be a secret.

use patra_core::port::transport::{TransferLimits, Transport};
use patra_http::{AddressGuard, Client};
use std::time::Duration;

use crate::server::{ServerStep, TestServer, client, get, reply, send};

#[tokio::test]
async fn errors_show_only_the_host() {
    let steps = [
        vec![ServerStep::Close],
        vec![ServerStep::Reset],
        vec![send("HTTP/1.1 canary\r\n\r\n"), ServerStep::Close],
        vec![send("HTTP/1.1 200 OK\r\ncanary canary: canary\r\n\r\n"), ServerStep::Close],
        vec![send("HTTP/1.1 200 OK\r\ncontent-length: canary\r\n\r\n"), ServerStep::Close],
        vec![send("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\ncanary"), ServerStep::Close],
        vec![ServerStep::Wait(Duration::from_secs(9))],
        reply("200 OK", "content-encoding: canary\r\n", "canary"),
        reply("200 OK", "content-encoding: gzip\r\n", "canary"),
        reply("200 OK", "content-encoding: zstd\r\n", "canary"),
        reply("200 OK", "content-encoding: br\r\n", "canary"),
        reply("302 Found", "location: canary://canary/canary\r\n", "canary"),
        reply("302 Found", "location: http://canary:canary@10.0.0.1/canary\r\n", "canary"),
        reply("302 Found", "location: https://canary:canary@127.0.0.1:1/canary\r\n", "canary"),
    ];
    for (number, steps) in steps.into_iter().enumerate() {
        let server = TestServer::fixed(steps).await;
        let url = format!("http://canary:canary@{}/canary?canary=canary#canary", server.address);
        shows_nothing(&client(), url, None, &format!("case {number}")).await;
    }
    let closed = Client::new(AddressGuard::default()).unwrap();
    for url in [
        "http://canary:canary@127.0.0.1/canary?canary",
        "http://canary:canary@localhost/canary?canary",
        "https://canary:canary@localhost/canary?canary",
        "http://canary:canary@nowhere.invalid/canary?canary",
        "http://canary:canary@[::1/canary?canary",
        "canary://canary",
    ] {
        shows_nothing(&closed, url.to_owned(), None, url).await;
    }
}

#[tokio::test]
async fn proxy_errors_show_only_hosts() {
    for (number, steps) in [
        vec![ServerStep::Close],
        vec![ServerStep::Reset],
        vec![ServerStep::Wait(Duration::from_secs(9))],
        vec![send("canary canary\r\n\r\n"), ServerStep::Close],
        reply("407 canary", "proxy-authenticate: canary\r\n", "canary"),
        reply("502 canary", "", "canary"),
    ]
    .into_iter()
    .enumerate()
    {
        let proxy = TestServer::fixed(steps).await;
        let url = "https://canary:canary@api.test/canary?canary=canary#canary";
        shows_nothing(&client(), url.to_owned(), Some(proxy.url("")), &format!("tunnel {number}")).await;
    }
    let open = TestServer::fixed(reply("200 OK", "", "")).await;
    for (url, proxy) in [
        ("http://canary:canary@10.0.0.1/canary?canary", open.url("")),
        ("http://canary:canary@intranet/canary?canary", open.url("")),
        ("http://canary:canary@api.test/canary?canary", "http://canary:canary@127.0.0.1:1".to_owned()),
        ("http://canary:canary@api.test/canary?canary", "http://127.0.0.1:1".to_owned()),
        ("http://canary:canary@api.test/canary?canary", "http://10.0.0.1:1".to_owned()),
        ("http://canary:canary@api.test/canary?canary", "canary canary".to_owned()),
    ] {
        shows_nothing(&client(), url.to_owned(), Some(proxy), url).await;
    }
}

async fn shows_nothing(client: &Client, url: String, proxy: Option<String>, case: &str) {
    let mut request = get(url);
    request.proxy = proxy;
    request.body = Some("canary".into());
    let short = Duration::from_millis(100);
    request.limits =
        TransferLimits { max_redirects: 2, read_timeout: short, connect_timeout: short * 5, ..request.limits };
    request.headers = vec![("x-key".to_owned(), "canary".to_owned())];
    let error = client.send(request).await.expect_err(case);
    let fault = patra_core::error::Fault::from(error.clone());
    let shown = format!("{error} {error:?} {fault} {fault:?} {client:?}");
    assert!(!shown.contains("canary"), "{case}: {shown}");
}
