//! The part of a URL between the slashes and the path, which decides whether there is a URL at all.

use super::super::chars::{is_break, is_latin, is_trailing};
use super::super::normal::MAX_URL_BYTES;
use super::super::scheme;
use super::UrlWalker;

/// Longest spelling of a dot that is no dot: `\ [dot\]`.
const MAX_DOT_BYTES: usize = 12;
/// Bytes that are searched for the end of a label.
const MAX_LABEL_BYTES: usize = 256;

impl UrlWalker<'_, '_> {
    /// Reads host and port. False if there is no host that a page could have.
    pub(super) fn authority(&mut self) -> bool {
        self.skip_user();
        let host = self.url.len();
        if self.peek().is_some_and(|(c, _)| c == '[') {
            return self.ipv6() && self.port();
        }
        self.name();
        if let Some(next) = scheme::at(self.text, self.at).filter(|next| next.start >= self.host_start(host)) {
            self.split(next);
        }
        if self.is_placeholder() || self.is_defanged() || self.is_password_of(host) {
            return false;
        }
        if !matches!(self.peek(), Some(('/' | '?' | '#' | ':', _))) {
            let end = self.url[host..].trim_end_matches(['.', '-', '_']).len();
            self.url.truncate(host + end);
        }
        is_plausible(&self.url[host..]) && self.port()
    }

    /// A user name and a password are not even read (POOL-122): everything before the last `@` of the authority, as in a
    /// browser, unless the text before it is a host that the sentence continues after.
    fn skip_user(&mut self) {
        let rest = &self.text[self.at..];
        let (mut end, mut sign) = (0, None);
        for (at, c) in rest.char_indices() {
            if at >= MAX_URL_BYTES || is_break(c) || matches!(c, '/' | '?' | '#') {
                break;
            }
            if c == '@' {
                sign = Some(at);
            }
            end = at + c.len_utf8();
        }
        self.seen = self.seen.max(self.at + end);
        if let Some(sign) = sign.filter(|sign| !is_host_in_sentence(&rest[..*sign])) {
            self.at += sign + 1;
        }
    }

    fn name(&mut self) {
        let host = self.url.len();
        let mut label = host;
        while let Some((c, len)) = self.peek() {
            let part = match c {
                '.' => self.url.len() > host && !self.url.ends_with('.'),
                '%' => self.text[self.at..].bytes().skip(1).take(2).filter(u8::is_ascii_hexdigit).count() == 2,
                _ if c.is_ascii() => c.is_ascii_alphanumeric() || matches!(c, '-' | '_'),
                _ if is_break(c) || is_trailing(c) => false,
                _ => self.frame.enclosed || is_latin(c) || !self.is_sentence_after(label),
            };
            if !part || self.too_long {
                return;
            }
            self.take(c, len);
            if c == '.' {
                label = self.url.len();
            }
        }
    }

    /// Is what stands here no longer the label that begins at the place in the buffer? No top-level domain is Latin
    /// first and then of another script: `http://example.com查看`.
    fn is_sentence_after(&mut self, label: usize) -> bool {
        if !self.url[label..].starts_with(|c: char| c.is_ascii_alphanumeric())
            || !self.url.ends_with(|c: char| c.is_ascii())
        {
            return false;
        }
        let rest = &self.text[self.at..];
        let (mut dot, mut looked) = (false, 0);
        for (at, c) in rest.char_indices().take_while(|(at, _)| *at < MAX_LABEL_BYTES) {
            looked = at + c.len_utf8();
            if dot {
                self.seen = self.seen.max(self.at + looked);
                return !c.is_alphanumeric();
            }
            dot = c == '.';
            if !dot && (c.is_ascii() || is_break(c)) {
                break;
            }
        }
        self.seen = self.seen.max(self.at + looked);
        true
    }

    fn ipv6(&mut self) -> bool {
        let rest = &self.text[self.at + 1..];
        let length =
            rest.bytes().take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')).take(46).count();
        if length == 0 || rest.as_bytes().get(length) != Some(&b']') {
            return false;
        }
        self.url.push_str(&self.text[self.at..self.at + length + 2]);
        self.at += length + 2;
        true
    }

