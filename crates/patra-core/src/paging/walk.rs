//! Page walk: what each page means for the rest of its slice. Used by runs and by dry runs.

use std::collections::{BTreeSet, VecDeque};

use super::{NextPage, PageFacts, PagingRule, Position};
use crate::error::{Code, Fault, Level};
use crate::hash::id_hash;
use crate::record::RejectedRecord;

/// Maximum consecutive empty pages when the upstream says that there is more.
const MAX_EMPTY_PAGES: u32 = 10;

/// How often a slice is read again from its first page because its result set moved during the reading (G-23).
const MAX_RESTARTS: u32 = 2;

/// Maximum tokens of a run that are remembered.
const MAX_TOKENS: usize = 1_024;

/// Maximum ids of a run that are remembered; beyond them every id counts as new, and the run's budget bounds the
/// reading.
const MAX_IDS: usize = 65_536;

/// Minimum unusable items on a page before their share counts.
const MANY_UNUSABLE: usize = 4;

/// What follows a page.
#[derive(Clone, PartialEq, Debug)]
pub enum PageStep {
    /// `perhaps`: only a total says that this page exists.
    Next {
        next: Position,
        perhaps: bool,
    },
    /// Request the last page once more (ING-4.3-14).
    Again,
    /// Read again from the first page: the total has fallen, so records have moved past the next position.
    Restart,
    End(EndReason),
    /// The window holds more than the upstream returns for one query.
    TooMuch {
        next: Position,
        total: Option<u64>,
        at_most: u64,
    },
    /// There is more, but this run has reached its page cap.
    MaxPage {
        next: Position,
        pages: u32,
    },
    /// Continuing would skip records, ending would lose them.
    Broken(Fault),
}

/// Evidence for the end of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// The page itself, by the rule's order of evidence.
    Page,
    /// The page was read before.
    Repeated,
    /// Its token was read before, and tokens are unique.
    TokenSeen,
    /// All records of the total are read, and the ceiling is reached.
    Counted,
}

/// State of the walk after the pages read so far.
#[derive(Debug)]
pub struct PageWalk {
    pages: u32,
    items: u64,
    /// Every page of the slice so far was full. Unknown after a resume.
    all_full: bool,
    empty: u32,
    /// The current page is the last one, requested again.
    again: bool,
    /// The total of the previous page.
    total: Option<u64>,
    restarts: u32,
    unusable: u32,
    seen: LoopGuard,
    tokens: SeenHashes,
    /// Hashed ids of the items so far, where they decide on the end.
    ids: SeenHashes,
}

impl PageWalk {
    pub fn new(from_the_start: bool) -> PageWalk {
        PageWalk {
            pages: 0,
            items: 0,
            all_full: from_the_start,
            empty: 0,
            again: false,
            total: None,
            restarts: 0,
            unusable: 0,
            seen: LoopGuard::default(),
            tokens: SeenHashes::of(MAX_TOKENS),
            ids: SeenHashes::of(MAX_IDS),
        }
    }

    /// A walk that continues after an earlier run, with the last total that it saw.
    pub fn resumed(total: Option<u64>) -> PageWalk {
        PageWalk { total, ..PageWalk::new(false) }
    }

    /// The total of the last page.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Whether pages are being read a second time.
    pub fn is_restarted(&self) -> bool {
        self.restarts > 0
    }

    /// Remembers the token of a position that was read.
    pub fn remember(&mut self, token: &str) {
        self.tokens.add(id_hash(token.as_bytes()));
    }

    /// Whether this token may have been read before; beyond the remembered ones, any may.
    pub fn may_have_read(&self, token: &str) -> bool {
        self.tokens.is_full() || self.has_read(token)
    }

    fn has_read(&self, token: &str) -> bool {
        self.tokens.has(&id_hash(token.as_bytes()))
    }

    /// Records the page at `here` and decides what follows it. `content` identifies the page.
    pub fn after(
        &mut self,
        rule: &PagingRule,
        here: &Position,
        facts: &PageFacts,
        content: [u8; 16],
        rejected: &[RejectedRecord],
    ) -> PageStep {
        self.pages += 1;
        self.items += u64::from(facts.items);
        let again = std::mem::take(&mut self.again);
        let step = self.by_the_page(rule, here, facts, content, again);
        self.all_full &= facts.items >= rule.page_size;
        self.empty = if facts.items == 0 { self.empty + 1 } else { 0 };
        if self.empty > MAX_EMPTY_PAGES && matches!(step, PageStep::Next { .. }) {
            return broken("one empty page after the other, each saying that there is more");
        }
        if let Some(fault) = self.changed_form(facts, rejected) {
            return PageStep::Broken(fault);
        }
        if self.moved(here, facts) && !rule.estimates {
            return self.restart();
        }
        match self.within_bounds(rule, here, facts, step) {
            PageStep::End(EndReason::Page) if rule.tail_probe && !again && facts.items > 0 => {
                self.again = true;
                PageStep::Again
            }
            step => step,
        }
    }

