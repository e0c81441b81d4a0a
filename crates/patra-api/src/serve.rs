//! The HTTP server: a limited number of connections, time limits for clients that do not send or read, and a bounded
//! stop. A full server closes connections that wait for their clients, so it always accepts new ones.

mod slots;
mod watched;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use patra_engine::metrics::Metrics;

use self::slots::{Admission, Capacity, ConnectionSlot, Slots};
use self::watched::Watched;

/// Connections open at once; fewer if the process may open few files.
const MAX_CONNECTIONS: usize = 1_024;
/// Connections of one client network by default.
pub const MAX_PER_ADDRESS: u32 = 256;
/// Further connections, which may only ask for health and metrics.
const RESERVED: usize = 32;
/// Time to receive the head of a request. It limits half-sent heads and idle keep-alive connections alike.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time without any transferred byte. No handler takes as long, so only clients that do not read are
/// disconnected.
const STALL: Duration = Duration::from_secs(30);
/// Time for open connections to finish after the stop.
const DRAIN: Duration = Duration::from_secs(5);
/// Delay after a failed accept: without free file descriptors the next one would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Shortest time between two log lines about a full server.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// Serves until `stop` fires, with at most `per_address` connections of one client network.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    per_address: u32,
    metrics: Option<Arc<Metrics>>,
    stop: CancellationToken,
) {
    let total = open_files().map_or(MAX_CONNECTIONS, |files| (files / 2).min(MAX_CONNECTIONS)).max(1);
    let per_network = usize::try_from(per_address).unwrap_or(total).clamp(1, total);
    let capacity = Capacity { total, per_network, reserved: RESERVED };
    let limits = Limits { capacity, head: HEAD_TIMEOUT, stall: STALL, drain: DRAIN };
    // Event streams end when the server stops.
    let router = router.layer(Extension(stop.clone()));
    serve_within(listener, &router, limits, metrics.as_deref(), &stop).await;
}

/// Files that the process may open, where the system says so. The database and the upstreams need some of them.
fn open_files() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    capacity: Capacity,
    head: Duration,
    stall: Duration,
    drain: Duration,
}

async fn serve_within(
    listener: TcpListener,
    router: &Router,
    limits: Limits,
    metrics: Option<&Metrics>,
    stop: &CancellationToken,
) {
    // Dropping the set aborts its tasks.
    let mut connections = JoinSet::new();
    let slots = Slots::new(limits.capacity);
    let (mut failing, mut logged) = (false, None);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    failing = false;
                    let (slot, reason) = match slots.admit(address.ip()) {
                        Admission::Free(slot) => (Some(slot), None),
                        Admission::Evicted(slot) => (Some(slot), Some("evicted")),
                        Admission::Refused => (None, Some("refused")),
                    };
                    if let Some(reason) = reason {
                        report_full(reason, address, metrics, &mut logged);
                    }
                    if let Some(slot) = slot {
                        connections.spawn(converse(stream, slot, router.clone(), limits, stop.clone()));
                    }
                    if reason.is_some() {
                        // In a burst of connections, those that already have a request get to it before they are the
                        // oldest.
                        tokio::task::yield_now().await;
                    }
                }
                Err(error) => {
                    // Logged once for consecutive failures: twenty lines a second would fill the disk.
                    if !failing {
                        tracing::warn!(error = %error, connections.open = connections.len(), "cannot accept a connection");
                    }
                    failing = true;
                    slots.make_room();
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

/// Counts a connection that was closed or refused because the server is full, and logs it at most once a minute.
fn report_full(
    reason: &'static str,
    address: std::net::SocketAddr,
    metrics: Option<&Metrics>,
    logged: &mut Option<tokio::time::Instant>,
) {
    if let Some(metrics) = metrics {
        metrics.connection_closed(reason);
    }
    if logged.is_none_or(|at: tokio::time::Instant| at.elapsed() >= LOG_PAUSE) {
        *logged = Some(tokio::time::Instant::now());
        tracing::warn!(
            client.address = %address.ip(),
            reason,
            "all connections are in use; those that wait for slow or idle clients are closed for new ones"
        );
    }
}

async fn converse(stream: TcpStream, slot: ConnectionSlot, router: Router, limits: Limits, stop: CancellationToken) {
    let moved = Arc::new(AtomicBool::new(false));
    let (peer, slots) = (slot.peer.clone(), slot.slots().clone());
    let io = TokioIo::new(Watched::new(stream, moved.clone(), peer.clone()));
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        let running = ConnectionSlot::run(&peer, &slots);
        request.extensions_mut().insert(peer.clone());
        let response = router.call(request.map(Body::new));
        async {
            let response = response.await;
            drop(running);
            response
        }
    });
    let connection =
        http1::Builder::new().timer(TokioTimer::new()).header_read_timeout(limits.head).serve_connection(io, service);
    let mut connection = pin!(connection);
    let mut stopping = false;
    loop {
        tokio::select! {
            // The client does not matter any more, so the result is ignored.
            _ = connection.as_mut() => return,
            () = peer.closed() => return,
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
