//! Waiting operations, and the choice of the next group.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use patra_core::tx::{CommitBatch, RETRY_BATCH, Tx};

use super::Job;

/// A group is closed before it has more operations or rows: its first operation waits for the last. A single operation may
/// have more rows.
const MAX_OPERATIONS: usize = 256;
const MAX_ROWS: usize = 10_000;

/// Operations with at most this many rows are short.
const SHORT: usize = 64;

/// Operations that wait for the writer.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    jobs: VecDeque<Job>,
    /// Whether the last group skipped long operations.
    was_short: bool,
}

impl Backlog {
    pub(super) fn push(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the next operations to commit together, in order of arrival. Permits, leases and claims do not wait for
    /// pages that arrived before them: concurrent operations may run in any order, and an upstream is idle without
    /// permits. The group after that takes all kinds.
    pub(super) fn next(&mut self, waiting: &Receiver<Job>) -> Vec<Job> {
        self.jobs.extend(waiting.try_iter());
        let is_short = |job: &Job| weight(&job.tx) <= SHORT;
        let short = self.jobs.iter().filter(|job| is_short(job)).count();
        self.was_short = !self.was_short && short > 0 && short < self.jobs.len();
        let (mut group, mut later, mut rows) = (Vec::new(), VecDeque::new(), 0);
        for job in self.jobs.drain(..) {
            let is_full = group.len() == MAX_OPERATIONS || !group.is_empty() && rows + weight(&job.tx) > MAX_ROWS;
            if is_full || self.was_short && !is_short(&job) {
                later.push_back(job);
            } else {
                rows += weight(&job.tx);
                group.push(job);
            }
        }
        self.jobs = later;
        group
    }
}

fn weight(tx: &Tx) -> usize {
    match tx {
        Tx::CommitBatch(_) | Tx::CommitBatches(_) => tx.pages().iter().map(|page| rows(page)).sum(),
        Tx::AddUrls(add) => add.urls.len() + 1,
        Tx::ClaimEvents(take) => take.limit as usize,
        Tx::RetryEvents(_) => RETRY_BATCH as usize,
        Tx::SavePlan(plan) => 2 * plan.slices.len() + 1,
        Tx::FanOut(fan) => fan.children.len() + 1,
        Tx::SignalRecords(signal) => signal.keys.len() + 1,
        Tx::ArchiveLedger(archive) => 4 * archive.limit as usize,
        Tx::ReadSegments(read) => (read.size as usize).saturating_mul(read.limit as usize),
        Tx::ClaimTasks(claim) => claim.limit as usize,
        Tx::AddCandidates(add) => add.candidates.len() + 1,
        Tx::ClaimCandidates(claim) => claim.limit as usize,
        Tx::Sweep(sweep) => sweep.limit as usize,
        _ => 1,
    }
}

fn rows(batch: &CommitBatch) -> usize {
    let captured = batch.capture.as_ref().map_or(0, |capture| capture.urls.len());
    batch.records.len() + batch.rejected.len() + batch.checked.len() + captured + 1
}
