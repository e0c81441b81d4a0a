//! The way through a slice: what each page means for the rest of it. Used by a run, and by whoever only looks.

use std::collections::{BTreeSet, VecDeque};

use super::{Facts, Next, Position, Rule};
use crate::error::{Code, Fault, Level};
use crate::hash::id_hash;
use crate::record::Rejected;

/// Empty pages in a row that are followed on the far side's word.
const MAX_EMPTY_PAGES: u32 = 10;

/// Times that a slice is read from its first page again because its result set moved under the reading (G-23).
const MAX_RESTARTS: u32 = 2;

/// Tokens of a run that are remembered.
const MAX_TOKENS: usize = 1_024;

/// Ids of a run that are remembered; beyond them every id counts as new, and the run's budget bounds the reading.
const MAX_IDS: usize = 65_536;

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
    tokens: Seen,
    /// What the items so far are known by, where that decides on the end.
    ids: Seen,
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
            tokens: Seen::of(MAX_TOKENS),
            ids: Seen::of(MAX_IDS),
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
        self.tokens.add(id_hash(token.as_bytes()));
    }

    /// Whether this token may have been read before; beyond what is remembered, every one may.
    pub fn may_have_read(&self, token: &str) -> bool {
        self.tokens.is_full() || self.has_read(token)
    }

    fn has_read(&self, token: &str) -> bool {
        self.tokens.has(&id_hash(token.as_bytes()))
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
        if rule.repeat_ends && !again && !facts.ids.is_empty() && !self.ids.add_all(&facts.ids) {
            return Step::End(End::Repeated);
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
        let came_before = |token: &String| here.token_key().as_ref() == Some(token) || self.has_read(token);
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
        if rule.repeat_ends || ((before.is_some() || rule.always_token) && all_seen) {
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

/// Hashes of what came, as far as they can be remembered in little room.
#[derive(Debug)]
struct Seen {
    hashes: BTreeSet<[u8; 16]>,
    most: usize,
}

impl Seen {
    fn of(most: usize) -> Seen {
        Seen { hashes: BTreeSet::new(), most }
    }

    /// True when it is new, or cannot be remembered.
    fn add(&mut self, hash: [u8; 16]) -> bool {
        if self.is_full() { !self.has(&hash) } else { self.hashes.insert(hash) }
    }

    /// True when one of them is.
    fn add_all(&mut self, hashes: &[[u8; 16]]) -> bool {
        // All are to be remembered, not only those up to the first new one.
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
        let mut walk = Walk::new(true);
        walk.remember("a");
        assert!(walk.may_have_read("a") && !walk.may_have_read("b"));
        for number in 0..MAX_TOKENS {
            walk.remember(&number.to_string());
        }
        assert!(walk.may_have_read("b") && !walk.has_read("b"));
    }

    /// Pages of ids at tokens that are always new, each saying that there is more.
    fn steps(rule: &Rule, pages: &[&[u8]]) -> Vec<Step> {
        let (mut walk, mut steps) = (Walk::new(true), Vec::new());
        for (at, ids) in pages.iter().enumerate() {
            let facts = Facts {
                items: ids.len() as u32,
                has_more: Some(true),
                next_token: Some(format!("t{at}")),
                ids: ids.iter().map(|id| [*id; 16]).collect(),
                ..Facts::default()
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
        let plain = Rule::new(super::super::Kind::Token { initial: None }, 2);
        let tweets = Rule { repeat_ends: true, ..plain.clone() };
        let pages: &[&[u8]] = &[&[1, 2], &[2, 3], &[3, 1]];
        let next = |token: &str| Step::Next { next: Position::Token(Some(token.into())), perhaps: false };
        assert_eq!(steps(&tweets, pages), [next("t0"), next("t1"), Step::End(End::Repeated)]);
        assert_eq!(steps(&plain, pages), [next("t0"), next("t1"), next("t2")]);
    }

    // covers: TWEET-25
    #[test]
    fn the_same_page_again_is_the_end_where_a_repetition_is() {
        let rule = Rule { repeat_ends: true, ..Rule::new(super::super::Kind::Token { initial: None }, 2) };
        let mut walk = Walk::new(true);
        let facts = Facts { items: 2, has_more: Some(true), next_token: Some("b".into()), ..Facts::default() };
        walk.after(&rule, &Position::Token(None), &facts, [1; 16], &[]);
        let again = walk.after(&rule, &Position::Token(Some("b".into())), &facts, [1; 16], &[]);
        assert_eq!(again, Step::End(End::Repeated));
    }
}
