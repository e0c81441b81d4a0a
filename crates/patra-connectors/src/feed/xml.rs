//! RSS, RDF, Atom and CDF to a [`Feed`]. All are read by one set of names: real feeds mix them.

use url::Url;

use super::date::FeedDate;
use super::entry;
use super::links::{self, BestLink};
use super::text::{self, DefaultMarkup};
use super::tree::{self, TreeElement};
use super::{Feed, FeedError, FeedLimit, FeedTag, MAX_ENTRIES, max_text_bytes};
use crate::page;

/// Elements that may come before the feed itself.
const MAX_BEFORE_ROOT: usize = 50;
/// Characters of a text that is no feed shown in its error.
const MAX_SHOWN: usize = 40;

pub(super) fn read(text: &str, base: &Url) -> Result<Feed, FeedError> {
    // Text before the first tag is not part of the feed.
    let Some(start) = memchr::memchr(b'<', text.as_bytes()) else { return Err(not_a_feed(text)) };
    let begins_as_page = page::looks_like_page(&text[start..]);
    let (document, truncated) = match tree::parse(&text[start..]) {
        // A page may be deeper than any feed, and is reported as a page.
        Err(_) if begins_as_page => return Err(page_error(text, base)),
        other => other?,
    };
    let mut left = MAX_BEFORE_ROOT;
    let Some(root) = root(&document, &mut left) else {
        // The page is read as a tree of its own.
        drop(document);
        return Err(if begins_as_page { page_error(text, base) } else { not_a_feed(&text[start..]) });
    };
    let mut reader = XmlFeedReader {
        atom: root.name() == "feed",
        feed: Feed::default(),
        link: BestLink::default(),
        info: None,
        cut: 0,
        text_bytes: 0,
        max_text_bytes: max_text_bytes(text.len()),
    };
    reader.head(root, base)?;
    if reader.feed.entries.is_empty() && reader.cut == 0 {
        // Entries in a place where no format puts them: other readers find them too.
        reader.stray_entries(root, base)?;
    }
    if reader.feed.entries.is_empty() && reader.cut > 0 {
        return Err(FeedError::Cut);
    }
    let XmlFeedReader { mut feed, link, info, .. } = reader;
    feed.link = link.take().or(feed.link);
    feed.subtitle = feed.subtitle.or(info);
    if feed == Feed::default() {
        // A page may have an element that is called like a feed.
        return Err(if begins_as_page { page_error(text, base) } else { FeedError::Hollow });
    }
    Ok(Feed { truncated, ..feed })
}

fn page_error(text: &str, base: &Url) -> FeedError {
    let feed = page::feeds(text, base).ok().and_then(|feeds| feeds.into_iter().next());
    FeedError::Page { feed: feed.map(|feed| feed.href) }
}

fn not_a_feed(text: &str) -> FeedError {
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    FeedError::NotAFeed { found: format!("`{}`", shown.split_whitespace().collect::<Vec<_>>().join(" ")) }
}

fn root<'t, 'a>(element: &'t TreeElement<'a>, left: &mut usize) -> Option<&'t TreeElement<'a>> {
    for child in element.elements() {
        if matches!(child.name(), "rss" | "feed" | "rdf:rdf" | "rdf" | "channel") {
            return Some(child);
        }
        *left = left.checked_sub(1)?;
        if let Some(found) = root(child, left) {
            return Some(found);
        }
    }
    None
}

struct XmlFeedReader {
    atom: bool,
    feed: Feed,
    link: BestLink,
    /// The subtitle of feeds without one of their own.
    info: Option<String>,
    /// Entries inside which the document ended. They are left out: half an entry would be stored under the wrong key,
    /// or with half its text.
    cut: usize,
    /// Bytes of the entries' texts and addresses so far.
    text_bytes: usize,
    max_text_bytes: usize,
}

impl XmlFeedReader {
    fn head(&mut self, element: &TreeElement<'_>, base: &Url) -> Result<(), FeedError> {
        let base = &*links::base_of(element, base);
        if let Some(language) = element.attribute("xml:lang").or_else(|| element.attribute("lang")) {
            self.feed.language = Some(language.replace('_', "-"));
        }
        if element.name() == "channel" {
            self.feed.updated = element.attribute("lastmod").map(FeedDate::new).or(self.feed.updated.take());
            self.link.offer_href(element, base);
        }
        for child in element.elements() {
            match child.name() {
                "item" | "entry" => self.entry(child, base)?,
                // RSS 1.1 has its entries in `items`; in RSS 1.0 that element only lists their names.
                "channel" | "feed" | "rss" | "items" => self.head(child, base)?,
                _ => self.field(child, &links::base_of(child, base)),
            }
        }
        Ok(())
    }

