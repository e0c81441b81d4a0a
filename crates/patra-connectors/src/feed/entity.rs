//! Character references: numbers, the names of HTML, and what a document type declares.

use std::borrow::Cow;
use std::collections::BTreeMap;

use encoding_rs::WINDOWS_1252;
use html5ever::data::NAMED_ENTITIES;

use super::{FeedError, FeedLimit};

/// Most bytes that the declared entities of one document may expand to, each reference counted as one more. Far above
/// the needs of a feed, far below an entity bomb.
pub const MAX_EXPANSION_BYTES: usize = 1024 * 1024;
/// Most entities inside entities.
pub const MAX_EXPANSION_DEPTH: usize = 16;
/// Most entities that a document type may declare; more are ignored.
const MAX_DECLARED: usize = 512;
/// Longest name of a reference.
const MAX_NAME_BYTES: usize = 32;

/// Context of a reference. HTML allows a missing semicolon in text, but not in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntityContext {
    Text,
    Attribute,
}

/// Resolves the references of HTML.
pub(crate) fn resolve(text: &str, place: EntityContext) -> Cow<'_, str> {
    replace(text, |rest, out| known(rest, place, out))
}

/// The entities that a document type declares, and how much they may still grow.
#[derive(Debug, Default)]
pub(super) struct Entities {
    declared: BTreeMap<String, String>,
    spent: usize,
}

impl Entities {
    /// Learns from `<!ENTITY name "value">`. External ones are not fetched, and stay unknown.
    pub(super) fn learn(&mut self, doctype: &str) {
        for declaration in doctype.split("<!ENTITY").skip(1).take(MAX_DECLARED) {
            let mut parts = declaration.trim_start().splitn(2, char::is_whitespace);
            let (Some(name), Some(rest)) = (parts.next(), parts.next().map(str::trim_start)) else { continue };
            let value = rest.strip_prefix(['"', '\'']).and_then(|inner| inner.split_once(&rest[..1]));
            if let Some((value, _)) = value {
                self.declared.entry(name.to_owned()).or_insert_with(|| value.to_owned());
            }
        }
    }

    /// Resolves the references in text of XML.
    pub(super) fn resolve<'a>(&mut self, text: &'a str) -> Result<Cow<'a, str>, FeedError> {
        self.resolve_at(text, 0)
    }

    fn resolve_at<'a>(&mut self, text: &'a str, depth: usize) -> Result<Cow<'a, str>, FeedError> {
        let mut failure = None;
        let resolved = replace(text, |rest, out| {
            if self.declared.is_empty() || failure.is_some() {
                return known(rest, EntityContext::Attribute, out);
            }
            let declared = name(rest).filter(|_| rest.as_bytes().get(1 + name_length(rest)) == Some(&b';'));
            let Some(value) = declared.and_then(|name| self.declared.get(name)).cloned() else {
                return known(rest, EntityContext::Attribute, out);
            };
            match self.expand(&value, depth) {
                Ok(value) => out.push_str(&value),
                Err(error) => failure = Some(error),
            }
            Some(name_length(rest) + 2)
        });
        failure.map_or(Ok(resolved), Err)
    }

    fn expand(&mut self, value: &str, depth: usize) -> Result<String, FeedError> {
        if depth >= MAX_EXPANSION_DEPTH {
            return Err(FeedLimit::ExpansionDepth.into());
        }
        self.spent += 1 + value.len();
        if self.spent > MAX_EXPANSION_BYTES {
            return Err(FeedLimit::ExpansionBytes.into());
        }
        Ok(self.resolve_at(value, depth + 1)?.into_owned())
    }
}

