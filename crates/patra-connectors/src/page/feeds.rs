//! The feeds that a page names.

use scraper::Selector;
use serde::Serialize;
use url::Url;

use super::HtmlPageError;
use super::document::{HtmlDocument, folded};

/// Most feeds that are listed.
const MAX_FEEDS: usize = 100;
/// Bytes at the start of a body that are searched for a page.
const MAX_HEAD_BYTES: usize = 1_024;
const TYPES: [&str; 7] = [
    "application/rss+xml",
    "application/atom+xml",
    "application/rdf+xml",
    "application/feed+json",
    "application/x.atom+xml",
    "text/rss+xml",
    "text/xml",
];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FeedLink {
    pub href: String,
    pub title: Option<String>,
    #[serde(rename = "type")]
    pub media_type: Option<String>,
    /// Whether the page declares it as its feed. Links that look like feeds are not declared.
    pub declared: bool,
}

/// The feeds of a page: first the declared ones, in their order, then links that look like feeds.
pub fn feeds(html: &str, address: &Url) -> Result<Vec<FeedLink>, HtmlPageError> {
    let document = HtmlDocument::parse(html, address)?;
    let mut found: Vec<FeedLink> = Vec::new();
    for (selector, declared) in [("link[href]", true), ("a[href]", false)] {
        let Ok(selector) = Selector::parse(selector) else { continue };
        for element in document.html.select(&selector) {
            let attribute = |name: &str| element.value().attr(name).map(folded).filter(|value| !value.is_empty());
            let media_type = attribute("type").map(|value| value.to_ascii_lowercase());
            let Some(href) = attribute("href").and_then(|href| document.absolute(&href)) else { continue };
            let fits = if declared {
                is_declared(&attribute("rel").unwrap_or_default(), media_type.as_deref())
            } else {
                looks_like_feed(&href)
            };
            if fits && found.len() < MAX_FEEDS && found.iter().all(|known| known.href != href) {
                found.push(FeedLink { href, title: attribute("title"), media_type, declared });
            }
        }
    }
    Ok(found)
}

fn is_declared(rel: &str, media_type: Option<&str>) -> bool {
    let mut words = rel.split(' ');
    let alternate = words.clone().any(|word| word.eq_ignore_ascii_case("alternate"));
    let json = media_type == Some("application/json");
    words.any(|word| word.eq_ignore_ascii_case("feed"))
        || (alternate && (json || media_type.is_some_and(|kind| TYPES.contains(&kind))))
}

fn looks_like_feed(href: &str) -> bool {
    let Ok(url) = Url::parse(href) else { return false };
    let path = url.path().to_ascii_lowercase();
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let (name, end) = last.rsplit_once('.').unwrap_or((last, ""));
    let feed_word = |word: &str| matches!(word, "feed" | "feeds" | "rss" | "rss2" | "atom" | "rdf" | "index.rdf");
    matches!(end, "rss" | "atom" | "rdf")
        || (matches!(end, "" | "xml" | "json" | "php") && name.split(['-', '_']).any(feed_word))
        || url.query_pairs().any(|(key, value)| key == "feed" || (key == "format" && feed_word(&value)))
}

/// Whether a body begins as an HTML page does.
pub fn looks_like_page(text: &str) -> bool {
    let end = (0..=text.len().min(MAX_HEAD_BYTES)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let head = text[..end].to_ascii_lowercase();
    let first = |marks: &[&str]| marks.iter().filter_map(|mark| head.find(mark)).min();
    let page = first(&["<!doctype html", "<html", "<head>", "<body"]);
    let feed = first(&["<rss", "<feed", "<rdf:rdf", "<channel"]);
    page.is_some_and(|page| feed.is_none_or(|feed| page < feed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(html: &str) -> Vec<(String, bool)> {
        let address = Url::parse("http://example.org/blog/").unwrap();
        feeds(html, &address).unwrap().into_iter().map(|feed| (feed.href, feed.declared)).collect()
    }

    #[test]
    fn declared_feeds_come_before_linked_ones() {
        let html = "<a href='/feed/'>f</a><link rel=stylesheet href=a.css><link rel='ALTERNATE' type='Application/RSS+xml' href='r.xml'>\
                    <link rel=alternate hreflang=de href='/de'><a href='about'>a</a><a href='/?feed=rss2'>b</a><a href='r.xml'>again</a>";
        let expected = [
            ("http://example.org/blog/r.xml", true),
            ("http://example.org/feed/", false),
            ("http://example.org/?feed=rss2", false),
        ];
        assert_eq!(found(html), expected.map(|(href, declared)| (href.to_owned(), declared)));
    }

    #[test]
    fn addresses_are_relative_to_the_base_of_the_page() {
        let html = "<base href='/x/'><link rel=alternate type=application/atom+xml href=' a.xml '>";
        assert_eq!(found(html), [("http://example.org/x/a.xml".to_owned(), true)]);
        assert_eq!(found("<a href='javascript:feed'>x</a>"), []);
    }

    #[test]
    fn links_that_look_like_feeds_are_distinguished_from_others() {
        for feed in [
            "http://a.b/rss",
            "http://a.b/x.rss",
            "http://a.b/atom.xml",
            "http://a.b/feed.json",
            "http://a.b/index.rdf",
        ] {
            assert!(looks_like_feed(feed), "{feed}");
        }
        for other in
            ["http://a.b/", "http://feed.b/x", "http://a.b/sitemap.xml", "http://a.b/feedback", "http://a.b/press"]
        {
            assert!(!looks_like_feed(other), "{other}");
        }
    }
}
