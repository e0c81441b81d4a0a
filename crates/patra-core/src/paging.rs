//! Where a slice's reading stands, and whether there is a next page. Pure: a page's facts in, a decision out.

mod walk;

use serde::{Deserialize, Serialize};

pub use walk::{End, Step, Walk};

/// The place that a request reads from, and that a later run resumes at. Stored as JSON in the batch ledger.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Position {
    Offset(u64),
    Page(u64),
    /// `None`: the first request of a source that starts without a token.
    Token(Option<String>),
    /// `None`: the endpoint's own URL.
    Url(Option<String>),
    /// The whole window in one answer.
    Time,
    /// The details of these ids, which the page at `at` named.
    Ids {
        at: Box<Position>,
        ids: Vec<String>,
    },
    /// Ids that the store names, behind this one: an UPDATE.
    Keys {
        after: Option<String>,
    },
}

impl Position {
    /// What the unique key `uk_run_before_tok` compares: nothing for numbered pages and the first page (C-37).
    pub fn token_key(&self) -> Option<String> {
        match self {
            Position::Token(token) => token.clone(),
            Position::Url(Some(url)) => Some(format!("url:{}", crate::hash::sha256_hex(url.as_bytes()))),
            Position::Url(None)
            | Position::Offset(_)
            | Position::Page(_)
            | Position::Time
            | Position::Ids { .. }
            | Position::Keys { .. } => None,
        }
    }

    /// The page number or offset, for numbered paging.
    pub fn number(&self) -> Option<u64> {
        match self {
            Position::Offset(number) | Position::Page(number) => Some(*number),
            Position::Token(_) | Position::Url(_) | Position::Time | Position::Ids { .. } | Position::Keys { .. } => {
                None
            }
        }
    }
}

/// How an endpoint pages, as far as the decision needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    pub kind: Kind,
    pub page_size: u32,
    /// Stop after so many pages; the slice is then incomplete (C-24).
    pub max_page: Option<u32>,
    /// The far side gives a token on its last page too, so a short page is the end (C-65).
    pub always_token: bool,
    /// The far side never gives the same token twice: one that comes back is the end (ING-15-01).
    pub unique_tokens: bool,
    /// A page without a new id, an empty one among them, is the end, whatever the far side says (TWEET-170).
    pub repeat_ends: bool,
    /// The param that says after how many records a run ends.
    pub limit_param: Option<String>,
    /// The param that says how far a run goes on beyond that while all it brings is new.
    pub limit_max_param: Option<String>,
    /// Ask for the last page once more before calling it the last (ING-4.3-14).
    pub tail_probe: bool,
    /// How many records of one query the far side gives out (ING-15-02).
    pub ceiling: Option<u64>,
    /// The far side filters by time, so a narrower window holds less.
    pub can_cut: bool,
    /// Totals are estimates: one that falls between pages says nothing.
    pub estimates: bool,
    /// At `max_page` the window is cut into narrower ones instead of staying incomplete (ING-4.3-16).
    pub split_at_max: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Offset,
    Page { base: u64 },
    Token { initial: Option<String> },
    Url,
    Time,
}

impl Rule {
    /// Pages of this kind and size, with nothing special about them.
    pub fn new(kind: Kind, page_size: u32) -> Rule {
        Rule {
            kind,
            page_size,
            max_page: None,
            always_token: false,
            unique_tokens: false,
            repeat_ends: false,
            limit_param: None,
            limit_max_param: None,
            tail_probe: false,
            ceiling: None,
            can_cut: false,
            estimates: false,
            split_at_max: false,
        }
    }

    /// How many records of the slice lie before a position, where it says so.
    pub fn before(&self, at: &Position) -> Option<u64> {
        match (at, &self.kind) {
            (Position::Offset(offset), _) => Some(*offset),
            (Position::Page(no), Kind::Page { base }) => {
                Some(no.saturating_sub(*base).saturating_mul(u64::from(self.page_size)))
            }
            _ => None,
        }
    }

