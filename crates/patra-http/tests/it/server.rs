//! A raw TCP server: each request is answered by a script of steps, byte for byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use patra_core::port::transport::{Error, Limits, Method, Request, Response, Transport};
use patra_http::{Client, Guard};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone)]
pub(crate) enum Step {
    Send(Bytes),
    Wait(Duration),
    /// Closes the connection in order.
    Close,
    /// Closes it with RST.
    Reset,
}

type Script = dyn Fn(&str, SocketAddr) -> Vec<Step> + Send + Sync;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `script` gets the request (head and body) and the address of the server.
    pub(crate) async fn start(script: impl Fn(&str, SocketAddr) -> Vec<Step> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server { address, connections: Arc::default(), requests: Arc::default() };
        let (connections, requests) = (Arc::clone(&server.connections), Arc::clone(&server.requests));
        let script: Arc<Script> = Arc::new(script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&script), Arc::clone(&requests), address));
            }
        });
        server
    }

    /// Answers every request alike.
    pub(crate) async fn fixed(steps: Vec<Step>) -> Server {
        Server::start(move |_, _| steps.clone()).await
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
    script: Arc<Script>,
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
                Step::Send(bytes) => stream.write_all(&bytes).await.ok()?,
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Close => return None,
                Step::Reset => {
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

/// A complete answer with a `Content-Length`.
pub(crate) fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<Step> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    vec![send(head), send(body)]
}

/// A complete answer in chunks of the given pieces.
pub(crate) fn chunked<'a>(headers: &str, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Step> {
    let mut steps = vec![send(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n{headers}\r\n"))];
    for piece in pieces {
        steps.push(send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()));
    }
    steps.push(send("0\r\n\r\n"));
    steps
}

pub(crate) fn send(bytes: impl AsRef<[u8]>) -> Step {
    Step::Send(Bytes::copy_from_slice(bytes.as_ref()))
}

pub(crate) fn get(url: impl Into<String>) -> Request {
    let limits = Limits { read_timeout: Duration::from_secs(5), ..Limits::default() };
    Request { limits, ..Request::new(Method::Get, url) }
}

/// A client that may reach the test servers.
pub(crate) fn client() -> Client {
    Client::new(Guard::new(vec!["127.0.0.1/32".parse().unwrap()])).unwrap()
}

pub(crate) async fn fetch(server: &Server) -> Result<Response, Error> {
    client().send(get(server.url("/"))).await
}
