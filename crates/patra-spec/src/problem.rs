//! What is wrong with a manifest, said so that the author can mend it: where, what was found, what was expected.

use std::collections::BTreeMap;
use std::fmt;

use patra_core::{Code, Fault, Level};

/// One problem. Line and column count from 1; both are 0 when the manifest did not come from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    pub line: u32,
    pub column: u32,
    /// For example `endpoints.works.pagination.type`; empty for the file as a whole.
    pub path: String,
    pub message: String,
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        } else if !self.file.is_empty() {
            write!(f, "{}: ", self.file)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Everything wrong with one manifest, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// `Ok(value)` when nothing was found.
    pub(crate) fn or<T>(mut found: Vec<Problem>, value: T) -> Result<T, Problems> {
        if found.is_empty() {
            return Ok(value);
        }
        found.sort_by(|a, b| (a.line, a.column).cmp(&(b.line, b.column)));
        Err(Problems(found))
    }

    pub(crate) fn one(problem: Problem) -> Problems {
        Problems(vec![problem])
    }

    pub fn as_slice(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl From<&Problems> for Fault {
    /// A spec that does not compile stops the source until somebody has mended it (ING-3.6-01).
    fn from(problems: &Problems) -> Fault {
        Fault::new(Code::ConfigError, Level::L4, problems.to_string())
    }
}

/// What is wrong inside one text (a template, a selector), at a byte offset in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Flaw {
    pub offset: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl Flaw {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Flaw {
        Flaw { offset, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Flaw {
        self.hint = Some(hint.into());
        self
    }
}

/// A place in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pos {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Where a value was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: Pos,
    pub(crate) value: Pos,
    /// Columns between the start of the value and its text, when the text stands in the file as it is (1 for a quoted
    /// text without escapes). Only then does an offset in the text name a column.
    pub(crate) shift: Option<u32>,
}

/// The side table of places, by path. It is no part of a manifest's meaning: never stored, and equal to every other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) file: String,
    pub(crate) places: BTreeMap<String, Place>,
}

impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}

impl Origin {
    /// A problem with the value at `path`, or with its absence: then it is shown where its section begins.
    pub(crate) fn problem(&self, path: &str, message: impl Into<String>, hint: Option<String>) -> Problem {
        let at = self.places.get(path).map(|place| place.value).unwrap_or_else(|| self.nearest(path));
        self.at(at, path, message, hint)
    }

    /// A problem inside the text at `path`.
    pub(crate) fn flaw(&self, path: &str, text: &str, flaw: Flaw) -> Problem {
        let mut problem = self.problem(path, flaw.message, flaw.hint);
        if let Some(shift) = self.places.get(path).and_then(|place| place.shift) {
            let before = text.get(..flaw.offset).map_or(0, |before| before.chars().count());
            problem.column += shift + u32::try_from(before).unwrap_or(0);
        }
        problem
    }

    pub(crate) fn at(&self, at: Pos, path: &str, message: impl Into<String>, hint: Option<String>) -> Problem {
        let (file, path, message) = (self.file.clone(), path.to_owned(), message.into());
        Problem { file, line: at.line, column: at.column, path, message, hint }
    }

    fn nearest(&self, mut path: &str) -> Pos {
        while let Some((parent, _)) = path.rsplit_once('.') {
            if let Some(place) = self.places.get(parent) {
                return place.key;
            }
            path = parent;
        }
        self.places.get("").map(|place| place.value).unwrap_or_default()
    }
}

/// `did you mean `x`?` when one of the words is close, otherwise the list of them.
pub(crate) fn suggest(found: &str, words: &[&str]) -> Option<String> {
    match closest(found, words) {
        Some(word) => Some(format!("did you mean `{word}`?")),
        None if words.is_empty() => None,
        None => Some(format!("expected one of: {}", words.join(", "))),
    }
}

/// The word at a small edit distance, if there is one.
pub(crate) fn closest<'w>(found: &str, words: &[&'w str]) -> Option<&'w str> {
    let found: Vec<char> = found.to_lowercase().chars().take(64).collect();
    let limit = found.len().div_ceil(3).min(3);
    words
        .iter()
        .map(|word| (distance(&found, &word.to_lowercase().chars().collect::<Vec<_>>()), *word))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, word)| word)
}

/// Levenshtein's distance, one row at a time.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_suggested_and_far_ones_listed() {
        let words = ["token", "offset", "page", "url", "time"];
        assert_eq!(suggest("tokn", &words).as_deref(), Some("did you mean `token`?"));
        assert_eq!(suggest("OFSET", &words).as_deref(), Some("did you mean `offset`?"));
        assert_eq!(suggest("cursor", &words).as_deref(), Some("expected one of: token, offset, page, url, time"));
        assert_eq!(suggest("x", &[]), None);
    }
}
