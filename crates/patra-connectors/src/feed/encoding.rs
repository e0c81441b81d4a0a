//! Bytes to text. Declared encodings are often wrong, so the bytes are checked first.

use std::borrow::Cow;

use encoding_rs::{Encoding, GB18030, GBK, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};

/// Bytes that are searched for a prolog or a `<meta charset>`.
const MAX_DECLARATION_BYTES: usize = 4_096;

/// The text of a body: a byte order mark decides, then valid UTF-8, then the charset of the Content-Type, the XML
/// prolog, an HTML `<meta>`, and at last a detector. Bytes that mean nothing become U+FFFD; nothing fails.
pub fn decode<'a>(body: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    if let Some(text) = utf32(body) {
        return Cow::Owned(text);
    }
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return encoding.decode(body).0;
    }
    if let Some(encoding) = utf16_without_mark(body) {
        return encoding.decode_without_bom_handling(body).0;
    }
    let declared = [content_type.and_then(charset), prolog(body), meta(body)];
    let declared = || declared.iter().flatten().copied();
    if let Ok(text) = std::str::from_utf8(body) {
        // ISO-2022-JP is ASCII with escapes, hence valid UTF-8.
        let escapes = memchr::memchr(0x1b, body).is_some() && declared().any(|encoding| encoding == ISO_2022_JP);
        return if escapes { ISO_2022_JP.decode(body).0 } else { Cow::Borrowed(text) };
    }
    for encoding in declared().filter(|encoding| *encoding != UTF_8) {
        let (text, _, faulty) = encoding.decode(body);
        if !faulty {
            return text;
        }
    }
    if mostly_utf8(body) {
        return String::from_utf8_lossy(body);
    }
    let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Allow);
    detector.feed(body, true);
    detector.guess(None, chardetng::Utf8Detection::Allow).decode(body).0
}

/// The encoding that a label names. What calls itself ISO-8859-1 is Windows-1252, and GB 2312 is GB 18030.
fn label(name: &[u8]) -> Option<&'static Encoding> {
    let name = name.trim_ascii();
    let name = name.strip_prefix(b"x-").filter(|rest| Encoding::for_label(rest).is_some()).unwrap_or(name);
    let encoding = Encoding::for_label_no_replacement(name)?;
    // A label that was read as ASCII cannot be UTF-16.
    let two_bytes = encoding == UTF_16BE || encoding == UTF_16LE;
    Some(if encoding == GBK { GB18030 } else { encoding }).filter(|_| !two_bytes)
}

fn charset(content_type: &str) -> Option<&'static Encoding> {
    let parts = content_type.split(';').skip(1).filter_map(|part| part.split_once('='));
    let mut charsets = parts.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    charsets.find_map(|(_, value)| label(value.trim().trim_matches(['"', '\'']).as_bytes()))
}

fn prolog(body: &[u8]) -> Option<&'static Encoding> {
    let head = &body[..body.len().min(MAX_DECLARATION_BYTES)];
    let start = memchr::memmem::find(head, b"<?xml")?;
    let end = start + memchr::memchr(b'>', &head[start..])?;
    value_after(&head[start..end], b"encoding")
}

fn meta(body: &[u8]) -> Option<&'static Encoding> {
    let head = &body[..body.len().min(MAX_DECLARATION_BYTES)];
    let lower = head.to_ascii_lowercase();
    memchr::memmem::find_iter(&lower, b"<meta").find_map(|start| {
        let end = start + memchr::memchr(b'>', &lower[start..])?;
        value_after(&lower[start..end], b"charset")
    })
}

fn value_after(text: &[u8], name: &[u8]) -> Option<&'static Encoding> {
    let rest = &text[memchr::memmem::find(text, name)? + name.len()..];
    let rest = rest.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest);
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\'' | b';' | b' ' | b'/' | b'?'));
    label(&rest[..end.unwrap_or(rest.len())])
}

/// UTF-32, which no browser reads and some feeds have.
fn utf32(body: &[u8]) -> Option<String> {
    let little = match body.get(..4)? {
        [0xff, 0xfe, 0, 0] | [b'<', 0, 0, 0] => true,
        [0, 0, 0xfe, 0xff] | [0, 0, 0, b'<'] => false,
        _ => return None,
    };
    let value = |four: &[u8; 4]| if little { u32::from_le_bytes(*four) } else { u32::from_be_bytes(*four) };
    let chars = body.as_chunks::<4>().0.iter().map(|four| char::from_u32(value(four)).unwrap_or('\u{fffd}'));
    Some(chars.filter(|char| *char != '\u{feff}').collect())
}

fn utf16_without_mark(body: &[u8]) -> Option<&'static Encoding> {
    match body.get(..4)? {
        [0, b'<' | b'{', 0, _] => Some(UTF_16BE),
        [b'<' | b'{', 0, _, 0] => Some(UTF_16LE),
        _ => None,
    }
}

/// Some invalid bytes in UTF-8 cost less as U+FFFD than another encoding of the whole text.
fn mostly_utf8(body: &[u8]) -> bool {
    let (mut good, mut bad) = (0_usize, 0_usize);
    for chunk in body.utf8_chunks() {
        good += chunk.valid().bytes().filter(|byte| *byte >= 0xc0).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good > bad
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &[u8], content_type: Option<&str>, expected: &str) {
        assert_eq!(decode(body, content_type), expected);
    }

    // covers: COLL-125
    #[test]
    fn the_bytes_decide_before_any_label() {
        check("é".as_bytes(), Some("text/xml; charset=iso-8859-1"), "é");
        check(b"<?xml version='1.0' encoding='utf-8'?>caf\xe9", None, "<?xml version='1.0' encoding='utf-8'?>café");
        check(b"\xef\xbb\xbfa", Some("text/xml; charset=utf-16"), "a");
    }

    // covers: COLL-125
    #[test]
    fn labels_mean_what_their_users_mean() {
        check(b"\x93a\x94", Some("text/xml; charset=\"ISO-8859-1\""), "“a”");
        check(b"\x81\x30\x84\x36", Some("text/xml; charset=gb2312"), "¥");
        check(b"\xd0\xd2", Some("text/plain; charset=koi8-r"), "пр");
        check(b"<meta charset=koi8-r>\xd0", None, "<meta charset=koi8-r>п");
        check(b"<?xml encoding='koi8-r'?>\xd0", Some("text/xml; charset=nonsense"), "<?xml encoding='koi8-r'?>п");
        check(b"\x1b$B$\"\x1b(B", Some("text/xml; charset=iso-2022-jp"), "あ");
    }

    // covers: COLL-125
    #[test]
    fn wide_characters_need_no_mark() {
        check(b"<\0?\0", None, "<?");
        check(b"\0<\0?", None, "<?");
        check(b"<\0\0\0?\0\0\0", None, "<?");
        check(b"\0\0\xfe\xff\0\0\0<", None, "<");
        check(b"\xff\xfe<\0", None, "<");
    }

    #[test]
    fn few_bad_bytes_do_not_spoil_the_rest() {
        check("ääääääää\u{0}".as_bytes(), None, "ääääääää\u{0}");
        let mut body = "ääääääää".as_bytes().to_vec();
        body.push(0xff);
        check(&body, None, "ääääääää\u{fffd}");
    }
}
