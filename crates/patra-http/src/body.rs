//! Reading a body under a cap. This is the hot path of collecting: a body without encoding is copied at most once.

mod coding;
mod decode;
mod wire;
mod zstd;

use bytes::Bytes;

use patra_core::port::transport::{Error, TransferLimits};

use coding::ContentCoding;
use wire::WireReader;

/// Reads and decompresses the body; never more than `Limits::max_body` bytes, counted after decompression.
pub(crate) async fn read(response: reqwest::Response, limits: &TransferLimits) -> Result<Bytes, Error> {
    let codings = ContentCoding::list(response.headers())?;
    let announced = response.content_length().unwrap_or(0);
    if limits.cut && codings.is_empty() {
        return collect_beginning(response, limits).await;
    }
    // Applies to compressed bodies too: none that long is worth decompressing.
    if announced > limits.max_body as u64 {
        return Err(Error::TooLarge { limit: limits.max_body });
    }
    let wire = WireReader::new(response, limits);
    if codings.is_empty() {
        collect(wire, announced as usize, limits.max_body).await
    } else {
        decode::collect(wire, &codings, limits.max_body).await
    }
}

async fn collect(mut wire: WireReader, announced: usize, limit: usize) -> Result<Bytes, Error> {
    let Some(first) = wire.chunk().await? else { return Ok(Bytes::new()) };
    // A small body arrives in one chunk and is passed on without a copy. The buffer is allocated only now, so that a
    // server that announces much and sends nothing costs nothing.
    let Some(second) = wire.chunk().await? else { return Ok(first) };
    let mut body = Vec::with_capacity(announced.max(first.len() + second.len()));
    body.extend_from_slice(&first);
    body.extend_from_slice(&second);
    drop((first, second));
    while let Some(chunk) = wire.chunk().await? {
        if body.capacity() - body.len() < chunk.len() {
            body.reserve_exact(growth(body.len(), limit).max(chunk.len()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}

/// Reads a body up to the cap; the rest stays unread.
async fn collect_beginning(response: reqwest::Response, limits: &TransferLimits) -> Result<Bytes, Error> {
    let mut wire = WireReader::new(response, &TransferLimits { max_body: usize::MAX, ..*limits });
    let mut body = Vec::new();
    while let Some(chunk) = wire.chunk().await? {
        let left = limits.max_body - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(left)]);
        if chunk.len() >= left {
            break;
        }
    }
    Ok(body.into())
}

/// Bytes to add to a full buffer: doubles it, up to the cap.
fn growth(length: usize, limit: usize) -> usize {
    length.min(limit.saturating_sub(length))
}
