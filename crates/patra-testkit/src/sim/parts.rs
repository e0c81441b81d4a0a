//! Worlds in which large pages are committed in parts, and the planted bugs of parts.

use std::sync::Arc;

use patra_core::paging::Position;
use patra_core::rng::Rng;
use patra_core::tx::{CommitBatch, ResumePoint, Tx};

use super::Mutant;
use super::profile::Profile;
use crate::memory::MemStore;

impl Profile {
    /// Pages in parts, in some worlds. Drawn apart, so that the other worlds stay as they are.
    pub(super) fn draw_parts(&mut self, seed: u64) {
        let mut rng = Rng::new(seed ^ 0x70_6172_7473);
        if rng.chance(150) {
            self.max_batch_records = 2;
            self.page_size = self.page_size.max(3 + rng.below(3) as u32);
        }
    }
}

/// Whether a batch leads back to its own page, as all parts but the last do.
fn stays(position: &Position, next: Option<&Position>) -> bool {
    next == Some(position) && !matches!(position, Position::Ids { .. })
}

/// The transaction as the mutant sends it.
pub(super) fn sent(mutant: Option<Mutant>, tx: Tx) -> Tx {
    let is_part = |page: &CommitBatch| !page.progress && stays(&page.position, page.next.as_ref());
    if mutant != Some(Mutant::PartsForgotten) || !tx.pages().iter().any(|page| is_part(page)) {
        return tx;
    }
    let emptied = |page: &Arc<CommitBatch>| match is_part(page) {
        true => Arc::new(CommitBatch { records: Vec::new(), ..(**page).clone() }),
        false => Arc::clone(page),
    };
    match tx.pages() {
        [page] => emptied(page).into(),
        pages => pages.iter().map(emptied).collect::<Arc<[_]>>().into(),
    }
}

/// Whether a run resumes between two parts of a page.
pub(super) fn is_between(mem: &MemStore, resume: &ResumePoint) -> bool {
    let last = mem.batches.iter().find(|batch| batch.run == resume.run && batch.batch_no == resume.batch_no);
    last.is_some_and(|batch| stays(&batch.position, batch.next.as_ref()))
}
