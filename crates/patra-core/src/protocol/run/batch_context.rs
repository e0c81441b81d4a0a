//! Position of a page, in its slice and in the ledger.

use super::{RunMachine, RunPolicy, RunStage};
use crate::hash::digest;
use crate::id::RunId;
use crate::paging::{PagingKind, Position, Verify, WalkProgress};
use crate::tx::{RateStats, SelfHealing};

/// The ledger row of the current page.
#[derive(Debug)]
pub(super) struct BatchContext {
    pub(super) batch_no: u32,
    pub(super) position: Position,
    /// The requested page size.
    pub(super) page_size: u32,
    pub(super) before_token: Option<String>,
    pub(super) retries: u32,
    pub(super) throttles: u32,
    /// This batch advances the slice.
    pub(super) progress: bool,
    pub(super) healing: SelfHealing,
    pub(super) rate: RateStats,
    /// Total records of the slice, except with tokens.
    pub(super) total: Option<u64>,
    /// Records that the task has taken, where it has a limit.
    pub(super) taken: Option<u64>,
    /// State of the completeness checks after this page.
    pub(super) walk: Option<WalkProgress>,
}

pub(super) fn batch_key(run: RunId, batch_no: u32, position: &Position) -> String {
    digest(&["batch", &run.to_string(), &batch_no.to_string(), &format!("{position:?}")])
}

impl RunMachine {
    /// The first page of this slice.
    pub(super) fn first(&self, policy: &RunPolicy) -> Position {
        if let Some(feed) = self.polling.first() {
            return feed;
        }
        match (&self.bounds.ids, self.bounds.pages) {
            (Some(segment), _) => Position::Keys { after: segment.range.after.clone() },
            (None, Some(pages)) => policy.paging.nth(pages.from),
            (None, None) => policy.paging.first(),
        }
    }

    /// Where a run goes on that dies between a page without its end and its own end: it must not take the page for the
    /// last of the slice. A poll is not read again.
    pub(super) fn behind_a_cut(&self) -> Option<Position> {
        match &self.stage {
            RunStage::Paging(policy) if self.lease.source.is_none() => Some(self.first(policy)),
            _ => None,
        }
    }

    /// Where to continue after an earlier run. A place whose seam is not known proves nothing about what is before it,
    /// so the slice is read again from its first page.
    pub(super) fn resumable(
        &self,
        policy: &RunPolicy,
        next: Position,
        walk: Option<Box<WalkProgress>>,
    ) -> (Position, Option<Box<WalkProgress>>) {
        let checked = policy.paging.verify == Verify::Seams && self.bounds.pages.is_none();
        match (&next, &walk) {
            (Position::Offset(1..), Some(walk)) if checked && walk.seam.is_none() && !walk.unchecked => {
                let walk = WalkProgress { restarts: walk.restarts + 1, ..WalkProgress::default() };
                (self.first(policy), Some(Box::new(walk)))
            }
            _ => (next, walk),
        }
    }

    /// Smaller pages for an upstream in trouble, where that cannot skip a record: offsets count records (C-43).
    pub(super) fn page_size(&self, policy: &RunPolicy) -> u32 {
        let configured = policy.paging.page_size;
        let numbered = matches!(policy.paging.kind, PagingKind::Offset) && self.bounds.pages.is_none();
        let size = if numbered { self.advice.page_size(configured) } else { configured };
        match (self.reader.position(), policy.paging.ceiling) {
            // A page that overlaps the one before must not reach beyond the ceiling: it would be refused.
            (Some(Position::Offset(at)), Some(ceiling)) if *at < ceiling => {
                size.min(u32::try_from(ceiling - at).unwrap_or(u32::MAX))
            }
            _ => size,
        }
    }
}
