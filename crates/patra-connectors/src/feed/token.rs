//! Markup to tokens, for XML and HTML alike. Nothing is an error: anything that is no tag is text. Every step advances
//! by about as much as it reads, so the whole takes linear time on any input.

use std::borrow::Cow;

use super::entity::{self, EntityContext};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkupToken<'a> {
    Start {
        name: &'a str,
        attributes: Attributes<'a>,
        empty: bool,
    },
    End(&'a str),
    /// References are not yet resolved.
    Text(&'a str),
    /// Text without references.
    Raw(&'a str),
    Doctype(&'a str),
    /// Comments and processing instructions.
    Other,
}

#[derive(Debug, Clone)]
pub(crate) struct MarkupTokens<'a> {
    rest: &'a str,
    /// No comment ends any more: no need to search again.
    endless: bool,
    /// No `>` follows any more.
    tagless: bool,
    /// The document type was read. There is one, and further ones are skipped.
    typed: bool,
}

impl<'a> MarkupTokens<'a> {
    pub(crate) fn new(text: &'a str) -> MarkupTokens<'a> {
        MarkupTokens { rest: text, endless: false, tagless: false, typed: false }
    }

    /// The text before `</name`, as in a script.
    pub(crate) fn skip_to_end_of(&mut self, name: &str) -> &'a str {
        let bytes = self.rest.as_bytes();
        let ends = |at: &usize| {
            let after = &bytes[*at + 1..];
            after.first() == Some(&b'/')
                && after.get(1..=name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
        };
        let end = memchr::memchr_iter(b'<', bytes).find(ends).unwrap_or(bytes.len());
        self.take(end)
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// The text before `end`, or the rest.
    fn take_to(&mut self, begin: &str, end: &str) -> &'a str {
        let inner = &self.rest[begin.len()..];
        match memchr::memmem::find(inner.as_bytes(), end.as_bytes()) {
            Some(at) => &self.take(begin.len() + at + end.len())[begin.len()..begin.len() + at],
            None => &self.take(self.rest.len())[begin.len()..],
        }
    }

    fn text(&mut self, from: usize) -> MarkupToken<'a> {
        let end = memchr::memchr(b'<', &self.rest.as_bytes()[from..]).map_or(self.rest.len(), |at| from + at);
        MarkupToken::Text(self.take(end))
    }

    fn comment(&mut self) -> MarkupToken<'a> {
        if !self.endless && self.rest[4..].contains("-->") {
            self.take_to("<!--", "-->");
            return MarkupToken::Other;
        }
        // A comment that never ends is skipped, and the text after it is kept.
        self.endless = true;
        match self.declaration() {
            MarkupToken::Text(_) => MarkupToken::Other,
            other => other,
        }
    }

    /// A declaration or instruction; without an end it is text.
    fn declaration(&mut self) -> MarkupToken<'a> {
        self.tagless = self.tagless || memchr::memchr(b'>', self.rest.as_bytes()).is_none();
        if self.tagless {
            return self.text(1);
        }
        self.take_to("<", ">");
        MarkupToken::Other
    }

    /// A document type may hold declarations in brackets.
    fn doctype(&mut self) -> MarkupToken<'a> {
        self.typed = true;
        if memchr::memchr(b'>', self.rest.as_bytes()).is_none() {
            return self.text(1);
        }
        let inside = self.rest.find(['>', '[']).filter(|at| self.rest[*at..].starts_with('['));
        let end = inside.and_then(|at| self.rest[at..].find(']').map(|close| at + close)).unwrap_or(0);
        let end = self.rest[end..].find('>').map_or(self.rest.len(), |at| end + at + 1);
        MarkupToken::Doctype(self.take(end))
    }

    fn tag(&mut self) -> MarkupToken<'a> {
        let bytes = self.rest.as_bytes();
        let end = match tag_end(bytes) {
            TagEnd::Found(end) => end,
            TagEnd::Text(end) => return MarkupToken::Text(self.take(end)),
        };
        let inner = self.take(end + 1);
        let inner = &inner[1..inner.len() - 1];
        let (inner, empty) = inner.strip_suffix('/').map_or((inner, false), |inner| (inner, true));
        let name_end = inner.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(inner.len());
        let (name, rest) = inner.split_at(name_end);
        MarkupToken::Start { name, attributes: Attributes { rest }, empty }
    }
}

enum TagEnd {
    /// Position of `>`.
    Found(usize),
    /// No tag: text up to this position.
    Text(usize),
}

/// Reads no further than the end of the tag, except for a value that never ends: there is one per kind of quote.
fn tag_end(bytes: &[u8]) -> TagEnd {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'>' => return TagEnd::Found(at),
            b'<' => return TagEnd::Text(at),
            // A quote opens a value only after `=`; elsewhere it is ignored.
            b'"' | b'\'' if bytes[..at].trim_ascii_end().last() == Some(&b'=') => {
                match memchr::memchr(byte, &bytes[at + 1..]) {
                    Some(close) => at += close + 2,
                    // The value never ends: the tag does, at the first occasion.
                    None => {
                        let end = memchr::memchr(b'>', &bytes[at..]).map(|end| at + end);
                        return end.map_or(TagEnd::Text(bytes.len()), TagEnd::Found);
                    }
                }
            }
            _ => at += 1,
        }
    }
    TagEnd::Text(bytes.len())
}

