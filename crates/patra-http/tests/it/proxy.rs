//! Requests through a proxy: a small real one, and upstreams that only it can reach.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use patra_core::port::transport::{Error, HttpRequest, TransferLimits, Transport};
use patra_http::{AddressGuard, Client, Lookup};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{ServerStep, TestServer, client, get, reply};
use crate::tls::{in_a_process_with_roots, secure_server};

/// A proxy for absolute-form requests and `CONNECT`. It resolves every name to 127.0.0.1.
struct TestProxy {
    address: SocketAddr,
    /// The first line of each connection.
    lines: Arc<Mutex<Vec<String>>>,
}

impl TestProxy {
    async fn start() -> TestProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = TestProxy { address: listener.local_addr().unwrap(), lines: Arc::default() };
        let lines = Arc::clone(&proxy.lines);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(relay(stream, Arc::clone(&lines)));
            }
        });
        proxy
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

async fn relay(mut client: TcpStream, lines: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let line = head.lines().next()?.to_owned();
    lines.lock().unwrap().push(line.clone());
    let target = line.split(' ').nth(1)?;
    let authority = target.strip_prefix("http://").unwrap_or(target).split('/').next()?;
    let port: u16 = authority.rsplit(':').next()?.parse().ok()?;
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    if line.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.ok()?;
    } else {
        server.write_all(head.as_bytes()).await.ok()?;
    }
    copy_bidirectional(&mut client, &mut server).await.ok().map(|_| ())
}

fn through(proxy: &str, url: impl Into<String>) -> HttpRequest {
    HttpRequest { proxy: Some(proxy.to_owned()), ..get(url) }
}

/// A lookup that knows some names and counts its calls.
fn knowing(names: &'static [(&'static str, &'static str)]) -> (Lookup, Arc<AtomicUsize>) {
    let lookups = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&lookups);
    let lookup: Lookup = Arc::new(move |name| {
        counter.fetch_add(1, Ordering::SeqCst);
        let found = names.iter().filter(|(known, _)| *known == name);
        let found = found.map(|(_, ip)| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
        Box::pin(async move { Ok(found) })
    });
    (lookup, lookups)
}

fn loopback() -> AddressGuard {
    AddressGuard::new(vec!["127.0.0.1/32".parse().unwrap()])
}

