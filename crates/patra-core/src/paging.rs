//! Paging: the position of a slice's reader, and whether there is a next page. Pure: a page's facts in, a decision
//! out.

mod circle;
mod place;
mod verify;
mod walk;

use serde::{Deserialize, Serialize};

pub use circle::Landmark;
pub use verify::{Verification, Verify, WalkProgress};
pub use walk::{EndReason, PageStep, PageWalk, Part};

/// The position that a request reads from, and that a later run resumes at. Stored as JSON in the batch ledger.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Position {
    Offset(u64),
    Page(u64),
    /// `None`: the first request of a source that starts without a token.
    Token(Option<String>),
    /// `None`: the endpoint's own URL.
    Url(Option<String>),
    /// The whole window in one response.
    Time,
    /// Details of these ids, which the page at `at` named.
    Ids {
        at: Box<Position>,
        ids: Vec<String>,
    },
    /// Ids from the store behind this one: an UPDATE.
    Keys {
        after: Option<String>,
    },
}

impl Position {
    /// Value for the unique key `uk_run_before_tok`: none for numbered pages and the first page (C-37).
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

/// Default of [`PagingRule::max_empty_pages`].
pub const MAX_EMPTY_PAGES: u32 = 10;

/// Default of [`PagingRule::max_idle_requests`].
pub const MAX_IDLE_REQUESTS: u32 = 100;

/// How an endpoint pages, as far as the decision needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PagingRule {
    pub kind: PagingKind,
    pub page_size: u32,
    /// Stop after this many pages; the slice is then incomplete (C-24).
    pub max_page: Option<u32>,
    /// The upstream gives a token on its last page too, so a short page is the end (C-65).
    pub always_token: bool,
    /// The upstream never gives the same token twice: one that comes back is the end (ING-15-01).
    pub unique_tokens: bool,
    /// A page without a new id, also an empty one, is the end, whatever the upstream says (TWEET-170).
    pub repeat_ends: bool,
    /// Name of the param with the record limit of a run.
    pub limit_param: Option<String>,
    /// Name of the param with the extended limit of a run, which applies while all records are new.
    pub limit_max_param: Option<String>,
    /// Request the last page once more before accepting it as the last (ING-4.3-14).
    pub tail_probe: bool,
    /// Maximum records that the upstream returns for one query (ING-15-02).
    pub ceiling: Option<u64>,
    /// The upstream filters by time, so a narrower window holds less.
    pub can_cut: bool,
    /// One response is read per window, and nothing but a total shows that it omits records.
    pub may_omit: bool,
    /// Totals are estimates: a falling total means nothing.
    pub estimates: bool,
    /// At `max_page` the window is split into narrower ones instead of staying incomplete (ING-4.3-16).
    pub split_at_max: bool,
    /// How completeness is checked while the result set may move.
    pub verify: Verify,
    /// Maximum consecutive empty pages that say that there is more.
    pub max_empty_pages: u32,
    /// Maximum consecutive requests that bring no new record.
    pub max_idle_requests: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PagingKind {
    Offset,
    Page { base: u64 },
    Token { initial: Option<String> },
    Url,
    Time,
}

impl PagingRule {
    /// Pages of this kind and size, without special rules.
    pub fn new(kind: PagingKind, page_size: u32) -> PagingRule {
        PagingRule {
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
            may_omit: false,
            estimates: false,
            split_at_max: false,
            verify: Verify::default(),
            max_empty_pages: MAX_EMPTY_PAGES,
            max_idle_requests: MAX_IDLE_REQUESTS,
        }
    }

    /// Records of the slice before a position, where the position implies it.
    pub fn before(&self, at: &Position) -> Option<u64> {
        match (at, &self.kind) {
            (Position::Offset(offset), _) => Some(*offset),
            (Position::Page(no), PagingKind::Page { base }) => {
                Some(no.saturating_sub(*base).saturating_mul(u64::from(self.page_size)))
            }
            _ => None,
        }
    }

    /// Position of the n-th page, counted from 0, where pages are numbered; otherwise of the first page.
    pub fn nth(&self, page: u64) -> Position {
        match &self.kind {
            PagingKind::Offset => Position::Offset(page.saturating_mul(u64::from(self.page_size))),
            PagingKind::Page { base } => Position::Page(base.saturating_add(page)),
            PagingKind::Token { .. } | PagingKind::Url | PagingKind::Time => self.first(),
        }
    }

