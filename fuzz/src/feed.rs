//! Feeds. Every result is within the limits, and has a key for each entry, only safe addresses, and HTML that cleaning
//! again does not change. A first byte below 4 chooses a charset that the server claims.

use std::sync::LazyLock;

use url::Url;

use patra_connectors::feed::{self, Feed, FeedDate, FeedEntry, FeedError, FeedText, IdentityRule, MAX_ENTRIES};

use crate::page::check_html;
use crate::repeated;

pub(crate) static BASE: LazyLock<Url> = LazyLock::new(|| Url::parse("https://example.org/a/feed").expect("a URL"));

const RULES: [IdentityRule; 4] =
    [IdentityRule::Guid, IdentityRule::Link, IdentityRule::LinkTitle, IdentityRule::Content];
const CLAIMED: [&str; 4] = [
    "text/xml; charset=utf-8",
    "text/xml; charset=windows-1251",
    "text/xml; charset=utf-16le",
    "text/xml; charset=nope",
];
/// Schemes that run or hold something instead of pointing to it.
pub(crate) const UNSAFE: [&str; 5] = ["javascript", "vbscript", "data", "blob", "about"];

pub fn check(data: &[u8]) {
    let (claimed, body) = match data.split_first() {
        Some((choice, body)) if *choice < 4 => (Some(CLAIMED[usize::from(*choice)]), body),
        _ => (None, data),
    };
    match feed::read(body, claimed, &BASE) {
        Ok(feed) => check_feed(&feed),
        Err(error) => check_error(&error),
    }
}

fn check_error(error: &FeedError) {
    assert!(!error.to_string().is_empty());
    if let FeedError::Page { feed: Some(href) } = error {
        let scheme = Url::parse(href).map(|url| url.scheme().to_owned());
        assert!(matches!(scheme.as_deref(), Ok("http" | "https")), "{href}");
    }
}

fn check_feed(feed: &Feed) {
    assert!(feed.entries.len() <= MAX_ENTRIES);
    assert!(*feed != Feed::default(), "a feed without anything");
    for url in [&feed.link, &feed.icon, &feed.self_url, &feed.next_url, &feed.moved_to, &feed.hub] {
        check_address(url.as_deref());
    }
    check_dates([&feed.updated, &feed.published]);
    feed.entries.iter().for_each(check_entry);
    for rule in RULES {
        let keys = feed::identity(feed, rule);
        assert_eq!(keys.len(), feed.entries.len());
        assert!(keys.iter().all(|key| !key.is_empty()), "an entry without a key");
    }
}

fn check_entry(entry: &FeedEntry) {
    for url in [&entry.link, &entry.image, &entry.comments] {
        check_address(url.as_deref());
    }
    for enclosure in &entry.enclosures {
        check_address(Some(&enclosure.href));
    }
    check_dates([&entry.published, &entry.updated]);
    for text in entry.summary.iter().chain(&entry.content) {
        let FeedText { value, html } = text;
        if *html {
            check_html(value, &BASE);
        }
        assert!(text.to_plain().len() <= 2 * value.len(), "text grows when its markup goes");
    }
}

/// Asserts that no address runs anything in a browser.
fn check_address(written: Option<&str>) {
    let Some(written) = written else { return };
    assert!(!written.trim().is_empty());
    if let Ok(url) = BASE.join(written) {
        assert!(!UNSAFE.contains(&url.scheme()), "{written}");
    }
}

fn check_dates(dates: [&Option<FeedDate>; 2]) {
    for FeedDate { text, at } in dates.into_iter().flatten() {
        let Some(at) = at else { continue };
        assert_eq!(at.to_string().parse().ok(), Some(*at), "{text}");
    }
}

pub fn hostile() -> Vec<Vec<u8>> {
    let item = "<rss><channel><title>t</title><item><guid>1</guid><description>";
    let end = "</description></item></channel></rss>";
    let mut bomb = "<!DOCTYPE a [<!ENTITY a0 'lol'>".to_owned();
    for level in 1..8 {
        bomb += &format!("<!ENTITY a{level} '{}'>", format!("&a{};", level - 1).repeat(10));
    }
    vec![
        repeated(&format!("{item}<![CDATA["), "<a href=x>", 5_000, &format!("]]>{end}")),
        repeated(item, "&lt;a href=x&gt;", 5_000, end),
        repeated(&format!("<rss xml:base='http://x.test/{}/'>{item}", "x".repeat(8_000)), "&lt;a href=x&gt;", 500, end),
        repeated(
            &format!("<rss xml:base='http://x.test/{}/'>{item}", "x".repeat(100_000)),
            "&lt;a href=x&gt;",
            500,
            end,
        ),
        repeated("<rss><channel>", "<a/>", 250_001, "</channel></rss>"),
        repeated("<rss><channel><title>t</title><item>", "<itunes:category>y", 200, "x</item></channel></rss>"),
        repeated(item, "<a href=x>", 200, end),
        repeated("<rss><channel>", "<item/>", 20_000, "</channel></rss>"),
        repeated("<rss>", "<a>", 300, ""),
        repeated("<rss><channel><title>t</title>", "<category>x</category>", 5_000, "</channel></rss>"),
        repeated(&format!("{bomb}]><rss><channel><title>"), "&a7;", 3, "</title></channel></rss>"),
        repeated("{\"version\":\"https://jsonfeed.org/version/1\",\"title\":\"t\",\"items\":[{}", ",{}", 20_000, "]}"),
        repeated("{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[", "[", 20_000, ""),
        repeated("{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[{\"a\":[{}", ",{}", 40_000, "]}]}"),
        repeated(
            "{\"version\":\"https://jsonfeed.org/version/1\",\"title\":\"t\",\"items\":[]",
            ",\"a\":1",
            40_000,
            "}",
        ),
        repeated("<html><head>", "<link rel=alternate type=application/rss+xml href=x>", 2_000, ""),
    ]
}
