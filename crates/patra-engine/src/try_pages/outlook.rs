//! The next step after a page and its reason, in words for the author of a manifest. The decisions are those of a run.

use patra_core::paging::{self, EndReason, PageStep, PagingKind, PagingRule, Position, Verification, Verify};
use patra_core::protocol::run::FetchedPage;
use patra_spec::Snapshot;

/// Next step of a run after a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Request another page.
    Next { position: Position, why: String },
    /// End the slice: it is complete.
    End { why: String },
    /// Cut the window into narrower ones, each read by a task of its own.
    Cut { why: String },
    /// End the slice as PARTIAL.
    Partial { why: String },
    /// Fail the slice: going on would skip records, ending would lose them.
    Broken { why: String },
}

impl NextStep {
    pub fn why(&self) -> &str {
        match self {
            NextStep::Next { why, .. }
            | NextStep::End { why }
            | NextStep::Cut { why }
            | NextStep::Partial { why }
            | NextStep::Broken { why } => why,
        }
    }

    pub fn next(&self) -> Option<&Position> {
        if let NextStep::Next { position, .. } = self { Some(position) } else { None }
    }
}

/// Describes the way through a slice in words.
#[derive(Debug)]
pub struct TryWalk {
    rule: PagingRule,
    can_cut: bool,
    way: paging::PageWalk,
}

impl TryWalk {
    pub fn new(spec: &Snapshot) -> TryWalk {
        let (rule, can_cut) = (spec.paging(), spec.window.supports_updated_since);
        TryWalk { rule, can_cut, way: paging::PageWalk::new(true) }
    }

    /// Judges one page, without those before it.
    #[must_use]
    pub fn of_one_page(self, here: &Position) -> TryWalk {
        TryWalk { way: paging::PageWalk::alone(*here == self.rule.first()), ..self }
    }

    /// Uses pages of another size.
    #[must_use]
    pub fn with_page_size(mut self, page_size: u32) -> TryWalk {
        self.rule.page_size = page_size;
        self
    }

    pub fn first(&self) -> Position {
        self.rule.first()
    }

    pub fn page_size(&self) -> u32 {
        self.rule.page_size
    }

    /// The next step after the page read at `here`.
    pub fn after(&mut self, here: &Position, page: &FetchedPage) -> NextStep {
        let step = self.way.after(&self.rule, here, &page.facts, page.content, &page.rejected);
        if let Some(token) = here.token_key() {
            self.way.remember(&token);
        }
        match step {
            PageStep::Next { next, .. } => NextStep::Next { why: self.why_next(here, page, &next), position: next },
            PageStep::Again => {
                let why = format!("{}; a run asks for this page once more, in case it has grown", self.why_end(page));
                NextStep::End { why }
            }
            PageStep::Restart => {
                let why = match self.rule.verify {
                    Verify::Twice => "pagination.verify: twice reads the list until two passes agree",
                    _ => "records may have moved while the list was read: the slice is read from its first page again",
                };
                NextStep::Next { position: self.rule.first(), why: why.into() }
            }
            PageStep::Incomplete(fault) => NextStep::Partial { why: fault.message },
            PageStep::End(end) => NextStep::End { why: format!("{}{}", self.why_this_end(end, page), self.known_by()) },
            PageStep::TooMuch { total, at_most, .. } => self.too_much(total, at_most),
            PageStep::MaxPage { pages, .. } => {
                let why = format!("{pages} pages were read, which is max_page, and there is more");
                if self.rule.split_at_max { NextStep::Cut { why } } else { NextStep::Partial { why } }
            }
            PageStep::Broken(fault) => NextStep::Broken { why: fault.message },
        }
    }

    /// A narrower window has less to read only where the upstream filters by time.
    fn too_much(&self, total: Option<u64>, at_most: u64) -> NextStep {
        let found = total.map_or_else(|| "more".to_owned(), |total| total.to_string());
        let why = format!("the window holds {found} records and a query gives out {at_most}");
        if self.can_cut { NextStep::Cut { why } } else { NextStep::Broken { why } }
    }

