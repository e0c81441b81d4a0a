//! Merges five layers of settings, later ones win (ING-3.3-03): platform defaults, the provenance's `defaults`, the
//! endpoint's definition, the endpoint's sections, and the overrides of a job (layer `trigger`). They are merged as
//! JSON documents, so a new section needs no change here. The result is typed again.
//!
//! Sections merge key by key. Named entries (a parameter, a header, a field) and lists are replaced as a whole. A
//! section with another `type` than the one below replaces it and inherits nothing; so does a `window` of another
//! `mode`.

pub(crate) mod overrides;
mod platform;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use patra_core::registry::RegistryTable;

use crate::manifest::{EndpointConfig, Manifest};
use crate::problem::Problem;
use crate::registry;
use crate::snapshot::Snapshot;

pub use overrides::Overrides;

/// Most values that all endpoints together may inherit from `defaults`. Large defaults times many endpoints would let a
/// small file use much memory.
const MAX_INHERITED: usize = 50_000;

/// The layer that set a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingLayer {
    Platform,
    Provenance,
    Definition,
    Settings(RegistryTable),
    Trigger,
}

impl fmt::Display for SettingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingLayer::Platform => f.write_str("platform"),
            SettingLayer::Provenance => f.write_str("provenance defaults"),
            SettingLayer::Definition => f.write_str("endpoint definition"),
            SettingLayer::Settings(table) => write!(f, "endpoint settings ({})", table.name()),
            SettingLayer::Trigger => f.write_str("trigger"),
        }
    }
}

/// One value of a compiled endpoint, with the layer that set it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedSetting {
    /// Path within the endpoint, as in a manifest: `pagination.page_size`.
    pub path: String,
    pub value: Value,
    pub layer: SettingLayer,
}

/// The manifest with its defaults merged into every endpoint and short keys expanded. `defaults` is then empty, so each
/// endpoint can be checked alone. Source positions still refer to the original text.
pub(crate) fn effective(manifest: &Manifest) -> Result<Manifest, Problem> {
    let names = manifest.endpoints.keys().map(String::as_str).collect();
    effective_of(manifest, &names)
}

/// Like [`effective`], but only for one endpoint and those that it references.
pub(crate) fn effective_for(manifest: &Manifest, name: &str) -> Result<Manifest, Problem> {
    let (mut names, mut next) = (BTreeSet::new(), vec![name]);
    while let Some(name) = next.pop() {
        let Some((name, endpoint)) = manifest.endpoints.get_key_value(name) else { continue };
        if names.insert(name.as_str()) {
            let parents =
                endpoint.partitions.iter().filter_map(|partition| partition.parent.as_ref()?.endpoint.as_deref());
            next.extend(parents.chain(endpoint.details()));
        }
    }
    effective_of(manifest, &names)
}

fn effective_of(manifest: &Manifest, names: &BTreeSet<&str>) -> Result<Manifest, Problem> {
    let defaults = document(&manifest.defaults);
    if leaves(&defaults).len().saturating_mul(names.len()) > MAX_INHERITED {
        let message = format!("too many values for {} endpoints to inherit", names.len());
        let hint = format!(
            "together they may inherit {MAX_INHERITED} values: move settings that few of them need to these endpoints"
        );
        return Err(manifest.origin.problem("defaults", message, Some(hint)));
    }
    let mut effective = Manifest { defaults: EndpointConfig::default(), ..manifest.clone() };
    for (name, endpoint) in &mut effective.endpoints {
        let short = endpoint.method.is_some() || endpoint.path.is_some() || endpoint.items_path.is_some();
        if !names.contains(name.as_str()) || (is_empty(&defaults) && !short) {
            continue;
        }
        let (definition, settings) = definition_and_settings(endpoint);
        *endpoint = typed(merged([defaults.clone(), definition, settings]))
            .map_err(|error| manifest.origin.problem(&format!("endpoints.{name}"), error, None))?;
    }
    Ok(effective)
}

