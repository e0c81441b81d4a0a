//! The HTTP server: a limited number of connections, time limits for clients that do not send or read, and a bounded
//! stop.

mod watched;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::watched::Watched;

/// Connections open at once. Further ones wait in the listener's queue until one of these ends.
const MAX_CONNECTIONS: usize = 1_024;
/// Time to receive the head of a request. It limits half-sent heads and idle keep-alive connections alike.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time without any transferred byte. No handler takes as long, so only clients that do not read are
/// disconnected.
const STALL: Duration = Duration::from_secs(30);
/// Time for open connections to finish after the stop.
const DRAIN: Duration = Duration::from_secs(5);
/// Delay after a failed accept: without free file descriptors the next one would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` fires.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let limits = Limits { connections: MAX_CONNECTIONS, head: HEAD_TIMEOUT, stall: STALL, drain: DRAIN };
    // Event streams end when the server stops.
    let router = router.layer(Extension(stop.clone()));
    serve_within(listener, &router, limits, &stop).await;
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    connections: usize,
    head: Duration,
    stall: Duration,
    drain: Duration,
}

async fn serve_within(listener: TcpListener, router: &Router, limits: Limits, stop: &CancellationToken) {
    // Dropping the set aborts its tasks.
    let mut connections = JoinSet::new();
    let mut failing = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < limits.connections => match accepted {
                Ok((stream, _)) => {
                    failing = false;
                    connections.spawn(converse(stream, router.clone(), limits, stop.clone()));
                }
                Err(error) => {
                    // Logged once for consecutive failures: twenty lines a second would fill the disk.
                    if !failing {
                        tracing::warn!(error = %error, connections.open = connections.len(), "cannot accept a connection");
                    }
                    failing = true;
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // New connections are now refused instead of waiting in a queue that nobody serves.
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain, drained).await.is_err() {
        tracing::debug!(connections.open = connections.len(), "connections are cut off by the stop");
    }
}

async fn converse(stream: TcpStream, router: Router, limits: Limits, stop: CancellationToken) {
    let moved = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(Watched::new(stream, moved.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .serve_connection(io, TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let mut stopping = false;
    loop {
        tokio::select! {
            // The client does not matter any more, so the result is ignored.
            _ = connection.as_mut() => return,
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep(limits.stall) => if !moved.swap(false, Ordering::Relaxed) {
                return;
            },
        }
    }
}

#[cfg(test)]
mod tests;
