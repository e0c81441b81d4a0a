//! The start of a URL: `http` or `https`, a colon and two slashes, in any escaped form.

use super::escape::{self, MAX_UNIT_BYTES};

/// Bytes behind the colon that decide whether it belongs to a scheme.
pub(super) const MAX_SLASHES_BYTES: usize = 2 * MAX_UNIT_BYTES;

/// The beginning of a URL: `start` is the place of the `h`, `end` that behind the slashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scheme {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) name: &'static str,
}

/// The place of the `h`, if the colon stands behind our scheme. Letters before it are no hindrance: where tags were
/// removed, words and URLs grow together. A `+` is one: `git+https` is another scheme.
pub(super) fn start(text: &str, colon: usize) -> Option<usize> {
    let before = text.as_bytes().get(..colon)?;
    let word = before.strip_suffix(b"s").or_else(|| before.strip_suffix(b"S")).unwrap_or(before);
    let start = word.len().checked_sub(4)?;
    if !word[start..].eq_ignore_ascii_case(b"http") {
        return None;
    }
    let compound = matches!(before[..start], [.., letter, b'+'] if letter.is_ascii_alphanumeric());
    (!compound).then_some(start)
}

/// The scheme of the colon at this position.
pub(super) fn at(text: &str, colon: usize) -> Option<Scheme> {
    let start = start(text, colon).filter(|_| text.as_bytes().get(colon) == Some(&b':'))?;
    let name = if colon - start == 5 { "https" } else { "http" };
    let mut end = colon + 1;
    for _ in 0..2 {
        let (slash, len) = escape::unit(&text[end..])?;
        if slash != '/' {
            return None;
        }
        end += len;
    }
    Some(Scheme { start, end, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(&str, &'static str)> {
        let scheme = text.match_indices(':').find_map(|(colon, _)| at(text, colon))?;
        Some((&text[scheme.start..scheme.end], scheme.name))
    }

    #[test]
    fn only_our_schemes_are_found() {
        assert_eq!(found("see http://a"), Some(("http://", "http")));
        assert_eq!(found("(+HttpS://a"), Some(("HttpS://", "https")));
        assert_eq!(found("Sourcehttps://a"), Some(("https://", "https")));
        assert_eq!(found("中https://a"), Some(("https://", "https")));
        assert_eq!(found(r"https:\/\/a"), Some((r"https:\/\/", "https")));
        assert_eq!(found(r"https:\u002F\u002Fa"), Some((r"https:\u002F\u002F", "https")));
        assert_eq!(found("http:&#x2F;&#x2F;a"), Some(("http:&#x2F;&#x2F;", "http")));
        for other in [
            "ftp://a",
            "git+https://a",
            "http:/a",
            "http:a",
            "://a",
            "s://",
            "ttp://a",
            ":",
            "éttp://a",
            "http:",
            "hxxp://a",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
