//! Finding URLs as a careful reader would: cases of many kinds, and inputs that nobody would write.

use std::collections::BTreeSet;

use patra_connectors::links::{FoundLinks, LinkFinder, LinkOptions, normalise};
use serde::Deserialize;

/// Share of the existing links that must be found, and share of the found links that must be right.
const DEMANDED: f64 = 0.99;

#[derive(Deserialize)]
struct Case {
    text: String,
    urls: Vec<String>,
    why: String,
}

fn cases() -> Vec<Case> {
    include_str!("../data/urls.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn find(look: impl FnOnce(&mut LinkFinder)) -> FoundLinks {
    let mut finder = LinkFinder::new(LinkOptions::default());
    look(&mut finder);
    finder.finish()
}

fn urls(found: &FoundLinks) -> Vec<&str> {
    found.links.iter().map(|link| link.url.as_str()).collect()
}

#[expect(clippy::cast_precision_loss, reason = "hundreds of cases")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

// covers: POOL-45, POOL-47, POOL-48, POOL-122
#[test]
fn a_careful_reader_would_find_the_same() {
    let cases = cases();
    assert!(cases.len() >= 320, "{} cases", cases.len());
    let (mut right, mut expected, mut found) = (0, 0, 0);
    for case in &cases {
        let all = find(|finder| finder.text(&case.text));
        let all = urls(&all);
        let same = case.urls.iter().filter(|url| all.contains(&url.as_str())).count();
        if all != case.urls {
            println!("{}\n  {:?}\n  expected {:?}\n  found    {all:?}", case.why, case.text, case.urls);
        }
        (right, expected, found) = (right + same, expected + case.urls.len(), found + all.len());
    }
    let (recall, precision) = (share(right, expected), share(right, found));
    println!("{} cases, recall {recall:.4} of {expected}, precision {precision:.4} of {found}", cases.len());
    assert!(recall >= DEMANDED && precision >= DEMANDED, "recall {recall:.4}, precision {precision:.4}");
}

// covers: POOL-49
#[test]
fn expected_links_are_in_normal_form() {
    for options in [LinkOptions::default(), LinkOptions { remove_tracking: true }] {
        for url in cases().iter().flat_map(|case| &case.urls) {
            let once = normalise(url, options).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(normalise(&once.url, options).as_ref(), Ok(&once));
            assert!(options.remove_tracking || once.url == *url, "{url} becomes {}", once.url);
        }
    }
}

#[test]
fn a_document_gives_what_its_text_gives() {
    for case in cases() {
        assert_eq!(
            find(|finder| finder.read(case.text.as_bytes()).unwrap()),
            find(|finder| finder.text(&case.text)),
            "{}",
            case.text
        );
    }
}

// covers: POOL-46
#[test]
fn a_string_of_json_that_is_a_url_is_taken_as_it_is() {
    let all: BTreeSet<String> = cases().into_iter().flat_map(|case| case.urls).collect();
    let list = serde_json::Value::from_iter(all.iter().map(String::as_str));
    for found in [find(|finder| finder.value(&list)), find(|finder| finder.json(&list.to_string()))] {
        assert_eq!(urls(&found), all.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// Pseudo-random numbers, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit as u64).unwrap()
    }

    fn pieces(&mut self, of: &[&str], most: usize) -> String {
        (0..self.below(most)).map(|_| of[self.below(of.len())]).collect()
    }
}

const PIECES: &[&str] = &[
    "http", "https", "://", ":", "/", "//", "?", "#", "@", "%", "%2", "%2e", "%2E%2e", "%41", "%e4", "%u4e2d", "%25",
    "..", ".", "./", "a", "Z", "example", "com", "www.", "xn--", "bücher", "中", "を", "한", "é", "\u{308}", "1", "80",
    "[", "]", "[::1]", "(", ")", "{", "}", "&", "&amp;", "&quot;", "&#", "&#x2F;", ";", ",", "=", "utm_a=1", "gclid",
    "\"", "'", "<", ">", "\\", "\\/", "\\u002F", "\\u00", " ", "\n", "\t", "\0", "|", "_", "*", "~", "-", "+", "。",
    "，", "“", "’", "\u{200b}", "\u{200d}", "👍", "href=\"", "\u{fffd}", "ß", "İ",
];

// covers: POOL-49
#[test]
fn normalising_twice_gives_the_same_as_once() {
    let mut dice = Dice(1);
    let mut usable = 0;
    for round in 0..60_000 {
        let host = if round % 2 == 0 { "a.example" } else { "" };
        let text = format!("http{}://{host}{}", if round % 3 == 0 { "s" } else { "" }, dice.pieces(PIECES, 12));
        for options in [LinkOptions::default(), LinkOptions { remove_tracking: true }] {
            let Ok(link) = normalise(&text, options) else { continue };
            usable += 1;
            assert_eq!(normalise(&link.url, options).as_ref(), Ok(&link), "{text:?}");
            assert!(link.url.is_ascii() && link.domain.len() <= 255 && !link.url.contains(['#', ' ']), "{link:?}");
        }
    }
    assert!(usable > 20_000, "only {usable} of the texts were URLs");
}

#[test]
fn nothing_makes_it_panic() {
    let mut dice = Dice(2);
    for _ in 0..20_000 {
        let text = dice.pieces(PIECES, 40);
        let found = find(|finder| finder.text(&text));
        for link in &found.links {
            assert_eq!(normalise(&link.url, LinkOptions::default()).as_ref(), Ok(link), "{text:?}");
        }
        assert_eq!(find(|finder| finder.read(text.as_bytes()).unwrap()), found, "{text:?}");
        find(|finder| finder.json(&text));
        find(|finder| finder.string(&text));
        let _ = normalise(&text, LinkOptions::default());
    }
    for _ in 0..2_000 {
        let mut bytes: Vec<u8> = (0..dice.below(300)).map(|_| u8::try_from(dice.below(256)).unwrap()).collect();
        for _ in 0..3 {
            let at = dice.below(bytes.len() + 1);
            bytes.splice(at..at, dice.pieces(PIECES, 10).into_bytes());
        }
        find(|finder| finder.read(bytes.as_slice()).unwrap());
    }
}
