//! Through a proxy: a small real one, and far sides that are reached over it alone.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use patra_core::port::transport::{Error, Limits, Request, Transport};
use patra_http::{Client, Guard, Lookup};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{Server, Step, answer, client, get};
use crate::tls::{in_a_process_with_roots, secure_server};

/// Takes the absolute form and `CONNECT`; every name leads to 127.0.0.1, which only the proxy knows.
struct Proxy {
    address: SocketAddr,
    /// The first line of what each connection began with.
    lines: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    async fn start() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy { address: listener.local_addr().unwrap(), lines: Arc::default() };
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

fn through(proxy: &str, url: impl Into<String>) -> Request {
    Request { proxy: Some(proxy.to_owned()), ..get(url) }
}

/// Knows some names, and counts how often it was asked.
fn knowing(names: &'static [(&'static str, &'static str)]) -> (Lookup, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |name| {
        counter.fetch_add(1, Ordering::SeqCst);
        let found = names.iter().filter(|(known, _)| *known == name);
        let found = found.map(|(_, ip)| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
        Box::pin(async move { Ok(found) })
    });
    (lookup, asked)
}

fn loopback() -> Guard {
    Guard::new(vec!["127.0.0.1/32".parse().unwrap()])
}

fn refused(result: Result<patra_core::port::transport::Response, Error>) -> String {
    match result {
        Err(Error::Refused { host, reason }) => format!("{host}: {reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_http_target_is_asked_of_the_proxy_in_full() {
    let (proxy, server) = (Proxy::start().await, Server::fixed(answer("200 OK", "", "far")).await);
    let (lookup, asked) = knowing(&[]);
    let client = Client::with_lookup(loopback(), lookup).unwrap();
    let url = format!("http://api.test:{}/a?b=c", server.address.port());
    for _ in 0..3 {
        assert_eq!(client.send(through(&proxy.url(), &*url)).await.unwrap().body, "far");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(proxy.lines(), [format!("GET {url} HTTP/1.1")], "one connection, used three times");
    assert!(server.requests()[0].contains(&format!("\r\nhost: api.test:{}\r\n", server.address.port())));
    // The name is the proxy's to look up.
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    // A request that names no proxy does not go through one.
    client.send(get(server.url("/"))).await.unwrap();
    assert_eq!(proxy.lines().len(), 1);
}

#[tokio::test]
async fn an_https_target_is_asked_through_a_tunnel() {
    let (proxy, url) = (Proxy::start().await, secure_server("").await);
    let error = client().send(through(&proxy.url(), &*url)).await.unwrap_err();
    // Who answers inside the tunnel must still prove to be who was meant.
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
    let proxy = Proxy::start().await;
    let client = client();
    assert_eq!(client.send(through(&proxy.url(), secure_server("").await)).await.unwrap().body, "secure");
    // A redirect takes the same way.
    let location = format!("location: {}\r\n", secure_server("").await);
    let server = Server::fixed(answer("302 Found", &location, "")).await;
    let mut request = through(&proxy.url(), server.url("/"));
    request.limits.max_redirects = 1;
    assert_eq!(client.send(request).await.unwrap().body, "secure");
    let methods: Vec<_> = proxy.lines().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(methods, ["CONNECT", "GET", "CONNECT"]);
}

#[tokio::test]
async fn the_guard_stands_before_the_proxy() {
    let proxy = Proxy::start().await;
    let (lookup, _) = knowing(&[("printer.local", "127.0.0.2"), ("intranet", "127.0.0.1"), ("localhost", "127.0.0.1")]);
    let client = Client::with_lookup(loopback(), lookup).unwrap();
    for host in ["10.0.0.1", "169.254.169.254", "2130706434", "[::1]", "[::ffff:10.0.0.1]", "printer.local", "nas.lan"]
    {
        for scheme in ["http", "https"] {
            refused(client.send(through(&proxy.url(), format!("{scheme}://{host}/?key=secret"))).await);
        }
    }
    let redirecting = Server::fixed(answer("302 Found", "location: http://10.0.0.1/\r\n", "")).await;
    let mut request = through(&proxy.url(), format!("http://api.test:{}/", redirecting.address.port()));
    request.limits.max_redirects = 1;
    assert!(refused(client.send(request).await).starts_with("10.0.0.1: "));
    assert_eq!(proxy.lines().len(), 1, "only the redirecting server was asked");

    // What the operator opened stays open, by a local name too.
    let server = Server::fixed(answer("200 OK", "", "far")).await;
    for host in ["127.0.0.1", "intranet", "LOCALHOST"] {
        let url = format!("http://{host}:{}/", server.address.port());
        assert_eq!(client.send(through(&proxy.url(), url)).await.unwrap().body, "far");
    }
}

#[tokio::test]
async fn the_guard_judges_the_proxy_itself() {
    let proxy = Proxy::start().await;
    let (lookup, _) = knowing(&[("proxy.test", "127.0.0.1"), ("other.test", "127.0.0.2")]);
    let closed = Client::with_lookup(Guard::default(), Arc::clone(&lookup)).unwrap();
    let port = proxy.address.port();
    for scheme in ["http", "https"] {
        let target = format!("{scheme}://api.test/");
        assert!(refused(closed.send(through(&proxy.url(), &*target)).await).starts_with("127.0.0.1: "));
        let named = format!("http://proxy.test:{port}");
        assert!(refused(closed.send(through(&named, &*target)).await).starts_with("proxy.test: "));
    }
    assert_eq!(proxy.lines(), [""; 0]);

    let server = Server::fixed(answer("200 OK", "", "far")).await;
    let open = Client::with_lookup(loopback(), lookup).unwrap();
    let url = format!("http://api.test:{}/", server.address.port());
    assert_eq!(open.send(through(&format!("http://proxy.test:{port}"), &*url)).await.unwrap().body, "far");
    refused(open.send(through(&format!("http://other.test:{port}"), &*url)).await);
}

#[tokio::test]
async fn a_proxy_that_fails_is_named() {
    let short = Duration::from_millis(150);
    for (steps, expected) in [
        (answer("407 Proxy Authentication Required", "", ""), Some("proxy authorization required")),
        (answer("502 Bad Gateway", "", ""), Some("unsuccessful")),
        (vec![Step::Close], Some("unexpected end of file")),
        // Silence is over with the connect timeout: the tunnel is part of connecting.
        (vec![Step::Wait(Duration::from_secs(9))], None),
    ] {
        let proxy = Server::fixed(steps).await;
        let mut request = through(&proxy.url(""), "https://api.test/");
        request.limits = Limits { connect_timeout: short, ..request.limits };
        let error = client().send(request).await.unwrap_err();
        match expected {
            None => assert_eq!(error, Error::Timeout { after: short }),
            Some(reason) => {
                let host = "connecting to api.test through the proxy 127.0.0.1 failed";
                assert!(error.to_string().contains(host) && error.to_string().contains(reason), "{error}");
            }
        }
    }
    // For a plain target the proxy's word is an answer like any other.
    let proxy = Server::fixed(answer("502 Bad Gateway", "", "no such host")).await;
    assert_eq!(client().send(through(&proxy.url(""), "http://api.test/")).await.unwrap().status, 502);

    let with_password = through("http://user:secret@127.0.0.1:1", "http://api.test/");
    assert!(matches!(client().send(with_password).await, Err(Error::Invalid { .. })));
}

#[tokio::test]
async fn more_proxies_than_are_kept_still_work() {
    let (proxy, server) = (Proxy::start().await, Server::fixed(answer("200 OK", "", "far")).await);
    let lookup: Lookup = Arc::new(|_| Box::pin(async { Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))]) }));
    let client = Client::with_lookup(loopback(), lookup).unwrap();
    let url = format!("http://api.test:{}/", server.address.port());
    for number in (0..20).chain([19, 0]) {
        let proxy = format!("http://proxy-{number}.test:{}", proxy.address.port());
        assert_eq!(client.send(through(&proxy, &*url)).await.unwrap().body, "far");
    }
    // The newest kept its connection, the oldest had to make a new one.
    assert_eq!(proxy.lines().len(), 21);
}
