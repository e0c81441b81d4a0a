//! Where a page stands, in its slice and in the ledger.

use super::{Policy, Run};
use crate::hash::digest;
use crate::id::RunId;
use crate::paging::{Kind, Position};
use crate::tx::{RateStats, SelfHealing};

/// The place in the ledger that the page at hand takes.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) batch_no: u32,
    pub(super) position: Position,
    /// As it was asked for.
    pub(super) page_size: u32,
    pub(super) before_token: Option<String>,
    pub(super) retries: u32,
    pub(super) throttles: u32,
    /// What is committed here brings the slice further.
    pub(super) progress: bool,
    pub(super) healing: SelfHealing,
    pub(super) rate: RateStats,
    /// Records of the slice, where pages are numbered.
    pub(super) total: Option<u64>,
    /// Records that the task has taken, where it takes only so many.
    pub(super) taken: Option<u64>,
}

pub(super) fn batch_key(run: RunId, batch_no: u32, position: &Position) -> String {
    digest(&["batch", &run.to_string(), &batch_no.to_string(), &format!("{position:?}")])
}

impl Run {
    /// The first page of this slice.
    pub(super) fn first(&self, policy: &Policy) -> Position {
        if let Some(feed) = self.polling.first() {
            return feed;
        }
        match (&self.bounds.ids, self.bounds.pages) {
            (Some(segment), _) => Position::Keys { after: segment.range.after.clone() },
            (None, Some(pages)) => policy.paging.nth(pages.from),
            (None, None) => policy.paging.first(),
        }
    }

    /// Smaller pages for a far side in trouble, where that cannot skip a record: offsets count records (C-43).
    pub(super) fn page_size(&self, policy: &Policy) -> u32 {
        let configured = policy.paging.page_size;
        let numbered = matches!(policy.paging.kind, Kind::Offset) && self.bounds.pages.is_none();
        if numbered { self.advice.page_size(configured) } else { configured }
    }
}
