//! What follows a page and why, in words for the author of a manifest. The decisions are those of a run; this adds the
//! reasons.

use patra_core::paging::{self, End, Kind, Position, Rule, Step};
use patra_core::protocol::run::Page;
use patra_spec::Snapshot;

/// What a run would do behind a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Ask for another page.
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

impl Outlook {
    pub fn why(&self) -> &str {
        match self {
            Outlook::Next { why, .. }
            | Outlook::End { why }
            | Outlook::Cut { why }
            | Outlook::Partial { why }
            | Outlook::Broken { why } => why,
        }
    }

    pub fn next(&self) -> Option<&Position> {
        if let Outlook::Next { position, .. } = self { Some(position) } else { None }
    }
}

/// The way through a slice, told in words.
#[derive(Debug)]
pub struct Walk {
    rule: Rule,
    can_cut: bool,
    way: paging::Walk,
}

impl Walk {
    pub fn new(spec: &Snapshot) -> Walk {
        let (rule, can_cut) = (spec.paging(), spec.window.supports_updated_since);
        Walk { rule, can_cut, way: paging::Walk::new(true) }
    }

    /// The same with pages of another size.
    #[must_use]
    pub fn with_page_size(mut self, page_size: u32) -> Walk {
        self.rule.page_size = page_size;
        self
    }

    pub fn first(&self) -> Position {
        self.rule.first()
    }

    pub fn page_size(&self) -> u32 {
        self.rule.page_size
    }

    /// What follows the page read at `here`.
    pub fn after(&mut self, here: &Position, page: &Page) -> Outlook {
        let step = self.way.after(&self.rule, here, &page.facts, page.content, &page.rejected);
        if let Some(token) = here.token_key() {
            self.way.remember(&token);
        }
        match step {
            Step::Next { next, .. } => Outlook::Next { why: self.why_more(here, page), position: next },
            Step::Again => {
                let why = format!("{}; a run asks for this page once more, in case it has grown", self.why_end(page));
                Outlook::End { why }
            }
            Step::Restart => {
                let why = "the total has fallen, so records have moved: the slice is read from its first page again";
                Outlook::Next { position: self.rule.first(), why: why.into() }
            }
            Step::End(end) => Outlook::End { why: self.why_this_end(end, page) },
            Step::TooMuch { total, at_most, .. } => self.too_much(total, at_most),
            Step::MaxPage { pages, .. } => {
                let why = format!("{pages} pages were read, which is max_page, and there is more");
                if self.rule.split_at_max { Outlook::Cut { why } } else { Outlook::Partial { why } }
            }
            Step::Broken(fault) => Outlook::Broken { why: fault.message },
        }
    }

    /// Only where the far side filters by time is there less to ask for.
    fn too_much(&self, total: Option<u64>, at_most: u64) -> Outlook {
        let found = total.map_or_else(|| "more".to_owned(), |total| total.to_string());
        let why = format!("the window holds {found} records and a query gives out {at_most}");
        if self.can_cut { Outlook::Cut { why } } else { Outlook::Broken { why } }
    }

    fn why_this_end(&self, end: End, page: &Page) -> String {
        match end {
            End::Page => self.why_end(page),
            End::Repeated => "this page was read before".into(),
            End::TokenSeen => "the token came before, and unique_tokens says that this is the end".into(),
            End::Counted => "all records that the total names are read".into(),
        }
    }

    fn why_more(&self, here: &Position, page: &Page) -> String {
        let (facts, size) = (&page.facts, self.rule.page_size);
        if facts.has_more == Some(true) {
            return "has_more says that there is more".into();
        }
        match self.rule.kind {
            Kind::Token { .. } => "the answer names the next token".into(),
            Kind::Url => "the answer names the next URL".into(),
            Kind::Offset | Kind::Page { .. } if facts.items < size => {
                let read = self.rule.before(here).unwrap_or(0) + u64::from(facts.items);
                let total = facts.total.unwrap_or(0);
                format!("the page is short ({} of {size}), but the total says {total} and {read} are read", facts.items)
            }
            Kind::Offset | Kind::Page { .. } | Kind::Time => format!("the page is full ({} items)", facts.items),
        }
    }