/// The endpoint with the overrides of a job.
pub(crate) fn overridden(endpoint: &EndpointConfig, overrides: &Overrides) -> Result<EndpointConfig, String> {
    typed(merged([document(endpoint), overrides.document()]))
}

/// Every value of a compiled endpoint with the layer that set it, ordered by path.
pub(crate) fn explain(manifest: &Manifest, snapshot: &Snapshot, overrides: &Overrides) -> Vec<ExplainedSetting> {
    let declared = manifest.endpoints.get(&snapshot.endpoint_code).cloned().unwrap_or_default();
    let (definition, settings) = definition_and_settings(&declared);
    let layers = [
        (SettingLayer::Platform, document(&platform::platform(snapshot, &declared))),
        (SettingLayer::Provenance, document(&manifest.defaults)),
        (SettingLayer::Definition, definition),
        (SettingLayer::Settings(RegistryTable::EndpointDef), settings),
        (SettingLayer::Trigger, overrides.document()),
    ];
    let mut at = 0..;
    let [platform, written @ ..] =
        layers.clone().map(|(_, document)| label_layers(document, "", at.next().unwrap_or(0)));
    // Platform defaults depend on the merge of all other layers.
    let all = merged([platform, merged(written)]);
    let explained = leaves(&all).into_iter().map(|(path, labelled)| {
        let layer_of = |at: &Value| layers.get(usize::try_from(at.as_u64()?).ok()?).map(|(layer, _)| *layer);
        let (value, layer) =
            (unlabelled(&labelled).clone(), labelled.get(0).and_then(layer_of).unwrap_or(SettingLayer::Platform));
        let layer = if let SettingLayer::Settings(_) = layer {
            SettingLayer::Settings(registry::table_of(&path))
        } else {
            layer
        };
        ExplainedSetting { path, value, layer }
    });
    explained.collect()
}

/// Replaces every value of the document by `[layer, value]`. Lists are merged as a whole, so the label stays with its
/// value.
fn label_layers(value: Value, path: &str, layer: usize) -> Value {
    match value {
        Value::Object(map) if path.is_empty() || !map.is_empty() => {
            let named = NAMED_MAPS.contains(&path);
            let sign = |(key, value): (String, Value)| {
                let value = if named { json!([layer, value]) } else { label_layers(value, &join(path, &key), layer) };
                (key, value)
            };
            map.into_iter().map(sign).collect::<Map<_, _>>().into()
        }
        value => json!([layer, value]),
    }
}

fn unlabelled(value: &Value) -> &Value {
    value.get(1).unwrap_or(value)
}

/// Splits an endpoint into its definition, with short keys expanded, and its settings sections.
fn definition_and_settings(endpoint: &EndpointConfig) -> (Value, Value) {
    let (mut definition, mut settings) = (Map::new(), Map::new());
    let Value::Object(document) = document(endpoint) else { return Default::default() };
    for (key, value) in document {
        match (SHORT_KEYS.iter().find(|(short, _, _)| *short == key), registry::table_of(&key)) {
            (Some((_, section, long)), _) => {
                let section = definition.entry(*section).or_insert_with(|| Value::Object(Map::new()));
                if let Some(section) = section.as_object_mut() {
                    section.insert((*long).to_owned(), value);
                }
            }
            (None, RegistryTable::EndpointDef) => drop(definition.insert(key, value)),
            (None, _) => drop(settings.insert(key, value)),
        }
    }
    (definition.into(), settings.into())
}

/// Short keys of an endpoint, with the section and key they stand for.
pub(crate) const SHORT_KEYS: &[(&str, &str, &str)] =
    &[("method", "http", "method"), ("path", "http", "path"), ("items_path", "response", "items_path")];

/// Keys that define one endpoint cannot be inherited: a detail endpoint must not inherit the search's schedule.
const ENDPOINT_ONLY_KEYS: &[&str] = &[
    "role",
    "kind",
    "description",
    "polled",
    "method",
    "path",
    "items_path",
    "partitions",
    "two_phase",
    "update",
    "schedule",
];

