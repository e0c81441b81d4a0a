//! Reads keys from sections, records their positions, and reports unknown keys.

use std::collections::BTreeSet;

use super::key_schema::SchemaRecorder;
use crate::origin::{ManifestOrigin, SourceSpan, alternative_paths};
use crate::problem::Problem;
use crate::suggest::{closest, suggest};
use crate::yaml::{YamlEntry, YamlNode, YamlValue};

pub(super) struct ManifestReader {
    pub(super) problems: Vec<Problem>,
    pub(super) origin: ManifestOrigin,
    /// Paths that have a problem already, so that later checks do not report them as missing.
    reported_paths: BTreeSet<String>,
    /// Set while the key schemas are recorded.
    pub(super) recorder: Option<SchemaRecorder>,
}

/// A section that is being read.
pub(super) struct SectionReader<'n> {
    pub(super) path: String,
    pub(super) entries: &'n [YamlEntry],
    known: Vec<&'static str>,
}

/// Reads the node at a path, or reports a problem and returns `None`.
pub(super) type ReadFn<T> = fn(&mut ManifestReader, &str, &YamlNode) -> Option<T>;

impl ManifestReader {
    pub(super) fn new(file: &str) -> ManifestReader {
        let origin = ManifestOrigin { file: file.to_owned(), ..ManifestOrigin::default() };
        ManifestReader { problems: Vec::new(), origin, reported_paths: BTreeSet::new(), recorder: None }
    }

    /// Opens a section. A key without a value is an empty section.
    pub(super) fn section<'n>(&mut self, path: &str, node: &'n YamlNode) -> Option<SectionReader<'n>> {
        let entries: &[YamlEntry] = match &node.data {
            YamlValue::Map(entries) => entries,
            YamlValue::Null if !path.is_empty() => &[],
            _ => return self.expected(path, node, "a section with keys"),
        };
        Some(SectionReader { path: path.to_owned(), entries, known: Vec::new() })
    }

    /// The value of a key, if it is present and not null.
    pub(super) fn get<T>(&mut self, section: &mut SectionReader<'_>, key: &'static str, read: ReadFn<T>) -> Option<T> {
        section.known.push(key);
        if self.recorder.is_some() {
            self.probe_key(&section.path, key, read);
            return None;
        }
        let entry = section.entries.iter().find(|entry| entry.key == key)?;
        let path = self.enter(&section.path, key, entry);
        match entry.value.data {
            YamlValue::Null => None,
            _ => read(self, &path, &entry.value),
        }
    }

    /// Records the position of an entry and returns its path.
    pub(super) fn enter(&mut self, parent: &str, name: &str, entry: &YamlEntry) -> String {
        let path = join(parent, name);
        // A section begins at its key; the YAML position is that of its first entry.
        let value = match entry.value.data {
            YamlValue::Map(_) | YamlValue::List(_) => entry.key_at,
            _ => entry.value.at,
        };
        let span = SourceSpan { key: entry.key_at, value, shift: entry.value.shift };
        self.origin.spans.insert(path.clone(), span);
        path
    }

    /// Records the position of a list element and returns its path.
    pub(super) fn element(&mut self, parent: &str, at: usize, node: &YamlNode) -> String {
        let path = format!("{parent}[{at}]");
        let span = SourceSpan { key: node.at, value: node.at, shift: node.shift };
        self.origin.spans.insert(path.clone(), span);
        path
    }

    /// Reads the valid elements of a list.
    pub(super) fn list<T>(&mut self, path: &str, node: &YamlNode, read: ReadFn<T>) -> Option<Vec<T>> {
        let YamlValue::List(items) = &node.data else { return self.expected(path, node, "a list") };
        let mut all = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let path = self.element(path, at, item);
            all.extend(read(self, &path, item));
        }
        Some(all)
    }

    /// Reports the keys that no `get` has read.
    pub(super) fn close(&mut self, section: &SectionReader<'_>) {
        if let Some(recorder) = &mut self.recorder {
            return recorder.keys(&section.path, &section.known);
        }
        for entry in section.entries.iter().filter(|entry| !section.known.contains(&entry.key.as_str())) {
            if let Some(meant) = closest(&entry.key, &section.known) {
                self.reported_paths.insert(join(&section.path, meant));
            }
            let message = format!("unknown key `{}`", entry.key);
            let hint = suggest(&entry.key, &section.known);
            self.problems.push(self.origin.at(entry.key_at, &join(&section.path, &entry.key), message, hint));
        }
    }

    pub(super) fn missing(&mut self, section: &SectionReader<'_>, key: &str) {
        let path = join(&section.path, key);
        if let Some(recorder) = &mut self.recorder {
            return recorder.required(&path);
        }
        if !self.is_covered(&path) {
            self.problems.push(self.origin.problem(&path, format!("`{key}` is missing"), None));
            self.reported_paths.insert(path);
        }
    }

    /// Reports that the node has the wrong type.
    pub(super) fn expected<T>(&mut self, path: &str, node: &YamlNode, expected: &str) -> Option<T> {
        if let Some(recorder) = &mut self.recorder {
            recorder.wrong_type(path);
        }
        self.report(path, node, format!("expected {expected}, found {}", node.describe()), None)
    }

    pub(super) fn report<T>(
        &mut self,
        path: &str,
        node: &YamlNode,
        message: String,
        hint: Option<String>,
    ) -> Option<T> {
        self.problems.push(self.origin.at(node.at, path, message, hint));
        self.reported_paths.insert(path.to_owned());
        None
    }

    /// Whether a problem was reported for this path, for a section that contains it, or for a path that its value may
    /// be inherited from.
    pub(super) fn is_covered(&self, path: &str) -> bool {
        alternative_paths(path).iter().map(String::as_str).chain([path]).any(|path| self.is_reported(path))
    }

    fn is_reported(&self, path: &str) -> bool {
        let mut rest = Some(path);
        while let Some(path) = rest {
            if self.reported_paths.contains(path) {
                return true;
            }
            rest = path.rsplit_once('.').map(|(parent, _)| parent);
        }
        self.reported_paths.contains("")
    }
}

pub(super) fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}
