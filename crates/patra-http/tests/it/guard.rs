//! No request reaches a denied address: the canary on the loopback is never connected to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use patra_core::port::transport::{Error, HttpResponse, Transport};
use patra_http::{AddressGuard, Client, Lookup};

use crate::server::{TestServer, client, get, reply};

const LOOPBACKS: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "0",
    "0.0.0.0",
    "localhost",
    "LOCALHOST",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]",
];

async fn canary() -> TestServer {
    TestServer::fixed(reply("200 OK", "", "canary")).await
}

fn refused(result: &Result<HttpResponse, Error>, case: &str) {
    assert!(matches!(result, Err(Error::Refused { .. })), "{case}: {result:?}");
}

#[tokio::test]
async fn no_spelling_of_the_loopback_is_connected_to() {
    let canary = canary().await;
    let client = Client::new(AddressGuard::default()).unwrap();
    for scheme in ["http", "https"] {
        for host in LOOPBACKS {
            let url = format!("{scheme}://{host}:{}/?key=secret", canary.address.port());
            refused(&client.send(get(url)).await, host);
        }
    }
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn redirects_cannot_reach_denied_addresses() {
    let canary = canary().await;
    // This client may reach 127.0.0.1, because the redirecting server is there.
    for host in ["127.0.0.2", "127.2", "2130706434", "0", "10.1", "[::1]", "[::]", "[::127.0.0.1]", "[64:ff9b::7f00:1]"]
    {
        let location = format!("location: http://{host}:{}/\r\n", canary.address.port());
        let server = TestServer::fixed(reply("302 Found", &location, "")).await;
        let mut request = get(server.url("/"));
        request.limits.max_redirects = 3;
        refused(&client().send(request).await, host);
        assert_eq!(server.connections(), 1);
    }
    assert_eq!(canary.connections(), 0);
}

/// A lookup whose results change from call to call.
fn lookup_returning(results: &'static [&'static [&'static str]]) -> (Lookup, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let lookup: Lookup = Arc::new(move |_| {
        let reply = results[counter.fetch_add(1, Ordering::SeqCst).min(results.len() - 1)];
        let reply = reply.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 9)).collect();
        Box::pin(async move { Ok(reply) })
    });
    (lookup, calls)
}

#[tokio::test]
async fn dns_results_cannot_reach_denied_addresses() {
    let canary = canary().await;
    let url = format!("http://rebind.test:{}/", canary.address.port());
    let results: &[&[&str]] = &[&["127.0.0.1"], &["10.0.0.1", "127.0.0.1"], &["::1"], &["::ffff:127.0.0.1"]];
    let (lookup, calls) = lookup_returning(results);
    let client = Client::with_lookup(AddressGuard::default(), lookup).unwrap();
    for reply in results {
        refused(&client.send(get(&*url)).await, reply[0]);
    }
    assert_eq!(calls.load(Ordering::SeqCst), results.len());
    assert_eq!(canary.connections(), 0);
}

/// The first result is allowed, every later one is not: each connection uses the address that was checked.
#[tokio::test]
async fn changed_dns_result_is_checked_again() {
    let open = TestServer::fixed({
        let mut steps = reply("200 OK", "", "open");
        steps.push(crate::server::ServerStep::Close);
        steps
    })
    .await;
    let url = format!("http://rebind.test:{}/", open.address.port());
    // The name is looked up once for each route: to public addresses, and into the allowed network.
    const FIRST: &[&str] = &["127.0.0.2", "127.0.0.1"];
    let (lookup, calls) = lookup_returning(&[FIRST, FIRST, &["127.0.0.2"]]);
    let client = Client::with_lookup(AddressGuard::new(vec!["127.0.0.1/32".parse().unwrap()]), lookup).unwrap();
    assert_eq!(client.send(get(&*url)).await.unwrap().body, "open");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    refused(&client.send(get(&*url)).await, "rebound");
    assert_eq!(open.connections(), 1);
}

#[tokio::test]
async fn a_name_without_address_is_a_connect_error() {
    let (lookup, _) = lookup_returning(&[&[]]);
    let client = Client::with_lookup(AddressGuard::default(), lookup).unwrap();
    assert!(matches!(client.send(get("http://none.test/")).await, Err(Error::Connect { .. })));
}

#[tokio::test]
async fn network_that_a_request_names_is_open_to_it_alone() {
    let server = canary().await;
    let client = Client::new(AddressGuard::default()).unwrap();
    let named = |networks: &[&str]| {
        let mut request = get(server.url("/"));
        request.allow_net = networks.iter().map(|net| net.parse().unwrap()).collect();
        request
    };
    refused(&client.send(named(&[])).await, "none");
    refused(&client.send(named(&["10.0.0.0/8"])).await, "another");
    assert_eq!(client.send(named(&["127.0.0.1/32"])).await.unwrap().body, "canary");
    // Its open connection does not serve a request that does not name the network.
    refused(&client.send(named(&[])).await, "none, with an open connection");
    // What a public host names is public, whatever the request may reach.
    let mut linked = named(&["127.0.0.1/32"]);
    linked.origin = Some("http://93.184.216.34/".to_owned());
    refused(&client.send(linked).await, "a link");
    assert_eq!(server.connections(), 1);
}