impl<'a> Iterator for MarkupTokens<'a> {
    type Item = MarkupToken<'a>;

    fn next(&mut self) -> Option<MarkupToken<'a>> {
        let bytes = self.rest.as_bytes();
        let Some(b'<') = bytes.first() else {
            return (!bytes.is_empty()).then(|| self.text(0));
        };
        Some(match bytes.get(1) {
            Some(b'!') if self.rest.starts_with("<!--") => self.comment(),
            Some(b'!') if self.rest.starts_with("<![CDATA[") => MarkupToken::Raw(self.take_to("<![CDATA[", "]]>")),
            Some(b'!') if !self.typed && bytes.get(2).is_some_and(u8::is_ascii_alphabetic) => self.doctype(),
            Some(b'?') => self.declaration(),
            Some(b'!')
                if bytes
                    .get(2)
                    .is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'[' | b'-' | b'>')) =>
            {
                self.declaration()
            }
            Some(b'/') if bytes.get(2).is_some_and(|byte| name_start(*byte)) => {
                let inner = self.take_to("</", ">");
                MarkupToken::End(inner.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default())
            }
            Some(byte) if name_start(*byte) => self.tag(),
            _ => self.text(1),
        })
    }
}

fn name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// The attributes of a tag, read when they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Attributes<'a> {
    rest: &'a str,
}

impl<'a> Attributes<'a> {
    /// The value of the attribute of this name in any case, references resolved.
    pub(crate) fn get(self, name: &str) -> Option<Cow<'a, str>> {
        let mut found = self.into_iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| entity::resolve(value, EntityContext::Attribute))
    }

    /// Whether the tag's text holds this somewhere: a cheap look before [`Attributes::into_iter`].
    pub(crate) fn mention(self, what: &str) -> bool {
        self.rest.contains(what)
    }
}

impl<'a> IntoIterator for Attributes<'a> {
    type Item = (&'a str, &'a str);
    type IntoIter = AttributeIter<'a>;

    fn into_iter(self) -> AttributeIter<'a> {
        AttributeIter { rest: self.rest }
    }
}

/// Names and raw values.
#[derive(Debug)]
pub(crate) struct AttributeIter<'a> {
    rest: &'a str,
}

impl<'a> Iterator for AttributeIter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let rest = self.rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '='));
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let Some(rest) = rest.trim_start().strip_prefix('=').map(str::trim_start) else {
            self.rest = rest;
            return Some((name, ""));
        };
        let quoted = rest.strip_prefix(['"', '\'']).and_then(|inner| inner.split_once(&rest[..1]));
        let (value, rest) = quoted.unwrap_or_else(|| {
            let rest = rest.trim_start_matches(['"', '\'']);
            rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()))
        });
        self.rest = rest;
        Some((name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = MarkupTokens::new(text).map(|token| match token {
            MarkupToken::Start { name, attributes, empty } => {
                let attributes: Vec<_> =
                    attributes.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("<{name} {}{}>", attributes.join(","), if empty { "/" } else { "" })
            }
            MarkupToken::End(name) => format!("</{name}>"),
            MarkupToken::Text(text) => format!("T:{text}"),
            MarkupToken::Raw(text) => format!("R:{text}"),
            MarkupToken::Doctype(_) => "D".to_owned(),
            MarkupToken::Other => "-".to_owned(),
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn sound_markup_is_read() {
        check("<a b='1' c=\"2\">x</a>", "<a b=1,c=2> T:x </a>");
        check("<?xml version='1.0'?><!-- > --><a/>", "- - <a />");
        check("<![CDATA[<x>]]><!DOCTYPE a [<!ENTITY b 'c'>]>d", "R:<x> D T:d");
        check("<a b='>'>", "<a b=>>");
    }

    #[test]
    fn unsound_markup_is_read_too() {
        check("a < b <c>", "T:a  T:< b  <c >");
        check("<a b=1 c d= '2'>", "<a b=1,c=,d=2>");
        check("<a href='x>y", "<a href=x> T:y");
        check("<a b it's>c", "<a b=,it's=> T:c");
        check("<a <b>", "T:<a  <b >");
        check("<![CDATA[x", "R:x");
        check("<!-- <a>b", "- T:b");
        check("a<!-- b", "T:a -");
        check("<a", "T:<a");
        check("</a", "</a>");
        check("<>", "T:<>");
        check("<!DOCTYPE ~", "T:<!DOCTYPE ~");
        check("<!' <a>", "T:<!'  <a >");
        check("<?php", "T:<?php");
    }
}
