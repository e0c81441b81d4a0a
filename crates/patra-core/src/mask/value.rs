//! Where a value begins and ends. A quote may be preceded by backslashes, one level of JSON inside another.

use std::ops::Range;

use super::ansi;

/// Number of backslashes of the quote right before this position, if there is one.
pub(super) fn quote_before(bytes: &[u8], start: usize) -> Option<usize> {
    let (quote, before) = bytes[..start].split_last()?;
    (*quote == b'"').then(|| backslashes(before))
}

/// Position after the closing quote that must be here.
pub(super) fn to_quote(bytes: &[u8], at: usize, depth: usize) -> Option<usize> {
    let end = at + depth;
    let closes = bytes.get(at..end)?.iter().all(|byte| *byte == b'\\') && bytes.get(end) == Some(&b'"');
    closes.then_some(end + 1)
}

/// The inside of a quoted value that begins here. An unclosed one extends to the end of its line.
pub(super) fn quoted(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let depth = bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
    let quote = *bytes.get(at + depth)?;
    if quote == b'\'' && depth == 0 {
        return Some(at + 1..find(bytes, at + 1, |byte| byte == b'\'' || is_line_end(byte)));
    }
    (quote == b'"').then(|| at + depth + 1..closing(bytes, at + depth + 1, depth))
}

/// Position of the quote, with its backslashes, that closes one of this depth.
fn closing(bytes: &[u8], start: usize, depth: usize) -> usize {
    let mut at = start;
    loop {
        at = find(bytes, at, |byte| byte == b'"' || is_line_end(byte));
        let run = backslashes(&bytes[start..at]);
        if bytes.get(at) != Some(&b'"') {
            return at;
        }
        // The backslashes grow with each level: `"`, `\"`, `\\\"`; a quote that is part of the value has another
        // number of them.
        if run % (2 * (depth + 1)) == depth {
            return at - depth;
        }
        at += 1;
    }
}

/// The value of a header: to the end of the line, or of the text that it is quoted in.
pub(super) fn header(bytes: &[u8], at: usize) -> Range<usize> {
    let mut end = at;
    loop {
        end = find(bytes, end, |byte| matches!(byte, b'"' | b'\\' | b'\x1b') || is_line_end(byte));
        // `name="value"` is a cookie in quotes, and part of it.
        let inner = bytes[at..end].ends_with(b"=").then(|| quoted(bytes, end)).flatten();
        let Some(inner) = inner else { return at..end };
        let depth = bytes[end..].iter().take_while(|byte| **byte == b'\\').count();
        end = (inner.end + depth + 1).min(bytes.len());
    }
}

/// A value without quotes; several cookies are separated by `; `.
pub(super) fn delimited(bytes: &[u8], at: usize, several: bool) -> Range<usize> {
    let ends = |byte: u8| {
        byte.is_ascii_whitespace()
            || matches!(byte, b',' | b'&' | b'"' | b'\'' | b'\\' | b')' | b']' | b'}' | b'<' | b'>' | b'|' | b'\x1b')
            || (byte == b';' && !several)
    };
    let mut end = find(bytes, at, ends);
    while several && bytes[at..end].ends_with(b";") && bytes.get(end) == Some(&b' ') {
        end = find(bytes, end + 1, ends);
    }
    at..end
}

/// Blanks and colours.
pub(super) fn gaps(bytes: &[u8], at: usize) -> usize {
    let mut length = 0;
    loop {
        let step = match bytes.get(at + length) {
            Some(b' ' | b'\t') => 1,
            Some(_) => ansi(bytes, at + length),
            None => 0,
        };
        if step == 0 {
            return length;
        }
        length += step;
    }
}

fn find(bytes: &[u8], from: usize, is: impl Fn(u8) -> bool) -> usize {
    let from = from.min(bytes.len());
    bytes[from..].iter().position(|byte| is(*byte)).map_or(bytes.len(), |at| from + at)
}

fn backslashes(before: &[u8]) -> usize {
    before.iter().rev().take_while(|byte| **byte == b'\\').count()
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}