    pub fn first(&self) -> Position {
        match &self.kind {
            PagingKind::Offset => Position::Offset(0),
            PagingKind::Page { base } => Position::Page(*base),
            PagingKind::Token { initial } => Position::Token(initial.clone()),
            PagingKind::Url => Position::Url(None),
            PagingKind::Time => Position::Time,
        }
    }

    /// Decides what follows the page read at `here`. The order of the evidence is ING-4.3-11: `has_more`, then
    /// `next`, then a short page; the caller applies caps afterwards. A total can only prove that there is more,
    /// never that it is the end: some upstreams serve smaller pages than requested, and some totals are wrong.
    ///
    /// `all_full`: every earlier page of the slice is known to have been full.
    pub fn next(&self, here: &Position, page: &PageFacts, all_full: bool) -> NextPage {
        if page.items == 0 {
            return self.behind_an_empty_page(here, page);
        }
        if self.total_may_say_more(here, page, all_full) {
            return match here {
                Position::Page(at) => NextPage::Perhaps(Position::Page(at + 1)),
                _ => NextPage::At(Position::Offset(here.number().unwrap_or(0) + u64::from(page.items))),
            };
        }
        let more = match (page.has_more, &self.kind) {
            (Some(more), _) => more,
            (None, PagingKind::Token { .. }) => {
                page.next_token.is_some() && !(self.always_token && self.is_short(page))
            }
            (None, PagingKind::Url) => page.next_url.is_some(),
            (None, PagingKind::Offset | PagingKind::Page { .. }) => !self.is_short(page),
            (None, PagingKind::Time) => self.is_cut(page),
        };
        if !more {
            return NextPage::End;
        }
        match (here, &self.kind) {
            (Position::Offset(at), _) => NextPage::At(Position::Offset(at + u64::from(page.items))),
            (Position::Page(at), _) => NextPage::At(Position::Page(at + 1)),
            (Position::Token(_), _) => match &page.next_token {
                Some(token) => NextPage::At(Position::Token(Some(token.clone()))),
                None if self.repeat_ends => NextPage::End,
                None => NextPage::Broken("the response says that there is more but has no next token"),
            },
            (Position::Url(_), _) => match &page.next_url {
                Some(url) => NextPage::At(Position::Url(Some(url.clone()))),
                None if self.repeat_ends => NextPage::End,
                None => NextPage::Broken("the response says that there is more but has no next URL"),
            },
            (Position::Time, _) => NextPage::Cut,
            (Position::Ids { .. } | Position::Keys { .. }, _) => NextPage::End,
        }
    }

    fn is_short(&self, page: &PageFacts) -> bool {
        page.items < self.page_size
    }

    /// An empty page is the end unless the upstream says how to go on: explicitly, or by a new token or URL (C-65).
    fn behind_an_empty_page(&self, here: &Position, page: &PageFacts) -> NextPage {
        if page.has_more == Some(false) || self.always_token || self.repeat_ends {
            return NextPage::End;
        }
        let next = match self.kind {
            PagingKind::Token { .. } => page.next_token.clone().map(|token| Position::Token(Some(token))),
            PagingKind::Url => page.next_url.clone().map(|url| Position::Url(Some(url))),
            PagingKind::Offset | PagingKind::Page { .. } | PagingKind::Time => None,
        };
        match next {
            Some(next) if next != *here => NextPage::At(next),
            _ if page.has_more == Some(true) => {
                NextPage::Broken("an empty page says that there is more, but not where")
            }
            _ => NextPage::End,
        }
    }

    /// Whether a short numbered page cannot be the last, judging by the total. This reads an upstream that caps its
    /// pages below the requested size to its end.
    fn total_may_say_more(&self, here: &Position, page: &PageFacts, all_full: bool) -> bool {
        let (None, true, Some(total)) = (page.has_more, self.is_short(page), page.total) else { return false };
        match (here, &self.kind) {
            (Position::Offset(at), _) => at + u64::from(page.items) < total,
            (Position::Page(at), PagingKind::Page { base }) => {
                let (before, items) = (at.saturating_sub(*base), u64::from(page.items));
                // After full pages the count is exact. After pages that may have been short, assume all to be as
                // short as this one.
                let read = if all_full { before * u64::from(self.page_size) + items } else { (before + 1) * items };
                read < total
            }
            _ => false,
        }
    }

