//! Ids of tweets: whole numbers of any length, kept as texts.

use std::cmp::Ordering;

/// Compares two ids as numbers; `None` where one is not a number (TWEET-26).
pub fn compare(one: &str, other: &str) -> Option<Ordering> {
    let (one, other) = (digits(one)?, digits(other)?);
    Some(one.len().cmp(&other.len()).then_with(|| one.cmp(other)))
}

/// Strips leading zeros.
fn digits(id: &str) -> Option<&str> {
    let number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    number.then(|| id.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TWEET-26
    #[test]
    fn ids_are_numbers_of_any_length() {
        let check = |one: &str, other: &str, expected| assert_eq!(compare(one, other), expected, "{one} {other}");
        check("9", "10", Some(Ordering::Less));
        check("1890000000000000001", "1890000000000000001", Some(Ordering::Equal));
        check("1890000000000000002", "1890000000000000001", Some(Ordering::Greater));
        check("99999999999999999999999999", "100000000000000000000000000", Some(Ordering::Less));
        check("0007", "7", Some(Ordering::Equal));
        check("0", "1", Some(Ordering::Less));
        for odd in ["", "-1", "1.5", "abc", "١"] {
            check(odd, "1", None);
            check("1", odd, None);
        }
    }
}
