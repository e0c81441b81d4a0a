//! Reads the bytes of a body from the connection: counted, capped, and with the read timeout.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use patra_core::port::transport::{Error, TransferLimits};

use crate::connect::later;
use crate::fault;

pub(super) struct WireReader {
    stream: BoxStream<'static, reqwest::Result<Bytes>>,
    /// Started only if there is nothing to read, so that a fast server needs no timer.
    read_timer: Pin<Box<Sleep>>,
    waiting: bool,
    timeout: Duration,
    received: usize,
    limit: usize,
    /// Bytes that a decoder has not consumed yet.
    unread: Bytes,
    consumed: Arc<AtomicU64>,
}

impl WireReader {
    pub(super) fn new(response: reqwest::Response, limits: &TransferLimits) -> WireReader {
        WireReader {
            stream: response.bytes_stream().boxed(),
            read_timer: Box::pin(sleep(limits.read_timeout)),
            waiting: false,
            timeout: limits.read_timeout,
            received: 0,
            limit: limits.max_body,
            unread: Bytes::new(),
            consumed: Arc::default(),
        }
    }

    /// The next chunk, or `None` at the regular end of the body.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        std::future::poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Number of bytes that decoders have consumed so far.
    pub(super) fn consumed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.consumed)
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        match self.stream.poll_next_unpin(context) {
            Poll::Ready(Some(Ok(chunk))) => {
                self.waiting = false;
                self.received += chunk.len();
                if self.received > self.limit {
                    return Poll::Ready(Err(Error::TooLarge { limit: self.limit }));
                }
                Poll::Ready(Ok(Some(chunk)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(fault::reading(&error))),
            Poll::Ready(None) => Poll::Ready(Ok(None)),
            Poll::Pending => {
                if !self.waiting {
                    self.waiting = true;
                    self.read_timer.as_mut().reset(later(Instant::now(), self.timeout));
                }
                ready!(self.read_timer.as_mut().poll(context));
                Poll::Ready(Err(Error::Timeout { after: self.timeout }))
            }
        }
    }
}

impl AsyncBufRead for WireReader {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let wire = self.get_mut();
        while wire.unread.is_empty() {
            match ready!(wire.poll_chunk(context)).map_err(io::Error::other)? {
                Some(chunk) => wire.unread = chunk,
                None => break,
            }
        }
        Poll::Ready(Ok(&wire.unread))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        let wire = self.get_mut();
        wire.unread.advance(amount);
        wire.consumed.fetch_add(amount as u64, Ordering::Relaxed);
    }
}

/// Decoders use [`AsyncBufRead`], which requires this trait.
impl AsyncRead for WireReader {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let available = ready!(self.as_mut().poll_fill_buf(context))?;
        let amount = available.len().min(into.remaining());
        into.put_slice(&available[..amount]);
        self.consume(amount);
        Poll::Ready(Ok(()))
    }
}
