//! Page walk: what each page means for the rest of its slice. Used by runs and by dry runs.

mod bounds;
mod end;
mod seam;

use end::incomplete;
use seam::Overlap;

use super::circle::{Landmark, LoopGuard, SeenHashes};
use super::place::PlaceFinder;
use super::verify::{ReadIds, Verify, WalkProgress, key};
use super::{NextPage, PageFacts, PagingRule, Position};
use crate::error::{Code, Fault, Level};
use crate::hash::id_hash;
use crate::record::RejectedRecord;

/// Maximum tokens of a run that are remembered.
const MAX_TOKENS: usize = 1_024;

const MOVED_BETWEEN_RANGES: &str = "the total of the list changed while ranges of its pages were read: records may have moved \
     to a range that was already read; without pagination.page_range the list is read again until it stands still";

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
    /// Read again from the first page: records may have moved past the next position, or a second pass is wanted.
    Restart,
    /// The list was read to its end, and it is known that records may be missing.
    Incomplete(Fault),
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

/// The part of a list that a walk covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Whole,
    /// A range of pages; others read the rest.
    Range,
    /// As many records as a run wants, from the first page on.
    Beginning,
}

/// State of the walk after the pages read so far.
#[derive(Debug)]
pub struct PageWalk {
    pages: u32,
    items: u64,
    /// The walk began at the first page, not after an earlier run.
    from_the_start: bool,
    /// Every page of the slice so far was full. Unknown after a resume.
    all_full: bool,
    empty: u32,
    /// The current page is the last one, requested again.
    again: bool,
    /// The total of the previous page.
    total: Option<u64>,
    unusable: u32,
    seen: LoopGuard,
    landmark: Landmark,
    /// Tokens of this pass.
    tokens: SeenHashes,
    /// Tokens of earlier passes of this run.
    earlier_tokens: SeenHashes,
    ids: ReadIds,
    /// The ids of all items are known, from the first page of the slice on, so that they can be counted.
    counted: bool,
    part: Part,
    /// Only one page is judged: nothing is known about the others.
    alone: bool,
    /// The next page must begin with a record of the page before.
    overlap: Option<Overlap>,
    /// Consecutive steps back.
    back: u32,
    /// Steps back in all.
    steps_back: u64,
    /// Pages that brought something new.
    fresh: u64,
    /// The server takes only offsets that are multiples of the page size.
    aligned: bool,
    /// A page was not checked against the one before.
    unchecked: bool,
    /// Records joined the list before the reader. One of them may be a record that changed its place unread.
    shifted: bool,
    /// A record that was read came again after one that was not.
    disordered: bool,
    restarts: u32,
    last_pass: Option<u64>,
    /// Consecutive pages without a new id.
    idle: u32,
    /// The record that the next page must begin with.
    seam: Option<u64>,
    /// An item of this pass had no usable id.
    unidentified: bool,
    /// Something was seen in this pass that its checks do not explain: it proves nothing.
    doubted: bool,
    /// Rows of this pass whose id came before in it, except where pages overlap.
    duplicates: u64,
    /// Hash of the rows of this pass in the order in which they came. None after a resume.
    sequence: Option<u64>,
    /// The same of the pass before.
    last_sequence: Option<u64>,
    /// Hash of the ids of the page before.
    last_ids: u32,
    /// Notices tokens that are numbers of a place.
    places: PlaceFinder,
}

impl PageWalk {
    pub fn new(from_the_start: bool) -> PageWalk {
        PageWalk {
            pages: 0,
            items: 0,
            from_the_start,
            all_full: from_the_start,
            empty: 0,
            again: false,
            total: None,
            unusable: 0,
            seen: LoopGuard::default(),
            landmark: Landmark::default(),
            tokens: SeenHashes::of(MAX_TOKENS),
            earlier_tokens: SeenHashes::of(MAX_TOKENS),
            ids: ReadIds::default(),
            counted: from_the_start,
            part: Part::Whole,
            alone: false,
            overlap: None,
            back: 0,
            steps_back: 0,
            fresh: 0,
            aligned: false,
            unchecked: false,
            shifted: false,
            disordered: false,
            restarts: 0,
            last_pass: None,
            idle: 0,
            seam: None,
            unidentified: false,
            doubted: false,
            duplicates: 0,
            sequence: Some(0),
            last_sequence: None,
            last_ids: 0,
            places: PlaceFinder::default(),
        }
    }

