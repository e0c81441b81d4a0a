//! The end of a list: whether it is read again, is complete, lacks records, or cannot be judged. Every slice that is read
//! to its end passes [`PageWalk::at_the_end`], and [`PageWalk::verification`] says what its completeness is known by.

use super::{EndReason, PageStep, PageWalk, Part, broken};
use crate::error::{Code, Fault, Level};
use crate::paging::circle::SeenHashes;
use crate::paging::{PagingKind, PagingRule, Position, Verification, Verify};

/// How often a slice is read again from its first page because its result set moved during the reading (G-23).
const MAX_RESTARTS: u32 = 2;

/// Maximum passes over a list of which two must agree.
const MAX_PASSES: u32 = 6;

pub(super) const UNSTABLE: &str = "the order of the list is not stable, or it keeps changing while it is read: records \
     may be missing; let the API sort by a unique key, or use pagination.verify: twice";

impl PageWalk {
    /// What the completeness of a list that was read to its end is known by.
    pub fn verification(&self, rule: &PagingRule) -> Verification {
        let one_page = self.pages == 1 && self.from_the_start && self.part == Part::Whole;
        match (&rule.kind, rule.verify) {
            (PagingKind::Time, _) if rule.may_omit && self.items > 0 && self.total.is_none() => {
                Verification::Unverified
            }
            (PagingKind::Time, _) => Verification::Single,
            _ if one_page => Verification::Single,
            (_, Verify::None) => Verification::Unverified,
            _ if self.doubted => Verification::Unverified,
            (_, Verify::Twice) if self.is_read_twice() && self.duplicates == 0 => Verification::Twice,
            (_, Verify::Twice) => Verification::Unverified,
            (PagingKind::Token { .. }, _) if !self.unchecked => Verification::Token,
            (PagingKind::Offset, Verify::Seams)
                if self.part == Part::Whole && !(self.aligned || self.unchecked || self.shifted || self.disordered) =>
            {
                Verification::Seams
            }
            _ => Verification::Unverified,
        }
    }

    /// The pass before found the same records.
    fn is_read_twice(&self) -> bool {
        self.part == Part::Whole && self.counted && self.last_pass == Some(self.ids.pass())
    }

    /// Whether no record can have moved past the reader up to here, so that the pages that were read are complete in
    /// themselves.
    pub fn keeps_its_place(&self, rule: &PagingRule) -> bool {
        let seams = || self.counted && self.back == 0 && self.verification(rule) == Verification::Seams;
        match rule.kind {
            PagingKind::Token { .. } => !(self.unchecked || self.doubted),
            PagingKind::Time => true,
            _ => seams() || (self.pages == 1 && self.from_the_start),
        }
    }

    /// Whether more records were read than the total says, so that it does not show where the list ends.
    pub fn exceeds(&self, total: u64) -> bool {
        let read = if self.counted { self.ids.distinct() } else { self.items };
        read > total
    }

    /// Nothing that the rest of the pass shows proves that it is complete.
    pub fn doubt(&mut self) {
        self.doubted = true;
    }

    /// The list was read to its end: compares what arrived with the total, or with the pass before.
    pub fn at_the_end(&mut self, rule: &PagingRule, reason: EndReason) -> PageStep {
        let (pass, distinct) = (self.ids.pass(), self.ids.distinct());
        if reason == EndReason::Repeated && !rule.repeat_ends {
            // The last page comes again behind the end, or the server has served an old page, or leads in a circle.
            let agrees = self.counted && !rule.estimates && self.total == Some(distinct);
            self.doubted |= !agrees;
        }
        let checked =
            self.part == Part::Whole && !self.alone && self.counted && !rule.repeat_ends && rule.verify != Verify::None;
        if !checked {
            return PageStep::End(reason);
        }
        if rule.verify == Verify::Twice && self.last_pass != Some(pass) {
            if self.restarts + 1 >= MAX_PASSES {
                let reason = format!("no two of {MAX_PASSES} passes over the list found the same records");
                return incomplete(&reason);
            }
            return self.read_again(Some(pass));
        }
        // The same rows in the same places again: nothing moves, and the list has a record twice.
        if self.disordered && !self.shifted && self.sequence.is_some() && self.sequence == self.last_sequence {
            self.doubted = true;
        } else if self.shifted || self.disordered {
            // A pass in which nothing joins before the reader shows everything.
            return match self.restarts {
                0..MAX_RESTARTS => self.read_again(Some(pass)),
                _ if self.disordered => incomplete(UNSTABLE),
                _ => PageStep::End(reason),
            };
        }
        let rows = distinct + self.duplicates;
        match self.total.filter(|total| !rule.estimates && distinct < *total) {
            None => PageStep::End(reason),
            // The total counts the rows, and some of them have the same id.
            Some(total) if self.last_pass == Some(pass) && rows >= total => {
                self.doubted = true;
                PageStep::End(reason)
            }
            // The same again: the server does not have them, or does not return them.
            Some(total) if self.last_pass == Some(pass) || self.restarts >= MAX_RESTARTS => {
                let returned = match self.duplicates {
                    0 => distinct.to_string(),
                    _ => format!("{rows} rows, {distinct} distinct"),
                };
                let reason = format!(
                    "the server reports {total} records and returned {returned}; if its total is an estimate, declare \
                     `response.total: estimate`"
                );
                incomplete(&reason)
            }
            Some(_) => self.read_again(Some(pass)),
        }
    }

    /// Handles a page that was read before. Numbered pages end there: some upstreams return the last page for every
    /// number beyond it. A token or URL that promises more and leads in a circle proves nothing about the end, unless
    /// the upstream is known to repeat its token; then, and whenever the total says so, ending would lose records.
    pub(super) fn repeated(&self, rule: &PagingRule, here: &Position, total: Option<u64>) -> PageStep {
        let before = rule.before(here);
        let all_seen = total.is_none_or(|total| before.unwrap_or(self.items) >= total);
        if rule.repeat_ends || ((before.is_some() || rule.always_token) && all_seen) {
            PageStep::End(EndReason::Repeated)
        } else {
            broken("the upstream serves the same page again and again")
        }
    }

    pub(super) fn restart(&mut self, reason: &str) -> PageStep {
        if self.restarts >= MAX_RESTARTS {
            return incomplete(reason);
        }
        self.read_again(None)
    }

    fn read_again(&mut self, last_pass: Option<u64>) -> PageStep {
        let mut earlier_tokens = std::mem::replace(&mut self.earlier_tokens, SeenHashes::of(0));
        std::mem::replace(&mut self.tokens, SeenHashes::of(0)).hashes.into_iter().for_each(|hash| {
            earlier_tokens.add(hash);
        });
        let (part, aligned, restarts, last_sequence) = (self.part, self.aligned, self.restarts + 1, self.sequence);
        *self = PageWalk { restarts, last_pass, part, aligned, earlier_tokens, last_sequence, ..PageWalk::new(true) };
        PageStep::Restart
    }
}

pub(super) fn incomplete(reason: &str) -> PageStep {
    PageStep::Incomplete(Fault::new(Code::PartialFail, Level::L2, reason))
}
