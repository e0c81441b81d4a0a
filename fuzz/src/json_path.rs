//! JSON paths, and JSON responses whose items a path finds. The first line of the input is the path, the rest the
//! response. The result of the one-pass reader is compared with a lookup in a parsed document.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::Value;

use patra_connectors::Pager;
use patra_core::protocol::run::FetchedPage;
use patra_core::record::RejectedRecord;
use patra_spec::selector::PathSegment;
use patra_spec::{Selector, Snapshot, SyntaxError};

use crate::unique::has_unique_names;
use crate::{endpoint, repeated};

/// Longest path. A path may print longer than it is written.
const MAX_PATH: usize = 1_024;

static SPEC: LazyLock<Snapshot> = LazyLock::new(|| {
    let mut spec = endpoint::snapshot(
        "response: { items_path: $.items, id_path: $.id, updated_at_path: $.at, version_path: $.v }\nfields: { title: $.title, first: \"$.list[0].name\", n: { path: $.n, type: integer } }",
    );
    // A record without a time has that of its window, so any item with an id is a record.
    spec.response.updated_at_path = None;
    spec.window.monotonic = true;
    spec
});

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (path, json) = text.split_once('\n').unwrap_or((text, "{}"));
    let selector = match Selector::parse(path) {
        Ok(selector) => selector,
        Err(error) => return check_syntax_error(path, &error),
    };
    let shown = selector.to_string();
    if shown.len() <= MAX_PATH {
        assert_eq!(Selector::parse(&shown).as_ref(), Ok(&selector), "{path} prints as {shown}");
    }
    let mut spec = SPEC.clone();
    path.clone_into(&mut spec.response.items_path);
    let pager = Pager::new(&spec).unwrap_or_else(|fault| panic!("{path}: {fault}"));
    let body = Bytes::copy_from_slice(json.as_bytes());
    let read = endpoint::read(&pager, &body);
    if let Ok(page) = &read {
        let inside = body.as_ptr_range();
        let sliced = page.records.iter().all(|record| inside.contains(&record.payload.as_bytes().as_ptr()));
        assert!(sliced, "a payload that is no slice of the body");
    }
    let document = serde_json::from_str::<Value>(json).ok().filter(|_| has_unique_names(json));
    let Some(document) = document else { return };
    match (lookup(&document, &selector), read) {
        (Some(Value::Array(list)), Ok(page)) => check_items(list, &page),
        (Some(Value::Array(list)), Err(failure)) => check_refused(list, &failure.fault.message),
        (Some(Value::Null), Ok(page)) => assert_eq!(page.facts.items, 0),
        (None | Some(Value::Object(_) | Value::String(_) | Value::Number(_) | Value::Bool(_)), Err(_)) => {}
        (found, Ok(page)) => panic!("{path} finds {found:?}, and {} items were read", page.facts.items),
        (found, Err(failure)) => panic!("{path} finds {found:?}, and nothing was read: {}", failure.fault),
    }
}

/// An error points into the text, at a character.
/// Only a list with many records, or many that cannot be stored, is refused as a whole.
fn check_refused(list: &[Value], reason: &str) {
    assert!(list.len() > RejectedRecord::MAX_PER_PAGE, "{} items are refused: {reason}", list.len());
    assert!(reason.contains("the page is refused"), "{reason}");
}

pub(crate) fn check_syntax_error(text: &str, error: &SyntaxError) {
    assert!(text.is_char_boundary(error.offset), "{error:?} is outside {text:?}");
    assert!(!error.message.is_empty() && error.message.len() <= 1_000, "{error:?}");
}

fn check_items(list: &[Value], page: &FetchedPage) {
    assert_eq!(usize::try_from(page.facts.items), Ok(list.len()));
    assert_eq!(page.records.len() + page.rejected.len(), list.len(), "an item is neither a record nor rejected");
    let mut rejected = page.rejected.iter().map(|rejected| rejected.index).peekable();
    let mut records = page.records.iter();
    for (index, item) in (0..).zip(list) {
        if rejected.next_if_eq(&index).is_some() {
            continue;
        }
        let Some(record) = records.next() else { panic!("no record for item {index}") };
        let payload = serde_json::from_str::<Value>(&record.payload).ok();
        assert_eq!(payload.as_ref(), Some(item), "item {index}");
        let id = match &item["id"] {
            Value::String(id) => id.clone(),
            // Numbers stay as they are written.
            Value::Number(_) => continue,
            other => panic!("item {index} became a record with the id {other}"),
        };
        assert_eq!(record.key, id);
    }
}

fn lookup<'v>(document: &'v Value, selector: &Selector) -> Option<&'v Value> {
    selector.segments().iter().try_fold(document, |at, segment| match segment {
        PathSegment::Key(key) => at.as_object()?.get(key),
        PathSegment::Index(index) => at.as_array()?.get(*index),
    })
}

pub fn hostile() -> Vec<Vec<u8>> {
    vec![
        repeated("$.items\n{\"items\":[{}", ",{}", 40_000, "]}"),
        repeated("$.items\n{\"items\":[{}", ",{}", 250_001, "]}"),
        repeated("$.items\n{\"items\":[", "[", 5_000, &format!("{}]}}", "]".repeat(5_000))),
        repeated("$.items\n", "[", 50_000, ""),
        repeated("$.items\n{\"items\":[{\"id\":\"", "x", 50_000, "\"}]}"),
        repeated("$.items\n{\"items\":[{\"id\":", "9", 5_000, "}]}"),
        repeated("$.items\n{\"items\":[{\"id\":\"a@b\",\"t\":\"", "a@b,", 5_000, "\"},3]}"),
        repeated("$.items\n{", "\"items\":[{\"id\":1}],", 5_000, "\"items\":[]}"),
        repeated("$", ".a", 500, "\n{}"),
        repeated("$", "[0]", 32, &format!("\n{}{}", "[".repeat(100), "]".repeat(100))),
    ]
}
