//! The way of pages that were read into the ledger: in order, and together where several wait.

use std::sync::Arc;

use super::options::MAX_WAITING_BYTES;
use super::{Run, Want};
use crate::tx::{BatchCommitted, CommitBatch};

impl Run {
    /// Sends what waits, unless something is on its way.
    pub(super) fn send_pages(&mut self, wants: &mut Vec<Want>) {
        if self.committing == 0 && !self.queue.is_empty() {
            let group = self.queue.drain(..if self.singly { 1 } else { self.queue.len() }).collect::<Vec<_>>();
            self.committing = group.len();
            let tx = match <[_; 1]>::try_from(group) {
                Ok([batch]) => batch.into(),
                Err(group) => Arc::<[_]>::from(group).into(),
            };
            self.send(tx, wants);
        }
    }

    pub(super) fn commit_singly(&mut self, batches: &[Arc<CommitBatch>], wants: &mut Vec<Want>) {
        self.singly = true;
        self.committing = 0;
        for batch in batches.iter().rev() {
            self.queue.push_front(Arc::clone(batch));
        }
        self.proceed(wants);
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
