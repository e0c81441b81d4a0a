//! Writing the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::de::IgnoredAny;

use crate::registry::{DictType, Row, Table, WHOLE};

/// Replaces what the registry holds of a provenance: rows that the manifest no longer has are removed, and with an
/// endpoint its rows and its schedule. A row whose section is the same stays as it is. Plans that exist are untouched:
/// they hold their own snapshots.
#[derive(Clone, PartialEq, Debug)]
pub struct ApplyProvenance {
    pub provenance_code: String,
    pub name: String,
    /// The manifest, section by section.
    pub rows: Vec<Row>,
    /// Digest of the manifest: equal digest, nothing to do.
    pub document_hash: String,
    pub endpoints: Vec<EndpointRow>,
}

impl ApplyProvenance {
    /// What no store accepts: rows that no manifest has. `None` for a sound operation.
    pub fn flaw(&self) -> Option<String> {
        let names: BTreeSet<_> = self.endpoints.iter().map(|endpoint| endpoint.endpoint_name.as_str()).collect();
        if names.len() < self.endpoints.len() {
            return Some("an endpoint is there twice".to_owned());
        }
        let mut seen = BTreeSet::new();
        for Row { table, endpoint_name, config } in &self.rows {
            let place = format!("{} of `{endpoint_name}`", table.name());
            if !seen.insert((*table, endpoint_name.as_str())) {
                return Some(format!("{place} is there twice"));
            }
            let known = match table {
                Table::Provenance => endpoint_name == WHOLE,
                Table::EndpointDef => names.contains(endpoint_name.as_str()),
                _ => endpoint_name == WHOLE || names.contains(endpoint_name.as_str()),
            };
            if !known {
                return Some(format!("{place} belongs to no endpoint of the manifest"));
            }
            if let Err(error) = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(config) {
                return Some(format!("{place} is no JSON object: {error}"));
            }
        }
        let missing = names.into_iter().find(|name| !seen.contains(&(Table::EndpointDef, *name)));
        match missing {
            Some(name) => Some(format!("{} of `{name}` is missing", Table::EndpointDef.name())),
            None if !seen.contains(&(Table::Provenance, WHOLE)) => {
                Some(format!("{} is missing", Table::Provenance.name()))
            }
            None => None,
        }
    }

    /// The section of a table for one endpoint, or for [`WHOLE`].
    pub fn config(&self, table: Table, endpoint_name: &str) -> Option<&str> {
        let row = self.rows.iter().find(|row| row.table == table && row.endpoint_name == endpoint_name);
        row.map(|row| row.config.as_str())
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointRow {
    pub endpoint_name: String,
    /// `SEARCH`, `DETAIL` or `METRICS`.
    pub role: String,
    pub schedule: Option<Schedule>,
}

/// Fire a HARVEST of this endpoint at this interval. A changed interval counts from now; an unchanged one keeps its
/// next due time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    pub every: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applied {
    Created,
    Changed,
    /// The stored manifest has the same digest.
    Unchanged,
}

/// Takes a provenance out of the registry, its rows and schedules with it. Credentials stay, and so does everything that
/// was planned or collected: a plan that is open goes on with its own snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoveProvenance {
    pub provenance_code: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removed {
    /// False when there was no such provenance.
    pub removed: bool,
}

/// Makes the dictionary say exactly this (ING-3.2-14). Nothing refers to its rows by number, so they are replaced as a
/// whole when anything differs, and left alone when nothing does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyncDictionary {
    pub types: Vec<DictType>,
}

impl SyncDictionary {
    /// What no store accepts: a code that is there twice, or an alias of two words. `None` for a sound operation.
    pub fn flaw(&self) -> Option<String> {
        let mut types = BTreeSet::new();
        for DictType { code, items, .. } in &self.types {
            if !types.insert(code) {
                return Some(format!("the type {code} is there twice"));
            }
            let (mut words, mut aliases) = (BTreeSet::new(), BTreeSet::new());
            for item in items {
                if !words.insert(&item.code) {
                    return Some(format!("{code} has {} twice", item.code));
                }
                if let Some(alias) = item.aliases.iter().find(|alias| !aliases.insert(*alias)) {
                    return Some(format!("{code} has the alias {alias} twice"));
                }
            }
        }
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DictionarySynced {
    pub changed: bool,
}
