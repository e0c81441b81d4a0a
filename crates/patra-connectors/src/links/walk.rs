//! Reads a URL from its scheme to its end, one character after the other, into a buffer with all escapes of the text
//! undone.

mod host;

use super::chars::{is_break, is_hiragana, is_long_dash, is_trailing, is_unspaced};
use super::escape::{self, MAX_UNIT_BYTES};
use super::frame::UrlFrame;
use super::normal::MAX_WRITTEN_BYTES;
use super::scheme::{self, MAX_SLASHES_BYTES, Scheme};

/// Bytes after the URL that may have been read.
const LOOK_AHEAD_BYTES: usize = MAX_UNIT_BYTES + MAX_SLASHES_BYTES;

/// Characters behind which a second URL is a part of the first: a page of an archive, the parameter of a redirection.
const NESTING: [char; 9] = ['/', '=', '?', '&', '#', ':', '+', '@', '~'];

/// Text after a scheme. Each position is where the search continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlStep {
    Url(usize),
    Nothing(usize),
    TooLong(usize),
    /// The text ends before the URL surely does.
    Undecided,
}

/// Reads the URL behind a scheme into the buffer. `last` says that no more text will follow.
pub(super) fn follow(text: &str, scheme: Scheme, last: bool, url: &mut String) -> UrlStep {
    let frame = UrlFrame::before(text, scheme.start);
    if frame.attribute {
        let mut walk = UrlWalker::new(text, scheme, frame, url);
        let whole = walk.attribute();
        if walk.is_undecided(last) {
            return UrlStep::Undecided;
        }
        if whole {
            return UrlStep::Url(walk.at);
        }
    }
    let mut walk = UrlWalker::new(text, scheme, frame, url);
    let found = walk.plain();
    match walk.at {
        at if walk.too_long => UrlStep::TooLong(at),
        _ if walk.is_undecided(last) => UrlStep::Undecided,
        at if found => UrlStep::Url(at),
        at => UrlStep::Nothing(at),
    }
}

/// Reads a text that is one URL from its first to its last character, with any punctuation at its end.
pub(super) fn whole(text: &str, url: &mut String) -> bool {
    let Some(scheme) = memchr::memchr(b':', text.as_bytes()).and_then(|colon| scheme::at(text, colon)) else {
        return false;
    };
    scheme.start == 0 && UrlWalker::new(text, scheme, UrlFrame::default(), url).reaches_end()
}

struct UrlWalker<'t, 'u> {
    text: &'t str,
    start: usize,
    at: usize,
    /// Position up to which the text was read.
    seen: usize,
    frame: UrlFrame,
    url: &'u mut String,
    /// Open brackets: their closing characters, and their positions in the buffer.
    open: Vec<(char, usize)>,
    in_query: bool,
    too_long: bool,
}

impl<'t, 'u> UrlWalker<'t, 'u> {
    fn new(text: &'t str, scheme: Scheme, frame: UrlFrame, url: &'u mut String) -> Self {
        url.clear();
        url.push_str(scheme.name);
        url.push_str("://");
        let (start, at) = (scheme.start, scheme.end);
        Self { text, start, at, seen: at, frame, url, open: Vec::new(), in_query: false, too_long: false }
    }

    fn is_undecided(&self, last: bool) -> bool {
        !last && self.seen.max(self.at) + LOOK_AHEAD_BYTES > self.text.len()
    }

    fn peek(&self) -> Option<(char, usize)> {
        escape::unit(&self.text[self.at..])
    }

    fn take(&mut self, c: char, len: usize) {
        self.url.push(c);
        self.at += len;
        self.too_long |= self.at - self.start > MAX_WRITTEN_BYTES;
    }

    /// The value of an attribute: spaces between words are part of it, and its quote ends it. One that is not closed,
    /// or is put together from pieces (`'https://a/' + b`), was none.
    fn attribute(&mut self) -> bool {
        while let Some((c, len)) = self.peek() {
            match c {
                _ if len == 1 && Some(c) == self.frame.close => return true,
                '<' | '>' | '{' | '\n' | '\r' if len == 1 => return false,
                ' ' if self.text[self.at + 1..].starts_with(['+', '.', '~', '|']) => return false,
                ':' if self.next_url().is_some() => return false,
                _ => self.take(c, len),
            }
            if self.too_long {
                return false;
            }
        }
        false
    }

    fn reaches_end(&mut self) -> bool {
        if !self.authority() || !matches!(self.peek(), None | Some(('/' | '?' | '#', _))) {
            return false;
        }
        while let Some((c, len)) = self.peek() {
            if self.too_long || is_break(c) || c == '{' || (c == ':' && self.next_url().is_some()) {
                return false;
            }
            self.take(c, len);
        }
        !self.too_long
    }

    /// A URL among other text. False if there is none.
    fn plain(&mut self) -> bool {
        if !self.authority() {
            return false;
        }
        let host_end = self.url.len();
        if matches!(self.peek(), Some(('/' | '?' | '#', _))) {
            self.path();
            self.trim(host_end);
        }
        true
    }

