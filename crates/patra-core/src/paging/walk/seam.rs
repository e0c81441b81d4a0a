//! Seams of a list that is read by offsets: each request overlaps the page before by one record.

use super::super::verify::key;
use super::end::{UNSTABLE, incomplete};
use super::{PageStep, PageWalk, Part, Verify};
use crate::paging::circle::{Landmark, LoopGuard};
use crate::paging::{PageFacts, PagingRule, Position};

/// How often the reader may step back because a page does not begin with a known record, in addition to once per page
/// that brought something new.
const MAX_STEPS_BACK: u64 = 16;

/// How the next page was requested.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overlap {
    /// Offset of the page before and its first record; none after a resume.
    pub(super) before: Option<(u64, [u8; 16])>,
    /// The offset without overlap.
    pub(super) exact: u64,
    /// The record that the page begins with if nothing has moved. None after a step back.
    pub(super) expected: Option<u64>,
}

impl PageWalk {
    /// The server refused a request that overlaps the page before: what to request instead, once per walk.
    pub fn refuse_overlap(&mut self) -> Option<Position> {
        let overlap = self.overlap.take().filter(|_| !self.aligned && self.fresh <= 1)?;
        self.aligned = true;
        Some(Position::Offset(overlap.exact))
    }

    /// Checks that the page begins with a record that was read before. As long as the list keeps its order, everything
    /// that was not read comes after such a record, whatever has left or joined the list meanwhile. If not, steps back
    /// until it does.
    pub(super) fn check_seam(&mut self, rule: &PagingRule, here: &Position, facts: &PageFacts) -> Option<PageStep> {
        let (Some(overlap), Position::Offset(at)) = (self.overlap.take(), here) else { return None };
        let first = facts.ids.first();
        let same_page = overlap.before.filter(|(before, id)| before != at && Some(id) == first);
        if let (Some((before, _)), true) = (same_page, self.back == 0 && self.fresh <= 1)
            && at - before > 1
        {
            // The offset was rounded down to the page before.
            self.aligned = true;
            return Some(PageStep::Next { next: Position::Offset(overlap.exact), perhaps: false });
        }
        if let Some(id) = first.filter(|id| self.ids.has(id)) {
            self.back = 0;
            let matches = overlap.expected == Some(key(id));
            self.shifted |= overlap.expected.is_some() && !matches;
            // Where nothing has moved, only the first record is known. Otherwise a few more may be, before the new ones.
            let mut rest = facts.ids.iter().skip(1).skip_while(|id| !matches && self.ids.has(id));
            self.disordered |= rest.any(|id| self.ids.has(id));
            return None;
        }
        self.steps_back += 1;
        if self.steps_back > MAX_STEPS_BACK + self.fresh {
            return Some(incomplete(UNSTABLE));
        }
        let size = u64::from(rule.page_size.max(1));
        let to = match overlap.before {
            Some((before, _)) if self.back == 0 => before,
            Some(_) => at.saturating_sub(size << self.back.min(32)),
            None => 0,
        };
        self.back += 1;
        // Pages that were read before come again.
        self.seen = LoopGuard::default();
        self.landmark = Landmark::default();
        self.seam = None;
        if to > 0 {
            let first = first.copied().unwrap_or_default();
            self.overlap = Some(Overlap { before: Some((*at, first)), exact: to, expected: None });
        }
        Some(PageStep::Next { next: Position::Offset(to), perhaps: false })
    }

    /// A page that ends the list has nothing but the record that overlaps. A server that returns no more than so many
    /// records would look the same, so the page after it is requested as well, unless a total shows the end.
    pub(super) fn is_end_unclear(&self, facts: &PageFacts, fresh: bool) -> bool {
        let total = facts.total.is_some_and(|total| self.ids.distinct() >= total);
        facts.items > 0 && facts.has_more.is_none() && !fresh && !total
    }

    /// The next offset, one record earlier where the seam is to be checked.
    pub(super) fn overlapped(
        &mut self,
        rule: &PagingRule,
        here: &Position,
        facts: &PageFacts,
        next: Position,
    ) -> Position {
        self.seam = None;
        let (Position::Offset(at), Position::Offset(exact), Verify::Seams) = (here, &next, rule.verify) else {
            return next;
        };
        let (first, last) = match &facts.ids[..] {
            [first, .., last] if self.counted && self.part == Part::Whole && !self.aligned => (*first, key(last)),
            _ => {
                self.unchecked = true;
                return next;
            }
        };
        // A record that the list has twice shows its place only if it comes once.
        let comes_again = |id: &[u8; 16]| facts.ids.iter().filter(|other| *other == id).count() > 1;
        self.doubted |= comes_again(&first) || facts.ids.last().is_some_and(comes_again);
        self.seam = Some(last);
        self.overlap = Some(Overlap { before: Some((*at, first)), exact: *exact, expected: Some(last) });
        Position::Offset(exact - 1)
    }
}
