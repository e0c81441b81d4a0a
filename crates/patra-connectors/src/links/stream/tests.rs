use super::*;
use crate::links::{FoundLinks, LinkOptions, MAX_URL_BYTES};

/// A window hardly larger than the longest URL, so that there are many edges.
const SMALL: usize = 12 * 1024;

fn by_window(window: usize, document: impl Read) -> FoundLinks {
    let mut finder = LinkFinder::new(LinkOptions::default());
    finder.read_by(window, document).unwrap();
    finder.finish()
}

fn at_once(text: &str) -> FoundLinks {
    let mut finder = LinkFinder::new(LinkOptions::default());
    finder.text(text);
    finder.finish()
}

#[track_caller]
fn urls(found: &FoundLinks) -> Vec<&str> {
    found.links.iter().map(|link| link.url.as_str()).collect()
}

/// Hands out a few bytes at a time, and is interrupted now and then.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(7) {
            return Err(ErrorKind::Interrupted.into());
        }
        let most = (self.1 % 5 + 1).min(into.len());
        self.0.read(&mut into[..most])
    }
}

// covers: POOL-45
#[test]
fn a_url_across_an_edge_is_found_whole() {
    let pieces = [
        " https://example.com/path?q=1 ",
        "请看https://例え.テスト/パス（",
        r#"<a href="https://example.com/My File.pdf">"#,
        r"https:\u002F\u002Fexample.com\u002Fa&amp;quot;",
        "xhttp://a.examplehttps://b.example/",
    ];
    for piece in pieces {
        let alone = at_once(piece);
        assert!(!alone.links.is_empty());
        for shift in 0..piece.len() + 300 {
            let text = format!("{}{piece} {}", "-".repeat(SMALL - piece.len() - 280 + shift), "-".repeat(SMALL));
            assert_eq!(urls(&by_window(SMALL, text.as_bytes())), urls(&alone), "{piece} moved by {shift}");
        }
    }
}

#[test]
fn a_document_gives_what_its_text_gives() {
    let mut text = String::new();
    for (at, line) in include_str!("../../../tests/data/urls.jsonl").lines().cycle().take(3_000).enumerate() {
        text.push_str(line);
        text.push_str(&"é ".repeat(at % 13));
        if at % 500 == 0 {
            text.push_str(&format!(" http://a.example/{} ", "x".repeat(MAX_URL_BYTES + 10 * at)));
        }
    }
    let whole = at_once(&text);
    assert!(whole.links.len() > 300 && whole.too_long >= 5);
    assert_eq!(by_window(SMALL, text.as_bytes()), whole);
    assert_eq!(by_window(WINDOW_BYTES, Slow(text.as_bytes(), 0)), whole);
}

#[test]
fn bytes_that_are_no_text_separate_their_neighbours() {
    let bytes = b"\xffhttp://a.example/x\xffy\xc3http://b.example/\xe4\xb8 http://c.example/\xe4\xb8\xad\xf0\x9f";
    assert_eq!(
        urls(&by_window(SMALL, bytes.as_slice())),
        ["http://a.example/x", "http://b.example/", "http://c.example/%E4%B8%AD"]
    );
    assert!(by_window(SMALL, [0xff_u8].repeat(100_000).as_slice()).links.is_empty());
}

#[test]
fn a_gigabyte_needs_one_window() {
    let document = io::repeat(b'a').take(1 << 30).chain(b" http://a.example/end".as_slice());
    assert_eq!(urls(&by_window(WINDOW_BYTES, document)), ["http://a.example/end"]);
}

// covers: POOL-123
#[test]
fn a_url_without_end_needs_one_window_too() {
    let document =
        b"http://a.example/".as_slice().chain(io::repeat(b'a').take(1 << 26)).chain(b" http://b.example".as_slice());
    let found = by_window(WINDOW_BYTES, document);
    assert_eq!((urls(&found), found.too_long), (vec!["http://b.example/"], 1));
}

#[test]
fn an_error_keeps_what_was_found_and_the_limit_ends_the_reading() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let text = "http://a.example/ ".repeat(SMALL);
    let mut finder = LinkFinder::new(LinkOptions::default());
    assert!(finder.read_by(SMALL, text.as_bytes().chain(Broken)).is_err());
    assert_eq!(finder.finish().links.len(), 1);
    let mut finder = LinkFinder::new(LinkOptions::default()).at_most(0);
    assert!(finder.read_by(SMALL, text.as_bytes().chain(Broken)).is_ok(), "nothing is read beyond the limit");
    assert!(finder.finish().partial);
}

/// Each link once, however many windows and links there are.
// covers: POOL-45
#[test]
fn read_each_returns_every_link_once_up_to_the_end() {
    let count = crate::links::MAX_LINKS + 10;
    let mut text = String::new();
    for at in 0..count {
        text.push_str(&format!("http://a.example/{at} http://a.example/{} ", at / 2));
    }
    let read = |remembered: usize| {
        let mut urls = Vec::new();
        let counts = LinkFinder::read_each_by(SMALL, remembered, LinkOptions::default(), text.as_bytes(), |link| {
            urls.push(link.url);
            Ok::<_, io::Error>(())
        });
        (urls, counts.unwrap())
    };
    let (urls, counts) = read(count);
    assert_eq!(counts, LinkCounts { links: count as u64, too_long: 0, repeats: false });
    assert!(urls.iter().enumerate().all(|(at, url)| *url == format!("http://a.example/{at}")));
    let (urls, counts) = read(10);
    assert!(counts.repeats && counts.links > count as u64);
    let distinct: HashSet<_> = urls.iter().collect();
    assert_eq!(distinct.len(), count, "nothing is left out");
}

#[test]
fn read_each_stops_at_an_error_of_its_receiver() {
    let mut calls = 0;
    let ended = LinkFinder::read_each(LinkOptions::default(), "http://a.example http://b.example".as_bytes(), |_| {
        calls += 1;
        Err(io::Error::from(ErrorKind::BrokenPipe))
    });
    assert_eq!((ended.unwrap_err().kind(), calls), (ErrorKind::BrokenPipe, 1));
}