    fn why_this_end(&self, end: EndReason, page: &FetchedPage) -> String {
        match end {
            EndReason::Page => self.why_end(page),
            EndReason::Repeated => "this page was read before".into(),
            EndReason::TokenSeen => "the token came before, and unique_tokens says that this is the end".into(),
            EndReason::Counted => "all records that the total names are read".into(),
        }
    }

    fn why_next(&self, here: &Position, page: &FetchedPage, next: &Position) -> String {
        let exact = here.number().map(|at| at + u64::from(page.facts.items));
        match (self.rule.verify, next) {
            (Verify::Seams, Position::Offset(next)) if exact.is_some_and(|exact| next + 1 == exact) => format!(
                "{}; it overlaps by one record, to show whether records move (pagination.verify)",
                self.why_more(here, page)
            ),
            _ => self.why_more(here, page),
        }
    }

    /// What the completeness of several pages is known by.
    fn known_by(&self) -> &'static str {
        match self.way.verification(&self.rule) {
            Verification::Single => "",
            Verification::Seams => "; complete: each page began with a record of the page before",
            Verification::Twice => "; complete: two passes found the same records",
            Verification::Token => "; complete: the token keeps the place in the list",
            Verification::Unverified if self.rule.kind == PagingKind::Time => {
                "; unverified: neither a page size nor a total shows whether records are missing"
            }
            Verification::Unverified => {
                "; unverified: nothing shows whether records moved while the list was read (pagination.verify)"
            }
        }
    }

    fn why_more(&self, here: &Position, page: &FetchedPage) -> String {
        let (facts, size) = (&page.facts, self.rule.page_size);
        if facts.has_more == Some(true) {
            return "has_more says that there is more".into();
        }
        match self.rule.kind {
            PagingKind::Token { .. } => "the response names the next token".into(),
            PagingKind::Url => "the response names the next URL".into(),
            PagingKind::Offset | PagingKind::Page { .. } if facts.items < size => {
                let read = self.rule.before(here).unwrap_or(0) + u64::from(facts.items);
                let total = facts.total.unwrap_or(0);
                format!("the page is short ({} of {size}), but the total says {total} and {read} are read", facts.items)
            }
            PagingKind::Offset | PagingKind::Page { .. } | PagingKind::Time => {
                format!("the page is full ({} items)", facts.items)
            }
        }
    }

    fn why_end(&self, page: &FetchedPage) -> String {
        let (facts, size) = (&page.facts, self.rule.page_size);
        match (&self.rule.kind, facts.has_more) {
            _ if facts.items == 0 => "the page is empty".into(),
            (_, Some(_)) => "has_more says that there is no more".into(),
            (PagingKind::Token { .. }, _) if facts.next_token.is_some() => {
                format!("the page is short ({} of {size}), which ends it with always_token", facts.items)
            }
            (PagingKind::Token { .. }, _) => "the response names no next token".into(),
            (PagingKind::Url, _) => "the response names no next URL".into(),
            (PagingKind::Offset | PagingKind::Page { .. }, _) => {
                format!("the page is short ({} of {size})", facts.items)
            }
            (PagingKind::Time, _) => "one response holds the whole window".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use patra_core::paging::PageFacts;

    use super::*;

    fn walk(kind: PagingKind) -> TryWalk {
        TryWalk { rule: PagingRule::new(kind, 10), can_cut: true, way: paging::PageWalk::new(true) }
    }

    fn page(items: u32, content: u8) -> FetchedPage {
        FetchedPage {
            facts: PageFacts { items, ..PageFacts::default() },
            content: [content; 16],
            ..FetchedPage::default()
        }
    }

    fn token(text: &str) -> Position {
        Position::Token(Some(text.into()))
    }

    #[test]
    fn numbered_pages_say_why_they_go_on_and_end() {
        let mut walk = walk(PagingKind::Offset);
        let full = walk.after(&Position::Offset(0), &page(10, 1));
        assert_eq!(full, NextStep::Next { position: Position::Offset(10), why: "the page is full (10 items)".into() });
        let mut short = page(4, 2);
        short.facts.total = Some(30);
        assert_eq!(
            walk.after(&Position::Offset(10), &short).why(),
            "the page is short (4 of 10), but the total says 30 and 14 are read"
        );
        assert_eq!(
            walk.after(&Position::Offset(14), &page(3, 3)).why(),
            "the page is short (3 of 10); unverified: nothing shows whether records moved while the list was read \
             (pagination.verify)"
        );
        assert_eq!(
            walk.after(&Position::Offset(17), &page(0, 4)).why(),
            "the page is empty; unverified: nothing shows whether records moved while the list was read (pagination.verify)"
        );
        let again = walk.after(&Position::Offset(20), &page(3, 3));
        assert!(matches!(&again, NextStep::End { why } if why.starts_with("this page was read before; unverified")));
    }

    #[test]
    fn tokens_say_what_ended_them() {
        let with = |items, content, next: &str| {
            let mut page = page(items, content);
            page.facts.next_token = Some(next.into());
            page
        };
        let mut plain = walk(PagingKind::Token { initial: None });
        assert_eq!(plain.after(&Position::Token(None), &with(3, 1, "b")).next(), Some(&token("b")));
        assert_eq!(
            plain.after(&token("b"), &page(3, 2)).why(),
            "the response names no next token; complete: the token keeps the place in the list"
        );
        assert!(matches!(plain.after(&token("c"), &with(3, 2, "d")), NextStep::Broken { .. }), "a circle");

        let mut always = walk(PagingKind::Token { initial: None });
        always.rule.always_token = true;
        assert_eq!(
            always.after(&token("a"), &with(3, 1, "a")).why(),
            "the page is short (3 of 10), which ends it with always_token"
        );
        let mut unique = walk(PagingKind::Token { initial: None });
        unique.rule.unique_tokens = true;
        assert_eq!(unique.after(&token("a"), &with(3, 1, "b")).next(), Some(&token("b")));
        assert!(matches!(unique.after(&token("b"), &with(3, 2, "a")), NextStep::End { .. }));
    }

    #[test]
    fn limits_cut_the_window_where_it_can_be_cut() {
        let mut ceiling = walk(PagingKind::Offset);
        ceiling.rule.ceiling = Some(20);
        let mut many = page(10, 1);
        many.facts.total = Some(21);
        let cut = NextStep::Cut { why: "the window holds 21 records and a query gives out 20".into() };
        assert_eq!(ceiling.after(&Position::Offset(0), &many), cut);
        ceiling.can_cut = false;
        assert!(matches!(ceiling.after(&Position::Offset(0), &many), NextStep::Broken { .. }));
        assert!(
            matches!(ceiling.after(&Position::Offset(10), &page(10, 2)), NextStep::Broken { .. }),
            "without a total"
        );
        let mut all = page(10, 3);
        all.facts.total = Some(20);
        let mut ceiling = walk(PagingKind::Offset);
        ceiling.rule.ceiling = Some(20);
        let end = ceiling.after(&Position::Offset(10), &all);
        assert!(end.why().starts_with("all records that the total names are read"), "{}", end.why());

        let mut capped = walk(PagingKind::Page { base: 1 });
        capped.rule.max_page = Some(1);
        assert!(matches!(capped.after(&Position::Page(1), &page(10, 1)), NextStep::Partial { .. }));
        let mut time = walk(PagingKind::Time);
        assert!(matches!(time.after(&Position::Time, &page(10, 1)), NextStep::Cut { .. }));
        capped.rule.split_at_max = true;
        assert!(matches!(capped.after(&Position::Page(2), &page(10, 2)), NextStep::Cut { .. }));
        assert!(
            matches!(capped.after(&Position::Page(3), &page(2, 3)), NextStep::End { .. }),
            "the last one is complete"
        );
    }
}