    /// A walk that continues at `here` after an earlier run, with the last total that it saw.
    pub fn resumed(here: &Position, total: Option<u64>, progress: Option<&WalkProgress>) -> PageWalk {
        let mut walk = PageWalk { total, sequence: None, ..PageWalk::new(false) };
        let Some(progress) = progress else {
            walk.unchecked = true;
            return walk;
        };
        walk.ids = ReadIds::resumed(progress);
        walk.counted = true;
        (walk.restarts, walk.last_pass, walk.idle) = (progress.restarts, progress.last_pass, progress.idle);
        (walk.unchecked, walk.seam) = (progress.unchecked, progress.seam);
        walk.landmark = progress.landmark;
        (walk.unidentified, walk.doubted) = (progress.unidentified, progress.doubted);
        walk.last_ids = progress.last_ids;
        if let (Position::Offset(at), Some(_)) = (here, progress.seam) {
            walk.overlap = Some(Overlap { before: None, exact: at + 1, expected: progress.seam });
        }
        walk
    }

    /// A walk that judges one page, without those before it.
    pub fn alone(first: bool) -> PageWalk {
        PageWalk { counted: true, alone: true, ..PageWalk::new(first) }
    }

    /// A walk over a part of a list. `total`: of the whole list when it was divided into ranges of pages.
    #[must_use]
    pub fn of_part(self, part: Part, total: Option<u64>) -> PageWalk {
        PageWalk { part, total: self.total.or(total), ..self }
    }

    /// What a later run needs to continue the checks.
    pub fn progress(&self) -> Option<WalkProgress> {
        self.counted.then_some(WalkProgress {
            distinct: self.ids.distinct(),
            read: self.ids.read,
            digest: self.ids.digest,
            seam: self.seam,
            restarts: self.restarts,
            last_pass: self.last_pass,
            idle: self.idle,
            verification: None,
            landmark: self.landmark,
            unchecked: self.unchecked || self.shifted || self.disordered,
            unidentified: self.unidentified,
            doubted: self.doubted,
            last_ids: self.last_ids,
        })
    }

    /// An item of the page that is read next has no usable id.
    pub fn note_unidentified(&mut self) {
        self.unidentified = true;
    }

    /// Whether an item of this pass had no usable id, so that it is not known which record it is.
    pub fn is_unidentified(&self) -> bool {
        self.unidentified
    }

    /// Counts the rows of a page, and those of them that came before; true when any is new.
    fn add_rows(&mut self, facts: &PageFacts, again: bool, overlaps: bool) -> bool {
        let before = self.ids.distinct();
        let fresh = self.ids.add_all(&facts.ids);
        // A page after an overlap begins with known rows, and the last page may be requested again.
        if !again {
            let known = facts.ids.len() as u64 - (self.ids.distinct() - before);
            self.duplicates += known.saturating_sub(u64::from(overlaps));
        }
        self.sequence = self.sequence.map(|hash| in_order(hash, facts));
        fresh
    }

