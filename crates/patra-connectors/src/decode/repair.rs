//! Repairs almost-JSON with raw control characters inside strings, as in error bodies of PubMed (ING-15-03).

/// A copy with control characters escaped; `None` when the text has none.
pub(super) fn control_characters(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut inside, mut escaped, mut fixed) = (false, false, false);
    for c in text.chars() {
        if inside && c < ' ' {
            fixed = true;
            // A backslash before a raw control character is no JSON escape: it is kept as a character.
            if std::mem::take(&mut escaped) {
                out.push('\\');
            }
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
            continue;
        }
        match c {
            '"' if !escaped => inside = !inside,
            '\\' if inside && !escaped => {
                escaped = true;
                out.push(c);
                continue;
            }
            _ => {}
        }
        escaped = false;
        out.push(c);
    }
    fixed.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(control_characters(text).as_deref(), expected, "{text:?}");
    }

    #[test]
    fn only_control_characters_within_strings_are_escaped() {
        check("{\"a\":\"x\ny\"}", Some("{\"a\":\"x\\u000ay\"}"));
        check("{\n\"a\":\t\"\\\"\tz\\\\\"\n}", Some("{\n\"a\":\t\"\\\"\\u0009z\\\\\"\n}"));
        check("\"\\\n\"", Some("\"\\\\\\u000a\""));
        check("{\n\"a\": \"b\\n\"}", None);
        check("{\"a\": ", None);
    }
}
