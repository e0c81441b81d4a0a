//! Clients that want to hold the server: they keep their connections open as long as they can, and connect again when
//! they are closed. Meanwhile a client with a key must be served, from the same address.
//!
//! `PATRA_HOSTILE_CONNECTIONS` sets their number; `./torture hold` uses 2,000 of each kind.

use patra_core::tx::KeyScope;

use super::*;
use crate::routes::tests::TestServer;

/// Hostile connections of each kind by default: more than the server accepts in this test.
const CONNECTIONS: usize = 200;
/// Requests of the client with a key.
const REQUESTS: usize = 20;

/// Connections that the client tries for one request.
const TRIES: usize = 3;

/// The response, or nothing if the connection was closed.
async fn request(address: SocketAddr, head: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(address).await else { return String::new() };
    if stream.write_all(head.as_bytes()).await.is_err() {
        return String::new();
    }
    rest(stream).await
}

#[derive(Clone, Copy, Debug)]
enum Attack {
    SlowHead,
    SlowLogin,
    Idle,
    HalfClosed,
    Deaf,
}

impl Attack {
    /// Opens one connection and keeps it until the server closes it.
    async fn hold(self, address: SocketAddr) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(address).await?;
        let login = b"POST /login HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\n\
                      content-length: 9999\r\n\r\nkey=";
        match self {
            Attack::SlowHead => stream.write_all(b"GET / HTTP/1.1\r\nx-a: ").await?,
            Attack::SlowLogin => stream.write_all(login).await?,
            Attack::HalfClosed => {
                stream.write_all(login).await?;
                stream.shutdown().await?;
            }
            Attack::Deaf => stream.write_all(&b"GET /docs HTTP/1.1\r\nhost: x\r\n\r\n".repeat(200)).await?,
            Attack::Idle => {}
        }
        let (mut read, mut write) = stream.into_split();
        let trickles = matches!(self, Attack::SlowHead | Attack::SlowLogin);
        let trickle = async {
            while trickles && write.write_all(b"a").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            std::future::pending::<()>().await;
        };
        let closed = async {
            let mut byte = [0; 1];
            while !matches!(self, Attack::Deaf) && read.read(&mut byte).await? > 0 {}
            if matches!(self, Attack::Deaf) {
                read.peek(&mut byte).await?;
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            Ok(())
        };
        tokio::select! {
            () = trickle => Ok(()),
            ended = closed => ended,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_with_a_key_is_served_during_every_attack() {
    let named = std::env::var("PATRA_HOSTILE_CONNECTIONS").ok().and_then(|text| text.parse().ok());
    let count: usize = named.unwrap_or(CONNECTIONS);
    let capacity = match named {
        Some(_) => Capacity { total: MAX_CONNECTIONS, per_network: MAX_PER_ADDRESS as usize, reserved: RESERVED },
        None => Capacity { total: 160, per_network: 128, reserved: 4 },
    };
    for attack in [Attack::SlowHead, Attack::SlowLogin, Attack::Idle, Attack::HalfClosed, Attack::Deaf] {
        let server = TestServer::new();
        let key = server.key(KeyScope::Read).await;
        let limits = Limits { capacity, head: HEAD_TIMEOUT, stall: STALL, drain: DRAIN };
        let (address, stop, ended) = start_with(crate::router(server.api), limits).await;
        let mut attackers = JoinSet::new();
        for _ in 0..count {
            attackers.spawn(async move {
                loop {
                    // A closed connection is the server's defence.
                    attack.hold(address).await.ok();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
        }
        let mut times = Vec::new();
        for number in 0..REQUESTS {
            let path = if number % 4 == 0 { "/healthz" } else { "/api/v1/dictionary" };
            let head =
                format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n");
            let begun = tokio::time::Instant::now();
            // Connections of a burst may be closed before their request has arrived, and clients then try again.
            let mut text = String::new();
            for _ in 0..TRIES {
                text = request(address, &head).await;
                if !text.is_empty() {
                    break;
                }
            }
            times.push(begun.elapsed());
            assert!(text.starts_with("HTTP/1.1 200"), "{attack:?}, request {number}: {text}");
        }
        times.sort();
        println!(
            "{attack:?}: median {:?}, p99 {:?}, most {:?}",
            times[REQUESTS / 2],
            times[REQUESTS * 99 / 100],
            times[REQUESTS - 1]
        );
        attackers.shutdown().await;
        stop.cancel();
        tokio::time::timeout(PATIENCE, ended).await.expect("the stop hangs").unwrap();
    }
}
