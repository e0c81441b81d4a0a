//! Paths in a JSON document: the plain paths of JSONPath, such as `$.message['next-cursor']` and `$.title[0]`.
//! Wildcards and filters of RFC 9535 are not supported.

use std::fmt;

use crate::problem::SyntaxError;

/// Longest path, in bytes, and most steps in it.
const MAX_BYTES: usize = 1_024;
const MAX_STEPS: usize = 32;

/// A parsed path. Without segments it selects the document itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    segments: Vec<PathSegment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathSegment {
    Key(String),
    Index(usize),
}

impl Selector {
    pub fn parse(text: &str) -> Result<Selector, SyntaxError> {
        if text.len() > MAX_BYTES {
            return Err(SyntaxError::new(
                0,
                format!("the path has {} bytes, at most {MAX_BYTES} are allowed", text.len()),
            ));
        }
        if !text.starts_with('$') {
            let hint = format!("write `$.{}`", text.trim_start_matches('.'));
            return Err(SyntaxError::new(0, "a path begins with `$`").hint(hint));
        }
        let mut segments = Vec::new();
        let mut at = 1;
        while at < text.len() {
            if segments.len() == MAX_STEPS {
                return Err(SyntaxError::new(at, format!("a path has at most {MAX_STEPS} steps")));
            }
            let (segment, len) = segment(&text[at..])
                .map_err(|syntax_error| SyntaxError { offset: syntax_error.offset + at, ..syntax_error })?;
            segments.push(segment);
            at += len;
        }
        Ok(Selector { segments })
    }

    pub fn segments(&self) -> &[PathSegment] {
        &self.segments
    }
}

impl fmt::Display for Selector {
    /// Prints one normalised spelling: dotted if the name allows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        for segment in &self.segments {
            match segment {
                PathSegment::Index(index) => write!(f, "[{index}]")?,
                PathSegment::Key(key) if name_len(key) == key.len() && !key.is_empty() => write!(f, ".{key}")?,
                PathSegment::Key(key) => write!(f, "['{}']", key.replace('\\', "\\\\").replace('\'', "\\'"))?,
            }
        }
        Ok(())
    }
}

/// The first segment of `rest` and its length in bytes.
fn segment(rest: &str) -> Result<(PathSegment, usize), SyntaxError> {
    if rest.starts_with("..") {
        return Err(plain_only(0, "`..`"));
    }
    if let Some(name) = rest.strip_prefix('.') {
        return dotted(name).map(|(segment, len)| (segment, len + 1));
    }
    if let Some(inner) = rest.strip_prefix('[') {
        return bracketed(inner)
            .map_err(|syntax_error| SyntaxError { offset: syntax_error.offset + 1, ..syntax_error });
    }
    Err(SyntaxError::new(0, format!("expected `.name` or `[…]`, found {}", crate::problem::quote(rest))))
}

fn dotted(name: &str) -> Result<(PathSegment, usize), SyntaxError> {
    let len = name_len(name);
    if len > 0 {
        // RFC 9535 does not allow `-` in a dotted name; this is a common mistake.
        if name[len..].starts_with('-') {
            let whole: String = name.chars().take_while(|c| !matches!(c, '.' | '[')).collect();
            return Err(SyntaxError::new(1, "a dotted name has letters, digits and `_` only")
                .hint(format!("write `['{whole}']`")));
        }
        return Ok((PathSegment::Key(name[..len].to_owned()), len));
    }
    match name.chars().next() {
        Some('*') => Err(plain_only(1, "`*`")),
        Some(c) if c.is_ascii_digit() => Err(SyntaxError::new(1, "a dotted name does not begin with a digit")
            .hint("write an array index as `[0]`, a name as `['0']`")),
        _ => Err(SyntaxError::new(1, "a name is missing after `.`")),
    }
}

/// Length of the leading name: letters, digits, `_` and non-ASCII characters, not beginning with a digit (RFC 9535).
fn name_len(text: &str) -> usize {
    let first = text.chars().next();
    if first.is_some_and(|c| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii())).unwrap_or(text.len())
}

