//! Problems of a manifest, written so that the author can fix them: position, what was found, what was expected.

use std::collections::BTreeSet;
use std::fmt;

use patra_core::{Code, Fault, Level};

/// One problem. Line and column count from 1; both are 0 when the manifest did not come from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    pub line: u32,
    pub column: u32,
    /// Path of the setting, for example `endpoints.works.pagination.type`; empty for the file as a whole.
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
    /// `Ok(value)` if there are no problems.
    pub(crate) fn or<T>(mut found: Vec<Problem>, value: T) -> Result<T, Problems> {
        if found.is_empty() {
            return Ok(value);
        }
        found.sort_by_key(|problem| (problem.line, problem.column));
        // A problem that several endpoints inherit from one place is reported once.
        let mut reported = BTreeSet::new();
        found.retain(|problem| reported.insert((problem.path.clone(), problem.message.clone())));
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
    /// A manifest that does not compile halts the source until it is fixed (ING-3.6-01).
    fn from(problems: &Problems) -> Fault {
        Fault::new(Code::ConfigError, Level::L4, problems.to_string())
    }
}

/// An error inside one text (a template, a selector), at a byte offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    pub offset: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl SyntaxError {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError { offset, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> SyntaxError {
        self.hint = Some(hint.into());
        self
    }
}

/// Quotes and shortens a text for a message.
pub(crate) fn quote(text: &str) -> String {
    format!("{:?}", shorten(text))
}

pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
