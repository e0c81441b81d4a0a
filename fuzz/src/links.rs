//! URLs in texts. Every link that is found is an absolute http(s) URL in its normal form, within the limits, without a
//! user or a fragment, and found again where it stands alone.

use std::collections::HashSet;

use url::Url;

use patra_connectors::links::{
    FoundLinks, LinkFinder, LinkOptions, MAX_HOST_BYTES, MAX_URL_BYTES, NormalisedLink, normalise,
};

use crate::repeated;

/// Few enough that an input of a few kilobytes reaches it.
const MAX_LINKS: usize = 50;

pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for options in [LinkOptions::default(), LinkOptions { remove_tracking: true }] {
        let look = |look: &dyn Fn(&mut LinkFinder)| -> FoundLinks {
            let mut finder = LinkFinder::new(options).at_most(MAX_LINKS);
            look(&mut finder);
            let found = finder.finish();
            check_found(&found, options);
            found
        };
        let plain = look(&|finder| finder.text(&text));
        let as_string = look(&|finder| finder.string(&text));
        look(&|finder| finder.json(&text));
        let quoted = serde_json::Value::from(&*text).to_string();
        assert_eq!(look(&|finder| finder.json(&quoted)), as_string, "a JSON string is not read as its text");
        let streamed = look(&|finder| {
            let read = finder.read(Dribble(text.as_bytes()));
            assert!(read.is_ok(), "{read:?}");
        });
        assert_eq!(streamed, plain, "a stream is not read as its text");
        if let Ok(link) = normalise(&text, options) {
            check_link(&link, options);
        }
    }
}

fn check_found(found: &FoundLinks, options: LinkOptions) {
    assert!(found.links.len() <= MAX_LINKS && (!found.partial || found.links.len() == MAX_LINKS));
    let mut seen = HashSet::new();
    for link in &found.links {
        assert!(seen.insert(&link.url), "{} is there twice", link.url);
        check_link(link, options);
        check_alone(link, options);
    }
}

fn check_link(link: &NormalisedLink, options: LinkOptions) {
    let NormalisedLink { url, domain } = link;
    let parsed = Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    assert!(matches!(parsed.scheme(), "http" | "https"), "{url}");
    assert_eq!(parsed.as_str(), url, "not as a parser writes it");
    assert!(
        url.len() <= MAX_URL_BYTES && url.is_ascii() && !url.contains(|c: char| c.is_ascii_control() || c == ' '),
        "{url}"
    );
    assert!(parsed.username().is_empty() && parsed.password().is_none() && parsed.fragment().is_none(), "{url}");
    assert_ne!(parsed.query(), Some(""), "{url}");
    let host = parsed.host_str().unwrap_or_default();
    assert!(host.len() <= MAX_HOST_BYTES + 1, "{url}");
    assert!(host == domain || host.strip_prefix("www.") == Some(domain), "{domain} of {url}");
    assert_eq!(normalise(url, options).as_ref(), Ok(link), "normalised twice");
}

/// A link is found again in a text without anything else.
fn check_alone(link: &NormalisedLink, options: LinkOptions) {
    // Quotes of an attribute hold characters that end a URL elsewhere, `&amp;` may be meant as it is written, and a
    // second URL may begin another one.
    let means_more = |c: char| matches!(c, '{' | '}' | '`' | '|' | '^' | '\\' | ';');
    if !link.url.contains(means_more) && !link.url[1..].to_ascii_lowercase().contains("http") {
        let mut finder = LinkFinder::new(options);
        finder.string(&link.url);
        assert_eq!(finder.finish().links, std::slice::from_ref(link), "not found alone");
    }
}

/// Reads a few bytes at a time.
struct Dribble<'a>(&'a [u8]);

impl std::io::Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.0.len()).min(1 + self.0.len() % 7);
        let (now, later) = self.0.split_at(length);
        buffer[..length].copy_from_slice(now);
        self.0 = later;
        Ok(length)
    }
}

pub fn hostile() -> Vec<Vec<u8>> {
    let pieces =
        ["http://", "http://a,", "http://a/([{", "href=\"http://a ", "http:\\/\\/", "http://a@", "http://xn--a/"];
    let mut inputs: Vec<_> = pieces.iter().map(|piece| repeated("", piece, 3_000, "")).collect();
    inputs.push(repeated("", "<a href=x>", 5_000, ""));
    inputs.push(repeated("http://a.example/", "x", 20_000, ""));
    inputs.push((0..500).flat_map(|at| format!("http://a.example/{at} ").into_bytes()).collect());
    inputs
}
