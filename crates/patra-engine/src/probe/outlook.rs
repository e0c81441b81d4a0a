//! What follows a page and why, in words for the author of a manifest. The decisions are those of a run; this adds the
//! reasons.

use std::collections::BTreeSet;

use patra_core::paging::{Kind, LoopGuard, Next, Position, Rule};
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

/// Remembers what the pages of a slice have told.
#[derive(Debug)]
pub struct Walk {
    rule: Rule,
    can_cut: bool,
    all_full: bool,
    pages: u32,
    items: u64,
    seen: LoopGuard,
    tokens: BTreeSet<String>,
}

impl Walk {
    pub fn new(spec: &Snapshot) -> Walk {
        Walk {
            rule: spec.paging(),
            can_cut: spec.window.supports_updated_since,
            all_full: true,
            pages: 0,
            items: 0,
            seen: LoopGuard::default(),
            tokens: BTreeSet::new(),
        }
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
        self.pages += 1;
        self.items += u64::from(page.facts.items);
        let outlook = self.plain(here, page);
        self.all_full &= page.facts.items >= self.rule.page_size;
        self.tokens.extend(here.token_key());
        self.within_max_page(self.within_the_ceiling(here, page.facts.total, outlook))
    }

    fn plain(&mut self, here: &Position, page: &Page) -> Outlook {
        if page.facts.items > 0 && self.seen.repeats(page.content) {
            return self.repeated(here, page.facts.total);
        }
        match self.rule.next(here, &page.facts, self.all_full) {
            Next::At(position) | Next::Perhaps(position) => {
                let token = position.token_key();
                let repeats =
                    token.is_some() && (token == here.token_key() || token.is_some_and(|t| self.tokens.contains(&t)));
                if self.rule.unique_tokens && repeats && matches!(position, Position::Token(_)) {
                    return Outlook::End {
                        why: "the token came before, and unique_tokens says that this is the end".into(),
                    };
                }
                Outlook::Next { why: self.why_more(here, page), position }
            }
            Next::End => {
                let again = self.rule.tail_probe && page.facts.items > 0;
                let again = if again { "; a run asks for this page once more, in case it has grown" } else { "" };
                Outlook::End { why: format!("{}{again}", self.why_end(page)) }
            }
            Next::Cut => self.cut("one answer does not hold all records of the window".into()),
            Next::Broken(reason) => Outlook::Broken { why: reason.into() },
        }
    }

    /// Only where the far side filters by time is there less to ask for.
    fn cut(&self, why: String) -> Outlook {
        if self.can_cut { Outlook::Cut { why } } else { Outlook::Broken { why } }
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

    /// The same page again: the end of numbered pages and of `always_token`, unless the total says otherwise.
    fn repeated(&self, here: &Position, total: Option<u64>) -> Outlook {
        let before = self.rule.before(here);
        let all_seen = total.is_none_or(|total| before.unwrap_or(self.items) >= total);
        if (before.is_some() || self.rule.always_token) && all_seen {
            return Outlook::End { why: "this page was read before".into() };
        }
        Outlook::Broken { why: "the far side serves the same page again and again".into() }
    }

    fn within_max_page(&self, outlook: Outlook) -> Outlook {
        match (&outlook, self.rule.max_page) {
            (Outlook::Next { .. }, Some(max)) if self.pages >= max => {
                let why = format!("{} pages were read, which is max_page, and there is more", self.pages);
                if self.rule.split_at_max { Outlook::Cut { why } } else { Outlook::Partial { why } }
            }
            _ => outlook,
        }
    }

    fn within_the_ceiling(&self, here: &Position, total: Option<u64>, outlook: Outlook) -> Outlook {
        let Some(ceiling) = self.rule.ceiling else { return outlook };
        let over =
            |found: String| self.cut(format!("the window holds {found} records and result_ceiling is {ceiling}"));
        if let Some(total) = total.filter(|total| *total > ceiling) {
            return over(total.to_string());
        }
        let behind = outlook.next().and_then(|next| self.rule.before(next)).is_some_and(|before| before >= ceiling);
        match (behind, total) {
            (false, _) => outlook,
            (true, Some(total)) => Outlook::End { why: format!("all {total} records that the total names are read") },
            (true, None) => over(format!("more than {}", self.rule.before(here).unwrap_or(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use patra_core::paging::Facts;

    use super::*;

    fn walk(kind: Kind) -> Walk {
        Walk {
            rule: Rule::new(kind, 10),
            can_cut: true,
            all_full: true,
            pages: 0,
            items: 0,
            seen: LoopGuard::default(),
            tokens: BTreeSet::new(),
        }
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
        let cut = Outlook::Cut { why: "the window holds 21 records and result_ceiling is 20".into() };
        assert_eq!(ceiling.after(&Position::Offset(0), &many), cut);
        ceiling.can_cut = false;
        assert!(matches!(ceiling.after(&Position::Offset(0), &many), Outlook::Broken { .. }));
        assert!(
            matches!(ceiling.after(&Position::Offset(10), &page(10, 2)), Outlook::Broken { .. }),
            "without a total"
        );
        let mut all = page(10, 3);
        all.facts.total = Some(20);
        assert_eq!(ceiling.after(&Position::Offset(10), &all).why(), "all 20 records that the total names are read");

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
