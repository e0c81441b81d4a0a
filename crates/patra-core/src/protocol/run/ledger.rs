//! The way of pages that were read into the ledger: in order, and together where several wait.

use std::sync::Arc;

use super::options::MAX_WAITING_BYTES;
use super::{Run, Want};
use crate::tx::{BatchCommitted, Tx};

impl Run {
    /// Sends what waits, unless something is on its way.
    pub(super) fn send_pages(&mut self, wants: &mut Vec<Want>) {
        if self.committing == 0 && !self.queue.is_empty() {
            // URLs lock the pool: no page waits for records behind them.
            let captures = self.queue.iter().position(|page| page.capture.is_some());
            let most = captures.map_or(self.queue.len(), |at| at + 1);
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

    /// The first page of a group that failed; the others come after it one by one. So only a page at fault is refused, and
    /// what stood in each other's way does so no longer.
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
        let waiting = || self.queue.iter().map(|batch| batch.stats.http.bytes).sum::<u64>();
        uncommitted <= 1 || uncommitted <= self.options.lookahead && waiting() < MAX_WAITING_BYTES
    }
}
