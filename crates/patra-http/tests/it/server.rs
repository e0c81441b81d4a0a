//! A raw TCP server: each request gets a scripted sequence of steps, byte for byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use patra_core::port::transport::{Error, HttpMethod, HttpRequest, HttpResponse, TransferLimits, Transport};
use patra_http::{AddressGuard, Client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone)]
pub(crate) enum ServerStep {
    Send(Bytes),
    Wait(Duration),
    /// Closes the connection gracefully.
    Close,
    /// Closes the connection with RST.
    Reset,
}

type ServerScript = dyn Fn(&str, SocketAddr) -> Vec<ServerStep> + Send + Sync;

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl TestServer {
    /// `script` gets the request (head and body) and the address of the server.
    pub(crate) async fn start(
        script: impl Fn(&str, SocketAddr) -> Vec<ServerStep> + Send + Sync + 'static,
    ) -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = TestServer { address, connections: Arc::default(), requests: Arc::default() };
        let (connections, requests) = (Arc::clone(&server.connections), Arc::clone(&server.requests));
        let script: Arc<ServerScript> = Arc::new(script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&script), Arc::clone(&requests), address));
            }
        });
        server
    }

    /// Sends the same response to every request.
    pub(crate) async fn fixed(steps: Vec<ServerStep>) -> TestServer {
        TestServer::start(move |_, _| steps.clone()).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    script: Arc<ServerScript>,
    requests: Arc<Mutex<Vec<String>>>,
    address: SocketAddr,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut pending = Vec::new();
    loop {
        let request = next_request(&mut stream, &mut pending).await?;
        requests.lock().unwrap().push(request.clone());
        for step in script(&request, address) {
            match step {
                ServerStep::Send(bytes) => stream.write_all(&bytes).await.ok()?,
                ServerStep::Wait(time) => tokio::time::sleep(time).await,
                ServerStep::Close => return None,
                ServerStep::Reset => {
                    stream.set_zero_linger().ok()?;
                    return None;
                }
            }
        }
    }
}

async fn next_request(stream: &mut TcpStream, pending: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(pending).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse().unwrap() {
                pending.clear();
                return Some(text);
            }
        }
        if stream.read_buf(pending).await.ok()? == 0 {
            return None;
        }
    }
}

/// A complete response with a `Content-Length`.
pub(crate) fn reply(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<ServerStep> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    vec![send(head), send(body)]
}

/// A complete response in chunks of the given pieces.
pub(crate) fn chunked<'a>(headers: &str, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<ServerStep> {
    let mut steps = vec![send(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n{headers}\r\n"))];
    for piece in pieces {
        steps.push(send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()));
    }
    steps.push(send("0\r\n\r\n"));
    steps
}

pub(crate) fn send(bytes: impl AsRef<[u8]>) -> ServerStep {
    ServerStep::Send(Bytes::copy_from_slice(bytes.as_ref()))
}

pub(crate) fn get(url: impl Into<String>) -> HttpRequest {
    let limits = TransferLimits { read_timeout: Duration::from_secs(5), ..TransferLimits::default() };
    HttpRequest { limits, ..HttpRequest::new(HttpMethod::Get, url) }
}

/// A client that may reach the test servers.
pub(crate) fn client() -> Client {
    Client::new(AddressGuard::new(vec!["127.0.0.1/32".parse().unwrap()])).unwrap()
}

pub(crate) async fn fetch(server: &TestServer) -> Result<HttpResponse, Error> {
    client().send(get(server.url("/"))).await
}