    fn by_the_page(
        &mut self,
        rule: &PagingRule,
        here: &Position,
        facts: &PageFacts,
        content: [u8; 16],
        again: bool,
    ) -> PageStep {
        if facts.items > 0 && !again && self.seen.repeats(content) {
            return self.repeated(rule, here, facts.total);
        }
        if rule.repeat_ends && !again && !facts.ids.is_empty() && !self.ids.add_all(&facts.ids) {
            return PageStep::End(EndReason::Repeated);
        }
        let (next, perhaps) = match rule.next(here, facts, self.all_full) {
            NextPage::At(next) => (next, false),
            NextPage::Perhaps(next) => (next, true),
            NextPage::End => return PageStep::End(EndReason::Page),
            NextPage::Cut => {
                return PageStep::TooMuch { next: here.clone(), total: facts.total, at_most: u64::from(facts.items) };
            }
            NextPage::Broken(reason) => return broken(reason),
        };
        let came_before = |token: &String| here.token_key().as_ref() == Some(token) || self.has_read(token);
        if rule.unique_tokens && next.token_key().as_ref().is_some_and(came_before) {
            return PageStep::End(EndReason::TokenSeen);
        }
        PageStep::Next { next, perhaps }
    }

    /// Handles a page that was read before. Numbered pages end there: some upstreams return the last page for every
    /// number beyond it. A token or URL that promises more and leads in a circle proves nothing about the end, unless
    /// the upstream is known to repeat its token; then, and whenever the total says so, ending would lose records.
    fn repeated(&self, rule: &PagingRule, here: &Position, total: Option<u64>) -> PageStep {
        let before = rule.before(here);
        let all_seen = total.is_none_or(|total| before.unwrap_or(self.items) >= total);
        if rule.repeat_ends || ((before.is_some() || rule.always_token) && all_seen) {
            PageStep::End(EndReason::Repeated)
        } else {
            broken("the upstream serves the same page again and again")
        }
    }

    /// Two consecutive pages with mostly unusable items: the upstream has changed its format, and continuing would
    /// fill the quarantine with all its records (G-11).
    fn changed_form(&mut self, facts: &PageFacts, rejected: &[RejectedRecord]) -> Option<Fault> {
        let most = rejected.len() >= MANY_UNUSABLE && rejected.len() * 2 > facts.items as usize;
        self.unusable = if most { self.unusable + 1 } else { 0 };
        let example = rejected.first().filter(|_| self.unusable > 1)?;
        let reason = format!(
            "most items of two pages in a row are unusable, the upstream seems to have changed: {}",
            example.reason
        );
        Some(Fault::new(Code::ParseError, Level::L4, reason))
    }

    /// With numbered pages, a total that falls between two pages means that later records have moved forward.
    fn moved(&mut self, here: &Position, facts: &PageFacts) -> bool {
        let before = std::mem::replace(&mut self.total, facts.total);
        here.number().is_some() && matches!((before, facts.total), (Some(before), Some(now)) if now < before)
    }

    fn restart(&mut self) -> PageStep {
        if self.restarts == MAX_RESTARTS {
            let reason = "the result set keeps changing while it is read: records may be missed";
            return PageStep::Broken(Fault::new(Code::PlatformError, Level::L1, reason));
        }
        *self = PageWalk { restarts: self.restarts + 1, ..PageWalk::new(true) };
        PageStep::Restart
    }

    /// Nothing is truncated silently: records that one query does not return are reported, before the reading where
    /// the total says so, else when the reading gets there (ING-15-02).
    fn within_bounds(&self, rule: &PagingRule, here: &Position, facts: &PageFacts, step: PageStep) -> PageStep {
        let ceiling = rule.ceiling.unwrap_or(u64::MAX);
        // A total that equals the ceiling may have been capped.
        if facts.total.is_some_and(|total| total > ceiling || (total == ceiling && rule.can_cut)) {
            return PageStep::TooMuch { next: here.clone(), total: facts.total, at_most: ceiling };
        }
        let PageStep::Next { next, perhaps } = step else { return step };
        if rule.before(&next).is_some_and(|before| before >= ceiling) {
            // A request beyond the ceiling would be refused. If the total is reached, nothing is there.
            return match facts.total {
                Some(_) => PageStep::End(EndReason::Counted),
                None => PageStep::TooMuch { next, total: None, at_most: ceiling },
            };
        }
        let counted = facts.total.zip(rule.before(&next)).is_some_and(|(total, before)| before >= total);
        if rule.max_page.is_some_and(|max| self.pages >= max) {
            if counted && !rule.estimates {
                return PageStep::End(EndReason::Counted);
            }
            return PageStep::MaxPage { next, pages: self.pages };
        }
        PageStep::Next { next, perhaps }
    }
}