    /// Whether a page has the same ids as the page before. Unlike the ids of all pages, this is known after a resume too.
    fn has_the_same_ids(&mut self, facts: &PageFacts) -> bool {
        let ids = in_order(0, facts);
        let last = std::mem::replace(&mut self.last_ids, (ids >> 32) as u32);
        last != 0 && last == self.last_ids
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
        let earlier = &self.earlier_tokens;
        self.tokens.is_full() || earlier.is_full() || self.has_read(token) || earlier.has(&id_hash(token.as_bytes()))
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
        if let Some(fault) = self.changed_form(facts, rejected) {
            return PageStep::Broken(fault);
        }
        let exact = self.overlap.map(|overlap| Position::Offset(overlap.exact));
        let overlaps = self.overlap.is_some();
        if let Some(step) = self.check_seam(rule, here, facts) {
            return step;
        }
        self.counted &= facts.ids.len() == facts.items as usize;
        let same_ids = self.has_the_same_ids(facts);
        let fresh = self.add_rows(facts, again, overlaps) && !same_ids;
        self.unchecked |= self.places.is_place(here, facts, rule.page_size);
        self.fresh += u64::from(fresh);
        let mut step = self.by_the_page(rule, here, facts, content, again, fresh);
        let exact = exact.filter(|_| step == PageStep::End(EndReason::Page) && self.is_end_unclear(facts, fresh));
        if let Some(next) = &exact {
            step = PageStep::Next { next: next.clone(), perhaps: true };
        }
        self.all_full &= facts.items >= rule.page_size;
        self.empty = if facts.items == 0 { self.empty + 1 } else { 0 };
        self.idle = if fresh || !self.counted { 0 } else { self.idle + 1 };
        if matches!(step, PageStep::Next { .. }) {
            if self.empty > rule.max_empty_pages {
                return broken(&format!(
                    "{} empty pages in a row, each saying that there is more (max_empty_pages)",
                    self.empty
                ));
            }
            if self.idle >= rule.max_idle_requests {
                return broken(&format!(
                    "{} requests in a row brought no new record: the upstream leads in a circle \
                     (max_requests_without_new_records)",
                    self.idle
                ));
            }
        }
        if self.moved(rule, here, facts) {
            return match self.part {
                // Records may have moved to a range that is already read.
                Part::Range => incomplete(MOVED_BETWEEN_RANGES),
                _ => self.restart("the result set keeps changing while it is read: records may be missed"),
            };
        }
        match self.within_bounds(rule, here, facts, step) {
            PageStep::End(EndReason::Page) if rule.tail_probe && !again && facts.items > 0 => {
                self.again = true;
                PageStep::Again
            }
            PageStep::End(reason) => self.at_the_end(rule, reason),
            PageStep::Next { next, perhaps } if exact.is_none() => {
                PageStep::Next { next: self.overlapped(rule, here, facts, next), perhaps }
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
        fresh: bool,
    ) -> PageStep {
        if facts.items > 0 && !again {
            let circle = self.landmark.comes_again(content);
            if self.seen.repeats(content) || circle {
                return self.repeated(rule, here, facts.total);
            }
        }
        if rule.repeat_ends && !again && !facts.ids.is_empty() && !fresh {
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

    /// A total that changes between two pages means that records have joined or left, and others may have moved past
    /// the reader (G-23). Seams notice what matters by themselves, and a token keeps its place.
    fn moved(&mut self, rule: &PagingRule, here: &Position, facts: &PageFacts) -> bool {
        let before = self.total;
        self.total = facts.total.or(before);
        let changed = !rule.estimates && matches!((before, facts.total), (Some(before), Some(now)) if now != before);
        // Two passes may miss the same record, and a token may be an offset that does not look like one.
        self.doubted |= changed && (rule.verify == Verify::Twice || matches!(here, Position::Token(_)));
        let checks = match rule.verify {
            Verify::None | Verify::Twice => false,
            _ if self.part == Part::Beginning => false,
            Verify::Seams => self.aligned || self.unchecked || self.part == Part::Range,
            Verify::Total => !matches!(here, Position::Token(_)),
        };
        checks && changed
    }
}

/// Hash of the rows of a page in their order, after others.
fn in_order(before: u64, facts: &PageFacts) -> u64 {
    let rows = facts.ids.iter().map(key);
    rows.fold(before, |hash, row| (hash.rotate_left(5) ^ row).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn broken(reason: &str) -> PageStep {
    PageStep::Broken(Fault::new(Code::PlatformError, Level::L2, reason))
}

#[cfg(test)]
mod tests;
