//! Differences between expected and found values, each with its place.

use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// `next`, `record 0, fields.title`.
    pub(crate) what: String,
    pub(crate) expected: Value,
    pub(crate) found: Value,
}

impl Difference {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "what": self.what, "expected": self.expected, "found": self.found })
    }

    /// The place and both values; long texts are cut so that the first difference shows.
    pub(crate) fn to_text(&self, indent: &str) -> String {
        let (expected, found) = (shown(&self.expected), shown(&self.found));
        let from = cut(&expected, &found);
        format!(
            "{indent}{}\n{indent}  expected {}\n{indent}  found    {}",
            self.what,
            part(&expected, from),
            part(&found, from)
        )
    }
}

/// Compares the found value with the expected one. Of objects only the expected members count; lists count as a whole.
pub(crate) fn compare(what: &str, expected: &Value, found: &Value, out: &mut Vec<Difference>) {
    match (expected, found) {
        (Value::Object(members), Value::Object(_)) => {
            for (name, value) in members {
                compare(&join(what, name), value, &found[name], out);
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (at, (value, found)) in expected.iter().zip(found).enumerate() {
                compare(&format!("{what}[{at}]"), value, found, out);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        _ if expected == found => {}
        _ => out.push(Difference { what: what.to_owned(), expected: expected.clone(), found: found.clone() }),
    }
}

fn join(what: &str, name: &str) -> String {
    // A comma separates a place in words from its members.
    if what.contains(' ') && !what.contains(", ") { format!("{what}, {name}") } else { format!("{what}.{name}") }
}

/// Text keeps its quotes: without them it would look like a number or like nothing.
fn shown(value: &Value) -> String {
    if value.is_null() { "nothing".to_owned() } else { value.to_string() }
}

/// Longest piece of a value that is shown.
const WIDEST: usize = 100;
/// Equal characters that are shown before the difference.
const LEAD: usize = 20;

/// The character from which two long texts are shown, so that their first difference is visible.
fn cut(a: &str, b: &str) -> usize {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    if same + LEAD < WIDEST { 0 } else { same - LEAD }
}

fn part(text: &str, from: usize) -> String {
    let rest = text.chars().skip(from).count();
    let body: String = text.chars().skip(from).take(WIDEST).collect();
    format!("{}{body}{}", if from > 0 { "…" } else { "" }, if rest > WIDEST { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &Value, found: &Value, differences: &[&str]) {
        let mut out = Vec::new();
        compare("record 0", expected, found, &mut out);
        let texts: Vec<_> = out.iter().map(|difference| difference.to_text("")).collect();
        assert_eq!(texts, differences);
    }

    #[test]
    fn objects_compare_by_expected_members_and_lists_as_a_whole() {
        check(&json!({"a": 1}), &json!({"a": 1.0, "b": 2}), &[]);
        check(
            &json!({"id": "x", "fields": {"t": "a", "n": null}}),
            &json!({"id": "y", "fields": {"t": "b"}}),
            &[
                "record 0, fields.t\n  expected \"a\"\n  found    \"b\"",
                "record 0, id\n  expected \"x\"\n  found    \"y\"",
            ],
        );
        check(&json!([1, 2]), &json!([1, 3]), &["record 0[1]\n  expected 2\n  found    3"]);
        check(&json!([1]), &json!([]), &["record 0\n  expected [1]\n  found    []"]);
        check(&json!("1"), &Value::Null, &["record 0\n  expected \"1\"\n  found    nothing"]);
    }

    #[test]
    fn long_texts_are_shown_at_their_first_difference() {
        let (a, b) = (format!("{}end", "x".repeat(500)), format!("{}END", "x".repeat(500)));
        let mut out = Vec::new();
        compare("token", &json!(a), &json!(b), &mut out);
        let text = out[0].to_text("");
        assert!(text.contains("xend\"") && text.contains("xEND\"") && text.len() < 120, "{text}");
    }
}
