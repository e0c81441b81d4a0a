//! User names: one or many, as people write them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::text::beginning;

/// Longest user name (TWEET-64).
pub const MAX_NAME: usize = 15;
/// Maximum bytes of a bad name in an error message.
const MAX_QUOTE: usize = 40;

/// Problem of a name, or of a list of names.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    #[error("a name is empty")]
    Empty,
    #[error("'{}' may only contain letters, digits and _", quote(.0))]
    Characters(String),
    #[error("'{}' is too long: a name has at most {MAX_NAME} characters", quote(.0))]
    TooLong(String),
    #[error("no user is named")]
    Nobody,
    #[error("expected names separated by commas, or a list of names")]
    NoNames,
}

/// One name, without surrounding blanks and a leading `@`, in its original case (TWEET-64).
pub fn username(text: &str) -> Result<String, NameError> {
    let text = text.trim();
    let name = text.strip_prefix('@').unwrap_or(text);
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(NameError::Characters(text.to_owned()));
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong(text.to_owned()));
    }
    Ok(name.to_owned())
}

/// Names from a comma-separated text. Empty entries are skipped.
pub fn usernames(text: &str) -> Result<Vec<String>, Vec<NameError>> {
    checked(text.split(',').filter(|part| !part.trim().is_empty()).map(username))
}

/// Names from a request: a comma-separated text, or a list of texts (TWEET-105).
pub fn usernames_of(value: &Value) -> Result<Vec<String>, Vec<NameError>> {
    match value {
        Value::String(text) => usernames(text),
        Value::Array(list) => checked(list.iter().map(|one| one.as_str().ok_or(NameError::NoNames).and_then(username))),
        _ => Err(vec![NameError::NoNames]),
    }
}

/// Each user once, in the order and spelling of the first mention; or all problems.
fn checked(names: impl Iterator<Item = Result<String, NameError>>) -> Result<Vec<String>, Vec<NameError>> {
    let (mut users, mut wrong, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    for name in names {
        match name {
            Ok(name) if known.insert(name.to_ascii_lowercase()) => users.push(name),
            Ok(_) => {}
            Err(error) => wrong.push(error),
        }
    }
    if users.is_empty() && wrong.is_empty() {
        wrong.push(NameError::Nobody);
    }
    if wrong.is_empty() { Ok(users) } else { Err(wrong) }
}

fn quote(text: &str) -> String {
    let shown = beginning(text, MAX_QUOTE);
    let dots = if shown.len() < text.len() { "…" } else { "" };
    shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>() + dots
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // covers: TWEET-64
    #[test]
    fn a_name_is_trimmed_and_checked() {
        for (text, name) in
            [("alice", "alice"), (" @Bob_7\n", "Bob_7"), ("A23456789012345", "A23456789012345"), ("_", "_")]
        {
            assert_eq!(username(text).as_deref(), Ok(name), "{text}");
        }
        for text in ["al ice", "@@bob", "ä", "a-b", "a\0b", "https://x.com/a"] {
            assert_eq!(username(text), Err(NameError::Characters(text.to_owned())), "{text}");
        }
        for text in ["", " ", "@", " @ "] {
            assert_eq!(username(text), Err(NameError::Empty), "{text}");
        }
        assert!(matches!(username("a234567890123456"), Err(NameError::TooLong(_))));
    }

    // covers: TWEET-64, TWEET-105, TWEET-107
    #[test]
    fn names_come_as_a_text_or_a_list_and_each_user_is_one() {
        let expected = Ok(vec!["alice".to_owned(), "Bob".to_owned()]);
        assert_eq!(usernames("alice, @Bob ,ALICE,,bob,"), expected);
        assert_eq!(usernames_of(&json!("alice,@Bob")), expected);
        assert_eq!(usernames_of(&json!(["alice", " @Bob", "bOB"])), expected);
    }

    // covers: TWEET-63, TWEET-107
    #[test]
    fn every_bad_name_is_reported() {
        let errors = |value: Value| -> Vec<String> {
            usernames_of(&value).unwrap_err().iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            errors(json!("al ice, bob, a234567890123456")),
            [
                "'al ice' may only contain letters, digits and _",
                "'a234567890123456' is too long: a name has at most 15 characters"
            ]
        );
        assert_eq!(
            errors(json!(["", 7, "bob"])),
            ["a name is empty", "expected names separated by commas, or a list of names"]
        );
        for nobody in [json!(""), json!(" , "), json!([])] {
            assert_eq!(errors(nobody), ["no user is named"]);
        }
        assert_eq!(errors(json!(7)), ["expected names separated by commas, or a list of names"]);
        let long = errors(json!("ü\n".repeat(500)));
        assert!(long[0].len() < 100 && !long[0].contains('\n'), "{long:?}");
    }
}
