//! Writing the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::de::IgnoredAny;

use crate::cron::Cron;
use crate::registry::{DictType, Row, Table, WHOLE};
use crate::state::{Operation, UpdateReason};
use crate::time::Ts;

/// Replaces what the registry holds of a provenance: rows that the manifest no longer has are removed, and with an
/// endpoint its rows and its schedules. A row whose section is the same stays as it is. Plans that exist are untouched:
/// they hold their own snapshots. Unless nothing changed, all ADVISORY holds that name the provenance end, by
/// [`Release::BY_MANIFEST`](super::Release::BY_MANIFEST).
#[derive(Clone, PartialEq, Debug)]
pub struct ApplyProvenance {
    pub provenance_code: String,
    pub name: String,
    /// The project that it is for; `None`: for all.
    pub project_key: Option<String>,
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
        if let Some(flaw) = self.endpoints.iter().find_map(EndpointRow::flaw) {
            return Some(flaw);
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
    /// One per operation and reason.
    pub schedules: Vec<Schedule>,
}

impl EndpointRow {
    fn flaw(&self) -> Option<String> {
        let name = &self.endpoint_name;
        let mut seen = Vec::new();
        for Schedule { operation, reason, when } in &self.schedules {
            if seen.contains(&(operation, reason)) {
                return Some(format!("`{name}` has two schedules for {operation} with one reason"));
            }
            seen.push((operation, reason));
            let sound = match when {
                When::Every(every) => !every.is_zero(),
                When::Cron(pattern) => Cron::parse(pattern).is_ok(),
            };
            if !sound {
                return Some(format!("`{name}` has a schedule without a time: {}", when.to_text()));
            }
        }
        None
    }
}

/// Fire an operation of this endpoint by itself, first at [`When::first_after`] now, or [`Ts::NEVER`]. One whose time changed
/// counts from now; an unchanged one keeps its next due time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    pub operation: Operation,
    /// For an UPDATE.
    pub reason: Option<UpdateReason>,
    pub when: When,
}

/// The times of a schedule. Stored as text, see [`When::to_text`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum When {
    Every(Duration),
    /// Five fields, UTC, see [`crate::cron`].
    Cron(String),
}

impl When {
    /// The first time after `now`, for a schedule that begins then. `None` for a pattern that never comes.
    pub fn first_after(&self, now: Ts) -> Option<Ts> {
        match self {
            When::Every(every) => Some(now + *every),
            When::Cron(pattern) => Cron::parse(pattern).ok()?.next_after(now),
        }
    }

    /// `every 3600000000` (µs) or `cron 0 3 * * *`.
    pub fn to_text(&self) -> String {
        match self {
            When::Every(every) => format!("every {}", crate::time::micros(*every)),
            When::Cron(pattern) => format!("cron {pattern}"),
        }
    }

    pub fn from_text(text: &str) -> Option<When> {
        match text.split_once(' ')? {
            ("every", micros) => Some(When::Every(Duration::from_micros(micros.parse().ok()?))),
            ("cron", pattern) => Some(When::Cron(pattern.to_owned())),
            _ => None,
        }
    }
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
