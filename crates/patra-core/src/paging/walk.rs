//! The way through a slice: what each page means for the rest of it. Used by a run, and by whoever only looks.

use std::collections::{BTreeSet, VecDeque};

use super::{Facts, Next, Position, Rule};
use crate::error::{Code, Fault, Level};
use crate::hash::content_hash;
use crate::record::Rejected;

/// Empty pages in a row that are followed on the far side's word.
const MAX_EMPTY_PAGES: u32 = 10;

/// Times that a slice is read from its first page again because its result set moved under the reading (G-23).
const MAX_RESTARTS: u32 = 2;

/// Unusable items that a page has before their share counts.
const MANY_UNUSABLE: usize = 4;

/// What follows a page.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// `perhaps`: nothing but a total says that there is such a page.
    Next {
        next: Position,
        perhaps: bool,
    },
    /// The last page, once more (ING-4.3-14).
    Again,
    /// From the first page on once more: the total has fallen, so records have moved past the place that is read next.
    Restart,
    End(End),
    /// The window holds more than a query gives out.
    TooMuch {
        next: Position,
        total: Option<u64>,
        at_most: u64,
    },
    /// There is more, but not for this run.
    MaxPage {
        next: Position,
        pages: u32,
    },
    /// Going on would skip records, ending would lose them.
    Broken(Fault),
}

/// What says that this is the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The page itself, by the rule's order of evidence.
    Page,
    /// The page was read before.
    Repeated,
    /// Its token came before, and tokens are unique.
    TokenSeen,
    /// All records that the total names are read, and the ceiling is reached.
    Counted,
}

/// What the pages of a slice have told so far.
#[derive(Debug)]
pub struct Walk {
    pages: u32,
    items: u64,
    /// Every page of the slice so far was full. Not known behind a resume.
    all_full: bool,
    empty: u32,
    /// The page at hand is the last one, asked for again.
    again: bool,
    /// The total that the page before told.
    total: Option<u64>,
    restarts: u32,
    unusable: u32,
    seen: LoopGuard,
    tokens: TokensSeen,
}

impl Walk {
    pub fn new(from_the_start: bool) -> Walk {
        Walk {
            pages: 0,
            items: 0,
            all_full: from_the_start,
            empty: 0,
            again: false,
            total: None,
            restarts: 0,
            unusable: 0,
            seen: LoopGuard::default(),
            tokens: TokensSeen::default(),
        }
    }

    /// Behind what an earlier run read, with the total that it was told last.
    pub fn resumed(total: Option<u64>) -> Walk {
        Walk { total, ..Walk::new(false) }
    }

    /// The total that the last page told.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Whether pages are being read a second time.
    pub fn is_restarted(&self) -> bool {
        self.restarts > 0
    }

    /// A position was read, by this token.
    pub fn remember(&mut self, token: &str) {
        self.tokens.remember(token);
    }

    /// Whether this token may have been read before; beyond what is remembered, every one may.
    pub fn may_have_read(&self, token: &str) -> bool {
        self.tokens.is_full() || self.tokens.has(token)
    }

    /// Takes note of the page at `here` and says what follows it. `content` tells pages apart.
    pub fn after(
        &mut self,
        rule: &Rule,
        here: &Position,
        facts: &Facts,
        content: [u8; 16],
        rejected: &[Rejected],
    ) -> Step {
        self.pages += 1;
        self.items += u64::from(facts.items);
        let again = std::mem::take(&mut self.again);
        let step = self.by_the_page(rule, here, facts, content, again);
        self.all_full &= facts.items >= rule.page_size;
        self.empty = if facts.items == 0 { self.empty + 1 } else { 0 };
        if self.empty > MAX_EMPTY_PAGES && matches!(step, Step::Next { .. }) {
            return broken("one empty page after the other, each saying that there is more");
        }
        if let Some(fault) = self.changed_form(facts, rejected) {
            return Step::Broken(fault);
        }
        if self.moved(here, facts) && !rule.estimates {
            return self.restart();
        }
        match self.within_bounds(rule, here, facts, step) {
            Step::End(End::Page) if rule.tail_probe && !again && facts.items > 0 => {
                self.again = true;
                Step::Again
            }
            step => step,
        }
    }

    fn by_the_page(&mut self, rule: &Rule, here: &Position, facts: &Facts, content: [u8; 16], again: bool) -> Step {
        if facts.items > 0 && !again && self.seen.repeats(content) {
            return self.repeated(rule, here, facts.total);
        }
        let (next, perhaps) = match rule.next(here, facts, self.all_full) {
            Next::At(next) => (next, false),
            Next::Perhaps(next) => (next, true),
            Next::End => return Step::End(End::Page),
            Next::Cut => {
                return Step::TooMuch { next: here.clone(), total: facts.total, at_most: u64::from(facts.items) };
            }
            Next::Broken(reason) => return broken(reason),
        };
        let came_before = |token: &String| here.token_key().as_ref() == Some(token) || self.tokens.has(token);
        if rule.unique_tokens && next.token_key().as_ref().is_some_and(came_before) {
            return Step::End(End::TokenSeen);
        }
        Step::Next { next, perhaps }
    }

