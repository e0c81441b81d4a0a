//! Masks secrets in text that people will read: log lines, error messages, panics. This is the second line of
//! defence: secrets are not handed to the logger in the first place.
//!
//! It knows names and forms, not values: `web_session=…`, `"cookie_value": "…"`, `Cookie: …`, `Authorization: …`,
//! `Bearer …`, API keys. Escaped quotes (JSON in JSON) and terminal colours are handled.

mod value;

use std::borrow::Cow;
use std::ops::Range;

use self::value::{delimited, gaps, header, quote_before, quoted, to_quote};

/// Replaces a secret.
pub const REDACTED: &str = "***REDACTED***";

/// Kind of a detected secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecretKind {
    /// A session cookie of a platform.
    Cookie,
    /// A value under a name that only secrets have.
    Member,
    /// A Cookie header.
    CookieHeader,
    Authorization,
    Bearer,
    /// A Patra API key; its public part is left.
    ApiKey,
}

/// Position of a secret in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretSpan {
    pub kind: SecretKind,
    /// The name that it was found by, lower case.
    pub name: &'static str,
    pub range: Range<usize>,
}

/// The text with secrets masked. A text without secrets is returned as it is.
pub fn mask(text: &str) -> Cow<'_, str> {
    let mut spans = spans(text).peekable();
    if spans.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    for SecretSpan { range, .. } in spans {
        out.push_str(&text[from..range.start]);
        out.push_str(REDACTED);
        from = range.end;
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

/// All unmasked secrets in a text, in order.
pub fn spans(text: &str) -> SecretSpans<'_> {
    SecretSpans { bytes: text.as_bytes(), at: 0, fresh: true }
}

#[derive(Debug)]
pub struct SecretSpans<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether a word may begin here.
    fresh: bool,
}

impl Iterator for SecretSpans<'_> {
    type Item = SecretSpan;

    fn next(&mut self) -> Option<SecretSpan> {
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
enum SecretForm {
    Pair,
    Member,
    Cookies,
    Authorization,
    Bearer,
}

/// Names, lower case. The order does not matter: the characters that follow decide whether the name is complete.
const NAMES: &[(&str, SecretForm)] = &[
    ("web_session", SecretForm::Pair),
    ("webid", SecretForm::Pair),
    ("a1", SecretForm::Pair),
    ("gid", SecretForm::Pair),
    ("cookie_value", SecretForm::Member),
    ("cookie_encrypted", SecretForm::Member),
    ("token", SecretForm::Member),
    ("access_token", SecretForm::Member),
    ("refresh_token", SecretForm::Member),
    ("api_key", SecretForm::Member),
    ("apikey", SecretForm::Member),
    ("x-api-key", SecretForm::Member),
    ("password", SecretForm::Member),
    ("secret", SecretForm::Member),
    ("client_secret", SecretForm::Member),
    ("clientsecret", SecretForm::Member),
    ("cookie", SecretForm::Cookies),
    ("set-cookie", SecretForm::Cookies),
    ("authorization", SecretForm::Authorization),
    ("proxy-authorization", SecretForm::Authorization),
    ("bearer", SecretForm::Bearer),
];

/// What our own hints write in place of a key.
const PLACEHOLDERS: &[&str] = &["Bearer <key>", "Bearer KEY"];
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
/// Minimum length of a bearer token.
const MIN_BEARER: usize = 6;
/// Maximum length of an option's name: longer ones are taken for tokens.
const LONGEST_OPTION: usize = 24;

fn found(bytes: &[u8], start: usize) -> Option<SecretSpan> {
    if let Some(range) = api_key(bytes, start) {
        return Some(SecretSpan { kind: SecretKind::ApiKey, name: "patra", range });
    }
    let rest = &bytes[start..];
    let (name, form) = NAMES.iter().find(|(name, _)| {
        rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes()))
            && rest.get(name.len()).is_none_or(|next| !is_word(*next))
    })?;
    let end = start + name.len();
    match form {
        SecretForm::Bearer => bearer(bytes, end).map(|range| SecretSpan { kind: SecretKind::Bearer, name, range }),
        form => named(bytes, start, name, *form),
    }
}

/// A value after its name: `name=value`, `"name": "value"`, `name: "value"`, `Name: value`, `("name", "value")`.
fn named(bytes: &[u8], start: usize, name: &'static str, form: SecretForm) -> Option<SecretSpan> {
    let is_header = matches!(form, SecretForm::Cookies | SecretForm::Authorization);
    let end = start + name.len();
    let mut at = end + ansi(bytes, end);
    // A quote before the name that does not close after it begins a longer text.
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
    if form == SecretForm::Authorization && is_placeholder(&bytes[range.clone()]) {
        return None;
    }
    let kind = match form {
        SecretForm::Pair => SecretKind::Cookie,
        SecretForm::Cookies => SecretKind::CookieHeader,
        SecretForm::Authorization => SecretKind::Authorization,
        SecretForm::Member | SecretForm::Bearer => SecretKind::Member,
    };
    // The name of a cookie is no secret, and prose mentions cookies; `name=value` is one.
    (form != SecretForm::Cookies || bytes[range.clone()].contains(&b'=') || bytes[range.clone()].starts_with(b"***"))
        .then_some(SecretSpan { kind, name, range })
}

/// Whether the header's value begins with one of our placeholders, as a whole word.
fn is_placeholder(value: &[u8]) -> bool {
    PLACEHOLDERS.iter().any(|placeholder| {
        value.strip_prefix(placeholder.as_bytes()).is_some_and(|rest| rest.first().is_none_or(|next| !is_word(*next)))
    })
}

/// Whether a quoted name is the first of a pair, and not the value before the next name of an object.
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
    (start > end && token.len() >= MIN_BEARER && !prose && !is_option(token)).then(|| start..start + token.len())
}

/// Whether this is an option of a command, as in `--type bearer --provenance x`: our own hints contain such commands.
fn is_option(token: &[u8]) -> bool {
    let name = token.strip_prefix(b"--").unwrap_or_default();
    !name.is_empty()
        && name.len() <= LONGEST_OPTION
        && name.split(|byte| *byte == b'-').all(|word| !word.is_empty() && word.iter().all(u8::is_ascii_lowercase))
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

/// Length of a separator between words: a terminal colour, or an escaped line break.
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
        // A letter ends the sequence. Anything else is no part of it.
        length += 2 + inside + usize::from(rest.get(inside).is_some_and(|byte| matches!(byte, b'@'..=b'~')));
    }
    length
}

#[cfg(test)]
mod tests;
