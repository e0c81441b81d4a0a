//! Masking secrets in text that people will read: log lines, error messages, panics. It is the second line of defence:
//! secrets are not handed to the logger in the first place.
//!
//! It knows names and forms, not values: `web_session=…`, `"cookie_value": "…"`, `Cookie: …`, `Authorization: …`,
//! `Bearer …`, API keys. Escaped quotes (JSON in JSON) and colours of a terminal are seen through.

mod value;

use std::borrow::Cow;
use std::ops::Range;

use self::value::{delimited, gaps, header, quote_before, quoted, to_quote};

/// What stands where a secret stood.
pub const REDACTED: &str = "***REDACTED***";

/// What kind of secret a text seems to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One of the cookies that platforms know an account by.
    Cookie,
    /// A value under a name that only secrets have.
    Member,
    /// A header of cookies.
    CookieHeader,
    Authorization,
    Bearer,
    /// An API key of Patra; its public part is left.
    ApiKey,
}

/// Where something secret stands in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    pub kind: Kind,
    /// What it was found by, small.
    pub name: &'static str,
    pub range: Range<usize>,
}

/// The text without secrets. What holds none is given back as it is.
pub fn mask(text: &str) -> Cow<'_, str> {
    let mut spans = spans(text).peekable();
    if spans.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    for Span { range, .. } in spans {
        out.push_str(&text[from..range.start]);
        out.push_str(REDACTED);
        from = range.end;
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

/// Everything in a text that should be masked and is not, in order.
pub fn spans(text: &str) -> Spans<'_> {
    Spans { bytes: text.as_bytes(), at: 0, fresh: true }
}

#[derive(Debug)]
pub struct Spans<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether a word may begin here.
    fresh: bool,
}

impl Iterator for Spans<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        while let Some(byte) = self.bytes.get(self.at).copied() {
            let gap = gap(self.bytes, self.at);
            if gap > 0 {
                (self.at, self.fresh) = (self.at + gap, true);
                continue;
            }
            let begins = self.fresh && byte.is_ascii_alphabetic();
            self.fresh = !is_word(byte);
            if begins && let Some(span) = found(self.bytes, self.at) {
                (self.at, self.fresh) = (span.range.end, true);
                if span.range.is_empty() || self.bytes[span.range.start..].starts_with(b"***") {
                    continue;
                }
                return Some(span);
            }
            self.at += 1;
        }
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Pair,
    Member,
    Cookies,
    Authorization,
    Bearer,
}

/// Names, small. Sorted by nothing: what follows a name decides whether it is the whole of it.
const NAMES: &[(&str, Form)] = &[
    ("web_session", Form::Pair),
    ("webid", Form::Pair),
    ("a1", Form::Pair),
    ("gid", Form::Pair),
    ("cookie_value", Form::Member),
    ("cookie_encrypted", Form::Member),
    ("token", Form::Member),
    ("access_token", Form::Member),
    ("refresh_token", Form::Member),
    ("api_key", Form::Member),
    ("apikey", Form::Member),
    ("x-api-key", Form::Member),
    ("password", Form::Member),
    ("secret", Form::Member),
    ("client_secret", Form::Member),
    ("clientsecret", Form::Member),
    ("cookie", Form::Cookies),
    ("set-cookie", Form::Cookies),
    ("authorization", Form::Authorization),
    ("proxy-authorization", Form::Authorization),
    ("bearer", Form::Bearer),
];

/// Words that follow `bearer` in a sentence.
const PROSE: &[&str] = &[
    "access",
    "authentication",
    "authorization",
    "credential",
    "credentials",
    "header",
    "scheme",
    "secret",
    "secrets",
    "string",
    "tokens",
];
/// A shorter token is none.
const MIN_BEARER: usize = 6;

fn found(bytes: &[u8], start: usize) -> Option<Span> {
    if let Some(range) = api_key(bytes, start) {
        return Some(Span { kind: Kind::ApiKey, name: "patra", range });
    }
    let rest = &bytes[start..];
    let (name, form) = NAMES.iter().find(|(name, _)| {
        rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes()))
            && rest.get(name.len()).is_none_or(|next| !is_word(*next))
    })?;
    let end = start + name.len();
    match form {
        Form::Bearer => bearer(bytes, end).map(|range| Span { kind: Kind::Bearer, name, range }),
        form => named(bytes, start, name, *form),
    }
}