fn broken(reason: &str) -> PageStep {
    PageStep::Broken(Fault::new(Code::PlatformError, Level::L2, reason))
}

/// Detects an upstream that serves the same page for ever (ING-15-01). Remembers a bounded number of page hashes: the
/// run's budget stops longer loops.
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

/// A bounded set of hashes.
#[derive(Debug)]
struct SeenHashes {
    hashes: BTreeSet<[u8; 16]>,
    most: usize,
}

impl SeenHashes {
    fn of(most: usize) -> SeenHashes {
        SeenHashes { hashes: BTreeSet::new(), most }
    }

    /// True when the hash is new, or cannot be remembered.
    fn add(&mut self, hash: [u8; 16]) -> bool {
        if self.is_full() { !self.has(&hash) } else { self.hashes.insert(hash) }
    }

    /// True when any of the hashes is new.
    fn add_all(&mut self, hashes: &[[u8; 16]]) -> bool {
        // All hashes are remembered, not only those up to the first new one.
        hashes.iter().filter(|hash| self.add(**hash)).count() > 0
    }

    fn is_full(&self) -> bool {
        self.hashes.len() >= self.most
    }

    fn has(&self, hash: &[u8; 16]) -> bool {
        self.hashes.contains(hash)
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
        let mut walk = PageWalk::new(true);
        walk.remember("a");
        assert!(walk.may_have_read("a") && !walk.may_have_read("b"));
        for number in 0..MAX_TOKENS {
            walk.remember(&number.to_string());
        }
        assert!(walk.may_have_read("b") && !walk.has_read("b"));
    }

    /// Pages of ids at tokens that are always new, each saying that there is more.
    fn steps(rule: &PagingRule, pages: &[&[u8]]) -> Vec<PageStep> {
        let (mut walk, mut steps) = (PageWalk::new(true), Vec::new());
        for (at, ids) in pages.iter().enumerate() {
            let facts = PageFacts {
                items: ids.len() as u32,
                has_more: Some(true),
                next_token: Some(format!("t{at}")),
                ids: ids.iter().map(|id| [*id; 16]).collect(),
                ..PageFacts::default()
            };
            let here = Position::Token(at.checked_sub(1).map(|before| format!("t{before}")));
            // Whatever the ids, no two pages have the same content.
            steps.push(walk.after(rule, &here, &facts, [at as u8 + 100; 16], &[]));
        }
        steps
    }

    // covers: TWEET-25, TWEET-170
    #[test]
    fn a_page_without_a_new_id_is_the_end_where_that_is_declared_and_nowhere_else() {
        let plain = PagingRule::new(super::super::PagingKind::Token { initial: None }, 2);
        let tweets = PagingRule { repeat_ends: true, ..plain.clone() };
        let pages: &[&[u8]] = &[&[1, 2], &[2, 3], &[3, 1]];
        let next = |token: &str| PageStep::Next { next: Position::Token(Some(token.into())), perhaps: false };
        assert_eq!(steps(&tweets, pages), [next("t0"), next("t1"), PageStep::End(EndReason::Repeated)]);
        assert_eq!(steps(&plain, pages), [next("t0"), next("t1"), next("t2")]);
    }

    // covers: TWEET-25
    #[test]
    fn the_same_page_again_is_the_end_where_a_repetition_is() {
        let rule =
            PagingRule { repeat_ends: true, ..PagingRule::new(super::super::PagingKind::Token { initial: None }, 2) };
        let mut walk = PageWalk::new(true);
        let facts = PageFacts { items: 2, has_more: Some(true), next_token: Some("b".into()), ..PageFacts::default() };
        walk.after(&rule, &Position::Token(None), &facts, [1; 16], &[]);
        let again = walk.after(&rule, &Position::Token(Some("b".into())), &facts, [1; 16], &[]);
        assert_eq!(again, PageStep::End(EndReason::Repeated));
    }
}
