//! Collects selectors, and returns the index of each among the extracted values.

use patra_core::{Code, Fault, Level};
use patra_spec::Selector;

use super::walk::PathTree;

#[derive(Debug, Default)]
pub(super) struct SelectorList(Vec<Selector>);

impl SelectorList {
    pub(super) fn add(&mut self, path: &str) -> Result<usize, Fault> {
        self.0.push(parse(path)?);
        Ok(self.0.len() - 1)
    }

    pub(super) fn maybe(&mut self, path: Option<&str>) -> Result<Option<usize>, Fault> {
        path.map(|path| self.add(path)).transpose()
    }

    pub(super) fn wanted(&self) -> PathTree {
        PathTree::new(&self.0)
    }

    /// Adds a list that is split on the way.
    pub(super) fn wanted_with_list(&self, at: usize) -> PathTree {
        self.wanted().listing(&self.0[at])
    }
}

pub(super) fn parse(path: &str) -> Result<Selector, Fault> {
    Selector::parse(path).map_err(|flaw| broken(&format!("the path {path} is unreadable: {}", flaw.message)))
}

/// A snapshot that compiled and cannot be used: a person must fix it.
pub(super) fn broken(reason: &str) -> Fault {
    Fault::new(Code::ConfigError, Level::L4, format!("the snapshot is unusable: {reason}"))
}
