//! Times that an expression gives and no function has written: those are written by the rules (ING-3.2-12).

use minijinja::Value;

use patra_core::Ts;

use super::rules::TimeStyle;
use super::scan::{KEYWORDS, Sort, Token};

/// The functions that give a time.
const GIVE_TIMES: &[&str] = &["now", "add", "sub", "parse"];

/// Whether an expression gives a time by the way it is written: the function that comes last does. A time within a larger
/// expression is ISO-8601 text, like any other text.
pub(super) fn is_time(text: &str, tokens: &[Token]) -> bool {
    let Some(first) = tokens.first() else { return false };
    let (mut depth, mut last) = (0usize, first.text(text));
    for (place, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        match (token.sort, word) {
            (Sort::Mark, "(" | "[") => depth += 1,
            (Sort::Mark, ")" | "]") => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            (Sort::Mark, "|") => last = tokens.get(place + 1).map_or("", |name| name.text(text)),
            // What is looked up in a time is no time.
            (Sort::Mark, ".") => last = "",
            (Sort::Mark, _) => return false,
            (Sort::Name, word) if KEYWORDS.contains(&word) => return false,
            _ => {}
        }
    }
    GIVE_TIMES.contains(&last)
}

/// The value by the rules; as it is when it is no time after all.
pub(super) fn written(value: Value, times: &TimeStyle) -> Value {
    match value.as_str().and_then(|text| text.parse::<Ts>().ok()) {
        Some(at) => times.write(at),
        None => value,
    }
}
