//! A request body with a deadline for the whole of it, whoever reads it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;

use super::Peer;

/// Time for a whole request body to arrive.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct TimedBody {
    body: Body,
    peer: Option<Peer>,
    /// Set when the deadline has passed.
    expired: Arc<AtomicBool>,
    /// Begins when the body is first waited for.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    pub(super) fn new(body: Body, peer: Option<Peer>, expired: Arc<AtomicBool>) -> TimedBody {
        TimedBody { body, peer, expired, deadline: None }
    }

    fn set_waiting(&self, waiting: bool) {
        if let Some(peer) = &self.peer {
            peer.set_parked(waiting);
        }
    }
}

impl hyper::body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.set_waiting(false);
            return Poll::Ready(frame);
        }
        self.set_waiting(true);
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(BODY_TIMEOUT)));
        ready!(deadline.as_mut().poll(cx));
        self.set_waiting(false);
        self.expired.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}
