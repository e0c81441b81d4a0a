//! Commits of pages: in order, and together where several wait.

use std::sync::Arc;

use super::options::{FULL_BYTES, FULL_PAGES, MAX_WAITING_BYTES, QUICK_MS};
use super::parts::that_fit;
use super::{RunMachine, RunStage, Want};
use crate::time::Ts;
use crate::tx::{BatchCommitted, CommitBatch, Tx};

impl RunMachine {
    /// Appends a page to those that wait for their commit.
    pub(super) fn enqueue(&mut self, batch: Arc<CommitBatch>) {
        if self.queue.is_empty() {
            self.ripe_at = self.now + self.options.linger;
        }
        self.queue.push_back(batch);
    }

    /// When waiting pages are sent, though more may come.
    pub(super) fn send_at(&self) -> Ts {
        if self.committing == 0 && !self.queue.is_empty() { self.ripe_at } else { Ts::MAX }
    }

    /// More pages are being read, and there is room and time for them. Pages of ids do not wait: later ids are
    /// screened by what is stored.
    fn may_linger(&self) -> bool {
        let gives_ids = matches!(&self.stage, RunStage::Paging(policy) if policy.details.is_some());
        self.now < self.ripe_at
            && self.planned_end.is_none()
            && !gives_ids
            && !self.awaits_news
            && self.reader.is_reading_on()
            && self.singly == 0
            && self.queue.len() < FULL_PAGES.min(self.options.lookahead)
            && self.waiting_bytes() < FULL_BYTES
            && self.queue.iter().all(|page| page.capture.is_none() && page.stats.latency_ms < QUICK_MS)
    }

    fn waiting_bytes(&self) -> u64 {
        self.queue.iter().map(|batch| batch.stats.http.bytes).sum()
    }

    /// Sends waiting pages, unless a transaction is in flight or more pages are about to come.
    pub(super) fn send_pages(&mut self, wants: &mut Vec<Want>) {
        if self.committing == 0 && !self.queue.is_empty() && !self.may_linger() {
            // URLs lock the pool: no page waits for records behind them.
            let captures = self.queue.iter().position(|page| page.capture.is_some());
            let fit = that_fit(self.queue.iter().map(|page| &**page), self.options.max_batch_records);
            let most = captures.map_or(self.queue.len(), |at| at + 1).min(fit);
            let group = self.queue.drain(..if self.singly > 0 { 1 } else { most }).collect::<Vec<_>>();
            self.singly = self.singly.saturating_sub(1);
            self.committing = group.len();
            let tx = match <[_; 1]>::try_from(group) {
                Ok([batch]) => batch.into(),
                Err(group) => Arc::<[_]>::from(group).into(),
            };
            self.send(tx, wants);
        }
    }

    /// The first page of a group that failed; the others follow one by one. So only the faulty page is refused, and
    /// pages that blocked each other no longer do.
    pub(super) fn first_of_group(&mut self, tx: Tx) -> Tx {
        let [first, others @ ..] = tx.pages() else { return tx };
        for batch in others.iter().rev() {
            self.queue.push_front(Arc::clone(batch));
        }
        self.committing = 1;
        self.singly += others.len();
        Arc::clone(first).into()
    }

    pub(super) fn on_committed(&mut self, done: &[BatchCommitted], wants: &mut Vec<Want>) {
        self.committing = 0;
        for done in done {
            self.stats.add(&done.stats);
        }
        self.proceed(wants);
    }

    /// One page may always be read while another is committed; more as long as they are small.
    pub(super) fn may_read_on(&self, uncommitted: usize) -> bool {
        uncommitted <= 1 || uncommitted <= self.options.lookahead && self.waiting_bytes() < MAX_WAITING_BYTES
    }
}