    fn path(&mut self) {
        loop {
            self.take_plain();
            let Some((c, len)) = self.peek() else { return };
            if self.too_long {
                return;
            }
            if c == ':'
                && let Some(next) = self.next_url()
            {
                self.split(next);
                return;
            }
            if !self.continues(c, len) {
                return;
            }
            self.in_query |= matches!(c, '?' | '#');
            self.take(c, len);
        }
    }

    /// Takes plain bytes all at once: these are most of a URL.
    fn take_plain(&mut self) {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take(MAX_WRITTEN_BYTES + 1).take_while(|byte| is_plain(*byte)).count();
        self.url.push_str(&rest[..length]);
        self.at += length;
        self.too_long |= self.at - self.start > MAX_WRITTEN_BYTES;
    }

    /// Is the character a part of the path, the query or the fragment?
    fn continues(&mut self, c: char, len: usize) -> bool {
        match c {
            _ if is_break(c) || Some(c) == self.frame.close => false,
            '|' => matches!(self.frame.close, Some('"' | '\'')),
            // In a path, brackets are notes and markup: `http://a/b[1]`.
            '[' | ']' if !self.in_query => false,
            '(' if self.is_remark(len) => false,
            '(' => self.opens(')'),
            '[' => self.opens(']'),
            // Braces in a value may be an id or JSON. Elsewhere they are placeholders.
            '{' if self.url.ends_with('=') => self.opens('}'),
            '{' => false,
            ',' | ';' if self.url.ends_with('/') => false,
            ')' | ']' | '}' => self.open.pop_if(|(closer, _)| *closer == c).is_some(),
            _ if c.is_ascii() || self.frame.enclosed => true,
            _ if is_long_dash(c) => self.url.ends_with('_'),
            _ if is_unspaced(c) => self.goes_on_with(c),
            _ => true,
        }
    }

    fn opens(&mut self, closer: char) -> bool {
        self.open.push((closer, self.url.len()));
        true
    }

    /// A bracket with words of a script without spaces: `http://a/b(参考)`. In titles an underscore stands before it.
    fn is_remark(&self, len: usize) -> bool {
        let inside = escape::unit(&self.text[self.at + len..]);
        !self.frame.enclosed && !self.url.ends_with('_') && inside.is_some_and(|(c, _)| is_unspaced(c))
    }

    /// Behind a Latin letter, a script without spaces is the sentence that goes on. Behind a slash it is a name, unless
    /// it looks like a particle.
    fn goes_on_with(&self, c: char) -> bool {
        match self.url.chars().next_back() {
            Some(before) if before.is_ascii_alphanumeric() => false,
            Some(before) if before.is_ascii() => !is_hiragana(c),
            _ => true,
        }
    }

    /// The URL that begins here, at its colon, if it does not belong to this one: `http://a,http://b`.
    fn next_url(&self) -> Option<Scheme> {
        let next = scheme::at(self.text, self.at)?;
        let before = &self.url[..self.url.len().checked_sub(next.name.len())?];
        let escape = before.len().checked_sub(3).and_then(|from| before.get(from..));
        let nested = before.ends_with(NESTING) || escape.is_some_and(|escape| escape.starts_with('%'));
        (!nested && next.start > self.start).then_some(next)
    }

    /// Ends before the next URL, whose scheme was read already.
    fn split(&mut self, next: Scheme) {
        self.url.truncate(self.url.len() - next.name.len());
        self.at = next.start;
    }

    /// Removes the end that belongs to the sentence: brackets that nothing closes, arrows, punctuation, emphasis.
    fn trim(&mut self, host_end: usize) {
        if let Some((_, at)) = self.open.first() {
            self.url.truncate(*at);
        }
        let rest = &self.text[self.at..];
        let joint: &[char] = match rest.as_bytes().first() {
            // `-->`, `=>`
            Some(b'>') => &['-', '='],
            // `/${name}`
            Some(b'{') => &['$', '#'],
            _ => &[],
        };
        let mut path = self.url[host_end..].trim_end_matches(joint);
        let is_sentence = |c: char| is_trailing(c) || self.frame.emphasis == Some(c);
        while let Some(rest) = path.strip_suffix(is_sentence).filter(|_| !closes_quote(path)) {
            path = rest;
        }
        let end = host_end + without_position(path).len();
        self.url.truncate(end);
    }
}

/// Whether the last character is a quote that was opened before: `?b='c'` (POOL-45).
fn closes_quote(path: &str) -> bool {
    path.ends_with('\'') && path.matches('\'').count().is_multiple_of(2)
}

/// Bytes that belong to a path or query whatever their neighbours are.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~' | b'%' | b'+' | b'=' | b'@' | b'!' | b'$' | b'*')
}

/// Without line and column, as in the traces of scripts: `app.js:10:15`.
fn without_position(path: &str) -> &str {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((rest, _)) = path.rsplit_once(':').filter(|(_, column)| number(column)) else { return path };
    match rest.rsplit_once(':') {
        Some((file, line)) if number(line) && file.ends_with(|c: char| c.is_ascii_alphabetic()) => file,
        _ => path,
    }
}
