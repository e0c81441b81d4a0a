//! Arguments that must stand in the template as quoted texts: they are checked where they stand, and what is worth
//! keeping is made once. A pattern or a path that came from outside could neither be checked nor bounded beforehand.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use patra_core::Ts;

use super::engine;
use super::functions::time;
use super::scan::{Sort, Token};
use crate::problem::Flaw;
use crate::selector::Selector;

/// Memory that the patterns of one template may take once they are compiled. `\w`, which knows all of Unicode, takes
/// about 40 KiB each time it stands in a pattern, `[a-z]` next to nothing.
const MAX_PATTERNS: usize = 256 * 1024;
/// What the search keeps grows with states times groups.
const MAX_GROUPS: usize = 8;
/// Smallest size that is tried; then four times as much, and so on.
const SMALLEST: usize = 1024;

/// What an argument is, when more is known of it than that it is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Path,
    Pattern,
    /// For times that are written.
    Format,
    /// For times that are read.
    Reading,
    /// May also be computed.
    Duration,
    /// May also be computed.
    Offset,
}

#[derive(Debug)]
pub(super) struct Prepared {
    text: String,
    thing: Thing,
}

#[derive(Debug)]
enum Thing {
    Path(Selector),
    Pattern(Pattern),
}

#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    /// An upper bound of its memory, and so of the states that it can be in at once.
    pub(super) size: usize,
}

pub(super) fn path<'p>(prepared: &'p [Prepared], text: &str) -> Option<&'p Selector> {
    prepared.iter().find_map(|one| match &one.thing {
        Thing::Path(path) if one.text == text => Some(path),
        _ => None,
    })
}

pub(super) fn pattern<'p>(prepared: &'p [Prepared], text: &str) -> Option<&'p Pattern> {
    prepared.iter().find_map(|one| match &one.thing {
        Thing::Pattern(pattern) if one.text == text => Some(pattern),
        _ => None,
    })
}

/// What has been prepared for a template so far.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    prepared: Vec<Prepared>,
    patterns: usize,
}

impl From<Shelf> for Arc<[Prepared]> {
    fn from(shelf: Shelf) -> Arc<[Prepared]> {
        shelf.prepared.into()
    }
}

impl Shelf {
    /// Checks the argument of `function` that the tokens make up.
    pub(super) fn check(&mut self, function: &str, kind: Kind, text: &str, argument: &[Token]) -> Result<(), Flaw> {
        let Some(first) = argument.first() else { return Ok(()) };
        let [Token { sort: Sort::Text, .. }] = argument else {
            return match kind {
                Kind::Duration | Kind::Offset => Ok(()),
                _ => Err(Flaw::new(first.at, format!("`{function}` needs a quoted text here, not a computed one"))),
            };
        };
        let quoted = first.text(text);
        let value = engine::unquote(quoted).ok_or_else(|| Flaw::new(first.at, "the quoted text cannot be read"))?;
        // With escapes in it, an offset in the value is none in the template.
        let plain = quoted.len() == value.len() + 2;
        self.prepare(kind, &value).map_err(|flaw| {
            let offset = if plain { first.at + 1 + flaw.offset.min(value.len()) } else { first.at };
            Flaw { offset, ..flaw }
        })
    }

    fn prepare(&mut self, kind: Kind, value: &str) -> Result<(), Flaw> {
        let flaw = |message| Flaw::new(0, message);
        let thing = match kind {
            Kind::Duration => return time::duration(value).map(drop).map_err(flaw),
            Kind::Offset => return time::offset(value).map(drop).map_err(flaw),
            Kind::Format => return time::format(SAMPLE, value, None).map(drop).map_err(flaw),
            Kind::Reading => return readable(value).map_err(flaw),
            Kind::Path if path(&self.prepared, value).is_some() => return Ok(()),
            Kind::Pattern if pattern(&self.prepared, value).is_some() => return Ok(()),
            Kind::Path => Thing::Path(Selector::parse(value)?),
            Kind::Pattern => {
                let pattern = compile(value, MAX_PATTERNS - self.patterns).map_err(flaw)?;
                self.patterns += pattern.size;
                Thing::Pattern(pattern)
            }
        };
        self.prepared.push(Prepared { text: value.to_owned(), thing });
        Ok(())
    }
}

/// 2024-02-29T13:14:15.123456Z: every field has a value of its own.
const SAMPLE: Ts = Ts::from_micros(1_709_212_455_123_456);

/// A pattern is fit for reading when it reads what it has written itself.
fn readable(pattern: &str) -> Result<(), String> {
    let sample = time::format(SAMPLE, pattern, None)?;
    time::parse(&sample, pattern).map(drop).map_err(|_| format!("no time can be read with `{pattern}`"))
}

/// The smallest size that holds the pattern is also the measure of the work that a search takes.
fn compile(pattern: &str, room: usize) -> Result<Pattern, String> {
    if pattern.is_empty() {
        return Err("the pattern is empty".to_owned());
    }
    let mut size = SMALLEST;
    let regex = loop {
        // No lazy automaton: a hostile pattern would fill it and empty it again and again.
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
    Ok(Pattern { regex, size })
}

/// The last line of the library's drawing.
fn reason(drawing: &str) -> String {
    let line = drawing.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").chars().take(120).collect()
}
