//! The budget of all bodies in memory. A body over [`SMALL_BODY`] takes a share of it before more is read, and returns
//! the share when the last reference to its bytes is dropped.
//!
//! A body takes the most that it may need at once, so none waits for more while it holds a part: the waits cannot lock
//! each other. Shares are granted in order, so a large body is not overtaken for ever by smaller ones.

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use patra_core::port::transport::Error;

/// Bodies up to this size need no share.
pub(super) const SMALL_BODY: usize = 1 << 20;
/// Bytes of all larger bodies of the process together.
pub(super) const BODY_BUDGET: usize = 48 << 20;
/// Largest window of a decoder, which holds output in addition to the body.
const MAX_WINDOW: usize = 16 << 20;
/// Bytes of one permit.
const UNIT: usize = 64 << 10;

static BUDGET: Semaphore = Semaphore::const_new(BODY_BUDGET / UNIT);

/// The share of one body: none until the body is large.
#[derive(Debug)]
pub(super) struct BodyShare {
    /// The most that the body may need.
    most: usize,
    /// When the wait for the share ends.
    deadline: Instant,
    held: Option<SemaphorePermit<'static>>,
}

impl BodyShare {
    /// `limit` is the largest size that the body may have, `layers` the number of its encodings.
    pub(super) fn new(limit: usize, layers: usize, deadline: Instant) -> BodyShare {
        BodyShare { most: limit.saturating_add(layers * limit.min(MAX_WINDOW)), deadline, held: None }
    }

    /// Takes the share if a body of this length needs one. Call before more is read.
    pub(super) async fn cover(&mut self, length: usize) -> Result<(), Error> {
        if length <= SMALL_BODY || self.held.is_some() {
            return Ok(());
        }
        // A body that may need more than there is takes everything, and is alone.
        let units = self.most.min(BODY_BUDGET).div_ceil(UNIT);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let granted = timeout_at(self.deadline, BUDGET.acquire_many(units)).await;
        self.held = Some(granted.ok().and_then(Result::ok).ok_or(Error::NoMemory { budget: BODY_BUDGET })?);
        Ok(())
    }

    /// Bytes that may be allocated.
    pub(super) fn covered(&self) -> usize {
        if self.held.is_some() { usize::MAX } else { SMALL_BODY }
    }

    /// The bytes of the body, which keep the part of the share that they need.
    pub(super) fn hold(self, body: Vec<u8>) -> Bytes {
        let Some(mut held) = self.held else { return body.into() };
        let needed = body.capacity().min(BODY_BUDGET).div_ceil(UNIT);
        let surplus = held.num_permits().saturating_sub(needed);
        drop(held.split(surplus));
        Bytes::from_owner(HeldBody { body, _share: held })
    }
}

struct HeldBody {
    body: Vec<u8>,
    _share: SemaphorePermit<'static>,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
