//! The text before a URL, which shows where the URL ends.

/// Bytes before a URL that are read.
pub(super) const LEFT_BYTES: usize = 48;

/// Attributes whose value is one URL.
const ATTRIBUTES: [&str; 2] = ["href", "src"];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct UrlFrame {
    /// The quote that ends the URL.
    pub(super) close: Option<char>,
    /// In brackets or quotes: text after a Latin letter is then no new sentence.
    pub(super) enclosed: bool,
    /// The value of an attribute: it ends with its quote and nowhere else.
    pub(super) attribute: bool,
    /// The sign of emphasis that stands at both ends.
    pub(super) emphasis: Option<char>,
}

impl UrlFrame {
    /// The frame of a URL that starts at `start`.
    pub(super) fn before(text: &str, start: usize) -> Self {
        let left = &text[boundary(text, start.saturating_sub(LEFT_BYTES))..start];
        let Some(opener) = left.chars().next_back() else { return Self::default() };
        let close = match opener {
            '"' | '\'' => Some(opener),
            '‘' | '’' => Some('’'),
            _ => None,
        };
        Self {
            close,
            enclosed: close.is_some() || is_opener(opener),
            attribute: opener.is_ascii() && close.is_some() && is_attribute(&left[..left.len() - 1]),
            emphasis: Some(opener).filter(|c| matches!(c, '_' | '~')),
        }
    }
}

fn is_opener(c: char) -> bool {
    matches!(c, '(' | '[' | '{' | '<' | '`' | '“' | '”' | '„' | '«' | '»' | '‹' | '›')
        || matches!(c, '（' | '［' | '｛' | '＜' | '「' | '『' | '【' | '《' | '〈' | '〔')
}

/// `href =` at the end of a text.
fn is_attribute(left: &str) -> bool {
    let Some(name) = left.trim_end().strip_suffix('=').map(str::trim_end) else { return false };
    let ends_with = |end: &str| {
        let from = name.len().checked_sub(end.len());
        from.and_then(|from| name.get(from..)).is_some_and(|word| word.eq_ignore_ascii_case(end))
    };
    ATTRIBUTES.into_iter().any(ends_with)
}

/// The next position, from the given one on, that is not inside a character.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(left: &str) -> UrlFrame {
        UrlFrame::before(&format!("{left}http://a"), left.len())
    }

    #[test]
    fn left_side_determines_the_end() {
        let bare = UrlFrame::default();
        for left in ["", "see ", "中", "=", ":", "x=\"1\" ", ">"] {
            assert_eq!(frame(left), bare, "{left}");
        }
        for left in ["(", "[a](", "<", "「", "“", "\\url{"] {
            assert_eq!(frame(left), UrlFrame { enclosed: true, ..bare }, "{left}");
        }
        let quoted = UrlFrame { close: Some('"'), enclosed: true, ..bare };
        for left in ["\"", "title=\"", "say \"", "ahref\"", "{\"url\":\"", "\u{1f600}é=\""] {
            assert_eq!(frame(left), quoted, "{left}");
        }
        for left in ["href=\"", "<a HREF = \"", "data-src=\"", "é\u{1f600}xlink:href=\""] {
            assert_eq!(frame(left), UrlFrame { attribute: true, ..quoted }, "{left}");
        }
        assert_eq!(frame("src='"), UrlFrame { close: Some('\''), enclosed: true, attribute: true, emphasis: None });
        assert_eq!(frame("_").emphasis, Some('_'));
        assert_eq!(frame(&format!("href{}=\"", " ".repeat(100))), quoted, "no further than a few bytes");
        assert_eq!(frame(&"中".repeat(100)), bare);
    }
}
