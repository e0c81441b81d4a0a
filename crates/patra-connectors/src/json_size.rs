//! The size of a JSON document as a tree, counted before it is built: a tree takes many times the memory of its text.

use memchr::memchr2;

/// Most values of a document that is read as a tree. An object counts as 16 values, because it takes as much memory.
pub const MAX_JSON_VALUES: usize = 500_000;
/// Values that an object counts as.
const OBJECT: usize = 16;

/// A document that has more values than [`MAX_JSON_VALUES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has more than {MAX_JSON_VALUES} JSON values (an object counts as {OBJECT}): ask for smaller pages")]
pub struct TooManyValues;

/// Whether the document may be read as a tree.
pub(crate) fn check(json: &str) -> Result<(), TooManyValues> {
    if values(json) > MAX_JSON_VALUES { Err(TooManyValues) } else { Ok(()) }
}

/// The values of a JSON text. Of a text that is no JSON, a number that its parser does not exceed.
pub(crate) fn values(json: &str) -> usize {
    let bytes = json.as_bytes();
    let (mut count, mut at) = (1, 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b',' | b'[' => count += 1,
            b'{' => count += OBJECT,
            b'"' => at = end_of_string(bytes, at),
            _ => {}
        }
    }
    count
}

/// The position after the string that begins before `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        assert_eq!(values("1"), 1);
        assert_eq!(values(r#"[1,2,3]"#), 4);
        assert_eq!(values(r#"["[,{\",[", "\\"]"#), 3);
        assert_eq!(values(r#"{"a":1,"b":[]}"#), 1 + OBJECT + 2);
        assert_eq!(values(r#""never closed \"#), 1);
    }

    #[test]
    fn document_with_too_many_values_is_refused_with_the_number() {
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert_eq!(check(&list(MAX_JSON_VALUES)), Ok(()));
        let error = check(&list(MAX_JSON_VALUES + 1)).unwrap_err();
        assert!(error.to_string().contains("500000"), "{error}");
        assert!(check(&"{".repeat(MAX_JSON_VALUES / OBJECT + 1)).is_err(), "objects are large");
    }
}