    /// The place of a page, counted from 0, where pages are numbered; of the first otherwise.
    pub fn nth(&self, page: u64) -> Position {
        match &self.kind {
            Kind::Offset => Position::Offset(page.saturating_mul(u64::from(self.page_size))),
            Kind::Page { base } => Position::Page(base.saturating_add(page)),
            Kind::Token { .. } | Kind::Url | Kind::Time => self.first(),
        }
    }

    pub fn first(&self) -> Position {
        match &self.kind {
            Kind::Offset => Position::Offset(0),
            Kind::Page { base } => Position::Page(*base),
            Kind::Token { initial } => Position::Token(initial.clone()),
            Kind::Url => Position::Url(None),
            Kind::Time => Position::Time,
        }
    }

    /// What follows the page read at `here`. The order of the evidence is ING-4.3-11: `has_more`, then `next`, then a
    /// short page; caps are applied by the caller afterwards. A total can only say that there is more, never that it is
    /// the end: some far sides serve smaller pages than asked for, and some totals lie.
    ///
    /// `all_full`: every earlier page of the slice is known to have been full.
    pub fn next(&self, here: &Position, page: &Facts, all_full: bool) -> Next {
        if page.items == 0 {
            return self.behind_an_empty_page(here, page);
        }
        if self.total_may_say_more(here, page, all_full) {
            return match here {
                Position::Page(at) => Next::Perhaps(Position::Page(at + 1)),
                _ => Next::At(Position::Offset(here.number().unwrap_or(0) + u64::from(page.items))),
            };
        }
        let more = match (page.has_more, &self.kind) {
            (Some(more), _) => more,
            (None, Kind::Token { .. }) => page.next_token.is_some() && !(self.always_token && self.is_short(page)),
            (None, Kind::Url) => page.next_url.is_some(),
            (None, Kind::Offset | Kind::Page { .. }) => !self.is_short(page),
            (None, Kind::Time) => self.is_cut(page),
        };
        if !more {
            return Next::End;
        }
        match (here, &self.kind) {
            (Position::Offset(at), _) => Next::At(Position::Offset(at + u64::from(page.items))),
            (Position::Page(at), _) => Next::At(Position::Page(at + 1)),
            (Position::Token(_), _) => match &page.next_token {
                Some(token) => Next::At(Position::Token(Some(token.clone()))),
                None if self.repeat_ends => Next::End,
                None => Next::Broken("the answer says that there is more but carries no next token"),
            },
            (Position::Url(_), _) => match &page.next_url {
                Some(url) => Next::At(Position::Url(Some(url.clone()))),
                None if self.repeat_ends => Next::End,
                None => Next::Broken("the answer says that there is more but carries no next URL"),
            },
            (Position::Time, _) => Next::Cut,
            (Position::Ids { .. } | Position::Keys { .. }, _) => Next::End,
        }
    }

    fn is_short(&self, page: &Facts) -> bool {
        page.items < self.page_size
    }

    /// An empty page ends the reading (C-65), unless the far side says outright that there is more and how to get it.
    fn behind_an_empty_page(&self, here: &Position, page: &Facts) -> Next {
        if page.has_more != Some(true) || self.always_token || self.repeat_ends {
            return Next::End;
        }
        let next = match self.kind {
            Kind::Token { .. } => page.next_token.clone().map(|token| Position::Token(Some(token))),
            Kind::Url => page.next_url.clone().map(|url| Position::Url(Some(url))),
            Kind::Offset | Kind::Page { .. } | Kind::Time => None,
        };
        match next {
            Some(next) if next != *here => Next::At(next),
            _ => Next::Broken("an empty page says that there is more, but not where"),
        }
    }

    /// Whether a short numbered page cannot be the last, going by the total. A far side that caps its pages below the
    /// asked size is read to its end that way.
    fn total_may_say_more(&self, here: &Position, page: &Facts, all_full: bool) -> bool {
        let (None, true, Some(total)) = (page.has_more, self.is_short(page), page.total) else { return false };
        match (here, &self.kind) {
            (Position::Offset(at), _) => at + u64::from(page.items) < total,
            (Position::Page(at), Kind::Page { base }) => {
                let (before, items) = (at.saturating_sub(*base), u64::from(page.items));
                // Behind full pages the count is exact. Behind pages that may have been short, take all to be as short
                // as this one.
                let read = if all_full { before * u64::from(self.page_size) + items } else { (before + 1) * items };
                read < total
            }
            _ => false,
        }
    }

