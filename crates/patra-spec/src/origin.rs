//! Where things were written, and problems made from that.

use std::collections::{BTreeMap, BTreeSet};

use crate::layers::{SHORT, overrides};
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
    /// Paths whose value a trigger has replaced: no file holds it.
    pub(crate) trigger: BTreeSet<String>,
}

impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}

impl Origin {
    /// A problem with the value at `path`, or with its absence: then it is shown where its section begins. What an
    /// endpoint has from elsewhere is shown there.
    pub(crate) fn problem(&self, path: &str, message: impl Into<String>, hint: Option<String>) -> Problem {
        if let Some(setting) = self.trigger.get(path).and_then(|path| inner(path)) {
            return overrides::problem(setting, message, hint);
        }
        match self.written(path) {
            Some((written, place)) => self.at(place.value, &written, message, hint),
            None => self.at(self.nearest(path), path, message, hint),
        }
    }

    /// A problem inside the text at `path`.
    pub(crate) fn flaw(&self, path: &str, text: &str, flaw: Flaw) -> Problem {
        let mut problem = self.problem(path, flaw.message, flaw.hint);
        if let Some(shift) = self.written(path).and_then(|(_, place)| place.shift) {
            let before = text.get(..flaw.offset).map_or(0, |before| before.chars().count());
            problem.column += shift + u32::try_from(before).unwrap_or(0);
        }
        problem
    }

    pub(crate) fn at(&self, at: Pos, path: &str, message: impl Into<String>, hint: Option<String>) -> Problem {
        let (file, path, message) = (self.file.clone(), path.to_owned(), message.into());
        Problem { file, line: at.line, column: at.column, path, message, hint }
    }

    /// Where the value at `path` was written, under the path that it was written with.
    fn written(&self, path: &str) -> Option<(String, Place)> {
        if let Some(place) = self.places.get(path) {
            return Some((path.to_owned(), *place));
        }
        elsewhere(path).into_iter().find_map(|path| self.places.get(&path).copied().map(|place| (path, place)))
    }

    fn nearest(&self, mut path: &str) -> Pos {
        while let Some((parent, _)) = path.rsplit_once('.') {
            if let Some((_, place)) = self.written(parent) {
                return place.key;
            }
            path = parent;
        }
        self.places.get("").map(|place| place.value).unwrap_or_default()
    }
}

/// Where else a setting of an endpoint may come from, the stronger first: its short key, the provenance's defaults.
pub(crate) fn elsewhere(path: &str) -> Vec<String> {
    let Some(setting) = inner(path) else { return Vec::new() };
    let endpoint = path.strip_suffix(setting).unwrap_or_default();
    let short = SHORT.iter().find(|(_, section, key)| setting.strip_prefix(section) == Some(&format!(".{key}")));
    let short = short.map(|(short, _, _)| format!("{endpoint}{short}"));
    short.into_iter().chain([format!("defaults.{setting}")]).collect()
}

/// The path of a setting within its endpoint.
fn inner(path: &str) -> Option<&str> {
    path.strip_prefix("endpoints.")?.split_once('.').map(|(_, setting)| setting)
}
