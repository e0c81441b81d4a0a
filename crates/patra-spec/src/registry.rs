//! Converts a manifest to rows of the registry (ING-3.2) and back. A row belongs to one endpoint, or to the provenance
//! as a whole, and contains one section of settings as JSON. The conversion is lossless.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use patra_core::hash::canonical;
use patra_core::registry::{RegistryRow, RegistryTable, WHOLE};
use patra_core::state::Operation;
use patra_core::tx::{EndpointSchedule, Recurrence};

use crate::iso_duration::IsoDuration;
use crate::manifest::{EndpointConfig, Manifest};
use crate::problem::{Problem, Problems};

/// The table of each setting: path in the endpoint, table, and key within the row. Without a key, the members of the
/// section are stored directly. Settings that are not listed are part of the endpoint's definition.
const SETTING_TABLES: &[(&str, RegistryTable, Option<&str>)] = &[
    ("http.headers", RegistryTable::ApiParamMap, Some("headers")),
    ("body.form", RegistryTable::ApiParamMap, Some("form")),
    ("query", RegistryTable::ApiParamMap, Some("query")),
    ("params", RegistryTable::ApiParamMap, Some("params")),
    ("auth", RegistryTable::HttpCfg, Some("auth")),
    ("body", RegistryTable::HttpCfg, Some("body")),
    ("http", RegistryTable::HttpCfg, None),
    ("pagination", RegistryTable::PaginationCfg, None),
    ("window", RegistryTable::WindowOffsetCfg, None),
    ("retry", RegistryTable::RetryCfg, None),
    ("limits", RegistryTable::RateLimitCfg, Some("limits")),
    ("health", RegistryTable::RateLimitCfg, Some("health")),
    ("rate_limit", RegistryTable::RateLimitCfg, None),
    ("batching", RegistryTable::BatchingCfg, None),
    ("expr.allowed_functions", RegistryTable::ExprCapability, Some("allowed_functions")),
    ("expr", RegistryTable::ExprRenderRule, None),
    ("fields", RegistryTable::ExprFieldDict, Some("fields")),
    ("response", RegistryTable::ExprFieldDict, None),
];

/// The table that contains the setting at a path of an endpoint.
pub(crate) fn table_of(path: &str) -> RegistryTable {
    let contains =
        |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    SETTING_TABLES
        .iter()
        .find(|(prefix, _, _)| contains(prefix))
        .map_or(RegistryTable::EndpointDef, |(_, table, _)| *table)
}

/// All rows of a manifest, ordered by endpoint and table.
pub fn rows(manifest: &Manifest) -> Vec<RegistryRow> {
    let Value::Object(mut provenance) = manifest.to_document() else { return Vec::new() };
    provenance.remove("provenance");
    let endpoints = provenance.remove("endpoints");
    let mut rows = vec![row(RegistryTable::Provenance, WHOLE, provenance)];
    for (name, endpoint) in endpoints.iter().filter_map(Value::as_object).flatten() {
        let tables = split(endpoint.as_object().cloned().unwrap_or_default());
        rows.extend(tables.into_iter().map(|(table, config)| row(table, name, config)));
    }
    rows
}

/// Builds the manifest from the rows of a provenance.
pub fn manifest(code: &str, rows: &[RegistryRow]) -> Result<Manifest, Problems> {
    let mut tables: BTreeMap<&str, BTreeMap<RegistryTable, Map<String, Value>>> = BTreeMap::new();
    let mut problems = Vec::new();
    for row in rows {
        match serde_json::from_str(&row.config) {
            Ok(Value::Object(config)) => {
                let of_endpoint = tables.entry(&row.endpoint_name).or_default();
                if of_endpoint.insert(row.table, config).is_some() {
                    problems.push(problem(row, "the row is a duplicate"));
                }
            }
            Ok(_) => problems.push(problem(row, "the row is not a JSON object")),
            Err(error) => problems.push(problem(row, format!("the row is not valid JSON: {error}"))),
        }
        if (row.endpoint_name == WHOLE) != (row.table == RegistryTable::Provenance) {
            problems
                .push(problem(row, format!("`{WHOLE}` must be the only row in {}", RegistryTable::Provenance.name())));
        }
    }
    Problems::or(problems, ())?;
    let mut document =
        tables.remove(WHOLE).and_then(|mut whole| whole.remove(&RegistryTable::Provenance)).ok_or_else(|| {
            Problems::one(problem_without_path(format!("`{code}` has no row in {}", RegistryTable::Provenance.name())))
        })?;
    let endpoints = tables.into_iter().map(|(name, tables)| match tables.contains_key(&RegistryTable::EndpointDef) {
        true => Ok((name.to_owned(), join(tables))),
        false => Err(Problems::one(problem_without_path(format!(
            "`{name}` has no row in {}",
            RegistryTable::EndpointDef.name()
        )))),
    });
    document.insert("endpoints".into(), endpoints.collect::<Result<Map<_, _>, _>>()?.into());
    document.insert("provenance".into(), code.into());
    Manifest::from_document(&document.into())
}