    /// The same page again. Numbered pages end there: some far sides answer every number beyond the last with the last
    /// page. A token or URL that promises more and leads in a circle proves nothing about the end, unless the far side is
    /// known to repeat its token; then, and whenever the total says so, records would be lost by calling it the end.
    fn repeated(&self, rule: &Rule, here: &Position, total: Option<u64>) -> Step {
        let before = rule.before(here);
        let all_seen = total.is_none_or(|total| before.unwrap_or(self.items) >= total);
        if (before.is_some() || rule.always_token) && all_seen {
            Step::End(End::Repeated)
        } else {
            broken("the far side serves the same page again and again")
        }
    }

    /// Two pages in a row with most of their items unusable: the far side has changed its form, and reading on would fill
    /// the quarantine with all it has (G-11).
    fn changed_form(&mut self, facts: &Facts, rejected: &[Rejected]) -> Option<Fault> {
        let most = rejected.len() >= MANY_UNUSABLE && rejected.len() * 2 > facts.items as usize;
        self.unusable = if most { self.unusable + 1 } else { 0 };
        let example = rejected.first().filter(|_| self.unusable > 1)?;
        let reason = format!(
            "most items of two pages in a row are unusable, the far side seems to have changed: {}",
            example.reason
        );
        Some(Fault::new(Code::ParseError, Level::L4, reason))
    }

    /// With numbered pages, a total that falls between two pages means that later records have moved forward.
    fn moved(&mut self, here: &Position, facts: &Facts) -> bool {
        let before = std::mem::replace(&mut self.total, facts.total);
        here.number().is_some() && matches!((before, facts.total), (Some(before), Some(now)) if now < before)
    }

    fn restart(&mut self) -> Step {
        if self.restarts == MAX_RESTARTS {
            let reason = "the result set keeps changing while it is read: records may be missed";
            return Step::Broken(Fault::new(Code::PlatformError, Level::L1, reason));
        }
        *self = Walk { restarts: self.restarts + 1, ..Walk::new(true) };
        Step::Restart
    }

    /// Nothing is clamped in silence: what a query does not give out is told, before it is read where the total tells,
    /// else when the reading gets there (ING-15-02).
    fn within_bounds(&self, rule: &Rule, here: &Position, facts: &Facts, step: Step) -> Step {
        let ceiling = rule.ceiling.unwrap_or(u64::MAX);
        // A total that equals the ceiling may have been cut to it.
        if facts.total.is_some_and(|total| total > ceiling || (total == ceiling && rule.can_cut)) {
            return Step::TooMuch { next: here.clone(), total: facts.total, at_most: ceiling };
        }
        let Step::Next { next, perhaps } = step else { return step };
        if rule.before(&next).is_some_and(|before| before >= ceiling) {
            // Asking there would be refused. A total that is reached says that nothing is there.
            return match facts.total {
                Some(_) => Step::End(End::Counted),
                None => Step::TooMuch { next, total: None, at_most: ceiling },
            };
        }
        let counted = facts.total.zip(rule.before(&next)).is_some_and(|(total, before)| before >= total);
        if rule.max_page.is_some_and(|max| self.pages >= max) {
            if counted && !rule.estimates {
                return Step::End(End::Counted);
            }
            return Step::MaxPage { next, pages: self.pages };
        }
        Step::Next { next, perhaps }
    }
}

fn broken(reason: &str) -> Step {
    Step::Broken(Fault::new(Code::PlatformError, Level::L2, reason))
}

/// Notices a far side that serves the same page for ever (ING-15-01). Remembers a bounded number of page hashes: a loop
/// longer than that is caught by the run's budget.
#[derive(Clone, Debug, Default)]
struct LoopGuard {
    seen: VecDeque<[u8; 16]>,
}

impl LoopGuard {
    const REMEMBERED: usize = 64;

    /// True when a page with this content has been read before in this run. An empty page is never a loop.
    fn repeats(&mut self, content: [u8; 16]) -> bool {
        if self.seen.contains(&content) {
            return true;
        }
        if self.seen.len() == Self::REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(content);
        false
    }
}

/// The tokens of a run, as far as they can be remembered in little room.
#[derive(Debug, Default)]
struct TokensSeen {
    hashes: BTreeSet<[u8; 16]>,
}

impl TokensSeen {
    const REMEMBERED: usize = 1_024;

    fn remember(&mut self, token: &str) {
        if !self.is_full() {
            self.hashes.insert(content_hash(token.as_bytes()));
        }
    }

    fn is_full(&self) -> bool {
        self.hashes.len() >= Self::REMEMBERED
    }

    fn has(&self, token: &str) -> bool {
        self.hashes.contains(&content_hash(token.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_guard_knows_a_page_again_and_stays_small() {
        let mut guard = LoopGuard::default();
        for round in 0..200u8 {
            assert!(!guard.repeats([round; 16]));
        }
        assert!(guard.repeats([199; 16]));
        assert!(guard.seen.len() <= LoopGuard::REMEMBERED);
    }

    #[test]
    fn tokens_beyond_what_is_remembered_may_all_have_been_read() {
        let mut walk = Walk::new(true);
        walk.remember("a");
        assert!(walk.may_have_read("a") && !walk.may_have_read("b"));
        for number in 0..TokensSeen::REMEMBERED {
            walk.remember(&number.to_string());
        }
        assert!(walk.may_have_read("b") && !walk.tokens.has("b"));
    }
}