/// Replaces each reference that `lookup` knows. It gets the text from `&` on, and returns the length of the reference.
fn replace<'a>(text: &'a str, mut lookup: impl FnMut(&str, &mut String) -> Option<usize>) -> Cow<'a, str> {
    let Some(first) = memchr::memchr(b'&', text.as_bytes()) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len());
    let (mut from, mut at) = (0, first);
    loop {
        out.push_str(&text[from..at]);
        from = at
            + lookup(&text[at..], &mut out).unwrap_or_else(|| {
                out.push('&');
                1
            });
        match memchr::memchr(b'&', &text.as_bytes()[from..]) {
            Some(next) => at = from + next,
            None => break,
        }
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

fn known(rest: &str, place: EntityContext, out: &mut String) -> Option<usize> {
    if rest.as_bytes().get(1) == Some(&b'#') {
        return number(rest, out);
    }
    let length = name_length(rest);
    let closed = rest.as_bytes().get(1 + length) == Some(&b';');
    if closed && let Some(points) = NAMED_ENTITIES.get(&rest[1..length + 2]) {
        push(*points, out);
        return Some(length + 2);
    }
    let open = Some(length).filter(|_| place == EntityContext::Text && length > 1);
    let points = open.and_then(|length| NAMED_ENTITIES.get(&rest[1..=length]))?;
    // A prefix of a name that needs its semicolon has no code points.
    (points.0 != 0).then(|| {
        push(*points, out);
        length + 1
    })
}

fn push((first, second): (u32, u32), out: &mut String) {
    out.extend([first, second].into_iter().filter(|point| *point != 0).filter_map(char::from_u32));
}

fn number(rest: &str, out: &mut String) -> Option<usize> {
    let hex = matches!(rest.as_bytes().get(2), Some(b'x' | b'X'));
    let start = if hex { 3 } else { 2 };
    let digit = |byte: &u8| if hex { byte.is_ascii_hexdigit() } else { byte.is_ascii_digit() };
    let digits = rest.as_bytes()[start..].iter().take(MAX_NAME_BYTES).take_while(|byte| digit(byte)).count();
    if digits == 0 {
        return None;
    }
    let end = start + digits;
    let point = u32::from_str_radix(&rest[start..end], if hex { 16 } else { 10 }).unwrap_or(u32::MAX);
    match u8::try_from(point) {
        // Numbers in this range mean the characters of Windows-1252.
        Ok(byte @ 0x80..=0x9f) => out.push(windows_1252(char::from(byte))),
        Ok(byte) if byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r') => {}
        _ => out.push(char::from_u32(point).unwrap_or('\u{fffd}')),
    }
    Some(end + usize::from(rest.as_bytes().get(end) == Some(&b';')))
}

/// The character that stands in Windows-1252 where Unicode has this one below U+0100.
pub(super) fn windows_1252(char: char) -> char {
    let byte = u8::try_from(u32::from(char)).unwrap_or(b'?');
    WINDOWS_1252.decode_without_bom_handling(&[byte]).0.chars().next().unwrap_or(char)
}

fn name(rest: &str) -> Option<&str> {
    Some(&rest[1..=name_length(rest)]).filter(|name| !name.is_empty())
}

fn name_length(rest: &str) -> usize {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    rest.as_bytes()[1..].iter().take(MAX_NAME_BYTES).take_while(|byte| part(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_html_are_resolved() {
        let text = |text| resolve(text, EntityContext::Text).into_owned();
        assert_eq!(text("a &amp; b &lt;c&gt; &eacute;&nbsp;&#8230;&#x2026;"), "a & b <c> é\u{a0}……");
        assert_eq!(text("&copy 2024 & &nosuch; &#;&"), "© 2024 & &nosuch; &#;&");
        assert_eq!(text("&#146;&#0;&#99999999999;"), "’\u{fffd}");
        assert_eq!(resolve("?a=1&copy=2&amp;b", EntityContext::Attribute), "?a=1&copy=2&b");
    }

    fn expanded(doctype: &str, text: &str) -> Result<String, String> {
        let mut entities = Entities::default();
        entities.learn(doctype);
        entities.resolve(text).map(Cow::into_owned).map_err(|error| error.to_string())
    }

    #[test]
    fn declared_entities_are_resolved() {
        let declared =
            "<!DOCTYPE a [<!ENTITY id 'x'><!ENTITY both '&id;&id;'><!ENTITY out SYSTEM 'file:///etc/passwd'>]>";
        assert_eq!(expanded(declared, "&id;-&both;-&out;-&amp;").unwrap(), "x-xx-&out;-&");
    }

    // covers: COLL-125
    #[test]
    fn an_entity_bomb_is_refused_with_the_limit() {
        let mut bomb = "<!DOCTYPE a [<!ENTITY a0 'lol'>".to_owned();
        for level in 1..10 {
            let inner = format!("&a{};", level - 1).repeat(10);
            bomb.push_str(&format!("<!ENTITY a{level} '{inner}'>"));
        }
        assert!(expanded(&bomb, "&a9;").unwrap_err().contains("1048576"));
        let wide = format!("<!ENTITY a '{}'>", "x".repeat(100_000));
        assert!(expanded(&wide, &"&a;".repeat(100)).unwrap_err().contains("1048576"));
        assert!(expanded("<!ENTITY a '&a;'>", "&a;").unwrap_err().contains("16"));
    }
}