/// The schedules of an endpoint: HARVEST, and UPDATE once per reason (ING-5.2-01).
pub fn schedules(endpoint: &EndpointConfig) -> Vec<EndpointSchedule> {
    let Some(declared) = &endpoint.schedule else { return Vec::new() };
    let when = |every: Option<IsoDuration>, cron: &Option<String>| match (every, cron) {
        (Some(every), _) => Some(Recurrence::Every(every.0)),
        (None, Some(cron)) => Some(Recurrence::Cron(cron.clone())),
        (None, None) => None,
    };
    let harvest = when(declared.every, &declared.cron).map(|when| EndpointSchedule {
        operation: Operation::Harvest,
        reason: None,
        recurrence: when,
    });
    let update = declared.update.iter().filter_map(|update| {
        let when = when(update.every, &update.cron)?;
        Some(EndpointSchedule { operation: Operation::Update, reason: Some(update.reason?), recurrence: when })
    });
    harvest.into_iter().chain(update).collect()
}

fn row(table: RegistryTable, endpoint: &str, config: Map<String, Value>) -> RegistryRow {
    RegistryRow { table, endpoint_name: endpoint.to_owned(), config: canonical(&config.into()) }
}

fn split(mut endpoint: Map<String, Value>) -> BTreeMap<RegistryTable, Map<String, Value>> {
    let mut tables = BTreeMap::<_, Map<_, _>>::new();
    for (path, table, key) in SETTING_TABLES {
        let Some(value) = take(&mut endpoint, path) else { continue };
        let config = tables.entry(*table).or_default();
        match (key, value) {
            (Some(key), value) => drop(config.insert((*key).to_owned(), value)),
            (None, Value::Object(members)) => config.extend(members),
            (None, _) => {}
        }
    }
    tables.insert(RegistryTable::EndpointDef, endpoint);
    tables
}

/// The reverse of [`split`]: values with their own key are taken out of the row first, the rest is the section.
fn join(mut tables: BTreeMap<RegistryTable, Map<String, Value>>) -> Value {
    let mut endpoint = tables.remove(&RegistryTable::EndpointDef).unwrap_or_default();
    // In reverse order, so that `body` exists before `body.form` is put into it.
    for (path, table, key) in SETTING_TABLES.iter().rev() {
        let Some(key) = key else { continue };
        if let Some(value) = tables.get_mut(table).and_then(|config| config.remove(*key)) {
            put(&mut endpoint, path, value);
        }
    }
    for (path, table, _) in SETTING_TABLES.iter().filter(|(_, _, key)| key.is_none()) {
        if let Some(config) = tables.remove(table) {
            section(&mut endpoint, path).extend(config);
        }
    }
    endpoint.into()
}

/// Takes the value at a path of one or two keys. A section that becomes empty is removed.
fn take(endpoint: &mut Map<String, Value>, path: &str) -> Option<Value> {
    let Some((parent, key)) = path.split_once('.') else { return endpoint.remove(path) };
    let section = endpoint.get_mut(parent)?.as_object_mut()?;
    let value = section.remove(key)?;
    if section.is_empty() {
        endpoint.remove(parent);
    }
    Some(value)
}

fn put(endpoint: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        Some((parent, key)) => drop(section(endpoint, parent).insert(key.to_owned(), value)),
        None => drop(endpoint.insert(path.to_owned(), value)),
    }
}

/// The section of that name, created if missing. A body in short form is expanded.
fn section<'m>(endpoint: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    let value = endpoint.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::from_iter([("raw".to_owned(), value.take())]));
    }
    match value {
        Value::Object(section) => section,
        _ => unreachable!("it has just been made one"),
    }
}

fn problem(row: &RegistryRow, message: impl Into<String>) -> Problem {
    Problem { path: format!("{}[{}]", row.table.name(), row.endpoint_name), ..problem_without_path(message) }
}

fn problem_without_path(message: impl Into<String>) -> Problem {
    Problem { file: String::new(), line: 0, column: 0, path: String::new(), message: message.into(), hint: None }
}