    /// Whether a single answer leaves some of its window out.
    fn is_cut(&self, page: &Facts) -> bool {
        let full = self.page_size > 0 && page.items >= self.page_size;
        full || page.total.is_some_and(|total| u64::from(page.items) < total)
    }
}

/// What a page says about itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Items as they came, before any is rejected or found twice.
    pub items: u32,
    pub has_more: Option<bool>,
    pub next_token: Option<String>,
    pub next_url: Option<String>,
    pub total: Option<u64>,
    /// What its items are known by, hashed; only where [`Rule::repeat_ends`] asks for it.
    pub ids: Vec<[u8; 16]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    At(Position),
    /// Only a total says that there is more: a far side without such a page is at its end, not at fault.
    Perhaps(Position),
    End,
    /// One answer left some of its window out: a narrower one must be asked for.
    Cut,
    /// The far side contradicts itself: going on would skip records, ending would lose them.
    Broken(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decision when all pages before were full.
    fn after(rule: &Rule, here: &Position, page: &Facts) -> Next {
        rule.next(here, page, true)
    }

    fn rule(kind: Kind) -> Rule {
        Rule::new(kind, 10)
    }

    fn page(items: u32) -> Facts {
        Facts { items, ..Facts::default() }
    }

    fn token(text: &str) -> Position {
        Position::Token(Some(text.to_owned()))
    }

    // covers: ING-4.3-01, ING-4.3-02, ING-4.3-12
    #[test]
    fn numbered_pages_go_on_while_pages_are_full() {
        let offset = rule(Kind::Offset);
        assert_eq!(after(&offset, &Position::Offset(20), &page(10)), Next::At(Position::Offset(30)));
        assert_eq!(after(&offset, &Position::Offset(20), &page(9)), Next::End);
        let paged = rule(Kind::Page { base: 1 });
        assert_eq!(paged.first(), Position::Page(1));
        assert_eq!(after(&paged, &Position::Page(1), &page(10)), Next::At(Position::Page(2)));
    }

    #[test]
    fn a_total_keeps_short_pages_from_ending_the_reading() {
        let with = |items, total| Facts { total: Some(total), ..page(items) };
        let offset = rule(Kind::Offset);
        assert_eq!(after(&offset, &Position::Offset(20), &with(5, 40)), Next::At(Position::Offset(25)));
        assert_eq!(after(&offset, &Position::Offset(20), &with(5, 25)), Next::End);
        assert_eq!(
            after(&offset, &Position::Offset(20), &with(0, 40)),
            Next::End,
            "a lying total ends on an empty page"
        );
        // Pages of 5 although 10 were asked for: page 4 of 4 is the last.
        let paged = rule(Kind::Page { base: 1 });
        assert_eq!(after(&paged, &Position::Page(1), &with(5, 20)), Next::Perhaps(Position::Page(2)));
        assert_eq!(paged.next(&Position::Page(3), &with(5, 20), false), Next::Perhaps(Position::Page(4)));
        assert_eq!(paged.next(&Position::Page(4), &with(5, 20), false), Next::End);
        assert_eq!(after(&paged, &Position::Page(2), &with(10, 3)), Next::At(Position::Page(3)), "a full page goes on");
        // An honest short last page behind full ones is the end: no page too many is asked for.
        assert_eq!(after(&paged, &Position::Page(3), &with(5, 25)), Next::End);
    }

    #[test]
    fn an_empty_page_ends_the_reading_unless_it_says_where_to_go_on() {
        let tokens = rule(Kind::Token { initial: None });
        let empty = |has_more, token: &str| Facts { has_more, next_token: Some(token.into()), ..page(0) };
        assert_eq!(after(&tokens, &token("a"), &empty(None, "b")), Next::End);
        assert_eq!(after(&tokens, &token("a"), &empty(Some(true), "b")), Next::At(token("b")));
        assert!(matches!(after(&tokens, &token("a"), &empty(Some(true), "a")), Next::Broken(_)));
        let offset = rule(Kind::Offset);
        assert!(matches!(
            after(&offset, &Position::Offset(0), &Facts { has_more: Some(true), ..page(0) }),
            Next::Broken(_)
        ));
    }

    // covers: ING-4.3-05
    #[test]
    fn one_answer_that_is_cut_is_not_taken_for_the_whole_window() {
        let time = rule(Kind::Time);
        assert_eq!(after(&time, &Position::Time, &page(9)), Next::End);
        assert_eq!(after(&time, &Position::Time, &page(10)), Next::Cut);
        assert_eq!(after(&time, &Position::Time, &Facts { total: Some(12), ..page(9) }), Next::Cut);
    }

    // covers: ING-4.3-03, ING-4.3-04, ING-4.3-13
    #[test]
    fn tokens_and_urls_go_on_while_there_is_one() {
        let tokens = rule(Kind::Token { initial: Some("*".into()) });
        assert_eq!(tokens.first(), token("*"));
        let more = Facts { next_token: Some("b".into()), ..page(3) };
        assert_eq!(after(&tokens, &token("*"), &more), Next::At(token("b")));
        assert_eq!(after(&tokens, &token("b"), &page(10)), Next::End);
        let urls = rule(Kind::Url);
        let more = Facts { next_url: Some("http://x/2".into()), ..page(3) };
        assert_eq!(after(&urls, &urls.first(), &more), Next::At(Position::Url(Some("http://x/2".into()))));
    }

    // covers: ING-4.3-11
    #[test]
    fn an_explicit_has_more_outranks_the_rest() {
        let offset = rule(Kind::Offset);
        assert_eq!(after(&offset, &Position::Offset(0), &Facts { has_more: Some(false), ..page(10) }), Next::End);
        let short = Facts { has_more: Some(true), ..page(3) };
        assert_eq!(after(&offset, &Position::Offset(0), &short), Next::At(Position::Offset(3)));
        let tokens = rule(Kind::Token { initial: None });
        assert!(matches!(after(&tokens, &Position::Token(None), &short), Next::Broken(_)));
    }

    // covers: ING-15-01
    #[test]
    fn a_source_that_always_gives_a_token_ends_on_a_short_or_empty_page() {
        let crossref = Rule { always_token: true, ..rule(Kind::Token { initial: Some("*".into()) }) };
        let with = |items| Facts { next_token: Some("same".into()), ..page(items) };
        assert_eq!(after(&crossref, &token("*"), &with(10)), Next::At(token("same")));
        assert_eq!(after(&crossref, &token("same"), &with(4)), Next::End);
        assert_eq!(after(&rule(Kind::Token { initial: None }), &token("x"), &with(0)), Next::End);
    }

    // covers: TWEET-170
    #[test]
    fn where_a_repetition_ends_the_reading_so_does_a_page_that_leads_nowhere() {
        let tweets = Rule { repeat_ends: true, ..rule(Kind::Token { initial: None }) };
        let more = |items, token: Option<&str>| Facts {
            has_more: Some(true),
            next_token: token.map(str::to_owned),
            ..page(items)
        };
        assert_eq!(after(&tweets, &token("a"), &more(3, Some("b"))), Next::At(token("b")), "a short page is no end");
        assert_eq!(after(&tweets, &token("a"), &more(0, Some("b"))), Next::End);
        assert_eq!(after(&tweets, &token("a"), &more(3, None)), Next::End);
        let urls = Rule { repeat_ends: true, ..rule(Kind::Url) };
        assert_eq!(after(&urls, &urls.first(), &more(3, None)), Next::End);
    }

    #[test]
    fn only_tokens_and_urls_enter_the_token_key() {
        assert_eq!(Position::Offset(5).token_key(), None);
        assert_eq!(token("a").token_key().as_deref(), Some("a"));
        assert!(Position::Url(Some("http://x".into())).token_key().is_some_and(|key| key.starts_with("url:")));
    }
}
