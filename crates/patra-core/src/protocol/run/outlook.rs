//! What a page that was read means for the rest of the slice: where to go on, or that this is the end of it.

use super::page::Page;
use super::reader::Reader;
use crate::error::{Code, Fault, Level};
use crate::paging::{Facts, Kind, Next, Position, Rule};

/// Empty pages in a row that are followed on the far side's word.
const MAX_EMPTY_PAGES: u32 = 10;

/// Times that a slice is read from its first page again because its result set moved under the reading (G-23).
const MAX_RESTARTS: u32 = 2;

/// What follows a page, as far as the pages themselves tell.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    Next { next: Position, perhaps: bool },
    End,
    /// It is a part of what there is, and nothing leads to the rest.
    Cut,
}

impl Reader {
    /// Takes note of the page and says what follows it.
    pub(super) fn outlook(&mut self, here: &Position, page: &Page, rule: &Rule) -> Result<Step, Fault> {
        let probed = std::mem::take(&mut self.probing);
        self.items += u64::from(page.facts.items);
        let mut next = rule.next(here, &page.facts, self.all_full);
        if page.facts.items > 0 && !probed && self.seen.repeats(page.content) {
            next = repeated(here, rule, page.facts.total, self.items);
        }
        if let (true, Next::At(position)) = (rule.unique_tokens, &next)
            && let Some(token) = position.token_key()
            && (here.token_key().as_ref() == Some(&token) || self.tokens.has(&token))
        {
            next = Next::End;
        }
        self.all_full &= page.facts.items >= rule.page_size;
        self.empty_pages = if page.facts.items == 0 { self.empty_pages + 1 } else { 0 };
        if self.empty_pages > MAX_EMPTY_PAGES && matches!(next, Next::At(_)) {
            next = Next::Broken("one empty page after the other, each saying that there is more");
        }
        self.polluted(page)?;
        if self.moved(here, &page.facts) && !rule.estimates {
            return self.restart(rule);
        }
        Ok(match next {
            Next::At(next) => Step::Next { next, perhaps: false },
            Next::Perhaps(next) => Step::Next { next, perhaps: true },
            Next::End if rule.tail_probe && !probed && page.facts.items > 0 => {
                self.probing = true;
                Step::Next { next: here.clone(), perhaps: false }
            }
            Next::End => Step::End,
            Next::Cut => Step::Cut,
            Next::Broken(reason) => return Err(Fault::new(Code::PlatformError, Level::L2, reason)),
        })
    }

    /// With numbered pages, a total that falls between two pages means that later records have moved forward past the
    /// place that is read next.
    fn moved(&mut self, here: &Position, facts: &Facts) -> bool {
        let before = std::mem::replace(&mut self.total, facts.total);
        here.number().is_some() && matches!((before, facts.total), (Some(before), Some(now)) if now < before)
    }

    fn restart(&mut self, rule: &Rule) -> Result<Step, Fault> {
        self.restarts += 1;
        if self.restarts > MAX_RESTARTS {
            let reason = "the result set keeps changing while it is read: records may be missed";
            return Err(Fault::new(Code::PlatformError, Level::L1, reason));
        }
        (self.seen, self.total, self.items, self.all_full) = (Default::default(), None, 0, true);
        Ok(Step::Next { next: rule.first(), perhaps: false })
    }

    /// Two pages in a row with most of their items unusable: the far side has changed its form, and reading on would fill
    /// the quarantine with all it has (G-11).
    fn polluted(&mut self, page: &Page) -> Result<(), Fault> {
        const ENOUGH: usize = 4;
        let bad = page.rejected.len() >= ENOUGH && page.rejected.len() * 2 > page.facts.items as usize;
        self.polluted = if bad { self.polluted + 1 } else { 0 };
        if self.polluted < 2 {
            return Ok(());
        }
        let example = page.rejected.first().map_or("", |rejected| rejected.reason.as_str());
        let reason = format!("most items of two pages in a row are unusable, the far side seems to have changed: {example}");
        Err(Fault::new(Code::ParseError, Level::L4, reason))
    }
}

/// The same page again. Numbered pages end there: some far sides answer every number beyond the last with the last page.
/// A token or URL that promises more and leads in a circle proves nothing about the end, unless the far side is known to
/// repeat its token; then, and whenever the total says so, records would be lost by calling it the end.
fn repeated(here: &Position, rule: &Rule, total: Option<u64>, items: u64) -> Next {
    let before = match (here, &rule.kind) {
        (Position::Offset(at), _) => Some(*at),
        (Position::Page(at), Kind::Page { base }) => Some(at.saturating_sub(*base) * u64::from(rule.page_size)),
        _ => None,
    };
    let all_seen = total.is_none_or(|total| before.unwrap_or(items) >= total);
    if (before.is_some() || rule.always_token) && all_seen {
        Next::End
    } else {
        Next::Broken("the far side serves the same page again and again")
    }
}
