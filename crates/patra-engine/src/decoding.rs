//! The budget of all pages that are decoded: a body becomes a page of several times its size. Each takes a share by its
//! estimated cost first, and the page holds what it really needs until its records are stored.
//!
//! A page takes all that it may need at once and asks for no more, so the waits cannot lock each other. A page that may
//! need more than the budget takes all of it, and is decoded alone.

use std::time::Duration;

use patra_connectors::{PageExchange, Pager};
use patra_core::port::transport::{self, HttpResponse};
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::record::HeldMemory;
use patra_core::{Code, Fault, Level, Ts};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::prepared::CompiledSpec;

/// Bytes of all pages of the process that are decoded, or wait to be stored.
pub(crate) const DECODING_BUDGET: usize = 80 << 20;
/// Longest wait for a share. The upstream has answered by then, so the wait is none of its deadlines.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Bodies up to this size are decoded without a share, in place: handing them over would cost more.
pub(crate) const SMALL: usize = 64 << 10;
/// Bytes of one permit.
const UNIT: usize = 64 << 10;

static BUDGET: Semaphore = Semaphore::const_new(DECODING_BUDGET / UNIT);

/// A part of the budget, which is returned when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryShare(SemaphorePermit<'static>);

impl MemoryShare {
    /// Waits for a share of this many bytes, in order.
    async fn take(bytes: usize) -> Result<MemoryShare, Fault> {
        let wait = BUDGET.acquire_many(units(bytes));
        let granted = timeout(LONGEST_WAIT, wait).await;
        granted.ok().and_then(Result::ok).map(MemoryShare).ok_or_else(|| {
            let message = format!(
                "no memory became free to decode the response within {} s: pages that are decoded at once share \
                 {DECODING_BUDGET} bytes",
                LONGEST_WAIT.as_secs()
            );
            Fault::new(Code::InternalError, Level::L1, message)
        })
    }

    /// Returns all but this many bytes.
    fn keep(&mut self, bytes: usize) {
        let surplus = self.0.num_permits().saturating_sub(units(bytes) as usize);
        drop(self.0.split(surplus));
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.min(DECODING_BUDGET).div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// Whether a page was refused because our own memory is used up, which says nothing about the upstream.
pub(crate) fn lacks_memory(refusal: &PageFailure) -> bool {
    refusal.offline && refusal.fault.code == Code::InternalError
}

/// The result of an exchange, before it is decoded.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) exchange: PageExchange,
    pub(crate) answer: Result<HttpResponse, transport::Error>,
    pub(crate) latency: Duration,
    pub(crate) now: Ts,
}

impl Received {
    /// Whether the body is large: decoding it takes a share, and a thread of its own where there is one.
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.answer, Ok(response) if response.body.len() > SMALL)
    }

    /// Decodes in place, with a share of the budget for a large body.
    pub(crate) async fn read(self, pager: &Pager) -> Result<Box<FetchedPage>, Box<PageFailure>> {
        if !self.is_large() {
            return pager.read(self.exchange, self.answer, self.latency, self.now);
        }
        let (share, received) = self.admitted(pager).await?;
        received.decode(pager, share)
    }

    /// Decodes on a blocking thread, with a share of the budget.
    pub(crate) async fn read_apart(
        self,
        spec: std::sync::Arc<CompiledSpec>,
    ) -> Result<Box<FetchedPage>, Box<PageFailure>> {
        let (share, received) = self.admitted(&spec.pager).await?;
        match tokio::task::spawn_blocking(move || received.decode(&spec.pager, share)).await {
            Ok(page) => page,
            Err(error) => Err(Box::new(PageFailure {
                fault: Fault::new(Code::InternalError, Level::L2, format!("reading the response failed: {error}")),
                throttled: false,
                retry_after: None,
                evidence: patra_core::protocol::run::ExchangeEvidence::default(),
                offline: false,
            })),
        }
    }

    /// Waits for the share of this response.
    async fn admitted(self, pager: &Pager) -> Result<(MemoryShare, Received), Box<PageFailure>> {
        let cost = self.answer.as_ref().map_or(0, |response| pager.decoding_cost(&self.exchange, response));
        match MemoryShare::take(cost).await {
            Ok(share) => Ok((share, self)),
            Err(fault) => {
                let evidence = self.exchange.evidence(self.latency);
                Err(Box::new(PageFailure { fault, throttled: false, retry_after: None, evidence, offline: true }))
            }
        }
    }

    fn decode(self, pager: &Pager, mut share: MemoryShare) -> Result<Box<FetchedPage>, Box<PageFailure>> {
        let mut page = pager.read(self.exchange, self.answer, self.latency, self.now)?;
        share.keep(page.memory_bytes());
        page.memory = HeldMemory::new(share);
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn share_is_granted_in_order_and_returned_when_it_is_dropped() {
        let mut first = MemoryShare::take(DECODING_BUDGET + 1).await.unwrap();
        assert_eq!(BUDGET.available_permits(), 0, "an estimate above the budget takes all of it");
        let fault = MemoryShare::take(1).await.unwrap_err();
        assert_eq!((fault.code, fault.level), (Code::InternalError, Level::L1));
        assert!(fault.message.contains(&DECODING_BUDGET.to_string()), "{}", fault.message);
        first.keep(10 * UNIT);
        assert_eq!(BUDGET.available_permits() * UNIT, DECODING_BUDGET - 10 * UNIT);
        let held = HeldMemory::new(first);
        let copy = held.clone();
        drop(held);
        assert_eq!(BUDGET.available_permits() * UNIT, DECODING_BUDGET - 10 * UNIT, "another holder is left");
        drop(copy);
        assert_eq!(BUDGET.available_permits() * UNIT, DECODING_BUDGET);
    }
}
