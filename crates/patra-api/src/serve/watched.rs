//! A stream that records transferred bytes, to distinguish a stalled client from a slow one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::connection::Peer;

#[derive(Debug)]
pub(super) struct Watched {
    stream: TcpStream,
    moved: Arc<AtomicBool>,
    peer: Peer,
}

impl Watched {
    pub(super) fn new(stream: TcpStream, moved: Arc<AtomicBool>, peer: Peer) -> Watched {
        Watched { stream, moved, peer }
    }

    fn note<T>(&self, poll: Poll<T>) -> Poll<T> {
        if poll.is_ready() {
            self.moved.store(true, Ordering::Relaxed);
        }
        poll
    }

    fn note_write<T>(&self, poll: Poll<T>) -> Poll<T> {
        self.peer.set_write_blocked(poll.is_pending());
        self.note(poll)
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.note(poll)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note_write(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note_write(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
