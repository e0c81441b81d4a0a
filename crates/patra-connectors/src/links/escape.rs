//! Characters as they are written: by themselves, as references of HTML, or behind a backslash. Nobody says which
//! language a text is in, so each is understood where it can mean nothing else.

use crate::feed::markup::{EntityContext, resolve};

/// Most bytes of one escaped character.
pub(super) const MAX_UNIT_BYTES: usize = 64;
/// Longest name of a reference, its semicolon included.
const MAX_NAME_BYTES: usize = 33;
/// How often a character may be escaped.
const MAX_TIMES: usize = 4;

/// The first character of a text, and how many bytes it takes there.
pub(super) fn unit(text: &str) -> Option<(char, usize)> {
    match *text.as_bytes().first()? {
        b'&' => Some(reference(text).unwrap_or(('&', 1))),
        b'\\' => Some(backslash(text).unwrap_or(('\\', 1))),
        byte if byte.is_ascii() => Some((char::from(byte), 1)),
        _ => text.chars().next().map(|c| (c, c.len_utf8())),
    }
}

/// `&amp;`, `&#38;`, `&quot;`, and what was escaped once more: `&amp;amp;`. Only with its semicolon: `&copy=1` is a
/// parameter.
fn reference(text: &str) -> Option<(char, usize)> {
    let mut name = 1;
    while text[name..].starts_with("amp;") && name < MAX_TIMES * 4 {
        name += 4;
    }
    named(&text[name..]).map(|(c, len)| (c, name + len)).or_else(|| (name > 1).then_some(('&', name)))
}

fn named(text: &str) -> Option<(char, usize)> {
    let bytes = text.as_bytes();
    let end = bytes.iter().take(MAX_NAME_BYTES).position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'#'))?;
    if end == 0 || bytes[end] != b';' {
        return None;
    }
    let written = format!("&{}", &text[..=end]);
    let resolved = resolve(&written, EntityContext::Attribute);
    let mut chars = resolved.chars();
    let only = chars.next().filter(|_| chars.next().is_none())?;
    Some((only, end + 1))
}

/// Escapes of JSON (`\/`, `\u0026`), and of Markdown, TeX and shells in URLs (`\_`, `\&`, `\?`).
fn backslash(text: &str) -> Option<(char, usize)> {
    let bytes = text.as_bytes();
    let behind = bytes.iter().take(MAX_TIMES).take_while(|byte| **byte == b'\\').count();
    match *bytes.get(behind)? {
        c @ (b'/' | b'_' | b'&' | b'%' | b'#' | b'~' | b'?' | b'=') => Some((char::from(c), behind + 1)),
        b'u' => {
            let digits =
                text.get(behind + 1..behind + 5).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
            let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            Some((c, behind + 5))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_read_as_they_were_meant() {
        for (text, expected) in [
            ("ab", ('a', 1)),
            ("中a", ('中', 3)),
            ("&b=1", ('&', 1)),
            ("&amp;b", ('&', 5)),
            ("&amp;amp;b", ('&', 9)),
            ("&amp;quot;b", ('"', 10)),
            ("&#38;b", ('&', 5)),
            ("&#x2F;b", ('/', 6)),
            ("&lt;b", ('<', 4)),
            ("&lt=b", ('&', 1)),
            ("&nosuch;", ('&', 1)),
            ("&#0;", ('&', 1)),
            ("&", ('&', 1)),
            ("&amp", ('&', 1)),
            (r"\/b", ('/', 2)),
            (r"\\\/b", ('/', 4)),
            (r"\u0026b", ('&', 6)),
            (r"\u002Fb", ('/', 6)),
            (r"\ud83d", ('\\', 1)),
            (r"\u00", ('\\', 1)),
            ("\\u12é4", ('\\', 1)),
            (r"\n", ('\\', 1)),
            (r"\", ('\\', 1)),
            (r"\_b", ('_', 2)),
        ] {
            assert_eq!(unit(text), Some(expected), "{text}");
        }
        assert_eq!(unit(""), None);
    }

    #[test]
    fn a_character_never_takes_more_bytes_than_are_looked_at() {
        let long = format!("&{}{}", "amp;".repeat(100), "x".repeat(100));
        assert!(unit(&long).unwrap().1 <= MAX_UNIT_BYTES);
        assert!(unit(&"\\".repeat(100)).unwrap().1 <= MAX_UNIT_BYTES);
        const { assert!(MAX_TIMES * 4 + 1 + MAX_NAME_BYTES <= MAX_UNIT_BYTES) };
    }
}
