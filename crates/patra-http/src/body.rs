//! Reading a body under a cap. This is the hot path of collecting: a body without encoding is copied at most once.

mod coding;
mod decode;
mod memory;
mod wire;
mod zstd;

use bytes::Bytes;
use tokio::time::Instant;

use patra_core::port::transport::{Error, TransferLimits};

use coding::ContentCoding;
use memory::BodyShare;
use wire::WireReader;

/// Reads and decompresses the body; never more than `Limits::max_body` bytes, counted after decompression. A large body
/// waits until `deadline` for its share of the memory.
pub(crate) async fn read(
    response: reqwest::Response,
    limits: &TransferLimits,
    deadline: Instant,
) -> Result<Bytes, Error> {
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
        // The connection delivers no more than was announced.
        let most = if announced > 0 { announced as usize } else { limits.max_body };
        let share = BodyShare::new(most, 0, deadline);
        collect(wire, announced as usize, limits.max_body, share).await
    } else {
        let share = BodyShare::new(limits.max_body, codings.len(), deadline);
        decode::collect(wire, &codings, limits.max_body, share).await
    }
}

async fn collect(mut wire: WireReader, announced: usize, limit: usize, mut share: BodyShare) -> Result<Bytes, Error> {
    let Some(first) = wire.chunk().await? else { return Ok(Bytes::new()) };
    // A small body arrives in one chunk and is passed on without a copy. The buffer is allocated only now, so that a
    // server that announces much and sends nothing costs nothing.
    let Some(second) = wire.chunk().await? else { return Ok(first) };
    let mut body = Vec::new();
    for chunk in [first, second] {
        append(&mut body, &chunk, announced, limit, &mut share).await?;
    }
    while let Some(chunk) = wire.chunk().await? {
        append(&mut body, &chunk, announced, limit, &mut share).await?;
    }
    Ok(share.hold(body))
}

/// Appends a chunk. No more is allocated than the body needs and its share covers.
async fn append(
    body: &mut Vec<u8>,
    chunk: &[u8],
    announced: usize,
    limit: usize,
    share: &mut BodyShare,
) -> Result<(), Error> {
    let length = body.len() + chunk.len();
    share.cover(length).await?;
    if body.capacity() < length {
        let known = announced.min(share.covered());
        let more = if known >= length { known - body.len() } else { growth(body.len(), limit).max(chunk.len()) };
        body.reserve_exact(more);
    }
    body.extend_from_slice(chunk);
    Ok(())
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
