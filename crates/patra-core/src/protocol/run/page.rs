//! What a fetch brings back, and how a page becomes a batch.

use std::sync::Arc;
use std::time::Duration;

use super::Policy;
use super::place::{Place, batch_key};
use crate::error::{Fault, Level};
use crate::id::RunId;
use crate::paging::{Facts, Position};
use crate::record::{Candidate, Marked, Record, Rejected, deduplicate};
use crate::source::Validators;
use crate::tx::{BatchStats, Capture, Checked, CommitBatch, HttpStats, Lease, LeaseRef, Raw};

/// A page that was read and mapped.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    pub facts: Facts,
    pub records: Vec<Record>,
    pub rejected: Vec<Rejected>,
    /// What a page of ids names, in its order.
    pub candidates: Vec<Candidate>,
    /// Hash of the items, for the loop guard.
    pub content: [u8; 16],
    pub evidence: Evidence,
    /// What it is recognised by when it comes again unchanged.
    pub seen: Option<Validators>,
    /// Where it was found, when it has moved there for good.
    pub moved_to: Option<String>,
    /// URLs for the pool, where somebody wants them.
    pub capture: Option<Capture>,
    /// What is suspicious about its content, a sentence each, for the log.
    pub warnings: Vec<String>,
}

/// Why a page could not be read.
#[derive(Clone, PartialEq, Debug)]
pub struct Refusal {
    pub fault: Fault,
    /// The far side asked us to slow down; this is not its failure.
    pub throttled: bool,
    pub retry_after: Option<Duration>,
    pub evidence: Evidence,
    /// Nobody can be reached just now: it is not the far side.
    pub offline: bool,
}

impl Refusal {
    /// A 429, or a failure of the far side that passes (ING-4.10-16).
    pub fn lowers_rate(&self) -> bool {
        self.throttled || (self.fault.level == Level::L1 && (500..600).contains(&self.evidence.status))
    }
}

/// The far side's own count: requests that it still takes until its window ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    pub remaining: u64,
    pub limit: Option<u64>,
    pub resets_in: Duration,
}

/// What the ledger keeps of the exchange: JSON, redacted.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    pub latency_ms: u32,
    pub status: u16,
    pub bytes: u64,
    pub request_digest: String,
    pub response_digest: String,
    /// The answer itself, where it is to be kept.
    pub raw: Option<Raw>,
    /// What the headers say about the pace, for the gate; or why that cannot be understood.
    pub left: Result<Option<Left>, String>,
}

impl Default for Evidence {
    fn default() -> Evidence {
        Evidence {
            latency_ms: 0,
            status: 0,
            bytes: 0,
            request_digest: "{}".into(),
            response_digest: "{}".into(),
            raw: None,
            left: Ok(None),
        }
    }
}

impl Evidence {
    pub(super) fn stats(&self) -> BatchStats {
        BatchStats {
            latency_ms: self.latency_ms,
            http: HttpStats { status: self.status, bytes: self.bytes },
            ..BatchStats::default()
        }
    }
}

/// What a batch settles beside its records.
pub(super) struct Settled {
    pub(super) marks: Vec<Marked>,
    pub(super) checked: Vec<Checked>,
    pub(super) refresh: bool,
}

impl Page {
    pub(super) fn into_batch(
        mut self,
        lease: &Lease,
        run: RunId,
        policy: &Policy,
        place: &Place,
        settled: Settled,
        next: Option<Position>,
    ) -> Arc<CommitBatch> {
        // Counted before duplicates go, so that a page's numbers add up to its items.
        let (kept, rejected) = (self.records.len() as u32, self.rejected.len() as u32);
        let outside = self.facts.items.saturating_sub(kept + rejected);
        let duplicates = deduplicate(&mut self.records) as u32;
        let stats = BatchStats {
            items_count: self.facts.items,
            skipped: duplicates + outside,
            failed: rejected,
            retry_count: place.retries,
            throttled_count: place.throttles,
            has_next: next.is_some(),
            self_healing: place.healing,
            rate: place.rate,
            total: place.total,
            taken: place.taken,
            ..self.evidence.stats()
        };
        Arc::new(CommitBatch {
            lease: LeaseRef::from(lease),
            lineage: lease.lineage,
            run,
            batch_no: place.batch_no,
            expr_hash: lease.expr_hash.clone(),
            idempotent_key: batch_key(run, place.batch_no, &place.position),
            before_token: place.before_token.clone(),
            position: place.position.clone(),
            next,
            page_size: place.page_size,
            stream: Arc::clone(&policy.stream),
            source: lease.source,
            records: self.records,
            rejected: self.rejected,
            marks: settled.marks,
            checked: settled.checked,
            generation: Arc::clone(&policy.generation),
            emit: policy.emit,
            refresh: settled.refresh,
            raw: self.evidence.raw,
            progress: place.progress,
            stats,
            request_digest: self.evidence.request_digest,
            response_digest: self.evidence.response_digest,
            capture: self.capture,
        })
    }
}