/// Parses what follows `[`. The returned length counts both brackets.
fn bracketed(inner: &str) -> Result<(PathSegment, usize), SyntaxError> {
    let (segment, len) = match inner.chars().next() {
        Some(quote @ ('\'' | '"')) => quoted(inner, quote)?,
        Some(c) if c.is_ascii_digit() => index(inner)?,
        Some('*') => return Err(plain_only(0, "`*`")),
        Some('?') => return Err(plain_only(0, "a filter")),
        Some('-') => return Err(plain_only(0, "a negative index")),
        Some(':') => return Err(plain_only(0, "a slice")),
        _ => return Err(SyntaxError::new(0, "expected an index or a quoted name").hint("write `['name']` or `[0]`")),
    };
    match inner[len..].chars().next() {
        Some(']') => Ok((segment, len + 2)),
        Some(',') => Err(plain_only(len, "a list of names")),
        Some(':') => Err(plain_only(len, "a slice")),
        _ => Err(SyntaxError::new(len, "`]` is missing")),
    }
}

fn index(inner: &str) -> Result<(PathSegment, usize), SyntaxError> {
    let len = inner.find(|c: char| !c.is_ascii_digit()).unwrap_or(inner.len());
    // Ten digits are more than any array has, and fit every platform's index.
    let number = inner[..len].parse::<u32>().map_err(|_| SyntaxError::new(0, "the index is too large"))?;
    Ok((PathSegment::Index(usize::try_from(number).unwrap_or(usize::MAX)), len))
}

fn quoted(inner: &str, quote: char) -> Result<(PathSegment, usize), SyntaxError> {
    let mut name = String::new();
    let mut chars = inner.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, escaped @ ('\\' | '\'' | '"' | '/'))) => name.push(escaped),
                _ => return Err(SyntaxError::new(at, "only \\\\, \\' and \\\" are known escapes here")),
            },
            c if c == quote => return Ok((PathSegment::Key(name), at + 1)),
            c => name.push(c),
        }
    }
    Err(SyntaxError::new(0, "the quoted name has no end"))
}

fn plain_only(offset: usize, what: &str) -> SyntaxError {
    SyntaxError::new(offset, format!("{what} is not supported: only plain paths are"))
        .hint("a plain path selects one value, as in `$.message['next-cursor']` or `$.title[0]`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match Selector::parse(text) {
            Ok(selector) => selector.segments().iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(" "),
            Err(syntax_error) => format!("{}: {syntax_error}", syntax_error.offset),
        };
        assert_eq!(shown, expected, "{text}");
    }

    // covers: ING-4.7-03
    #[test]
    fn plain_paths_are_read() {
        check("$", "");
        check("$.message.items", r#"Key("message") Key("items")"#);
        check("$.message['next-cursor']", r#"Key("message") Key("next-cursor")"#);
        check("$[\"a.b\"][0].c_1", r#"Key("a.b") Index(0) Key("c_1")"#);
        check("$['it\\'s'].größe", r#"Key("it's") Key("größe")"#);
        check("$['']", r#"Key("")"#);
    }

    #[test]
    fn unsupported_syntax_is_reported_at_its_offset() {
        check("items", "0: a path begins with `$`");
        check("", "0: a path begins with `$`");
        check("$.", "2: a name is missing after `.`");
        check("$.a..b", "3: `..` is not supported: only plain paths are");
        check("$.a.*", "4: `*` is not supported: only plain paths are");
        check("$[*]", "2: `*` is not supported: only plain paths are");
        check("$.a[?(@.b)]", "4: a filter is not supported: only plain paths are");
        check("$[-1]", "2: a negative index is not supported: only plain paths are");
        check("$[0:2]", "3: a slice is not supported: only plain paths are");
        check("$['a','b']", "5: a list of names is not supported: only plain paths are");
        check("$.next-cursor", "2: a dotted name has letters, digits and `_` only");
        check("$.0", "2: a dotted name does not begin with a digit");
        check("$[99999999999]", "2: the index is too large");
        check("$['a'", "5: `]` is missing");
        check("$['a", "2: the quoted name has no end");
        check("$[a]", "2: expected an index or a quoted name");
        check("$ .a", "1: expected `.name` or `[…]`, found \" .a\"");
        check(&format!("${}", ".a".repeat(40)), "65: a path has at most 32 steps");
        check(&format!("$.{}", "a".repeat(2_000)), "0: the path has 2002 bytes, at most 1024 are allowed");
    }

    #[test]
    fn path_prints_its_normalised_form() {
        for text in ["$", "$.message['next-cursor'].items[3]", "$['it\\'s']['a\\\\b']", "$['']['0']"] {
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selector.to_string(), text);
            assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
