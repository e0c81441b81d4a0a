//! The value that a parent record gives to a partition.

use serde_json::Value;

use patra_core::tx::ParentRecord;
use patra_spec::Selector;
use patra_spec::selector::PathSegment;

/// Longest value that names a partition.
pub(super) const MAX_BYTES: usize = 1_024;

/// The record's id, or the value at a path in it; `None` when that cannot name a partition.
pub(super) fn of(parent: &ParentRecord, path: Option<&Selector>) -> Option<String> {
    let value = match path {
        None => parent.key.clone(),
        Some(path) => scalar(at(&serde_json::from_str(&parent.payload).ok()?, path)?)?,
    };
    // NUL cannot be stored in a text, and no path of a URL holds it.
    let usable = !value.is_empty() && value.len() <= MAX_BYTES && !value.contains('\0');
    usable.then_some(value)
}

fn at<'v>(value: &'v Value, path: &Selector) -> Option<&'v Value> {
    path.segments().iter().try_fold(value, |value, segment| match segment {
        PathSegment::Key(key) => value.get(key),
        PathSegment::Index(index) => value.get(index),
    })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: Option<&str>, expected: Option<&str>) {
        let parent = ParentRecord {
            key: "k1".into(),
            payload: r#"{"id":7,"name":"ann","deep":{"list":["x",true]},"none":null,"empty":"","nul":"a\u0000"}"#
                .into(),
            task_params: None,
        };
        let path = path.map(|path| Selector::parse(path).unwrap());
        assert_eq!(of(&parent, path.as_ref()).as_deref(), expected, "{path:?}");
    }

    #[test]
    fn a_value_is_the_id_or_a_scalar_of_the_record() {
        check(None, Some("k1"));
        check(Some("$.id"), Some("7"));
        check(Some("$.name"), Some("ann"));
        check(Some("$.deep.list[1]"), Some("true"));
        for path in ["$.deep", "$.deep.list", "$.none", "$.empty", "$.missing", "$.name.more", "$.nul"] {
            check(Some(path), None);
        }
    }

    #[test]
    fn a_value_has_a_longest_form() {
        let parent = |len: usize| ParentRecord { key: "x".repeat(len), payload: String::new(), task_params: None };
        assert!(of(&parent(MAX_BYTES), None).is_some());
        assert_eq!(of(&parent(MAX_BYTES + 1), None), None);
    }
}