/// Keys in `defaults` that are not allowed there. The reader rejects them in a file; a stored document could have them.
pub(crate) fn endpoint_only_keys(defaults: &EndpointConfig) -> Vec<&'static str> {
    let document = document(defaults);
    ENDPOINT_ONLY_KEYS.iter().copied().filter(|key| document.get(key).is_some()).collect()
}

fn document(endpoint: &EndpointConfig) -> Value {
    // Serialisation cannot fail: the value has only texts, numbers and maps with text keys.
    serde_json::to_value(endpoint).unwrap_or_default()
}

fn typed(document: Value) -> Result<EndpointConfig, String> {
    EndpointConfig::deserialize(document).map_err(|error| format!("the merged settings cannot be read: {error}"))
}

fn is_empty(document: &Value) -> bool {
    document.as_object().is_none_or(Map::is_empty)
}

fn merged(layers: impl IntoIterator<Item = Value>) -> Value {
    layers.into_iter().fold(Value::Object(Map::new()), |below, above| overlay(below, above, ""))
}

fn overlay(below: Value, above: Value, path: &str) -> Value {
    match (below, above) {
        (Value::Object(mut both), Value::Object(above)) if same_kind(&both, &above, path) => {
            for (key, value) in above {
                // Header names are compared without case: an endpoint's `accept` replaces the provenance's `Accept`.
                if path == "http.headers" {
                    both.retain(|name, _| !name.eq_ignore_ascii_case(&key));
                }
                let value = match both.remove(&key) {
                    Some(below) if !NAMED_MAPS.contains(&path) => overlay(below, value, &join(path, &key)),
                    _ => value,
                };
                both.insert(key, value);
            }
            Value::Object(both)
        }
        (_, above) => above,
    }
}

/// Maps whose entries are replaced as a whole.
const NAMED_MAPS: &[&str] = &[
    "query",
    "params",
    "fields",
    "http.headers",
    "body.form",
    "auth.session.headers",
    "auth.session.body.form",
    "record.add",
];

/// Whether two sections have the same type and can be merged.
fn same_kind(below: &Map<String, Value>, above: &Map<String, Value>, path: &str) -> bool {
    match path {
        "pagination" | "auth" => {
            let (below, above) = (below.get("type").map(unlabelled), above.get("type").map(unlabelled));
            below.is_none() || above.is_none() || below == above
        }
        // Settings of one mode mean nothing in another.
        "window" => {
            let (below, above) = (below.get("mode").map(unlabelled), above.get("mode").map(unlabelled));
            above.is_none() || below.unwrap_or(&json!("time")) == above.unwrap_or(&json!("time"))
        }
        "body" | "auth.session.body" => above.is_empty() || above.keys().any(|kind| below.contains_key(kind)),
        _ => true,
    }
}

/// Leaf values by path: texts, numbers, lists, named entries, empty sections.
pub(crate) fn leaves(document: &Value) -> BTreeMap<String, Value> {
    fn collect(value: &Value, path: &str, whole: bool, leaves: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(map) if path.is_empty() || !(map.is_empty() || whole) => {
                for (key, value) in map {
                    collect(value, &join(path, key), NAMED_MAPS.contains(&path), leaves);
                }
            }
            _ => drop(leaves.insert(path.to_owned(), value.clone())),
        }
    }
    let mut found = BTreeMap::new();
    collect(document, "", false, &mut found);
    found
}

/// Joins a path and a key. A key with special characters is quoted.
pub(crate) fn join(path: &str, key: &str) -> String {
    match (path.is_empty(), key.is_empty() || key.contains(['.', '[', ']'])) {
        (_, true) => format!("{path}[{key:?}]"),
        (true, false) => key.to_owned(),
        (false, false) => format!("{path}.{key}"),
    }
}
