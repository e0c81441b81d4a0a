//! Decompression with limits. Every layer has a cap on its size and on its expansion ratio, so that nested compression
//! bombs cost no more than plain ones.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use async_compression::tokio::bufread::{BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder};
use bytes::{BufMut, Bytes};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, ReadBuf};

use patra_core::port::transport::Error;

use super::coding::ContentCoding;
use super::growth;
use super::memory::BodyShare;
use super::wire::WireReader;
use super::zstd::ZstdDecoder;
use crate::fault;

/// Largest expansion ratio of a body that is larger than [`RATIO_FREE_BYTES`].
const MAX_RATIO: u64 = 200;
/// Bodies up to this size may exceed the ratio: small repetitive responses compress very well.
const RATIO_FREE_BYTES: u64 = 1 << 20;
/// Bytes decoded at once. Decoders zero the buffer they are given, so it must not be the whole rest.
const STEP: usize = 64 << 10;

type DecoderInput = Box<dyn AsyncBufRead + Send + Unpin>;
type DecoderOutput = Box<dyn AsyncRead + Send + Unpin>;

pub(super) async fn collect(
    wire: WireReader,
    codings: &[ContentCoding],
    limit: usize,
    share: BodyShare,
) -> Result<Bytes, Error> {
    decompress(wire, codings, limit, share).await.map_err(|error| fault::decoding(&error))
}

async fn decompress(
    mut wire: WireReader,
    codings: &[ContentCoding],
    limit: usize,
    mut share: BodyShare,
) -> io::Result<Bytes> {
    // A response without a body, such as 304, may still name an encoding.
    if wire.fill_buf().await?.is_empty() {
        return Ok(Bytes::new());
    }
    let wire_bytes = wire.consumed();
    let mut input: DecoderInput = Box::new(wire);
    for coding in codings.iter().rev() {
        let inner = decoder(*coding, input).await?;
        let metered = MeteredReader { inner, produced: 0, wire_bytes: Arc::clone(&wire_bytes), limit };
        input = Box::new(BufReader::with_capacity(STEP, metered));
    }
    let mut body = Vec::with_capacity(STEP);
    loop {
        share.cover(body.len() + STEP).await.map_err(io::Error::other)?;
        if body.capacity() - body.len() < STEP {
            body.reserve_exact(growth(body.len(), limit).max(STEP));
        }
        // A buffer this large bypasses the `BufReader`: the decoder writes into `body` directly.
        if input.read_buf(&mut (&mut body).limit(STEP)).await? == 0 {
            return Ok(share.hold(body));
        }
        // Decompression is CPU work: yield to other tasks and to the deadline of the exchange.
        tokio::task::coop::consume_budget().await;
    }
}

async fn decoder(coding: ContentCoding, mut input: DecoderInput) -> io::Result<DecoderOutput> {
    Ok(match coding {
        ContentCoding::Gzip => {
            let mut decoder = GzipDecoder::new(input);
            // Concatenated members are one body; stopping after the first would silently lose the rest.
            decoder.multiple_members(true);
            Box::new(decoder)
        }
        ContentCoding::Brotli => Box::new(BrotliDecoder::new(input)),
        ContentCoding::Zstd => Box::new(ZstdDecoder::new(input)),
        // "deflate" means zlib, but many servers send raw deflate. The first byte distinguishes them: a zlib header has
        // method 8 and a window of at most 2^15, which no raw block written by an encoder begins with.
        ContentCoding::Deflate => match input.fill_buf().await?.first() {
            Some(byte) if byte & 0x0f == 8 && byte >> 4 <= 7 => Box::new(ZlibDecoder::new(input)),
            _ => Box::new(DeflateDecoder::new(input)),
        },
    })
}

/// One decoding layer; its output is counted against the cap and the ratio.
struct MeteredReader {
    inner: DecoderOutput,
    produced: u64,
    wire_bytes: Arc<AtomicU64>,
    limit: usize,
}

impl AsyncRead for MeteredReader {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, into))?;
        self.produced += (into.filled().len() - before) as u64;
        Poll::Ready(self.check_limits().map_err(io::Error::other))
    }
}

impl MeteredReader {
    fn check_limits(&self) -> Result<(), Error> {
        if self.produced > self.limit as u64 {
            return Err(Error::TooLarge { limit: self.limit });
        }
        let wire_bytes = self.wire_bytes.load(Ordering::Relaxed);
        if self.produced > RATIO_FREE_BYTES && self.produced > wire_bytes.saturating_mul(MAX_RATIO) {
            return Err(Error::Encoding { reason: format!("it grows to more than {MAX_RATIO} times its size") });
        }
        Ok(())
    }
}