/// A value behind its name: `name=value`, `"name": "value"`, `name: "value"`, `Name: value`, `("name", "value")`.
fn named(bytes: &[u8], start: usize, name: &'static str, form: Form) -> Option<Span> {
    let is_header = matches!(form, Form::Cookies | Form::Authorization);
    let end = start + name.len();
    let mut at = end + ansi(bytes, end);
    // A quote before the name that does not close behind it begins a longer text.
    let in_quotes = quote_before(bytes, start).and_then(|depth| to_quote(bytes, at, depth));
    at = in_quotes.unwrap_or(at);
    at += gaps(bytes, at);
    let separator = *bytes.get(at)?;
    at += match separator {
        b'=' | b':' => 1,
        b',' if in_quotes.is_some() && is_header && in_a_list(bytes, start) => 1,
        b'%' if bytes[at..].len() >= 3 && bytes[at..at + 3].eq_ignore_ascii_case(b"%3d") => 3,
        _ => return None,
    };
    at += gaps(bytes, at);
    if bytes[at..].starts_with(b"Some(") {
        at += 5;
    }
    let range = match quoted(bytes, at) {
        Some(range) => range,
        None if is_header && separator == b':' && in_quotes.is_none() => header(bytes, at),
        None if separator != b':' && separator != b',' => delimited(bytes, at, is_header),
        None => return None,
    };
    let kind = match form {
        Form::Pair => Kind::Cookie,
        Form::Cookies => Kind::CookieHeader,
        Form::Authorization => Kind::Authorization,
        Form::Member | Form::Bearer => Kind::Member,
    };
    // The name of a cookie is no secret, and sentences speak of cookies; `name=value` is one.
    (form != Form::Cookies || bytes[range.clone()].contains(&b'=') || bytes[range.clone()].starts_with(b"***"))
        .then_some(Span { kind, name, range })
}

/// Whether a name in quotes is the first of a pair, and not the value before the next name of an object.
fn in_a_list(bytes: &[u8], start: usize) -> bool {
    let before = bytes[..start - 1].iter().rev().find(|byte| **byte != b'\\');
    matches!(before, Some(b'(' | b'['))
}

fn bearer(bytes: &[u8], end: usize) -> Option<Range<usize>> {
    let start = end + bytes[end..].iter().take_while(|byte| **byte == b' ').count();
    let is_token = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    let mut token = &bytes[start..start + bytes[start..].iter().take_while(is_token).count()];
    while let [head @ .., b'.'] = token {
        token = head;
    }
    let prose = PROSE.iter().any(|word| token.eq_ignore_ascii_case(word.as_bytes()));
    (start > end && token.len() >= MIN_BEARER && !prose).then(|| start..start + token.len())
}

/// `patra_<8 hex digits>_<48 hex digits>`: the last part.
fn api_key(bytes: &[u8], start: usize) -> Option<Range<usize>> {
    const BEFORE: usize = 15;
    const SECRET: usize = 48;
    let key = bytes.get(start..start + BEFORE + SECRET)?;
    let hex = |part: &[u8]| part.iter().all(u8::is_ascii_hexdigit);
    let is_one = key.starts_with(b"patra_") && hex(&key[6..14]) && key[14] == b'_' && hex(&key[BEFORE..]);
    is_one.then(|| start + BEFORE..start + BEFORE + SECRET)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Length of what stands between words without being one: a colour of the terminal, or a line break that is written out.
fn gap(bytes: &[u8], at: usize) -> usize {
    match bytes[at] {
        b'\\' if matches!(bytes.get(at + 1), Some(b'n' | b'r' | b't')) => 2,
        _ => ansi(bytes, at),
    }
}

/// Length of the escape sequences at this place.
fn ansi(bytes: &[u8], at: usize) -> usize {
    let mut length = 0;
    while bytes[at + length..].starts_with(b"\x1b[") {
        let rest = &bytes[at + length + 2..];
        let inside = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
        length += 2 + inside + usize::from(rest.len() > inside);
    }
    length
}

#[cfg(test)]
mod tests;
