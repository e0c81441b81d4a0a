//! Texts that were cut inside a character: JSON escapes one as two surrogates, and a parser refuses one half alone.

/// The JSON text with halves of characters replaced by U+FFFD.
pub(super) fn whole_characters(json: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = match unit(escape) {
            Some(0xD800..=0xDBFF) if matches!(escape.get(6..).and_then(unit), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                out.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            // An escaped backslash is no beginning of an escape.
            _ => escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end),
        };
        out.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    out.push_str(rest);
    out
}

/// The code unit of an escape at the beginning of a text.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TWEET-45
    #[test]
    fn halves_of_characters_are_replaced_and_whole_ones_stay() {
        let check = |json: &str, expected: &str| {
            assert_eq!(whole_characters(json), expected);
            assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok(), "{expected}");
        };
        check(r#""a \ud83d\ude00 b""#, r#""a \ud83d\ude00 b""#);
        check(r#""cut \ud83d""#, r#""cut \ufffd""#);
        check(r#""\ude00\ud83d\ud83d\ude00""#, r#""\ufffd\ufffd\ud83d\ude00""#);
        check(r#""\\ud83d \n\"""#, r#""\\ud83d \n\"""#);
        check(r#""é\\""#, r#""é\\""#);
    }
}
