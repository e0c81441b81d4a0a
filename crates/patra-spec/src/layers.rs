//! Five layers of settings, the later over the earlier (ING-3.3-03): what the platform says, what the provenance's
//! `defaults` say, what the endpoint is, what its sections say, what the trigger asks for. They are merged as JSON
//! documents, so a new section needs nothing here; what comes out is typed again.
//!
//! Sections merge key by key. Whatever has a name of its own (a parameter, a header, a field) is replaced as a whole, as
//! are lists. A section that says another `type` than the one below is another thing, and takes nothing from it.

pub(crate) mod overrides;
mod platform;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use patra_core::registry::Table;

use crate::manifest::{Endpoint, Manifest};
use crate::problem::Problem;
use crate::registry;
use crate::snapshot::Snapshot;

pub use overrides::Overrides;

/// How many values all endpoints together may take over from `defaults`: laying large ones under many endpoints would
/// multiply what a small file can ask for.
const MAX_INHERITED: usize = 50_000;

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    Platform,
    Provenance,
    Definition,
    Settings(Table),
    Trigger,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer::Platform => f.write_str("platform"),
            Layer::Provenance => f.write_str("provenance defaults"),
            Layer::Definition => f.write_str("endpoint definition"),
            Layer::Settings(table) => write!(f, "endpoint settings ({})", table.name()),
            Layer::Trigger => f.write_str("trigger"),
        }
    }
}

/// One value of a compiled endpoint, and who said it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// As in a manifest, from the endpoint on: `pagination.page_size`.
    pub path: String,
    pub value: Value,
    pub layer: Layer,
}

/// The manifest with its defaults laid under every endpoint, and short keys where the long ones are. Nothing is left in
/// `defaults`, so each endpoint can be looked at alone; places still name what was written.
pub(crate) fn effective(manifest: &Manifest) -> Result<Manifest, Problem> {
    let names = manifest.endpoints.keys().map(String::as_str).collect();
    effective_of(manifest, &names)
}

/// The same, for one endpoint and those that it names; the others are left as they are.
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
        let message = format!("too much for {} endpoints to take over", names.len());
        let hint = format!("together they may take over {MAX_INHERITED} values: move what few of them need to these");
        return Err(manifest.origin.problem("defaults", message, Some(hint)));
    }
    let mut effective = Manifest { defaults: Endpoint::default(), ..manifest.clone() };
    for (name, endpoint) in &mut effective.endpoints {
        let short = endpoint.method.is_some() || endpoint.path.is_some() || endpoint.items_path.is_some();
        if !names.contains(name.as_str()) || (is_empty(&defaults) && !short) {
            continue;
        }
        let (definition, settings) = parts(endpoint);
        *endpoint = typed(merged([defaults.clone(), definition, settings]))
            .map_err(|error| manifest.origin.problem(&format!("endpoints.{name}"), error, None))?;
    }
    Ok(effective)
}

/// The endpoint with what the trigger asks for.
pub(crate) fn overridden(endpoint: &Endpoint, overrides: &Overrides) -> Result<Endpoint, String> {
    typed(merged([document(endpoint), overrides.document()]))
}

/// Every value of an endpoint that compiles, and the layer that said it, in the order of their paths.
pub(crate) fn explain(manifest: &Manifest, snapshot: &Snapshot, overrides: &Overrides) -> Vec<Explained> {
    let declared = manifest.endpoints.get(&snapshot.endpoint_code).cloned().unwrap_or_default();
    let (definition, settings) = parts(&declared);
    let layers = [
        (Layer::Platform, document(&platform::platform(snapshot, &declared))),
        (Layer::Provenance, document(&manifest.defaults)),
        (Layer::Definition, definition),
        (Layer::Settings(Table::EndpointDef), settings),
        (Layer::Trigger, overrides.document()),
    ];
    let mut at = 0..;
    let [platform, written @ ..] = layers.clone().map(|(_, document)| signed(document, "", at.next().unwrap_or(0)));
    // The platform's values are those for what all the others make together.
    let all = merged([platform, merged(written)]);
    let explained = leaves(&all).into_iter().map(|(path, signed)| {
        let said = |at: &Value| layers.get(usize::try_from(at.as_u64()?).ok()?).map(|(layer, _)| *layer);
        let (value, layer) = (unsigned(&signed).clone(), signed.get(0).and_then(said).unwrap_or(Layer::Platform));
        let layer = if let Layer::Settings(_) = layer { Layer::Settings(registry::table_of(&path)) } else { layer };
        Explained { path, value, layer }
    });
    explained.collect()
}

/// The document with every value replaced by a list of who said it and the value: lists are laid over each other as a
/// whole, so the signature stays with its value.
fn signed(value: Value, path: &str, layer: usize) -> Value {
    match value {
        Value::Object(map) if path.is_empty() || !map.is_empty() => {
            let named = NAMED.contains(&path);
            let sign = |(key, value): (String, Value)| {
                let value = if named { json!([layer, value]) } else { signed(value, &join(path, &key), layer) };
                (key, value)
            };
            map.into_iter().map(sign).collect::<Map<_, _>>().into()
        }
        value => json!([layer, value]),
    }
}

