//! Single values from raw JSON.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// The text of a JSON string or number; `None` for null, booleans, lists and objects.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    match raw.get().as_bytes().first()? {
        b'"' => {
            let inner = &raw.get()[1..raw.get().len() - 1];
            if inner.contains('\\') {
                serde_json::from_str(raw.get()).ok().map(Cow::Owned)
            } else {
                Some(Cow::Borrowed(inner))
            }
        }
        b'-' | b'0'..=b'9' => Some(Cow::Borrowed(raw.get())),
        _ => None,
    }
}

/// The text of a JSON string, number or boolean.
pub(super) fn spelled(raw: &RawValue) -> Option<Cow<'_, str>> {
    match raw.get() {
        word @ ("true" | "false") => Some(Cow::Borrowed(word)),
        _ => text(raw),
    }
}

/// A boolean, however the upstream spells it.
pub(super) fn flag(raw: &RawValue) -> Option<bool> {
    said(&spelled(raw)?)
}

pub(crate) fn said(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.trim().eq_ignore_ascii_case(word));
    match () {
        () if is(&["true", "1", "yes"]) => Some(true),
        () if is(&["false", "0", "no"]) => Some(false),
        () => None,
    }
}

pub(super) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
