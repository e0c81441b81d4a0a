//! The decoder's hands: takes keys out of sections, remembers where each stood, and reports what nobody took.

use std::collections::BTreeSet;

use super::tour::Tour;
use crate::origin::{Origin, Place, elsewhere};
use crate::problem::Problem;
use crate::suggest::{closest, suggest};
use crate::yaml::{Data, Entry, Node};

pub(super) struct Reader {
    pub(super) problems: Vec<Problem>,
    pub(super) origin: Origin,
    /// Paths whose problem has been said: a later check must not say "missing" about them.
    excused: BTreeSet<String>,
    /// Set while the reader is asked what it accepts.
    pub(super) tour: Option<Tour>,
}

/// A map being read.
pub(super) struct Section<'n> {
    pub(super) path: String,
    pub(super) entries: &'n [Entry],
    known: Vec<&'static str>,
}

/// Reads the node at a path, or reports and gives nothing.
pub(super) type Read<T> = fn(&mut Reader, &str, &Node) -> Option<T>;

impl Reader {
    pub(super) fn new(file: &str) -> Reader {
        let origin = Origin { file: file.to_owned(), ..Origin::default() };
        Reader { problems: Vec::new(), origin, excused: BTreeSet::new(), tour: None }
    }

    /// A key without a value is an empty section.
    pub(super) fn section<'n>(&mut self, path: &str, node: &'n Node) -> Option<Section<'n>> {
        let entries: &[Entry] = match &node.data {
            Data::Map(entries) => entries,
            Data::Null if !path.is_empty() => &[],
            _ => return self.wrong(path, node, "a section with keys"),
        };
        Some(Section { path: path.to_owned(), entries, known: Vec::new() })
    }

    /// The value of a key, if it is there and not empty.
    pub(super) fn get<T>(&mut self, section: &mut Section<'_>, key: &'static str, read: Read<T>) -> Option<T> {
        section.known.push(key);
        if self.tour.is_some() {
            self.show(&section.path, key, read);
            return None;
        }
        let entry = section.entries.iter().find(|entry| entry.key == key)?;
        let path = self.enter(&section.path, key, entry);
        match entry.value.data {
            Data::Null => None,
            _ => read(self, &path, &entry.value),
        }
    }

    /// Remembers where an entry stands; gives its path.
    pub(super) fn enter(&mut self, parent: &str, name: &str, entry: &Entry) -> String {
        let path = join(parent, name);
        // A section begins at its key; YAML would say at the first thing in it.
        let value = match entry.value.data {
            Data::Map(_) | Data::List(_) => entry.key_at,
            _ => entry.value.at,
        };
        let place = Place { key: entry.key_at, value, shift: entry.value.shift };
        self.origin.places.insert(path.clone(), place);
        path
    }

    /// The same for an element of a list.
    pub(super) fn element(&mut self, parent: &str, at: usize, node: &Node) -> String {
        let path = format!("{parent}[{at}]");
        let place = Place { key: node.at, value: node.at, shift: node.shift };
        self.origin.places.insert(path.clone(), place);
        path
    }

    /// All elements of a list that can be read.
    pub(super) fn list<T>(&mut self, path: &str, node: &Node, read: Read<T>) -> Option<Vec<T>> {
        let Data::List(items) = &node.data else { return self.wrong(path, node, "a list") };
        let mut all = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let path = self.element(path, at, item);
            all.extend(read(self, &path, item));
        }
        Some(all)
    }

    /// Reports the keys that no `get` asked for.
    pub(super) fn close(&mut self, section: &Section<'_>) {
        if let Some(tour) = &mut self.tour {
            return tour.keys(&section.path, &section.known);
        }
        for entry in section.entries.iter().filter(|entry| !section.known.contains(&entry.key.as_str())) {
            if let Some(meant) = closest(&entry.key, &section.known) {
                self.excused.insert(join(&section.path, meant));
            }
            let message = format!("unknown key `{}`", entry.key);
            let hint = suggest(&entry.key, &section.known);
            self.problems.push(self.origin.at(entry.key_at, &join(&section.path, &entry.key), message, hint));
        }
    }

    pub(super) fn missing(&mut self, section: &Section<'_>, key: &str) {
        let path = join(&section.path, key);
        if let Some(tour) = &mut self.tour {
            return tour.required(&path);
        }
        if !self.is_excused(&path) {
            self.problems.push(self.origin.problem(&path, format!("`{key}` is missing"), None));
            self.excused.insert(path);
        }
    }

    /// Reports that the node is something else than what is needed.
    pub(super) fn wrong<T>(&mut self, path: &str, node: &Node, expected: &str) -> Option<T> {
        if let Some(tour) = &mut self.tour {
            tour.wrong(path);
        }
        self.report(path, node, format!("expected {expected}, found {}", node.found()), None)
    }

    pub(super) fn report<T>(&mut self, path: &str, node: &Node, message: String, hint: Option<String>) -> Option<T> {
        self.problems.push(self.origin.at(node.at, path, message, hint));
        self.excused.insert(path.to_owned());
        None
    }

    /// Whether this path, a section that holds it, or where its value could have come from, has been reported.
    pub(super) fn is_excused(&self, path: &str) -> bool {
        elsewhere(path).iter().map(String::as_str).chain([path]).any(|path| self.is_reported(path))
    }

    fn is_reported(&self, path: &str) -> bool {
        let mut rest = Some(path);
        while let Some(path) = rest {
            if self.excused.contains(path) {
                return true;
            }
            rest = path.rsplit_once('.').map(|(parent, _)| parent);
        }
        self.excused.contains("")
    }
}

pub(super) fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}
