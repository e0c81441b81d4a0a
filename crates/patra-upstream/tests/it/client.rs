//! A raw HTTP client that returns what it received, even if that is less than announced.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct TestClient {
    stream: TcpStream,
    buf: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body is shorter than its announced length.
    pub(crate) cut: bool,
}

impl TestClient {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(addr).await.unwrap(), buf: Vec::new() }
    }

    pub(crate) async fn get(&mut self, target: &str) -> TestResponse {
        self.try_get(target).await.unwrap()
    }

    pub(crate) async fn try_get(&mut self, target: &str) -> io::Result<TestResponse> {
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: api.test:80\r\n\r\n")).await;
        self.receive().await
    }

    /// Sends a request; `headers` include their line ends.
    pub(crate) async fn get_with(&mut self, target: &str, headers: &str) -> TestResponse {
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: api.test:80\r\n{headers}\r\n")).await;
        self.receive().await.unwrap()
    }

    pub(crate) async fn post(&mut self, target: &str, body: &str) -> TestResponse {
        self.post_with(target, "", body).await
    }

    pub(crate) async fn post_with(&mut self, target: &str, headers: &str, body: &str) -> TestResponse {
        let length = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nHost: api.test:80\r\nContent-Length: {length}\r\n{headers}\r\n");
        self.send(&(head + body)).await;
        self.receive().await.unwrap()
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> io::Result<TestResponse> {
        let end = loop {
            if let Some(at) = self.buf.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let head = String::from_utf8(self.buf.drain(..end).collect()).unwrap();
        let mut response = TestResponse { status: head[9..12].parse().unwrap(), head, body: Vec::new(), cut: false };
        let len: usize = response.header("content-length").unwrap().parse().unwrap();
        while self.buf.len() < len && !response.cut {
            response.cut = !self.more().await?;
        }
        response.body = self.buf.drain(..len.min(self.buf.len())).collect();
        Ok(response)
    }

    /// Whether the server has closed the connection without sending anything else.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.buf.is_empty() && !self.more().await.unwrap()
    }

    async fn more(&mut self) -> io::Result<bool> {
        let read = self.stream.read_buf(&mut self.buf);
        let count = tokio::time::timeout(Duration::from_secs(10), read).await.expect("the server is silent")?;
        Ok(count > 0)
    }
}

impl TestResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn error_code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        let json = self.json();
        let items = json.get("items").or_else(|| json["message"].get("items")).unwrap().as_array().unwrap();
        items.iter().map(|item| item.as_str().or(item["id"].as_str()).unwrap().to_owned()).collect()
    }
}