    /// Whether a single response omits some of its window.
    fn is_cut(&self, page: &PageFacts) -> bool {
        let full = self.page_size > 0 && page.items >= self.page_size;
        full || page.total.is_some_and(|total| u64::from(page.items) < total)
    }
}

/// Paging facts of one page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageFacts {
    /// Items as received, before any is rejected or deduplicated.
    pub items: u32,
    pub has_more: Option<bool>,
    pub next_token: Option<String>,
    pub next_url: Option<String>,
    pub total: Option<u64>,
    /// Hashed ids of its items, in the order of the page; of an item without an id, the hash of its content. Empty where
    /// they are not known.
    pub ids: Vec<[u8; 16]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextPage {
    At(Position),
    /// Only a total says that there is more: if the page is missing, the upstream is at its end, not at fault.
    Perhaps(Position),
    End,
    /// The response omitted some of its window: request a narrower one.
    Cut,
    /// The upstream contradicts itself: continuing would skip records, ending would lose them.
    Broken(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decision when all earlier pages were full.
    fn after(rule: &PagingRule, here: &Position, page: &PageFacts) -> NextPage {
        rule.next(here, page, true)
    }

    fn rule(kind: PagingKind) -> PagingRule {
        PagingRule::new(kind, 10)
    }

    fn page(items: u32) -> PageFacts {
        PageFacts { items, ..PageFacts::default() }
    }

    fn token(text: &str) -> Position {
        Position::Token(Some(text.to_owned()))
    }

    // covers: ING-4.3-01, ING-4.3-02, ING-4.3-12, ING-0.2-06, ING-1.2-01, ING-2.4-02
    #[test]
    fn numbered_pages_go_on_while_pages_are_full() {
        let offset = rule(PagingKind::Offset);
        assert_eq!(after(&offset, &Position::Offset(20), &page(10)), NextPage::At(Position::Offset(30)));
        assert_eq!(after(&offset, &Position::Offset(20), &page(9)), NextPage::End);
        let paged = rule(PagingKind::Page { base: 1 });
        assert_eq!(paged.first(), Position::Page(1));
        assert_eq!(after(&paged, &Position::Page(1), &page(10)), NextPage::At(Position::Page(2)));
    }

    #[test]
    fn a_total_keeps_short_pages_from_ending_the_reading() {
        let with = |items, total| PageFacts { total: Some(total), ..page(items) };
        let offset = rule(PagingKind::Offset);
        assert_eq!(after(&offset, &Position::Offset(20), &with(5, 40)), NextPage::At(Position::Offset(25)));
        assert_eq!(after(&offset, &Position::Offset(20), &with(5, 25)), NextPage::End);
        assert_eq!(
            after(&offset, &Position::Offset(20), &with(0, 40)),
            NextPage::End,
            "a lying total ends on an empty page"
        );
        // Pages of 5 although 10 were requested: page 4 of 4 is the last.
        let paged = rule(PagingKind::Page { base: 1 });
        assert_eq!(after(&paged, &Position::Page(1), &with(5, 20)), NextPage::Perhaps(Position::Page(2)));
        assert_eq!(paged.next(&Position::Page(3), &with(5, 20), false), NextPage::Perhaps(Position::Page(4)));
        assert_eq!(paged.next(&Position::Page(4), &with(5, 20), false), NextPage::End);
        assert_eq!(
            after(&paged, &Position::Page(2), &with(10, 3)),
            NextPage::At(Position::Page(3)),
            "a full page goes on"
        );
        // A genuine short last page after full ones is the end: no extra page is requested.
        assert_eq!(after(&paged, &Position::Page(3), &with(5, 25)), NextPage::End);
    }

    #[test]
    fn an_empty_page_ends_the_reading_unless_it_says_where_to_go_on() {
        let tokens = rule(PagingKind::Token { initial: None });
        let empty = |has_more, token: &str| PageFacts { has_more, next_token: Some(token.into()), ..page(0) };
        assert_eq!(after(&tokens, &token("a"), &empty(None, "b")), NextPage::At(token("b")));
        assert_eq!(after(&tokens, &token("a"), &empty(None, "a")), NextPage::End);
        assert_eq!(after(&tokens, &token("a"), &empty(Some(false), "b")), NextPage::End);
        assert_eq!(after(&tokens, &token("a"), &empty(Some(true), "b")), NextPage::At(token("b")));
        let always = PagingRule { always_token: true, ..tokens.clone() };
        assert_eq!(after(&always, &token("a"), &empty(None, "b")), NextPage::End);
        assert!(matches!(after(&tokens, &token("a"), &empty(Some(true), "a")), NextPage::Broken(_)));
        let offset = rule(PagingKind::Offset);
        assert!(matches!(
            after(&offset, &Position::Offset(0), &PageFacts { has_more: Some(true), ..page(0) }),
            NextPage::Broken(_)
        ));
    }

    // covers: ING-4.3-05
    #[test]
    fn truncated_response_does_not_cover_the_window() {
        let time = rule(PagingKind::Time);
        assert_eq!(after(&time, &Position::Time, &page(9)), NextPage::End);
        assert_eq!(after(&time, &Position::Time, &page(10)), NextPage::Cut);
        assert_eq!(after(&time, &Position::Time, &PageFacts { total: Some(12), ..page(9) }), NextPage::Cut);
    }

    // covers: ING-4.3-03, ING-4.3-04, ING-4.3-13, ING-1.2-01
    #[test]
    fn tokens_and_urls_go_on_while_there_is_one() {
        let tokens = rule(PagingKind::Token { initial: Some("*".into()) });
        assert_eq!(tokens.first(), token("*"));
        let more = PageFacts { next_token: Some("b".into()), ..page(3) };
        assert_eq!(after(&tokens, &token("*"), &more), NextPage::At(token("b")));
        assert_eq!(after(&tokens, &token("b"), &page(10)), NextPage::End);
        let urls = rule(PagingKind::Url);
        let more = PageFacts { next_url: Some("http://x/2".into()), ..page(3) };
        assert_eq!(after(&urls, &urls.first(), &more), NextPage::At(Position::Url(Some("http://x/2".into()))));
    }

    // covers: ING-4.3-11
    #[test]
    fn an_explicit_has_more_outranks_the_rest() {
        let offset = rule(PagingKind::Offset);
        assert_eq!(
            after(&offset, &Position::Offset(0), &PageFacts { has_more: Some(false), ..page(10) }),
            NextPage::End
        );
        let short = PageFacts { has_more: Some(true), ..page(3) };
        assert_eq!(after(&offset, &Position::Offset(0), &short), NextPage::At(Position::Offset(3)));
        let tokens = rule(PagingKind::Token { initial: None });
        assert!(matches!(after(&tokens, &Position::Token(None), &short), NextPage::Broken(_)));
    }

    // covers: ING-15-01
    #[test]
    fn a_source_that_always_gives_a_token_ends_on_a_short_or_empty_page() {
        let crossref = PagingRule { always_token: true, ..rule(PagingKind::Token { initial: Some("*".into()) }) };
        let with = |items| PageFacts { next_token: Some("same".into()), ..page(items) };
        assert_eq!(after(&crossref, &token("*"), &with(10)), NextPage::At(token("same")));
        assert_eq!(after(&crossref, &token("same"), &with(4)), NextPage::End);
        assert_eq!(after(&crossref, &token("same"), &with(0)), NextPage::End);
        let others = rule(PagingKind::Token { initial: None });
        assert_eq!(
            after(&others, &token("x"), &with(0)),
            NextPage::At(token("same")),
            "an empty page with a new token"
        );
    }

    // covers: TWEET-170
    #[test]
    fn page_without_progress_ends_the_reading_where_a_repetition_does() {
        let tweets = PagingRule { repeat_ends: true, ..rule(PagingKind::Token { initial: None }) };
        let more = |items, token: Option<&str>| PageFacts {
            has_more: Some(true),
            next_token: token.map(str::to_owned),
            ..page(items)
        };
        assert_eq!(
            after(&tweets, &token("a"), &more(3, Some("b"))),
            NextPage::At(token("b")),
            "a short page is not the end"
        );
        assert_eq!(after(&tweets, &token("a"), &more(0, Some("b"))), NextPage::End);
        assert_eq!(after(&tweets, &token("a"), &more(3, None)), NextPage::End);
        let urls = PagingRule { repeat_ends: true, ..rule(PagingKind::Url) };
        assert_eq!(after(&urls, &urls.first(), &more(3, None)), NextPage::End);
    }

    #[test]
    fn only_tokens_and_urls_enter_the_token_key() {
        assert_eq!(Position::Offset(5).token_key(), None);
        assert_eq!(token("a").token_key().as_deref(), Some("a"));
        assert!(Position::Url(Some("http://x".into())).token_key().is_some_and(|key| key.starts_with("url:")));
    }
}
