//! Test cases of Python's feedparser, and how their expectations are compared with values: as text. Shared by the tests
//! of the parser and of the whole program.

use std::io::Read as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use patra_connectors::feed;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

/// Number of cases that concern stored values.
pub(crate) const COMPARABLE: usize = 1_411;

static TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"<[^>]*>").unwrap());

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) file: String,
    headers: std::collections::BTreeMap<String, String>,
    base_url: Option<String>,
    pub(crate) expect: Vec<Expect>,
    b64: String,
}

#[derive(Deserialize)]
pub(crate) struct Expect {
    pub(crate) op: String,
    pub(crate) path: Vec<Value>,
    #[serde(default)]
    pub(crate) value: Value,
    #[serde(default)]
    values: Vec<Value>,
    n: Option<usize>,
    key: Option<String>,
}

pub(crate) fn cases() -> Vec<Case> {
    let packed = include_bytes!("../fixtures/feeds/feedparser_cases.json.gz");
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn input(case: &Case) -> (Vec<u8>, Option<String>, Url) {
    let header =
        |name: &str| case.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| v.clone());
    let base = Url::parse(case.base_url.as_deref().unwrap_or("http://127.0.0.1:8097/")).unwrap();
    // The caller joins the Content-Location, as it follows redirects.
    let base = header("content-location").and_then(|at| base.join(&at).ok()).filter(Url::has_host).unwrap_or(base);
    (STANDARD.decode(&case.b64).unwrap(), header("content-type"), base)
}

/// Our path of an expectation, if it concerns a stored value.
pub(crate) fn place(expect: &Expect) -> Option<Vec<Value>> {
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

pub(crate) fn at<'a>(found: &'a Value, path: &[Value]) -> Option<&'a Value> {
    path.iter().try_fold(found, |value, step| match step {
        Value::String(name) => value.get(name),
        step => value.get(usize::try_from(step.as_u64()?).ok()?),
    })
}

pub(crate) fn holds(expect: &Expect, found: Option<&Value>) -> bool {
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
        (Value::String(wanted), Value::Object(found)) => match found.get("text") {
            Some(text) => alike(&json!(wanted), text),
            // Only the instant is stored.
            None => feed::parse_date(wanted).is_some_and(|at| found["iso"] == at.to_short_text()),
        },
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
