//! Where things were written, and problems made from that.

use std::collections::BTreeMap;

use crate::problem::{Flaw, Problem};

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
