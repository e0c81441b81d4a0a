//! Test cases of Python's feedparser, as far as they concern stored values: titles, links, texts, dates, tags. Markup
//! is compared as text, because Patra has other rules for safe HTML.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as tests")]

use std::io::Read as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use patra_connectors::feed::{self, Feed, FeedDate, FeedTag};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

/// Number of cases that concern stored values.
const COMPARABLE: usize = 1_411;
/// Number of cases that pass. It may rise.
const PASSED: usize = 1_386;

static TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"<[^>]*>").unwrap());

#[derive(Deserialize)]
struct Case {
    file: String,
    headers: std::collections::BTreeMap<String, String>,
    base_url: Option<String>,
    expect: Vec<Expect>,
    b64: String,
}

#[derive(Deserialize)]
struct Expect {
    op: String,
    path: Vec<Value>,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    values: Vec<Value>,
    n: Option<usize>,
    key: Option<String>,
}

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

fn cases() -> Vec<Case> {
    let packed = include_bytes!("fixtures/feeds/feedparser_cases.json.gz");
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn input(case: &Case) -> (Vec<u8>, Option<String>, Url) {
    let header =
        |name: &str| case.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| v.clone());
    let base = Url::parse(case.base_url.as_deref().unwrap_or("http://127.0.0.1:8097/")).unwrap();
    // The caller joins the Content-Location, as it follows redirects.
    let base = header("content-location").and_then(|at| base.join(&at).ok()).filter(Url::has_host).unwrap_or(base);
    (STANDARD.decode(&case.b64).unwrap(), header("content-type"), base)
}

/// Our path of an expectation, if it concerns a stored value.
fn place(expect: &Expect) -> Option<Vec<Value>> {
    let mut path = expect.path.clone();
    let first = path.first()?.as_str()?.to_owned();
    let depth = match first.as_str() {
        "feed" | "channel" => 1,
        "entries" | "items" => 2,
        _ => return None,
    };
    path[0] = json!(if depth == 1 { "feed" } else { "entries" });
    if let Some(name) = path.get(depth).and_then(Value::as_str).map(str::to_owned) {
        let name = match name.as_str() {
            "description" => if depth == 1 { "subtitle" } else { "summary" }.to_owned(),
            "tagline" | "info" => "subtitle".to_owned(),
            "copyright" => "rights".to_owned(),
            "guid" => "id".to_owned(),
            "date" | "modified" | "updated" | "date_parsed" | "modified_parsed" | "updated_parsed" => {
                "updated".to_owned()
            }
            "issued" | "created" | "published" | "issued_parsed" | "created_parsed" | "published_parsed" => {
                "published".to_owned()
            }
            _ => name,
        };
        let known = ["title", "link", "id", "rights", "updated", "published", "tags"].contains(&name.as_str())
            || (depth == 1 && ["subtitle", "language"].contains(&name.as_str()))
            || (depth == 2 && ["summary", "content", "author", "enclosures"].contains(&name.as_str()));
        if !known {
            return None;
        }
        let inner = path.get(depth + 2).and_then(Value::as_str);
        let stored = match name.as_str() {
            "content" => inner.is_none_or(|inner| inner == "value"),
            "tags" => inner.is_none_or(|inner| ["term", "scheme", "label"].contains(&inner)),
            "enclosures" => inner.is_none_or(|inner| ["href", "type", "length"].contains(&inner)),
            _ => true,
        };
        if !stored {
            return None;
        }
        path[depth] = json!(name);
    }
    Some(path)
}

fn at<'a>(found: &'a Value, path: &[Value]) -> Option<&'a Value> {
    path.iter().try_fold(found, |value, step| match step {
        Value::String(name) => value.get(name),
        step => value.get(usize::try_from(step.as_u64()?).ok()?),
    })
}

fn holds(expect: &Expect, found: Option<&Value>) -> bool {
    let found = found.filter(|value| !value.is_null());
    let same = |wanted: &Value| match (wanted, found) {
        (Value::Null, found) => found.is_none(),
        (wanted, Some(found)) => alike(wanted, found),
        (_, None) => false,
    };
    let length = |value: &Value| value.as_array().map(Vec::len);
    match expect.op.as_str() {
        "eq" => same(&expect.value),
        "ne" => !same(&expect.value),
        "in" => expect.values.iter().any(same),
        "true" => found.is_some(),
        "false" | "isnone" => found.is_none(),
        "len" => found.and_then(length).unwrap_or(0) == expect.n.unwrap(),
        "haskey" => found.and_then(|found| found.get(expect.key.as_ref()?)).is_some_and(|value| !value.is_null()),
        "nokey" => found.and_then(|found| found.get(expect.key.as_ref()?)).is_none_or(Value::is_null),
        other => panic!("unknown expectation {other}"),
    }
}

fn alike(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        // A date is compared as text and as an instant.
        (Value::Object(wanted), Value::Object(found)) if wanted.contains_key("iso") => wanted["iso"] == found["iso"],
        (Value::String(wanted), Value::Object(found)) => alike(&json!(wanted), &found["text"]),
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(name, value)| found.get(name).is_none_or(|found| alike(value, found)))
        }
        // Titles and the like are plain text here, and plain text or HTML there.
        (Value::String(wanted), Value::String(found)) => {
            as_text(wanted) == as_text(found) || as_text(wanted) == folded(found)
        }
        (Value::String(wanted), Value::Number(found)) => *wanted == found.to_string(),
        (wanted, found) => wanted == found,
    }
}

/// Without tags, references resolved, white space folded.
fn as_text(html: &str) -> String {
    let stripped = TAG.replace_all(html, "");
    folded(&feed::html_to_text(&stripped))
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
