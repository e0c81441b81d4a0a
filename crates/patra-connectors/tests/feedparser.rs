//! Test cases of Python's feedparser, as far as they concern stored values: titles, links, texts, dates, tags. Markup
//! is compared as text, because Patra has other rules for safe HTML.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as tests")]

#[path = "cases/feedparser.rs"]
mod cases;

use patra_connectors::feed::{self, Feed, FeedDate, FeedTag};
use serde_json::{Value, json};

use cases::{COMPARABLE, Expect, at, cases, holds, input, place};

/// Number of cases that pass. It may rise.
const PASSED: usize = 1_386;

// covers: COLL-125
#[test]
fn the_cases_of_feedparser_hold_as_text() {
    let (mut comparable, mut failed) = (0, Vec::new());
    for case in cases() {
        let expected: Vec<(&Expect, Vec<Value>)> =
            case.expect.iter().filter_map(|expect| Some((expect, place(expect)?))).collect();
        if expected.is_empty() {
            continue;
        }
        comparable += 1;
        let (body, content_type, base) = input(&case);
        let found = match feed::read(&body, content_type.as_deref(), &base) {
            Ok(feed) => shown(&feed),
            Err(error) => json!({ "error": error.to_string() }),
        };
        let wrong = expected.iter().find(|(expect, path)| !holds(expect, at(&found, path)));
        if let Some((expect, path)) = wrong {
            let got = at(&found, path).map_or_else(|| found.get("error").cloned().unwrap_or_default(), Clone::clone);
            failed.push(format!("{}: {:?} {} {} got {got}", case.file, path, expect.op, expect.value));
        }
    }
    let passed = comparable - failed.len();
    println!("{passed} of {comparable} hold\n{}", failed.join("\n"));
    assert_eq!(comparable, COMPARABLE);
    assert!(passed >= PASSED, "{passed} of {comparable} hold, {PASSED} did:\n{}", failed.join("\n"));
}

// covers: COLL-125
#[test]
fn every_case_is_read_without_a_panic_and_alike_twice() {
    let cases = cases();
    assert_eq!(cases.len(), 2_107);
    for case in cases {
        let (body, content_type, base) = input(&case);
        let read = || feed::read(&body, content_type.as_deref(), &base);
        let (first, second) = (read(), read());
        assert_eq!(first, second, "{}", case.file);
        if let Ok(feed) = first {
            let keys = feed::identity(&feed, feed::IdentityRule::default());
            assert_eq!(keys.len(), feed.entries.len(), "{}", case.file);
            assert_eq!(keys, feed::identity(&feed, feed::IdentityRule::default()), "{}", case.file);
        }
    }
}

/// Cut bodies and bad bytes are the most frequent faults.
// covers: COLL-125
#[test]
fn cut_and_spoiled_cases_are_read_without_a_panic() {
    for case in cases() {
        let (mut body, content_type, base) = input(&case);
        for at in (0..body.len()).step_by(body.len() / 7 + 1) {
            let _ = feed::read(&body[..at], content_type.as_deref(), &base);
        }
        for at in (0..body.len()).step_by(61) {
            body[at] = body[at].wrapping_mul(31).wrapping_add(u8::try_from(at % 251).unwrap());
        }
        let _ = feed::read(&body, content_type.as_deref(), &base);
    }
}

/// A feed under the names of the cases.
fn shown(feed: &Feed) -> Value {
    let date = |date: &Option<FeedDate>| {
        date.as_ref().map(|date| json!({ "text": date.text, "iso": date.at.map(patra_core::Ts::to_short_text) }))
    };
    let tags = |tags: &[FeedTag]| {
        let tags = tags.iter().map(|tag| json!({ "term": tag.term, "scheme": tag.scheme, "label": tag.label }));
        Some(tags.collect::<Vec<_>>()).filter(|tags| !tags.is_empty())
    };
    let entries = feed.entries.iter().map(|entry| {
        let content: Vec<Value> = entry.content.iter().map(|text| json!({ "value": text.value })).collect();
        let enclosures = entry.enclosures.iter().map(|enclosure| {
            json!({ "href": enclosure.href, "type": enclosure.media_type, "length": enclosure.length })
        });
        json!({
            "id": entry.id, "title": entry.title, "link": entry.link,
            "summary": entry.description().map(|text| &text.value),
            "content": content, "author": entry.author, "published": date(&entry.published), "updated": date(&entry.updated),
            "rights": entry.rights, "tags": tags(&entry.tags), "enclosures": enclosures.collect::<Vec<_>>(),
        })
    });
    json!({
        "feed": {
            "title": feed.title, "link": feed.link, "subtitle": feed.subtitle, "id": feed.id, "language": feed.language,
            "rights": feed.rights, "updated": date(&feed.updated), "published": date(&feed.published), "tags": tags(&feed.tags),
        },
        "entries": entries.collect::<Vec<_>>(),
    })
}