fn refused(result: Result<patra_core::port::transport::HttpResponse, Error>) -> String {
    match result {
        Err(Error::Refused { host, reason }) => format!("{host}: {reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn http_target_is_sent_to_the_proxy_in_absolute_form() {
    let (proxy, server) = (TestProxy::start().await, TestServer::fixed(reply("200 OK", "", "upstream")).await);
    let (lookup, lookups) = knowing(&[]);
    let client = Client::with_lookup(loopback(), lookup).unwrap();
    let url = format!("http://api.test:{}/a?b=c", server.address.port());
    for _ in 0..3 {
        assert_eq!(client.send(through(&proxy.url(), &*url)).await.unwrap().body, "upstream");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(proxy.lines(), [format!("GET {url} HTTP/1.1")], "one connection, used three times");
    assert!(server.requests()[0].contains(&format!("\r\nhost: api.test:{}\r\n", server.address.port())));
    // The proxy resolves the name.
    assert_eq!(lookups.load(Ordering::SeqCst), 0);
    // A request without a proxy does not go through one.
    client.send(get(server.url("/"))).await.unwrap();
    assert_eq!(proxy.lines().len(), 1);
}

#[tokio::test]
async fn https_target_uses_a_tunnel() {
    let (proxy, url) = (TestProxy::start().await, secure_server("").await);
    let error = client().send(through(&proxy.url(), &*url)).await.unwrap_err();
    // The server inside the tunnel must still present a valid certificate.
    assert!(matches!(&error, Error::Connect { reason, .. } if reason.contains("certificate")), "{error}");
    let authority = url.trim_start_matches("https://").trim_end_matches('/');
    assert_eq!(proxy.lines(), [format!("CONNECT {authority} HTTP/1.1")]);
    in_a_process_with_roots(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/cert.pem"), "proxy::with_roots");
}

#[tokio::test]
#[ignore = "run by the test above, with the environment it needs"]
async fn with_roots() {
    if std::env::var_os("SSL_CERT_FILE").is_none() {
        return;
    }
    let proxy = TestProxy::start().await;
    let client = client();
    assert_eq!(client.send(through(&proxy.url(), secure_server("").await)).await.unwrap().body, "secure");
    // A redirect goes through the same proxy.
    let location = format!("location: {}\r\n", secure_server("").await);
    let server = TestServer::fixed(reply("302 Found", &location, "")).await;
    let mut request = through(&proxy.url(), server.url("/"));
    request.limits.max_redirects = 1;
    assert_eq!(client.send(request).await.unwrap().body, "secure");
    let methods: Vec<_> = proxy.lines().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(methods, ["CONNECT", "GET", "CONNECT"]);
}

#[tokio::test]
async fn guard_checks_the_target_before_the_proxy() {
    let proxy = TestProxy::start().await;
    let (lookup, _) = knowing(&[("printer.local", "127.0.0.2"), ("intranet", "127.0.0.1"), ("localhost", "127.0.0.1")]);
    let client = Client::with_lookup(loopback(), lookup).unwrap();
    for host in ["10.0.0.1", "169.254.169.254", "2130706434", "[::1]", "[::ffff:10.0.0.1]", "printer.local", "nas.lan"]
    {
        for scheme in ["http", "https"] {
            refused(client.send(through(&proxy.url(), format!("{scheme}://{host}/?key=secret"))).await);
        }
    }
    let redirecting = TestServer::fixed(reply("302 Found", "location: http://10.0.0.1/\r\n", "")).await;
    let mut request = through(&proxy.url(), format!("http://api.test:{}/", redirecting.address.port()));
    request.limits.max_redirects = 1;
    assert!(refused(client.send(request).await).starts_with("10.0.0.1: "));
    assert_eq!(proxy.lines().len(), 1, "only the redirecting server was requested");

    // A network that the operator allowed is reachable by a local name too.
    let server = TestServer::fixed(reply("200 OK", "", "upstream")).await;
    for host in ["127.0.0.1", "intranet", "LOCALHOST"] {
        let url = format!("http://{host}:{}/", server.address.port());
        assert_eq!(client.send(through(&proxy.url(), url)).await.unwrap().body, "upstream");
    }
}

#[tokio::test]
async fn guard_checks_the_proxy_address() {
    let proxy = TestProxy::start().await;
    let (lookup, _) = knowing(&[("proxy.test", "127.0.0.1"), ("other.test", "127.0.0.2")]);
    let closed = Client::with_lookup(AddressGuard::default(), Arc::clone(&lookup)).unwrap();
    let port = proxy.address.port();
    for scheme in ["http", "https"] {
        let target = format!("{scheme}://api.test/");
        assert!(refused(closed.send(through(&proxy.url(), &*target)).await).starts_with("127.0.0.1: "));
        let named = format!("http://proxy.test:{port}");
        assert!(refused(closed.send(through(&named, &*target)).await).starts_with("proxy.test: "));
    }
    assert_eq!(proxy.lines(), [""; 0]);

    let server = TestServer::fixed(reply("200 OK", "", "upstream")).await;
    let open = Client::with_lookup(loopback(), lookup).unwrap();
    let url = format!("http://api.test:{}/", server.address.port());
    assert_eq!(open.send(through(&format!("http://proxy.test:{port}"), &*url)).await.unwrap().body, "upstream");
    refused(open.send(through(&format!("http://other.test:{port}"), &*url)).await);
}

#[tokio::test]
async fn failing_proxy_is_named_in_the_error() {
    let short = Duration::from_millis(150);
    for (steps, expected) in [
        (reply("407 Proxy Authentication Required", "", ""), Some("proxy authorization required")),
        (reply("502 Bad Gateway", "", ""), Some("unsuccessful")),
        (vec![ServerStep::Close], Some("unexpected end of file")),
        // The connect timeout applies to the tunnel, which is part of connecting.
        (vec![ServerStep::Wait(Duration::from_secs(9))], None),
    ] {
        let proxy = TestServer::fixed(steps).await;
        let mut request = through(&proxy.url(""), "https://api.test/");
        request.limits = TransferLimits { connect_timeout: short, ..request.limits };
        let error = client().send(request).await.unwrap_err();
        match expected {
            None => assert_eq!(error, Error::Timeout { after: short }),
            Some(reason) => {
                let host = "connecting to api.test through the proxy 127.0.0.1 failed";
                assert!(error.to_string().contains(host) && error.to_string().contains(reason), "{error}");
            }
        }
    }
    // For a plain http target, the proxy's response is a response like any other.
    let proxy = TestServer::fixed(reply("502 Bad Gateway", "", "no such host")).await;
    assert_eq!(client().send(through(&proxy.url(""), "http://api.test/")).await.unwrap().status, 502);

    let with_password = through("http://user:secret@127.0.0.1:1", "http://api.test/");
    assert!(matches!(client().send(with_password).await, Err(Error::Invalid { .. })));
}

#[tokio::test]
async fn more_proxies_than_are_kept_still_work() {
    let (proxy, server) = (TestProxy::start().await, TestServer::fixed(reply("200 OK", "", "upstream")).await);
    let lookup: Lookup = Arc::new(|_| Box::pin(async { Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))]) }));
    let client = Client::with_lookup(loopback(), lookup).unwrap();
    let url = format!("http://api.test:{}/", server.address.port());
    for number in (0..20).chain([19, 0]) {
        let proxy = format!("http://proxy-{number}.test:{}", proxy.address.port());
        assert_eq!(client.send(through(&proxy, &*url)).await.unwrap().body, "upstream");
    }
    // The newest proxy kept its connection, the oldest had to open a new one.
    assert_eq!(proxy.lines().len(), 21);
}

/// Addresses of the operator's network are for sources that are configured there, not for whoever links to them.
#[tokio::test]
async fn public_host_cannot_lead_into_an_allowed_network() {
    let canary = TestServer::fixed(reply("200 OK", "", "canary")).await;
    let location = format!("location: {}\r\n", canary.url("/"));
    let (proxy, server) = (TestProxy::start().await, TestServer::fixed(reply("302 Found", &location, "")).await);
    let (lookup, _) = knowing(&[("public.test", "93.184.216.34"), ("private.test", "127.0.0.1")]);
    let client = Client::with_lookup(loopback(), lookup).unwrap();
    let mut redirected = through(&proxy.url(), format!("http://public.test:{}/", server.address.port()));
    redirected.limits.max_redirects = 3;
    refused(client.send(redirected).await);
    let linked = |origin: &str| HttpRequest { origin: Some(origin.to_owned()), ..get(canary.url("/")) };
    for public in ["http://public.test/", "http://93.184.216.34/", "http://unknown.test/", "nonsense"] {
        refused(client.send(linked(public)).await);
    }
    assert_eq!(canary.connections(), 0);
    // Within the network, links and redirects work.
    for private in ["http://private.test/", "http://127.0.0.1/"] {
        assert_eq!(client.send(linked(private)).await.unwrap().body, "canary");
    }
    let mut inside = get(server.url("/"));
    inside.limits.max_redirects = 3;
    assert_eq!(client.send(inside).await.unwrap().body, "canary");
}