    fn entry(&mut self, element: &TreeElement<'_>, base: &Url) -> Result<(), FeedError> {
        if self.feed.entries.len() == MAX_ENTRIES {
            return Err(FeedLimit::Entries.into());
        }
        let base = links::base_of(element, base);
        if element.cut {
            self.cut += 1;
            // Where entries have no end tags, those before the last one are inside of it.
            let nested = element.elements().filter(|child| matches!(child.name(), "item" | "entry"));
            return nested.into_iter().try_for_each(|child| self.entry(child, &base));
        }
        let entry = entry::read(element, self.atom, &base);
        self.text_bytes += entry.text_bytes();
        if self.text_bytes > self.max_text_bytes {
            return Err(FeedLimit::Growth { limit: self.max_text_bytes }.into());
        }
        self.feed.entries.push(entry);
        Ok(())
    }

    fn stray_entries(&mut self, element: &TreeElement<'_>, base: &Url) -> Result<(), FeedError> {
        let base = links::base_of(element, base);
        for child in element.elements() {
            match child.name() {
                "item" | "entry" => self.entry(child, &base)?,
                _ => self.stray_entries(child, &base)?,
            }
        }
        Ok(())
    }

    fn field(&mut self, element: &TreeElement<'_>, base: &Url) {
        let usual = if self.atom { DefaultMarkup::Plain } else { DefaultMarkup::Guess };
        let label = || Some(text::label(element, usual, base));
        let plain = || Some(element.text()).filter(|text| !text.is_empty());
        let feed = &mut self.feed;
        match element.name() {
            "title" => feed.title = label(),
            "dc:title" | "itunes:title" | "media:title" => feed.title = feed.title.take().or_else(label),
            "link" => self.link(element, base),
            "subtitle" | "tagline" => feed.subtitle = label(),
            "description" | "abstract" | "dc:description" | "itunes:subtitle" => {
                feed.subtitle = feed.subtitle.take().or_else(|| Some(text::label(element, DefaultMarkup::Html, base)));
            }
            "info" | "feedburner:browserfriendly" | "itunes:summary" => self.info = self.info.take().or_else(label),
            "id" | "guid" => feed.id = plain(),
            "language" | "dc:language" => feed.language = plain().map(|text| text.replace('_', "-")),
            "author" | "managingeditor" | "dc:creator" | "dc:author" | "itunes:author" => {
                feed.author = feed.author.take().or_else(|| entry::person(element));
            }
            "rights" | "copyright" => feed.rights = label(),
            "dc:rights" => feed.rights = feed.rights.take().or_else(label),
            "updated" | "modified" | "lastbuilddate" | "dc:date" | "dcterms:modified" => {
                feed.updated = FeedDate::of(element).or(feed.updated.take());
            }
            "published" | "pubdate" | "issued" | "dcterms:issued" => {
                feed.published = FeedDate::of(element).or(feed.published.take());
            }
            "created" | "dcterms:created" => feed.published = feed.published.take().or_else(|| FeedDate::of(element)),
            "icon" | "logo" => feed.icon = feed.icon.take().or_else(|| links::absolute(&plain()?, base)),
            "image" | "itunes:image" | "media:thumbnail" => {
                feed.icon = feed.icon.take().or_else(|| entry::image(element, base));
            }
            "generator" => feed.generator = plain(),
            "ttl" => feed.ttl_minutes = plain().and_then(|text| text.parse().ok()),
            "itunes:new-feed-url" | "newlocation" => feed.moved_to = links::absolute(&element.text(), base),
            "itunes:complete" => feed.expired |= element.text().eq_ignore_ascii_case("yes"),
            _ => entry::tags(element, &mut feed.tags),
        }
    }

    fn link(&mut self, element: &TreeElement<'_>, base: &Url) {
        let feed = &mut self.feed;
        match links::relation(element).as_str() {
            "alternate" => self.link.offer(element, base),
            "self" => feed.self_url = links::href(element, base),
            "next" => feed.next_url = links::href(element, base),
            "hub" => feed.hub = links::href(element, base),
            "license" | "copyright" => {
                feed.rights = feed.rights.take().or_else(|| links::href(element, base));
            }
            _ => {}
        }
    }
}

/// Adds a tag that is not there yet.
pub(super) fn add_tag(tags: &mut Vec<FeedTag>, tag: FeedTag) {
    let empty = tag == FeedTag::default();
    let parts = [&tag.term, &tag.scheme, &tag.label];
    let long = parts.into_iter().flatten().any(|part| part.len() > MAX_TAG_BYTES);
    if !empty && !long && tags.len() < MAX_TAGS && !tags.contains(&tag) {
        tags.push(tag);
    }
}

/// Most tags of one entry or feed; more are left out.
const MAX_TAGS: usize = 200;
/// Longest part of a tag. A longer one is no tag, and is left out.
const MAX_TAG_BYTES: usize = 2_048;
