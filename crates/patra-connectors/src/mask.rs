//! Masks personal data in texts that are kept for people (ING-14.10): e-mail addresses, telephone numbers and numbers
//! of identity cards. A short hash replaces each, so that two texts can still be compared.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use patra_core::hash::sha256_hex;

/// Patterns of personal data. The names of the groups are the labels of the replacements.
static PERSONAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r"(?x-u)
        (?P<email>[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+)
        |(?P<id>\b(?:[0-9]{17}[0-9Xx]|[0-9]{3}-[0-9]{2}-[0-9]{4})\b)
        |(?P<phone>\+[0-9](?:[\ ().-]{0,2}[0-9]){7,14}|\b(?:1[3-9][0-9]{9}|[0-9]{3}[-.\ ][0-9]{3}[-.\ ][0-9]{4})\b)";
    Regex::new(pattern).ok()
});

/// The text with `<email:…>`, `<phone:…>` and `<id:…>` in place of personal data.
pub fn personal(text: &str) -> Cow<'_, str> {
    let Some(pattern) = &*PERSONAL else { return Cow::Borrowed("") };
    pattern.replace_all(text, |found: &Captures<'_>| {
        let kind = ["email", "phone"].into_iter().find(|kind| found.name(kind).is_some()).unwrap_or("id");
        format!("<{kind}:{}>", &sha256_hex(found[0].as_bytes())[..8])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-14.10-03
    #[test]
    fn personal_data_is_replaced_by_a_hash_and_the_rest_stays() {
        let check = |text: &str, kind: &str, gone: &str| {
            let masked = personal(text);
            assert!(!masked.contains(gone) && masked.contains(&format!("<{kind}:")), "{text} became {masked}");
        };
        check(r#"{"mail":"ann.b+x@example.org"}"#, "email", "example.org");
        check("call +49 (0)30 1234-5678 now", "phone", "1234");
        check("13812345678", "phone", "138");
        check("555-010-9999", "phone", "9999");
        check("id 11010519491231002X.", "id", "1949");
        check("ssn 078-05-1120", "id", "1120");
        for plain in [
            r#"{"id":"a-17","updated_at":"2024-01-01T00:00:00+08:00","total":1700000000000,"n":12.5}"#,
            "2024-01-01 10:11:12",
            "@handle, 3 @ 4",
            "10.1016/j.cell.2020.01.001",
            "v1:0123456789abcdef0123456789abcdef",
        ] {
            assert_eq!(personal(plain), plain);
        }
        assert_eq!(personal("a@b.org"), personal("a@b.org"), "the same gives the same");
        assert_ne!(personal("a@b.org"), personal("c@b.org"));
    }
}
