//! Limits of a walk: the ceiling of a query, and the page cap.

use super::{EndReason, PageStep, PageWalk};
use crate::paging::{PageFacts, PagingRule, Position};

impl PageWalk {
    /// Nothing is truncated silently: records that one query does not return are reported, before the reading where
    /// the total says so, else when the reading gets there (ING-15-02).
    pub(super) fn within_bounds(
        &self,
        rule: &PagingRule,
        here: &Position,
        facts: &PageFacts,
        step: PageStep,
    ) -> PageStep {
        let ceiling = rule.ceiling.unwrap_or(u64::MAX);
        // A total that equals the ceiling may have been capped.
        if facts.total.is_some_and(|total| total > ceiling || (total == ceiling && rule.can_cut)) {
            return PageStep::TooMuch { next: here.clone(), total: facts.total, at_most: ceiling };
        }
        let PageStep::Next { next, perhaps } = step else { return step };
        // The list goes on by its pages. A total that is smaller than what was read does not know its end.
        let believed = facts.total.filter(|total| !rule.estimates && !self.exceeds(*total));
        if rule.before(&next).is_some_and(|before| before >= ceiling) {
            // A request beyond the ceiling would be refused. If the total is reached, nothing is there.
            return match believed {
                Some(_) => PageStep::End(EndReason::Counted),
                None => PageStep::TooMuch { next, total: None, at_most: ceiling },
            };
        }
        if rule.max_page.is_some_and(|max| self.pages >= max) {
            if believed.zip(rule.before(&next)).is_some_and(|(total, before)| before >= total) {
                return PageStep::End(EndReason::Counted);
            }
            return PageStep::MaxPage { next, pages: self.pages };
        }
        PageStep::Next { next, perhaps }
    }
}
