//! Source positions of a manifest, for problem messages.

use std::collections::{BTreeMap, BTreeSet};

use crate::layers::{SHORT_KEYS, overrides};
use crate::problem::{Problem, SyntaxError};

/// Position in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextPosition {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Positions of a key and its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceSpan {
    pub(crate) key: TextPosition,
    pub(crate) value: TextPosition,
    /// Columns between the start of the value and its text (1 for a quoted text without escapes). `None` if the text is
    /// written with escapes, so that offsets do not map to columns.
    pub(crate) shift: Option<u32>,
}

/// Source positions by path. Not part of the manifest's content: never stored, and equal to every other.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManifestOrigin {
    pub(crate) file: String,
    pub(crate) spans: BTreeMap<String, SourceSpan>,
    /// Paths whose value was overridden by a job, so that no file holds it.
    pub(crate) overridden: BTreeSet<String>,
}

impl PartialEq for ManifestOrigin {
    fn eq(&self, _: &ManifestOrigin) -> bool {
        true
    }
}

impl ManifestOrigin {
    /// A problem with the value at `path`. A missing value is reported at the start of its section, an inherited value
    /// at its origin.
    pub(crate) fn problem(&self, path: &str, message: impl Into<String>, hint: Option<String>) -> Problem {
        if let Some(setting) = self.overridden.get(path).and_then(|path| setting_path(path)) {
            return overrides::problem(setting, message, hint);
        }
        match self.span_of(path) {
            Some((written, span)) => self.at(span.value, &written, message, hint),
            None => self.at(self.nearest(path), path, message, hint),
        }
    }

    /// A problem at an offset inside the text at `path`.
    pub(crate) fn syntax_problem(&self, path: &str, text: &str, syntax_error: SyntaxError) -> Problem {
        let mut problem = self.problem(path, syntax_error.message, syntax_error.hint);
        if let Some(shift) = self.span_of(path).and_then(|(_, span)| span.shift) {
            let before = text.get(..syntax_error.offset).map_or(0, |before| before.chars().count());
            problem.column += shift + u32::try_from(before).unwrap_or(0);
        }
        problem
    }

    pub(crate) fn at(&self, at: TextPosition, path: &str, message: impl Into<String>, hint: Option<String>) -> Problem {
        let (file, path, message) = (self.file.clone(), path.to_owned(), message.into());
        Problem { file, line: at.line, column: at.column, path, message, hint }
    }

    /// The position of the value at `path`, with the path under which it was written.
    fn span_of(&self, path: &str) -> Option<(String, SourceSpan)> {
        if let Some(span) = self.spans.get(path) {
            return Some((path.to_owned(), *span));
        }
        alternative_paths(path).into_iter().find_map(|path| self.spans.get(&path).copied().map(|span| (path, span)))
    }

    fn nearest(&self, mut path: &str) -> TextPosition {
        while let Some((parent, _)) = path.rsplit_once('.') {
            if let Some((_, span)) = self.span_of(parent) {
                return span.key;
            }
            path = parent;
        }
        self.spans.get("").map(|span| span.value).unwrap_or_default()
    }
}

/// Other paths that a setting of an endpoint may come from, by precedence: its short key, then the defaults.
pub(crate) fn alternative_paths(path: &str) -> Vec<String> {
    let Some(setting) = setting_path(path) else { return Vec::new() };
    let endpoint = path.strip_suffix(setting).unwrap_or_default();
    let short = SHORT_KEYS.iter().find(|(_, section, key)| setting.strip_prefix(section) == Some(&format!(".{key}")));
    let short = short.map(|(short, _, _)| format!("{endpoint}{short}"));
    short.into_iter().chain([format!("defaults.{setting}")]).collect()
}

/// The path of a setting within its endpoint, without the endpoint's name.
fn setting_path(path: &str) -> Option<&str> {
    path.strip_prefix("endpoints.")?.split_once('.').map(|(_, setting)| setting)
}
