//! Function arguments that must be quoted literals in the template. They are checked at compile time, and patterns and
//! paths are compiled once. A pattern or path from outside could neither be checked nor bounded in advance.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use patra_core::Ts;

use super::engine;
use super::functions::time;
use super::scan::{ExprToken, TokenKind};
use crate::problem::SyntaxError;
use crate::selector::Selector;

/// Most memory of the compiled patterns of one template. Each `\w`, which covers all of Unicode, takes about 40 KiB;
/// `[a-z]` takes almost nothing.
const MAX_PATTERNS: usize = 256 * 1024;
/// Most capture groups: the memory of a search grows with states times groups.
const MAX_GROUPS: usize = 8;
/// First size limit that is tried; it is multiplied by four until the pattern fits.
const SMALLEST: usize = 1024;

/// The kind of an argument that must be a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LiteralKind {
    Path,
    Pattern,
    /// Pattern for formatting times.
    Format,
    /// Pattern for parsing times.
    ParseFormat,
    /// May also be a computed value.
    Duration,
    /// May also be a computed value.
    Offset,
}

#[derive(Debug)]
pub(super) struct PreparedLiteral {
    text: String,
    value: LiteralValue,
}

#[derive(Debug)]
enum LiteralValue {
    Path(Selector),
    Pattern(SearchPattern),
}

#[derive(Debug)]
pub(super) struct SearchPattern {
    pub(super) regex: Regex,
    /// Upper bound of its memory, and so of its number of states.
    pub(super) size: usize,
}

pub(super) fn path<'p>(prepared: &'p [PreparedLiteral], text: &str) -> Option<&'p Selector> {
    prepared.iter().find_map(|one| match &one.value {
        LiteralValue::Path(path) if one.text == text => Some(path),
        _ => None,
    })
}

pub(super) fn pattern<'p>(prepared: &'p [PreparedLiteral], text: &str) -> Option<&'p SearchPattern> {
    prepared.iter().find_map(|one| match &one.value {
        LiteralValue::Pattern(pattern) if one.text == text => Some(pattern),
        _ => None,
    })
}

/// The literals of a template that have been prepared so far.
#[derive(Debug, Default)]
pub(super) struct PreparedLiterals {
    prepared: Vec<PreparedLiteral>,
    patterns: usize,
}

impl From<PreparedLiterals> for Arc<[PreparedLiteral]> {
    fn from(shelf: PreparedLiterals) -> Arc<[PreparedLiteral]> {
        shelf.prepared.into()
    }
}

impl PreparedLiterals {
    /// Checks one argument of `function`, given as tokens.
    pub(super) fn check(
        &mut self,
        function: &str,
        kind: LiteralKind,
        text: &str,
        argument: &[ExprToken],
    ) -> Result<(), SyntaxError> {
        let Some(first) = argument.first() else { return Ok(()) };
        let [ExprToken { kind: TokenKind::Text, .. }] = argument else {
            return match kind {
                LiteralKind::Duration | LiteralKind::Offset => Ok(()),
                _ => Err(SyntaxError::new(
                    first.at,
                    format!("`{function}` needs a quoted text here, not a computed one"),
                )),
            };
        };
        let quoted = first.text(text);
        let value =
            engine::unquote(quoted).ok_or_else(|| SyntaxError::new(first.at, "the quoted text cannot be read"))?;
        // If the literal has escapes, an offset in the value is not an offset in the template.
        let plain = quoted.len() == value.len() + 2;
        self.prepare(kind, &value).map_err(|syntax_error| {
            let offset = if plain { first.at + 1 + syntax_error.offset.min(value.len()) } else { first.at };
            SyntaxError { offset, ..syntax_error }
        })
    }

    fn prepare(&mut self, kind: LiteralKind, value: &str) -> Result<(), SyntaxError> {
        let syntax_error = |message| SyntaxError::new(0, message);
        let thing = match kind {
            LiteralKind::Duration => return time::duration(value).map(drop).map_err(syntax_error),
            LiteralKind::Offset => return time::offset(value).map(drop).map_err(syntax_error),
            LiteralKind::Format => return time::format(SAMPLE, value, None).map(drop).map_err(syntax_error),
            LiteralKind::ParseFormat => return readable(value).map_err(syntax_error),
            LiteralKind::Path if path(&self.prepared, value).is_some() => return Ok(()),
            LiteralKind::Pattern if pattern(&self.prepared, value).is_some() => return Ok(()),
            LiteralKind::Path => LiteralValue::Path(Selector::parse(value)?),
            LiteralKind::Pattern => {
                let pattern = compile(value, MAX_PATTERNS - self.patterns).map_err(syntax_error)?;
                self.patterns += pattern.size;
                LiteralValue::Pattern(pattern)
            }
        };
        self.prepared.push(PreparedLiteral { text: value.to_owned(), value: thing });
        Ok(())
    }
}

/// 2024-02-29T13:14:15.123456Z: every field has a distinct value.
const SAMPLE: Ts = Ts::from_micros(1_709_212_455_123_456);

/// A pattern is fit for parsing if it can parse its own output.
fn readable(pattern: &str) -> Result<(), String> {
    let sample = time::format(SAMPLE, pattern, None)?;
    time::parse(&sample, pattern).map(drop).map_err(|_| format!("no time can be read with `{pattern}`"))
}

/// Compiles a pattern at the smallest size that holds it. The size also measures the cost of a search.
fn compile(pattern: &str, room: usize) -> Result<SearchPattern, String> {
    if pattern.is_empty() {
        return Err("the pattern is empty".to_owned());
    }
    let mut size = SMALLEST;
    let regex = loop {
        // No lazy DFA: a hostile pattern would fill and clear its cache repeatedly.
        match RegexBuilder::new(pattern).size_limit(size).dfa_size_limit(0).nest_limit(32).build() {
            Ok(regex) => break regex,
            Err(regex::Error::CompiledTooBig(_)) if size < room => size = (size * 4).min(room),
            Err(regex::Error::CompiledTooBig(_)) => {
                return Err(format!(
                    "the patterns of a template take at most {} KiB once compiled; `[0-9]` takes less than `\\d`, `[a-z]` less than `\\w`",
                    MAX_PATTERNS / 1024
                ));
            }
            Err(error) => return Err(format!("the pattern cannot be read: {}", reason(&error.to_string()))),
        }
    };
    if regex.captures_len() > MAX_GROUPS + 1 {
        return Err(format!("a pattern has at most {MAX_GROUPS} groups"));
    }
    Ok(SearchPattern { regex, size })
}

/// The last line of the library's multi-line message.
fn reason(drawing: &str) -> String {
    let line = drawing.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").chars().take(120).collect()
}
