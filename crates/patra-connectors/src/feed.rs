//! Bytes of a feed to values: RSS 0.9x to 2.0, RSS 1.0 (RDF), Atom 0.3 and 1.0, CDF and JSON Feed, in any encoding and
//! with the usual faults. A pure function: no clock, no network, the same result for the same bytes. It never panics,
//! and its limits bound time and memory on any input.

mod date;
mod encoding;
mod entity;
mod entry;
mod identity;
mod json;
mod links;
mod sanitise;
mod tag;
mod text;
mod tidy;
mod token;
mod tree;
mod xml;

use serde::Serialize;
use url::Url;

use crate::json_size::TooManyValues;

pub use date::{FeedDate, parse as parse_date};
pub use encoding::decode;
pub use entity::{MAX_EXPANSION_BYTES, MAX_EXPANSION_DEPTH};
pub use identity::{IdentityRule, MAX_SHARED_IDS, SharedIds, identity, keys, shared_ids};
pub use links::MAX_URL_BYTES;
pub use sanitise::{clean as clean_html, plain as html_to_text};
pub use text::FeedText;
pub use tree::{MAX_DEPTH, MAX_ELEMENTS};

/// Decoding of bytes, shared with pages.
pub(crate) mod markup {
    pub(crate) use super::entity::{EntityContext, resolve};
    pub(crate) use super::sanitise::escape_into;
    pub(crate) use super::token::{Attributes, MarkupToken, MarkupTokens};
}

/// Most bytes of a feed.
pub const MAX_BYTES: usize = 15 * 1024 * 1024;
/// How many times its own size the texts and addresses of a feed may have, and what any feed may have.
const MAX_TEXT_GROWTH: usize = 2;
const FREE_TEXT_BYTES: usize = 1024 * 1024;
/// Most entries of a feed.
pub const MAX_ENTRIES: usize = 50_000;

/// Most bytes of the texts and addresses of a feed whose body has this length: relative links become absolute, and the
/// same address is in many of them.
pub(crate) fn max_text_bytes(body: usize) -> usize {
    MAX_TEXT_GROWTH * body + FREE_TEXT_BYTES
}

/// A feed as it was published. Titles and the like are plain text, URLs are absolute where they could be made so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Feed {
    pub title: Option<String>,
    /// The page that the feed belongs to.
    pub link: Option<String>,
    pub subtitle: Option<String>,
    pub id: Option<String>,
    pub language: Option<String>,
    pub author: Option<String>,
    pub rights: Option<String>,
    pub updated: Option<FeedDate>,
    pub published: Option<FeedDate>,
    pub tags: Vec<FeedTag>,
    pub icon: Option<String>,
    pub generator: Option<String>,
    /// The feed's own address by its content.
    pub self_url: Option<String>,
    /// The next page of the same feed.
    pub next_url: Option<String>,
    /// New address of a feed that has moved.
    pub moved_to: Option<String>,
    /// Hub for subscriptions to changes.
    pub hub: Option<String>,
    /// How long the feed may be cached.
    pub ttl_minutes: Option<u32>,
    /// Whether the feed is complete: nothing will follow.
    pub expired: bool,
    /// Whether the body ends inside the feed. The entry that it cuts is left out, and more may be missing.
    pub truncated: bool,
    pub entries: Vec<FeedEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FeedEntry {
    /// The feed's own id of the entry, unchanged. For a key that always exists see [`identity()`].
    pub id: Option<String>,
    pub title: Option<String>,
    pub link: Option<String>,
    pub summary: Option<FeedText>,
    pub content: Vec<FeedText>,
    pub author: Option<String>,
    pub published: Option<FeedDate>,
    pub updated: Option<FeedDate>,
    pub rights: Option<String>,
    pub language: Option<String>,
    pub tags: Vec<FeedTag>,
    pub enclosures: Vec<Enclosure>,
    pub image: Option<String>,
    /// The page of the comments.
    pub comments: Option<String>,
    /// The original feed of the entry, by its title or address.
    pub source: Option<String>,
}

