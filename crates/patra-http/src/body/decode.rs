//! Decompression that stops. Every layer, not only the last one, has the cap on its size and on how far it may expand, so
//! that a bomb inside a bomb costs no more than a plain one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use async_compression::tokio::bufread::{BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder};
use bytes::{BufMut, Bytes};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, ReadBuf};

use patra_core::port::transport::Error;

use super::coding::Coding;
use super::growth;
use super::wire::Wire;
use super::zstd::ZstdDecoder;
use crate::fault;

/// How many times larger than its wire form a body may be, once it is larger than [`FREE`].
const MAX_RATIO: u64 = 200;
/// Small answers of the same byte compress better than any ratio one would allow.
const FREE: u64 = 1 << 20;
/// Bytes decoded in one go. Decoders zero the room they are given, so it must not be the whole rest of the buffer.
const STEP: usize = 64 << 10;

type Input = Box<dyn AsyncBufRead + Send + Unpin>;
type Output = Box<dyn AsyncRead + Send + Unpin>;

pub(super) async fn collect(wire: Wire, codings: &[Coding], limit: usize) -> Result<Bytes, Error> {
    unpack(wire, codings, limit).await.map_err(|error| fault::decoding(&error))
}

async fn unpack(mut wire: Wire, codings: &[Coding], limit: usize) -> io::Result<Bytes> {
    // An answer without a body (304, say) may still name the encoding the body would have had.
    if wire.fill_buf().await?.is_empty() {
        return Ok(Bytes::new());
    }
    let wire_bytes = wire.consumed();
    let mut input: Input = Box::new(wire);
    for coding in codings.iter().rev() {
        let inner = decoder(*coding, input).await?;
        let metered = Metered { inner, produced: 0, wire_bytes: Arc::clone(&wire_bytes), limit };
        input = Box::new(BufReader::with_capacity(STEP, metered));
    }
    let mut body = Vec::with_capacity(STEP);
    loop {
        if body.capacity() - body.len() < STEP {
            body.reserve_exact(growth(body.len(), limit).max(STEP));
        }
        // A buffer this large makes the `BufReader` step aside: the decoder writes into `body` itself.
        if input.read_buf(&mut (&mut body).limit(STEP)).await? == 0 {
            return Ok(body.into());
        }
        // Unpacking is work, not waiting: let others and the deadline of the exchange have a turn.
        tokio::task::coop::consume_budget().await;
    }
}

async fn decoder(coding: Coding, mut input: Input) -> io::Result<Output> {
    Ok(match coding {
        Coding::Gzip => {
            let mut decoder = GzipDecoder::new(input);
            // Concatenated members are one body; stopping after the first would lose the rest without a word.
            decoder.multiple_members(true);
            Box::new(decoder)
        }
        Coding::Brotli => Box::new(BrotliDecoder::new(input)),
        Coding::Zstd => Box::new(ZstdDecoder::new(input)),
        // "deflate" means zlib, but many servers have always sent the bare format. The first byte tells: a zlib header
        // names method 8 and a window of at most 2^15, and no bare block that an encoder writes begins so.
        Coding::Deflate => match input.fill_buf().await?.first() {
            Some(byte) if byte & 0x0f == 8 && byte >> 4 <= 7 => Box::new(ZlibDecoder::new(input)),
            _ => Box::new(DeflateDecoder::new(input)),
        },
    })
}

/// A layer with its output counted against the cap and the ratio.
struct Metered {
    inner: Output,
    produced: u64,
    wire_bytes: Arc<AtomicU64>,
    limit: usize,
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, into))?;
        self.produced += (into.filled().len() - before) as u64;
        Poll::Ready(self.verdict().map_err(io::Error::other))
    }
}

impl Metered {
    fn verdict(&self) -> Result<(), Error> {
        if self.produced > self.limit as u64 {
            return Err(Error::TooLarge { limit: self.limit });
        }
        let wire_bytes = self.wire_bytes.load(Ordering::Relaxed);
        if self.produced > FREE && self.produced > wire_bytes.saturating_mul(MAX_RATIO) {
            return Err(Error::Encoding { reason: format!("it grows to more than {MAX_RATIO} times its size") });
        }
        Ok(())
    }
}