fn unsigned(value: &Value) -> &Value {
    value.get(1).unwrap_or(value)
}

/// What the endpoint is, with its short keys at their long places; and what its sections say.
fn parts(endpoint: &Endpoint) -> (Value, Value) {
    let (mut definition, mut settings) = (Map::new(), Map::new());
    let Value::Object(document) = document(endpoint) else { return Default::default() };
    for (key, value) in document {
        match (SHORT.iter().find(|(short, _, _)| *short == key), registry::table_of(&key)) {
            (Some((_, section, long)), _) => {
                let section = definition.entry(*section).or_insert_with(|| Value::Object(Map::new()));
                if let Some(section) = section.as_object_mut() {
                    section.insert((*long).to_owned(), value);
                }
            }
            (None, Table::EndpointDef) => drop(definition.insert(key, value)),
            (None, _) => drop(settings.insert(key, value)),
        }
    }
    (definition.into(), settings.into())
}

/// Short keys of an endpoint, and what they are short for.
pub(crate) const SHORT: &[(&str, &str, &str)] =
    &[("method", "http", "method"), ("path", "http", "path"), ("items_path", "response", "items_path")];

/// What says what one endpoint is cannot be shared: a detail endpoint must not take over the search's schedule.
const OWN: &[&str] = &[
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

/// Keys that `defaults` have and must not. A file cannot say them; a stored document could.
pub(crate) fn misplaced(defaults: &Endpoint) -> Vec<&'static str> {
    let document = document(defaults);
    OWN.iter().copied().filter(|key| document.get(key).is_some()).collect()
}

fn document(endpoint: &Endpoint) -> Value {
    // Texts, numbers and maps with text keys: nothing that JSON could refuse.
    serde_json::to_value(endpoint).unwrap_or_default()
}

fn typed(document: Value) -> Result<Endpoint, String> {
    Endpoint::deserialize(document).map_err(|error| format!("the merged settings cannot be read: {error}"))
}

fn is_empty(document: &Value) -> bool {
    document.as_object().is_none_or(Map::is_empty)
}

fn merged(layers: impl IntoIterator<Item = Value>) -> Value {
    layers.into_iter().fold(Value::Object(Map::new()), |below, above| lay(below, above, ""))
}

fn lay(below: Value, above: Value, path: &str) -> Value {
    match (below, above) {
        (Value::Object(mut both), Value::Object(above)) if same_kind(&both, &above, path) => {
            for (key, value) in above {
                // Names of headers are compared without case: an endpoint's `accept` replaces the provenance's `Accept`.
                if path == "http.headers" {
                    both.retain(|name, _| !name.eq_ignore_ascii_case(&key));
                }
                let value = match both.remove(&key) {
                    Some(below) if !NAMED.contains(&path) => lay(below, value, &join(path, &key)),
                    _ => value,
                };
                both.insert(key, value);
            }
            Value::Object(both)
        }
        (_, above) => above,
    }
}

/// Maps from names to things: each thing is replaced as a whole.
const NAMED: &[&str] = &[
    "query",
    "params",
    "fields",
    "http.headers",
    "body.form",
    "auth.session.headers",
    "auth.session.body.form",
    "record.add",
];

/// Whether two sections speak of the same thing.
fn same_kind(below: &Map<String, Value>, above: &Map<String, Value>, path: &str) -> bool {
    match path {
        "pagination" | "auth" => {
            let (below, above) = (below.get("type").map(unsigned), above.get("type").map(unsigned));
            below.is_none() || above.is_none() || below == above
        }
        "body" | "auth.session.body" => above.is_empty() || above.keys().any(|kind| below.contains_key(kind)),
        _ => true,
    }
}

/// Path to value of whatever holds nothing further: texts, numbers, lists, named things, empty sections.
pub(crate) fn leaves(document: &Value) -> BTreeMap<String, Value> {
    fn collect(value: &Value, path: &str, whole: bool, leaves: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(map) if path.is_empty() || !(map.is_empty() || whole) => {
                for (key, value) in map {
                    collect(value, &join(path, key), NAMED.contains(&path), leaves);
                }
            }
            _ => drop(leaves.insert(path.to_owned(), value.clone())),
        }
    }
    let mut found = BTreeMap::new();
    collect(document, "", false, &mut found);
    found
}

/// A key that could be read as several is quoted.
pub(crate) fn join(path: &str, key: &str) -> String {
    match (path.is_empty(), key.is_empty() || key.contains(['.', '[', ']'])) {
        (_, true) => format!("{path}[{key:?}]"),
        (true, false) => key.to_owned(),
        (false, false) => format!("{path}.{key}"),
    }
}
