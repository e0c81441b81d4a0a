//! Writes to the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::de::IgnoredAny;

use crate::cron::Cron;
use crate::registry::{DictType, RegistryRow, RegistryTable, WHOLE};
use crate::state::{Operation, UpdateReason};
use crate::time::Ts;

/// Replaces the registry rows of a provenance. Rows that the manifest no longer has are removed, and with an endpoint
/// its rows and its schedules. A row whose section is unchanged stays as it is. Existing plans are untouched: they
/// have their own snapshots. Unless nothing changed, all ADVISORY pauses that name the provenance end, by
/// [`ResumeWork::BY_MANIFEST`](super::ResumeWork::BY_MANIFEST).
#[derive(Clone, PartialEq, Debug)]
pub struct ApplyProvenance {
    pub provenance_code: String,
    pub name: String,
    /// The project that the provenance is for; `None` for all.
    pub project_key: Option<String>,
    /// The manifest, section by section.
    pub rows: Vec<RegistryRow>,
    /// Digest of the manifest: an equal digest means nothing to do.
    pub document_hash: String,
    pub endpoints: Vec<EndpointRow>,
}

impl ApplyProvenance {
    /// Why stores refuse the operation: rows that no manifest has. `None` when it is valid.
    pub fn invalid_reason(&self) -> Option<String> {
        let names: BTreeSet<_> = self.endpoints.iter().map(|endpoint| endpoint.endpoint_name.as_str()).collect();
        if names.len() < self.endpoints.len() {
            return Some("an endpoint appears twice".to_owned());
        }
        let mut seen = BTreeSet::new();
        for RegistryRow { table, endpoint_name, config } in &self.rows {
            let place = format!("{} of `{endpoint_name}`", table.name());
            if !seen.insert((*table, endpoint_name.as_str())) {
                return Some(format!("{place} appears twice"));
            }
            let known = match table {
                RegistryTable::Provenance => endpoint_name == WHOLE,
                RegistryTable::EndpointDef => names.contains(endpoint_name.as_str()),
                _ => endpoint_name == WHOLE || names.contains(endpoint_name.as_str()),
            };
            if !known {
                return Some(format!("{place} belongs to no endpoint of the manifest"));
            }
            if let Err(error) = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(config) {
                return Some(format!("{place} is not a JSON object: {error}"));
            }
        }
        if let Some(flaw) = self.endpoints.iter().find_map(EndpointRow::invalid_reason) {
            return Some(flaw);
        }
        let missing = names.into_iter().find(|name| !seen.contains(&(RegistryTable::EndpointDef, *name)));
        match missing {
            Some(name) => Some(format!("{} of `{name}` is missing", RegistryTable::EndpointDef.name())),
            None if !seen.contains(&(RegistryTable::Provenance, WHOLE)) => {
                Some(format!("{} is missing", RegistryTable::Provenance.name()))
            }
            None => None,
        }
    }

    /// The section of a table for one endpoint, or for [`WHOLE`].
    pub fn config(&self, table: RegistryTable, endpoint_name: &str) -> Option<&str> {
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
    pub schedules: Vec<EndpointSchedule>,
}

impl EndpointRow {
    fn invalid_reason(&self) -> Option<String> {
        let name = &self.endpoint_name;
        let mut seen = Vec::new();
        for EndpointSchedule { operation, reason, recurrence: when } in &self.schedules {
            if seen.contains(&(operation, reason)) {
                return Some(format!("`{name}` has two schedules for {operation} with one reason"));
            }
            seen.push((operation, reason));
            let sound = match when {
                Recurrence::Every(every) => !every.is_zero(),
                Recurrence::Cron(pattern) => Cron::parse(pattern).is_ok(),
            };
            if !sound {
                return Some(format!("`{name}` has a schedule without a time: {}", when.to_text()));
            }
        }
        None
    }
}

/// Requests jobs for an operation of this endpoint, first at [`Recurrence::first_after`] now, or [`Ts::NEVER`]. A
/// schedule whose time changed counts from now; an unchanged one keeps its next due time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointSchedule {
    pub operation: Operation,
    /// The reason of an UPDATE.
    pub reason: Option<UpdateReason>,
    pub recurrence: Recurrence,
}

/// The times of a schedule. Stored as text, see [`Recurrence::to_text`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recurrence {
    Every(Duration),
    /// Five fields, UTC, see [`crate::cron`].
    Cron(String),
}

impl Recurrence {
    /// The first time after `now`, for a schedule that starts now. `None` for a pattern that never matches.
    pub fn first_after(&self, now: Ts) -> Option<Ts> {
        match self {
            Recurrence::Every(every) => Some(now + *every),
            Recurrence::Cron(pattern) => Cron::parse(pattern).ok()?.next_after(now),
        }
    }

    /// `every 3600000000` (µs) or `cron 0 3 * * *`.
    pub fn to_text(&self) -> String {
        match self {
            Recurrence::Every(every) => format!("every {}", crate::time::micros(*every)),
            Recurrence::Cron(pattern) => format!("cron {pattern}"),
        }
    }

    pub fn from_text(text: &str) -> Option<Recurrence> {
        match text.split_once(' ')? {
            ("every", micros) => Some(Recurrence::Every(Duration::from_micros(micros.parse().ok()?))),
            ("cron", pattern) => Some(Recurrence::Cron(pattern.to_owned())),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProvenanceApplied {
    Created,
    Changed,
    /// The stored manifest has the same digest.
    Unchanged,
}

/// Removes a provenance from the registry, with its rows and schedules. Credentials stay, and so does everything that
/// was planned or collected: an open plan continues with its own snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoveProvenance {
    pub provenance_code: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProvenanceRemoved {
    /// False when the provenance did not exist.
    pub removed: bool,
}

/// Replaces the dictionary (ING-3.2-14). Nothing refers to its rows by id, so all of them are replaced when anything
/// differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyncDictionary {
    pub types: Vec<DictType>,
}

impl SyncDictionary {
    /// Why stores refuse the operation: a duplicate code, or an alias of two items. `None` when it is valid.
    pub fn invalid_reason(&self) -> Option<String> {
        let mut types = BTreeSet::new();
        for DictType { code, items, .. } in &self.types {
            if !types.insert(code) {
                return Some(format!("the type {code} appears twice"));
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