    fn why_end(&self, page: &Page) -> String {
        let (facts, size) = (&page.facts, self.rule.page_size);
        match (&self.rule.kind, facts.has_more) {
            _ if facts.items == 0 => "the page is empty".into(),
            (_, Some(_)) => "has_more says that there is no more".into(),
            (Kind::Token { .. }, _) if facts.next_token.is_some() => {
                format!("the page is short ({} of {size}), which ends it with always_token", facts.items)
            }
            (Kind::Token { .. }, _) => "the answer names no next token".into(),
            (Kind::Url, _) => "the answer names no next URL".into(),
            (Kind::Offset | Kind::Page { .. }, _) => format!("the page is short ({} of {size})", facts.items),
            (Kind::Time, _) => "one answer holds the whole window".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use patra_core::paging::Facts;

    use super::*;

    fn walk(kind: Kind) -> Walk {
        Walk { rule: Rule::new(kind, 10), can_cut: true, way: paging::Walk::new(true) }
    }

    fn page(items: u32, content: u8) -> Page {
        Page { facts: Facts { items, ..Facts::default() }, content: [content; 16], ..Page::default() }
    }

    fn token(text: &str) -> Position {
        Position::Token(Some(text.into()))
    }

    #[test]
    fn numbered_pages_say_why_they_go_on_and_end() {
        let mut walk = walk(Kind::Offset);
        let full = walk.after(&Position::Offset(0), &page(10, 1));
        assert_eq!(full, Outlook::Next { position: Position::Offset(10), why: "the page is full (10 items)".into() });
        let mut short = page(4, 2);
        short.facts.total = Some(30);
        assert_eq!(
            walk.after(&Position::Offset(10), &short).why(),
            "the page is short (4 of 10), but the total says 30 and 14 are read"
        );
        assert_eq!(walk.after(&Position::Offset(14), &page(3, 3)).why(), "the page is short (3 of 10)");
        assert_eq!(walk.after(&Position::Offset(17), &page(0, 4)).why(), "the page is empty");
        let again = walk.after(&Position::Offset(20), &page(3, 3));
        assert_eq!(again, Outlook::End { why: "this page was read before".into() });
    }

    #[test]
    fn tokens_say_what_ended_them() {
        let with = |items, content, next: &str| {
            let mut page = page(items, content);
            page.facts.next_token = Some(next.into());
            page
        };
        let mut plain = walk(Kind::Token { initial: None });
        assert_eq!(plain.after(&Position::Token(None), &with(3, 1, "b")).next(), Some(&token("b")));
        assert_eq!(plain.after(&token("b"), &page(3, 2)).why(), "the answer names no next token");
        assert!(matches!(plain.after(&token("c"), &with(3, 2, "d")), Outlook::Broken { .. }), "a circle");

        let mut always = walk(Kind::Token { initial: None });
        always.rule.always_token = true;
        assert_eq!(
            always.after(&token("a"), &with(3, 1, "a")).why(),
            "the page is short (3 of 10), which ends it with always_token"
        );
        let mut unique = walk(Kind::Token { initial: None });
        unique.rule.unique_tokens = true;
        assert_eq!(unique.after(&token("a"), &with(3, 1, "b")).next(), Some(&token("b")));
        assert!(matches!(unique.after(&token("b"), &with(3, 2, "a")), Outlook::End { .. }));
    }

    #[test]
    fn limits_cut_the_window_where_it_can_be_cut() {
        let mut ceiling = walk(Kind::Offset);
        ceiling.rule.ceiling = Some(20);
        let mut many = page(10, 1);
        many.facts.total = Some(21);
        let cut = Outlook::Cut { why: "the window holds 21 records and a query gives out 20".into() };
        assert_eq!(ceiling.after(&Position::Offset(0), &many), cut);
        ceiling.can_cut = false;
        assert!(matches!(ceiling.after(&Position::Offset(0), &many), Outlook::Broken { .. }));
        assert!(
            matches!(ceiling.after(&Position::Offset(10), &page(10, 2)), Outlook::Broken { .. }),
            "without a total"
        );
        let mut all = page(10, 3);
        all.facts.total = Some(20);
        assert_eq!(ceiling.after(&Position::Offset(10), &all).why(), "all records that the total names are read");

        let mut capped = walk(Kind::Page { base: 1 });
        capped.rule.max_page = Some(1);
        assert!(matches!(capped.after(&Position::Page(1), &page(10, 1)), Outlook::Partial { .. }));
        let mut time = walk(Kind::Time);
        assert!(matches!(time.after(&Position::Time, &page(10, 1)), Outlook::Cut { .. }));
        capped.rule.split_at_max = true;
        assert!(matches!(capped.after(&Position::Page(2), &page(10, 2)), Outlook::Cut { .. }));
        assert!(
            matches!(capped.after(&Position::Page(3), &page(2, 3)), Outlook::End { .. }),
            "the last one is complete"
        );
    }
}
