//! Ids that are JSON numbers, which a JSON parser would round.

use std::borrow::Cow;

/// The JSON text with whole numbers of too many digits as texts, so that no digit is lost (TWEET-26).
pub(super) fn exact(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let (mut text, mut copied, mut at, mut quoted) = (String::new(), 0, 0, false);
    while at < bytes.len() {
        match bytes[at] {
            // Text follows: this is not its end.
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b'-' | b'0'..=b'9' if !quoted => {
                let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let end = at + bytes[at..].iter().take_while(is_part).count();
                let number = &json[at..end];
                if number.bytes().all(|byte| byte.is_ascii_digit()) && number.parse::<u64>().is_err() {
                    text.extend([&json[copied..at], "\"", number, "\""]);
                    copied = end;
                }
                at = end - 1;
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    text.push_str(&json[copied..]);
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TWEET-26
    #[test]
    fn only_whole_numbers_of_too_many_digits_become_texts() {
        let check = |json: &str, expected: &str| assert_eq!(exact(json), expected);
        check(r#"{"id":18446744073709551615}"#, r#"{"id":18446744073709551615}"#);
        check(r#"{"id":18446744073709551616}"#, r#"{"id":"18446744073709551616"}"#);
        check(r#"[123456789012345678901234567890 ,1]"#, r#"["123456789012345678901234567890" ,1]"#);
        check(
            r#"{"a":"99999999999999999999","b":"\"99999999999999999999"}"#,
            r#"{"a":"99999999999999999999","b":"\"99999999999999999999"}"#,
        );
        check("-99999999999999999999", "-99999999999999999999");
        check("99999999999999999999.5", "99999999999999999999.5");
        check("", "");
    }
}
