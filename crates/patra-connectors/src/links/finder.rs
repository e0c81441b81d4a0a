//! Collects the links of many texts, each once, in the order in which they were found first.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use memchr::memchr;

use super::chars::is_break;
use super::normal::{LinkOptions, NormalisedLink, UnusableLink, normalise};
use super::scheme::{self, MAX_SLASHES_BYTES};
use super::walk::{self, UrlStep};

/// Default limit on the distinct links of one finder.
pub const MAX_LINKS: usize = 100_000;

/// Longest scheme with its colon: so much of a text may belong to a URL whose colon is still to come.
const MAX_SCHEME_BYTES: usize = 6;

/// Result of a search for links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundLinks {
    /// Each once, in the order of the first finding.
    pub links: Vec<NormalisedLink>,
    /// Links that were left out because they are longer than [`MAX_URL_BYTES`](super::MAX_URL_BYTES).
    pub too_long: usize,
    /// There were more distinct links than the limit; the first ones are included.
    pub partial: bool,
}

/// Finds links in one text after the other.
#[derive(Debug)]
pub struct LinkFinder {
    options: LinkOptions,
    max_links: usize,
    found: FoundLinks,
    /// Index of a link in the result, by its hash.
    seen: HashMap<u64, usize>,
    hasher: RandomState,
    /// Buffer, kept to save allocations.
    url: String,
}

/// Position where the search continues with the next text.
#[derive(Debug, Default)]
pub(super) struct FinderCursor {
    pub(super) at: usize,
    /// Inside a URL that is too long, whose end is still to come.
    pub(super) skipping: bool,
}

impl LinkFinder {
    pub fn new(options: LinkOptions) -> Self {
        Self {
            options,
            max_links: MAX_LINKS,
            found: FoundLinks::default(),
            seen: HashMap::new(),
            hasher: RandomState::new(),
            url: String::new(),
        }
    }

    /// A finder with another limit than [`MAX_LINKS`].
    #[must_use]
    pub fn at_most(self, max_links: usize) -> Self {
        Self { max_links, ..self }
    }

    /// Searches plain text, Markdown, HTML or any other text for people.
    pub fn text(&mut self, text: &str) {
        self.scan(text, &mut FinderCursor::default(), true);
    }

    /// Searches a string that may be a URL as a whole, like strings in data: then all of it counts, `…/Apple_Inc.` with
    /// its dot.
    pub fn string(&mut self, text: &str) {
        let trimmed = text.trim();
        let mut url = std::mem::take(&mut self.url);
        let whole = walk::whole(trimmed, &mut url);
        if whole {
            self.add(&url);
        }
        self.url = url;
        if !whole {
            self.text(text);
        }
    }

    /// Takes the links found since the last call. They are forgotten, and can be found again.
    pub(super) fn take(&mut self) -> Vec<NormalisedLink> {
        self.seen.clear();
        std::mem::take(&mut self.found.links)
    }

    /// Whether the limit is reached: no more links are added.
    pub fn is_partial(&self) -> bool {
        self.found.partial
    }

    pub fn finish(self) -> FoundLinks {
        self.found
    }

    /// Searches a piece of text from the cursor on. Unless it is the last piece, text at its end that could continue is
    /// left, and the cursor points to it.
    pub(super) fn scan(&mut self, text: &str, cursor: &mut FinderCursor, last: bool) {
        let mut url = std::mem::take(&mut self.url);
        while !self.found.partial && self.step(text, cursor, last, &mut url) {}
        self.url = url;
    }

    /// Reads one URL. False at the end of the decidable text.
    fn step(&mut self, text: &str, cursor: &mut FinderCursor, last: bool, url: &mut String) -> bool {
        if cursor.skipping && !skip(text, cursor) {
            return false;
        }
        let Some(colon) = memchr(b':', &text.as_bytes()[cursor.at..]).map(|at| cursor.at + at) else {
            let undecided = if last { 0 } else { MAX_SCHEME_BYTES };
            cursor.at = cursor.at.max(text.len().saturating_sub(undecided));
            return false;
        };
        let Some(start) = scheme::start(text, colon).filter(|start| *start >= cursor.at) else {
            cursor.at = colon + 1;
            return true;
        };
        if !last && colon + 1 + MAX_SLASHES_BYTES > text.len() {
            cursor.at = start;
            return false;
        }
        let Some(scheme) = scheme::at(text, colon) else {
            cursor.at = colon + 1;
            return true;
        };
        match walk::follow(text, scheme, last, url) {
            UrlStep::Url(end) => {
                self.add(url);
                cursor.at = end;
            }
            UrlStep::Nothing(end) => cursor.at = end,
            UrlStep::TooLong(end) => {
                self.found.too_long += 1;
                *cursor = FinderCursor { at: end, skipping: true };
            }
            UrlStep::Undecided => cursor.at = start,
        }
        cursor.at != start
    }

    fn add(&mut self, written: &str) {
        // A URL in normal form needs no normalising to be recognised.
        let Some(slot) = self.free_slot(written) else { return };
        let link = match normalise(written, self.options) {
            Ok(link) => link,
            Err(UnusableLink::TooLong) => {
                self.found.too_long += 1;
                return;
            }
            Err(UnusableLink::Scheme | UnusableLink::Host | UnusableLink::Syntax(_)) => return,
        };
        let slot = if link.url == written { Some(slot) } else { self.free_slot(&link.url) };
        let Some(slot) = slot else { return };
        if self.found.links.len() >= self.max_links {
            self.found.partial = true;
            return;
        }
        self.seen.insert(slot, self.found.links.len());
        self.found.links.push(link);
    }

    /// The slot of a new URL: its hash, or the next free number.
    fn free_slot(&self, url: &str) -> Option<u64> {
        let mut slot = self.hasher.hash_one(url);
        while let Some(at) = self.seen.get(&slot) {
            if self.found.links.get(*at).is_some_and(|link| link.url == url) {
                return None;
            }
            slot = slot.wrapping_add(1);
        }
        Some(slot)
    }
}

/// Goes to the end of a URL that is too long. False if it is not in this piece.
fn skip(text: &str, cursor: &mut FinderCursor) -> bool {
    match text[cursor.at..].find(is_break) {
        Some(end) => {
            cursor.at += end;
            cursor.skipping = false;
        }
        None => cursor.at = text.len(),
    }
    !cursor.skipping
}

#[cfg(test)]
mod tests;
