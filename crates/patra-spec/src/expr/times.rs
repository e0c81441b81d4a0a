//! Finds expressions whose result is a time that no function has formatted; the rules format it (ING-3.2-12).

use minijinja::Value;

use patra_core::Ts;

use super::rules::TimeStyle;
use super::scan::{ExprToken, KEYWORDS, TokenKind};

/// Functions that return a time.
const GIVE_TIMES: &[&str] = &["now", "add", "sub", "parse"];

/// Whether the result of an expression is a time, judged by the last function. A time within a larger expression is
/// ISO-8601 text.
pub(super) fn is_time(text: &str, tokens: &[ExprToken]) -> bool {
    let Some(first) = tokens.first() else { return false };
    let (mut depth, mut last) = (0usize, first.text(text));
    for (index, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        match (token.kind, word) {
            (TokenKind::Mark, "(" | "[") => depth += 1,
            (TokenKind::Mark, ")" | "]") => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            (TokenKind::Mark, "|") => last = tokens.get(index + 1).map_or("", |name| name.text(text)),
            // A member of a value is not a time.
            (TokenKind::Mark, ".") => last = "",
            (TokenKind::Mark, _) => return false,
            (TokenKind::Name, word) if KEYWORDS.contains(&word) => return false,
            _ => {}
        }
    }
    GIVE_TIMES.contains(&last)
}

/// Formats the value by the rules; a value that is not a time is unchanged.
pub(super) fn format_time(value: Value, times: &TimeStyle) -> Value {
    match value.as_str().and_then(|text| text.parse::<Ts>().ok()) {
        Some(at) => times.write(at),
        None => value,
    }
}
