//! A manifest as rows of the registry (ING-3.2), and back. A row is about one endpoint, or about the provenance as a
//! whole, and holds one section of settings as JSON. Splitting and joining lose nothing: the same document comes back.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use patra_core::hash::canonical;
use patra_core::registry::{Row, Table, WHOLE};
use patra_core::state::Operation;
use patra_core::tx::{Schedule, When};

use crate::iso::Iso;
use crate::manifest::{Endpoint, Manifest};
use crate::problem::{Problem, Problems};

/// Where the settings of an endpoint go: a path in the endpoint, its table, and its key there. Without a key, the
/// members of the section are the row's own. What is named nowhere is part of the endpoint's definition.
const HOMES: &[(&str, Table, Option<&str>)] = &[
    ("http.headers", Table::ApiParamMap, Some("headers")),
    ("body.form", Table::ApiParamMap, Some("form")),
    ("query", Table::ApiParamMap, Some("query")),
    ("params", Table::ApiParamMap, Some("params")),
    ("auth", Table::HttpCfg, Some("auth")),
    ("body", Table::HttpCfg, Some("body")),
    ("http", Table::HttpCfg, None),
    ("pagination", Table::PaginationCfg, None),
    ("window", Table::WindowOffsetCfg, None),
    ("retry", Table::RetryCfg, None),
    ("limits", Table::RateLimitCfg, Some("limits")),
    ("health", Table::RateLimitCfg, Some("health")),
    ("rate_limit", Table::RateLimitCfg, None),
    ("batching", Table::BatchingCfg, None),
    ("expr.allowed_functions", Table::ExprCapability, Some("allowed_functions")),
    ("expr", Table::ExprRenderRule, None),
    ("fields", Table::ExprFieldDict, Some("fields")),
    ("response", Table::ExprFieldDict, None),
];

/// The table that holds the setting at a path of an endpoint.
pub(crate) fn table_of(path: &str) -> Table {
    let holds =
        |home: &str| path.strip_prefix(home).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    HOMES.iter().find(|(home, _, _)| holds(home)).map_or(Table::EndpointDef, |(_, table, _)| *table)
}

/// All rows of a manifest, by endpoint and table.
pub fn rows(manifest: &Manifest) -> Vec<Row> {
    let Value::Object(mut provenance) = manifest.to_document() else { return Vec::new() };
    provenance.remove("provenance");
    let endpoints = provenance.remove("endpoints");
    let mut rows = vec![row(Table::Provenance, WHOLE, provenance)];
    for (name, endpoint) in endpoints.iter().filter_map(Value::as_object).flatten() {
        let tables = split(endpoint.as_object().cloned().unwrap_or_default());
        rows.extend(tables.into_iter().map(|(table, config)| row(table, name, config)));
    }
    rows
}

/// The manifest that the rows of a provenance make together.
pub fn manifest(code: &str, rows: &[Row]) -> Result<Manifest, Problems> {
    let mut tables: BTreeMap<&str, BTreeMap<Table, Map<String, Value>>> = BTreeMap::new();
    let mut problems = Vec::new();
    for row in rows {
        match serde_json::from_str(&row.config) {
            Ok(Value::Object(config)) => {
                let of_endpoint = tables.entry(&row.endpoint_name).or_default();
                if of_endpoint.insert(row.table, config).is_some() {
                    problems.push(problem(row, "there are two rows"));
                }
            }
            Ok(_) => problems.push(problem(row, "the row holds no object")),
            Err(error) => problems.push(problem(row, format!("the row holds no JSON: {error}"))),
        }
        if (row.endpoint_name == WHOLE) != (row.table == Table::Provenance) {
            problems.push(problem(row, format!("`{WHOLE}` and only that belongs into {}", Table::Provenance.name())));
        }
    }
    Problems::or(problems, ())?;
    let mut document = tables
        .remove(WHOLE)
        .and_then(|mut whole| whole.remove(&Table::Provenance))
        .ok_or_else(|| Problems::one(bare(format!("`{code}` has no row in {}", Table::Provenance.name()))))?;
    let endpoints = tables.into_iter().map(|(name, tables)| match tables.contains_key(&Table::EndpointDef) {
        true => Ok((name.to_owned(), join(tables))),
        false => Err(Problems::one(bare(format!("`{name}` has no row in {}", Table::EndpointDef.name())))),
    });
    document.insert("endpoints".into(), endpoints.collect::<Result<Map<_, _>, _>>()?.into());
    document.insert("provenance".into(), code.into());
    Manifest::from_document(&document.into())
}

/// When the planner asks for an endpoint by itself: HARVEST, and UPDATE once per reason (ING-5.2-01).
pub fn schedules(endpoint: &Endpoint) -> Vec<Schedule> {
    let Some(declared) = &endpoint.schedule else { return Vec::new() };
    let when = |every: Option<Iso>, cron: &Option<String>| match (every, cron) {
        (Some(every), _) => Some(When::Every(every.0)),
        (None, Some(cron)) => Some(When::Cron(cron.clone())),
        (None, None) => None,
    };
    let harvest =
        when(declared.every, &declared.cron).map(|when| Schedule { operation: Operation::Harvest, reason: None, when });
    let update = declared.update.iter().filter_map(|update| {
        let when = when(update.every, &update.cron)?;
        Some(Schedule { operation: Operation::Update, reason: Some(update.reason?), when })
    });
    harvest.into_iter().chain(update).collect()
}

fn row(table: Table, endpoint: &str, config: Map<String, Value>) -> Row {
    Row { table, endpoint_name: endpoint.to_owned(), config: canonical(&config.into()) }
}

fn split(mut endpoint: Map<String, Value>) -> BTreeMap<Table, Map<String, Value>> {
    let mut tables = BTreeMap::<_, Map<_, _>>::new();
    for (path, table, key) in HOMES {
        let Some(value) = take(&mut endpoint, path) else { continue };
        let config = tables.entry(*table).or_default();
        match (key, value) {
            (Some(key), value) => drop(config.insert((*key).to_owned(), value)),
            (None, Value::Object(members)) => config.extend(members),
            (None, _) => {}
        }
    }
    tables.insert(Table::EndpointDef, endpoint);
    tables
}

/// The other way round: what has a key of its own leaves its row first, the rest is the section.
fn join(mut tables: BTreeMap<Table, Map<String, Value>>) -> Value {
    let mut endpoint = tables.remove(&Table::EndpointDef).unwrap_or_default();
    // From the last to the first: `body` before `body.form`, which goes into it.
    for (path, table, key) in HOMES.iter().rev() {
        let Some(key) = key else { continue };
        if let Some(value) = tables.get_mut(table).and_then(|config| config.remove(*key)) {
            put(&mut endpoint, path, value);
        }
    }
    for (path, table, _) in HOMES.iter().filter(|(_, _, key)| key.is_none()) {
        if let Some(config) = tables.remove(table) {
            section(&mut endpoint, path).extend(config);
        }
    }
    endpoint.into()
}

/// Takes the value at a path of one or two keys. A section that it was alone in goes with it.
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

/// The section of that name, made if need be. A body that was a text alone becomes the section that it is short for.
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

fn problem(row: &Row, message: impl Into<String>) -> Problem {
    Problem { path: format!("{}[{}]", row.table.name(), row.endpoint_name), ..bare(message) }
}

fn bare(message: impl Into<String>) -> Problem {
    Problem { file: String::new(), line: 0, column: 0, path: String::new(), message: message.into(), hint: None }
}
