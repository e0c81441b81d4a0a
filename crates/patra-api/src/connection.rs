//! One connection of the HTTP server, as its requests see it: its client's address, what it waits for, and the deadline
//! for request bodies. It does not know which connections are closed for others; `serve` decides that.

mod body;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::extract::Request;
use axum::http::header::{CONNECTION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Extension, body::Body};
use tokio_util::sync::CancellationToken;

use patra_core::Code;

use crate::envelope::Failure;
use crate::request_id::RequestId;

pub(crate) use body::BODY_TIMEOUT;

/// Paths that are served even when no other request is: checks that would otherwise restart a busy process.
const ALWAYS: [&str; 4] = ["/health", "/healthz", "/readyz", "/metrics"];
/// Seconds after which a refused client may try again.
const BUSY_SECONDS: u64 = 1;

/// A connection. An extension of its requests.
#[derive(Clone, Debug)]
pub(crate) struct Peer(Arc<PeerState>);

#[derive(Debug)]
struct PeerState {
    /// The client's network: an IPv4 address, or the /64 of an IPv6 address.
    network: IpAddr,
    /// Whether the connection took a slot that is reserved for health checks and metrics.
    reserved: bool,
    /// Whether a handler runs.
    running: AtomicBool,
    /// Whether the running handler waits for the client's body, or delays a refusal.
    parked: AtomicBool,
    /// Whether the client does not read its response.
    write_blocked: AtomicBool,
    /// Whether a request had a valid key.
    known: AtomicBool,
    /// Position in the order of connections by their last change.
    since: AtomicU64,
    cut: CancellationToken,
}

impl Peer {
    pub(crate) fn new(network: IpAddr, reserved: bool, since: u64) -> Peer {
        Peer(Arc::new(PeerState {
            network,
            reserved,
            running: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            write_blocked: AtomicBool::new(false),
            known: AtomicBool::new(false),
            since: AtomicU64::new(since),
            cut: CancellationToken::new(),
        }))
    }

    pub(crate) fn network(&self) -> IpAddr {
        self.0.network
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.0.reserved
    }

    /// Whether the connection waits for its client, so that closing it costs no work.
    pub(crate) fn waits_for_client(&self) -> bool {
        let PeerState { running, parked, write_blocked, .. } = &*self.0;
        !running.load(Ordering::Relaxed) || parked.load(Ordering::Relaxed) || write_blocked.load(Ordering::Relaxed)
    }

    /// Order in which waiting connections are closed: strangers first, and those that wait longest.
    pub(crate) fn closing_order(&self) -> (bool, u64) {
        (self.0.known.load(Ordering::Relaxed), self.0.since.load(Ordering::Relaxed))
    }

    /// Records whether a handler runs, and when that changed.
    pub(crate) fn set_running(&self, running: bool, since: u64) {
        self.0.since.store(since, Ordering::Relaxed);
        self.0.running.store(running, Ordering::Relaxed);
    }

    pub(crate) fn set_write_blocked(&self, blocked: bool) {
        self.0.write_blocked.store(blocked, Ordering::Relaxed);
    }

    /// Records whether the running handler waits for something that closing the connection may end.
    pub(crate) fn set_parked(&self, parked: bool) {
        self.0.parked.store(parked, Ordering::Relaxed);
    }

    /// Records that a request had a valid key.
    pub(crate) fn set_known(&self) {
        self.0.known.store(true, Ordering::Relaxed);
    }

    /// Closes the connection.
    pub(crate) fn close(&self) {
        self.0.cut.cancel();
    }

    pub(crate) async fn closed(&self) {
        self.0.cut.cancelled().await;
    }
}

/// The part of an address that one client controls: an IPv6 client usually has a whole /64.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Gives every request body a deadline, and keeps the reserved slots for health checks and metrics.
pub(crate) async fn layer(Extension(id): Extension<RequestId>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().cloned();
    let path = request.uri().path().to_owned();
    if peer.as_ref().is_some_and(Peer::is_reserved) && !ALWAYS.contains(&path.as_str()) {
        let message = "the server has no free connection";
        let failure = Failure::new(StatusCode::SERVICE_UNAVAILABLE, Code::RateLimited, message)
            .hint("try again in a moment, and close idle connections");
        let mut response = closing(StatusCode::SERVICE_UNAVAILABLE, failure.respond_at(&path, &id));
        response.headers_mut().insert(RETRY_AFTER, BUSY_SECONDS.into());
        return response;
    }
    let expired = Arc::new(AtomicBool::new(false));
    let request = request.map(|body| Body::new(body::TimedBody::new(body, peer, Arc::clone(&expired))));
    let response = next.run(request).await;
    if !expired.load(Ordering::Relaxed) {
        return response;
    }
    let message = format!("the request body did not arrive within {} s", BODY_TIMEOUT.as_secs());
    let failure = Failure::new(StatusCode::REQUEST_TIMEOUT, Code::TimeoutError, message);
    closing(StatusCode::REQUEST_TIMEOUT, failure.respond_at(&path, &id))
}

/// Closes the connection after this response. The status does not depend on the contract of the path.
fn closing(status: StatusCode, mut response: Response) -> Response {
    *response.status_mut() = status;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_clients_are_distinguished_by_network() {
        let network = |text: &str| network_of(text.parse().unwrap()).to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
    }
}