impl FeedEntry {
    /// Bytes of its texts and addresses.
    fn text_bytes(&self) -> usize {
        let one = [
            &self.id,
            &self.title,
            &self.link,
            &self.author,
            &self.rights,
            &self.language,
            &self.image,
            &self.comments,
            &self.source,
        ];
        let texts = self.summary.iter().chain(&self.content).map(|text| text.value.len());
        let tags = self.tags.iter().flat_map(|tag| [&tag.term, &tag.scheme, &tag.label]);
        let files =
            self.enclosures.iter().map(|file| file.href.len() + file.media_type.as_ref().map_or(0, String::len));
        one.into_iter().chain(tags).flatten().map(String::len).sum::<usize>()
            + texts.sum::<usize>()
            + files.sum::<usize>()
    }

    /// The description of the entry: its summary, else its content.
    pub fn description(&self) -> Option<&FeedText> {
        self.summary.as_ref().or_else(|| self.content.first())
    }

    /// The publication time, else the time of the last change; a time that can be read counts before one that cannot.
    pub fn date(&self) -> Option<&FeedDate> {
        let both = [self.published.as_ref(), self.updated.as_ref()];
        both.iter().flatten().find(|date| date.at.is_some()).or(both.iter().flatten().next()).copied()
    }

    /// The time of the last change, else the publication time.
    pub fn changed(&self) -> Option<&FeedDate> {
        self.updated.as_ref().filter(|date| date.at.is_some()).or_else(|| self.date())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FeedTag {
    pub term: Option<String>,
    pub scheme: Option<String>,
    pub label: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Enclosure {
    pub href: String,
    #[serde(rename = "type")]
    pub media_type: Option<String>,
    pub length: Option<u64>,
}

/// Why a body cannot be read as a feed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    #[error("the body is empty, so it is no feed")]
    Empty,
    #[error("this is an HTML page, not a feed{}", named(.feed.as_deref()))]
    Page { feed: Option<String> },
    #[error(
        "this is no feed: it begins with {found}, where <rss>, <feed>, <rdf:RDF>, <channel> or a JSON Feed was expected"
    )]
    NotAFeed { found: String },
    #[error("the feed is hollow: it has no title, no link and no entry")]
    Hollow,
    #[error("the feed ends inside its first entry: the response was cut")]
    Cut,
    #[error("the JSON is broken: {reason}")]
    Json { reason: String },
    #[error("this JSON is no JSON Feed: {reason}")]
    JsonShape { reason: String },
    #[error("the feed is refused: {0}")]
    Limit(#[from] FeedLimit),
}

/// A limit that a body exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FeedLimit {
    #[error("it has more than {MAX_BYTES} bytes")]
    Bytes,
    #[error("it has more than {MAX_ENTRIES} entries")]
    Entries,
    #[error("it has more than {MAX_ELEMENTS} elements")]
    Elements,
    #[error("its elements are nested deeper than {MAX_DEPTH}")]
    Depth,
    #[error("its texts and addresses grow to more than {limit} bytes: its links repeat a long base address")]
    Growth { limit: usize },
    #[error(transparent)]
    JsonValues(#[from] TooManyValues),
    #[error("its values are nested deeper than {}", json::MAX_DEPTH)]
    JsonDepth,
    #[error("its entities grow to more than {MAX_EXPANSION_BYTES} bytes")]
    ExpansionBytes,
    #[error("its entities are nested deeper than {MAX_EXPANSION_DEPTH}")]
    ExpansionDepth,
}

fn named(feed: Option<&str>) -> String {
    feed.map_or_else(|| ", and it names none".to_owned(), |feed| format!("; it names a feed at {feed}"))
}

/// Reads a feed. `base` is the address of the body, after redirects. The first element decides the format, never the
/// Content-Type, which is used for the charset only.
pub fn read(body: &[u8], content_type: Option<&str>, base: &Url) -> Result<Feed, FeedError> {
    if body.len() > MAX_BYTES {
        return Err(FeedLimit::Bytes.into());
    }
    let text = decode(body, content_type);
    let text = text::without_illegal(&text);
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if start.is_empty() {
        return Err(FeedError::Empty);
    }
    if start.starts_with(['{', '[']) { json::read(start, base) } else { xml::read(start, base) }
}

#[cfg(test)]
mod tests;