    /// A colon and up to five digits. A colon with nothing behind it is punctuation.
    fn port(&mut self) -> bool {
        if !self.text[self.at..].starts_with(':') {
            return true;
        }
        let digits = self.text[self.at + 1..].bytes().take(6).take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            self.url.push_str(&self.text[self.at..=self.at + digits]);
            self.at += digits + 1;
        } else if self.text[self.at + 1..].starts_with('/') {
            self.at += 1;
        }
        digits < 6
    }

    /// A template, not a URL: `http://{host}/`, `http://www.$name.org`, `http://%s/`, `http:\/\/example\.org`.
    fn is_placeholder(&self) -> bool {
        let rest = &self.text[self.at..];
        rest.starts_with(['{', '$', '%'])
            || rest.starts_with("\\.")
            || (rest.starts_with(['<', '*']) && self.url.ends_with('-'))
    }

    /// An address that is spelled so that nobody opens it by mistake: `evil[.]com`, `evil(dot)com`, `evil [.] com`,
    /// `evil[.com`, `evil.]com`. Its first label is no host.
    fn is_defanged(&mut self) -> bool {
        let rest = &self.text[self.at..];
        self.seen = self.seen.max(self.text.len().min(self.at + MAX_DOT_BYTES));
        if self.url.ends_with('.') {
            let behind = rest.strip_prefix(']').unwrap_or_default();
            return behind.starts_with(|c: char| c.is_ascii_alphanumeric());
        }
        let rest = rest.trim_start_matches('\\');
        let spaced = rest.strip_prefix(' ').unwrap_or(rest);
        let Some(inner) = spaced.strip_prefix(['[', '(', '{']) else { return false };
        let is_dot = |dot: &str| {
            let (Some(word), Some(rest)) = (inner.get(..dot.len()), inner.get(dot.len()..)) else { return false };
            word.eq_ignore_ascii_case(dot) && rest.trim_start_matches('\\').starts_with([']', ')', '}'])
        };
        let opened = rest.strip_prefix("[.").unwrap_or_default();
        [".", "dot"].into_iter().any(is_dot) || opened.starts_with(|c: char| c.is_ascii_alphanumeric())
    }

    /// A password with a character that ends the host (`http://me:pa#ss@example.com/`): no parser finds the host behind
    /// it, and the user name is none.
    fn is_password_of(&mut self, host: usize) -> bool {
        let rest = &self.text[self.at..];
        if self.url[host..].contains('.') || !rest.starts_with(':') {
            return false;
        }
        let (mut end, mut read) = (None, 0);
        for (at, c) in rest[1..].char_indices().take_while(|(at, _)| *at < MAX_URL_BYTES) {
            if c == '@' {
                end = Some(at);
            }
            if c == '@' || is_break(c) {
                break;
            }
            read = at + c.len_utf8();
        }
        self.seen = self.seen.max(self.at + 1 + read);
        let Some(end) = end else { return false };
        let port = rest[1..=end].split(['/', '?', '#']).next().unwrap_or_default();
        !port.is_empty() && !port.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Position of the host in the text, if nothing in it was escaped.
    fn host_start(&self, host: usize) -> usize {
        self.at.saturating_sub(self.url.len() - host)
    }
}

/// Whether the text before an `@` is a host, and a sentence or a list goes on behind it: `a.example,me`, `a.example查看me`.
/// A host there has a dot, no password follows it, and the character after it does not occur between a name and more.
fn is_host_in_sentence(user: &str) -> bool {
    let (name, has_password) = match user.split_once(':') {
        Some((name, _)) => (name, true),
        None => (user, false),
    };
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | '%' | '+' | '@');
    let ends = |(at, c): &(usize, char)| {
        !is_plain(*c) || (!c.is_ascii() && !is_latin(*c) && *at > 0 && name[..*at].is_ascii())
    };
    let Some((at, c)) = name.char_indices().find(ends) else { return false };
    !has_password && !matches!(c, '!' | '$' | '=') && name[..at].contains('.')
}

/// Has a letter or digit; and if it ends in a number, is an address of four.
fn is_plausible(host: &str) -> bool {
    let mut labels = host.rsplit('.');
    let is_number = |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit());
    if labels.next().is_some_and(is_number) {
        return labels.clone().count() == 3 && labels.all(is_number);
    }
    host.chars().any(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_addresses_only_by_four() {
        assert!(is_plausible("127.0.0.1") && is_plausible("localhost") && is_plausible("a1.2b"));
        for none in ["1", "1.2", "1.2.3", "1.2.3.4.5", "a.2", "", "-", "_._"] {
            assert!(!is_plausible(none), "{none}");
        }
    }
}
