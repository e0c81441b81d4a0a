//! Results of a fetch, and the batch made from a page.

use std::sync::Arc;
use std::time::Duration;

use super::RunPolicy;
use super::batch_context::{BatchContext, batch_key};
use crate::error::{Fault, Level};
use crate::id::RunId;
use crate::paging::{PageFacts, Position};
use crate::record::{CandidateMark, DetailCandidate, HeldMemory, Record, RejectedRecord, deduplicate};
use crate::source::Validators;
use crate::tx::{
    BatchStats, Capture, CheckedRecord, CommitBatch, HttpStats, Lease, LeaseRef, PassPage, RawResponse, SkipReasons,
};

/// A page that was read and mapped.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FetchedPage {
    pub facts: PageFacts,
    pub records: Vec<Record>,
    pub rejected: Vec<RejectedRecord>,
    /// Items that were left out, by reason.
    pub skipped: SkipReasons,
    /// Keys of items that the filter excludes, where the list is read as a whole; `None` for one without a usable key.
    pub excluded: Vec<Option<String>>,
    /// Ids of a page of ids, in its order.
    pub candidates: Vec<DetailCandidate>,
    /// Hash of the items, for the loop guard.
    pub content: [u8; 16],
    pub evidence: ExchangeEvidence,
    /// Validators to recognise the page when it is unchanged.
    pub validators: Option<Validators>,
    /// New permanent URL of the page.
    pub moved_to: Option<String>,
    /// URLs for the pool, where capture is enabled.
    pub capture: Option<Capture>,
    /// Suspicious content, a sentence each, for the log.
    pub warnings: Vec<String>,
    /// Why the page is not the whole, if it is not: its end is missing, and what it holds is complete.
    pub cut: Option<String>,
    /// Memory that the page holds until its records are stored.
    pub memory: HeldMemory,
}

/// Why a page could not be read.
#[derive(Clone, PartialEq, Debug)]
pub struct PageFailure {
    pub fault: Fault,
    /// The upstream asked us to slow down; this is not its failure.
    pub throttled: bool,
    pub retry_after: Option<Duration>,
    pub evidence: ExchangeEvidence,
    /// The network is down: it is not the upstream.
    pub offline: bool,
}

impl PageFailure {
    /// Status 429, or a transient failure of the upstream (ING-4.10-16).
    pub fn lowers_rate(&self) -> bool {
        self.throttled || (self.fault.level == Level::L1 && (500..600).contains(&self.evidence.status))
    }
}

/// The upstream's own count: requests that it still accepts until its window ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpstreamQuota {
    pub remaining: u64,
    pub limit: Option<u64>,
    pub resets_in: Duration,
}

/// The exchange as the ledger keeps it: JSON, redacted.
#[derive(Clone, PartialEq, Debug)]
pub struct ExchangeEvidence {
    pub latency_ms: u32,
    pub status: u16,
    pub bytes: u64,
    pub request_digest: String,
    pub response_digest: String,
    /// The response itself, where it is to be kept.
    pub raw: Option<RawResponse>,
    /// The upstream's quota from the headers, for the gate; or why they cannot be parsed.
    pub quota: Result<Option<UpstreamQuota>, String>,
}

impl Default for ExchangeEvidence {
    fn default() -> ExchangeEvidence {
        ExchangeEvidence {
            latency_ms: 0,
            status: 0,
            bytes: 0,
            request_digest: "{}".into(),
            response_digest: "{}".into(),
            raw: None,
            quota: Ok(None),
        }
    }
}

impl ExchangeEvidence {
    pub(super) fn stats(&self) -> BatchStats {
        BatchStats {
            latency_ms: self.latency_ms,
            http: HttpStats { status: self.status, bytes: self.bytes },
            ..BatchStats::default()
        }
    }
}

/// What a batch settles in addition to its records.
pub(super) struct SettledRecords {
    pub(super) marks: Vec<CandidateMark>,
    pub(super) checked: Vec<CheckedRecord>,
    pub(super) refresh: bool,
}

impl FetchedPage {
    /// Bytes that the page takes in memory, about.
    pub fn memory_bytes(&self) -> usize {
        /// Bytes of an allocation that nobody asked for.
        const EXTRA: usize = 16;
        let records = self.records.iter().map(|record| {
            let texts = record.key.len() + record.fields.len() + record.payload.len();
            size_of::<Record>() + texts + 2 * EXTRA
        });
        let rejected = self
            .rejected
            .iter()
            .map(|rejected| size_of::<RejectedRecord>() + rejected.reason.len() + rejected.sample.len() + 3 * EXTRA);
        let candidates = self
            .candidates
            .iter()
            .map(|candidate| size_of::<DetailCandidate>() + candidate.id.len() + candidate.version.len() + 2 * EXTRA);
        let excluded =
            self.excluded.iter().map(|key| size_of::<Option<String>>() + key.as_ref().map_or(0, String::len));
        let ids = size_of_val(&self.facts.ids[..]);
        records.sum::<usize>() + rejected.sum::<usize>() + candidates.sum::<usize>() + excluded.sum::<usize>() + ids
    }

    /// An item of the page has no usable key.
    pub(super) fn has_unidentified(&self) -> bool {
        self.rejected.iter().any(|rejected| rejected.key.is_none()) || self.excluded.iter().any(Option::is_none)
    }

    pub(super) fn into_batch(
        mut self,
        lease: &Lease,
        run: RunId,
        policy: &RunPolicy,
        context: &BatchContext,
        settled: SettledRecords,
        next: Option<Position>,
    ) -> Arc<CommitBatch> {
        // Counted before duplicates are dropped, so that a page's numbers add up to its items.
        let (kept, rejected) = (self.records.len() as u32, self.rejected.len() as u32);
        let outside = self.facts.items.saturating_sub(kept + rejected);
        let duplicates = deduplicate(&mut self.records) as u32;
        let stats = BatchStats {
            items_count: self.facts.items,
            skipped: duplicates + outside,
            skipped_by: self.skipped,
            failed: rejected,
            retry_count: context.retries,
            throttled_count: context.throttles,
            has_next: next.is_some(),
            self_healing: context.healing,
            rate: context.rate,
            total: context.total,
            taken: context.taken,
            walk: context.walk,
            ..self.evidence.stats()
        };
        Arc::new(CommitBatch {
            lease: LeaseRef::from(lease),
            lineage: lease.lineage,
            run,
            batch_no: context.batch_no,
            expr_hash: lease.expr_hash.clone(),
            idempotent_key: batch_key(run, context.batch_no, &context.position),
            before_token: context.before_token.clone(),
            position: context.position.clone(),
            next,
            page_size: context.page_size,
            stream: Arc::clone(&policy.stream),
            source: lease.source,
            records: self.records,
            rejected: self.rejected,
            marks: settled.marks,
            checked: settled.checked,
            generation: Arc::clone(&policy.generation),
            emit: policy.emit,
            refresh: settled.refresh,
            pass: policy.pass.as_ref().map(|rule| PassPage {
                undated: rule.undated,
                list: rule.missing.as_ref().map(|missing| Arc::clone(&missing.list)),
                excluded: self.excluded.into_iter().flatten().collect(),
            }),
            raw: self.evidence.raw,
            progress: context.progress,
            stats,
            request_digest: self.evidence.request_digest,
            response_digest: self.evidence.response_digest,
            capture: self.capture,
            memory: self.memory,
        })
    }
}
