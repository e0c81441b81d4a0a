//! The JSON Schema of manifests, for editors. The structure is recorded from the reader, the descriptions come from the
//! reference. A test fails for a key without a line in the reference.

mod reference;

use serde_json::{Map, Value, json};

use crate::read::key_schema::{KeySchema, ValueFormat, ValueType, key_schemas};

/// Durations as in [`crate::IsoDuration`]: weeks to seconds, no months and no years.
const DURATION: &str = r"^\s*[Pp]([0-9.,]+[WwDd])*([Tt]([0-9.,]+[HhMmSs])+)?\s*$";

/// Draft 2020-12.
pub fn schema() -> Value {
    let mut root = schema_at("");
    let sections = section_names().map(|name| (name.to_owned(), schema_at(&format!("{ENDPOINT}.{name}"))));
    let sections: Map<_, _> = sections.collect();
    if let Some(root) = root.as_object_mut() {
        root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        root.insert("title".into(), "Patra manifest".into());
        root.insert("description".into(), "A provenance and its endpoints".into());
        root.insert("$defs".into(), sections.into());
    }
    root
}

const ENDPOINT: &str = "endpoints.*";

/// Sections that `defaults` and endpoints share are defined once.
fn section_names() -> impl Iterator<Item = &'static str> {
    let keys = key_schemas().get("defaults").and_then(|key_schema| key_schema.keys.clone()).unwrap_or_default();
    keys.into_iter().filter(|key| key_schemas().get(&format!("{ENDPOINT}.{key}")).is_some_and(is_section))
}

fn is_section(key_schema: &KeySchema) -> bool {
    key_schema.types.contains(&ValueType::Map)
}

/// The schema of a path, with everything below it.
fn schema_at(path: &str) -> Value {
    let Some(key_schema) = key_schemas().get(path) else { return json!({}) };
    let mut schema = Map::new();
    if key_schema.types.len() < ANYTHING {
        let mut types: Vec<&str> = key_schema.types.iter().map(|value_type| name(*value_type, key_schema)).collect();
        // A key without a value counts as absent.
        if !key_schema.required && is_keyed(path) {
            types.push("null");
        }
        let types = if let [one] = types[..] { json!(one) } else { json!(types) };
        schema.insert("type".into(), types);
    }
    if let Some(description) = reference::describe(path) {
        schema.insert("description".into(), description.into());
    }
    add_format(&mut schema, key_schema, path);
    if key_schema.types.contains(&ValueType::List)
        && let element = format!("{path}[]")
        && key_schemas().contains_key(&element)
    {
        schema.insert("items".into(), schema_at(&element));
    }
    if key_schema.types.contains(&ValueType::Map) {
        members(&mut schema, key_schema, path);
    }
    schema.into()
}

/// Number of value types.
const ANYTHING: usize = 5;

fn name(value_type: ValueType, key_schema: &KeySchema) -> &'static str {
    match value_type {
        ValueType::Text => "string",
        ValueType::Number if key_schema.format == Some(ValueFormat::Integer) => "integer",
        ValueType::Number => "number",
        ValueType::Bool => "boolean",
        ValueType::List => "array",
        ValueType::Map => "object",
    }
}

/// Whether the path is a key of a section; names and list elements always have a value.
fn is_keyed(path: &str) -> bool {
    !path.is_empty() && !path.ends_with('*') && !path.ends_with("[]")
}

fn add_format(schema: &mut Map<String, Value>, key_schema: &KeySchema, path: &str) {
    match &key_schema.format {
        Some(ValueFormat::Integer) => drop(schema.insert("minimum".into(), 0.into())),
        Some(ValueFormat::Duration) => drop(schema.insert("pattern".into(), DURATION.into())),
        Some(ValueFormat::Instant) => {
            drop(schema.insert("examples".into(), json!(["2024-01-01", "2024-01-01T08:00:00Z"])));
        }
        Some(ValueFormat::Keywords(words)) => {
            // Both cases are accepted, so an editor offers both.
            let mut all: Vec<Value> = words.iter().map(|word| word.as_str().into()).collect();
            all.extend(words.iter().map(|word| word.to_uppercase().into()));
            if is_keyed(path) {
                all.push(Value::Null);
            }
            schema.insert("enum".into(), all.into());
        }
        Some(ValueFormat::Code) | None => {}
    }
}

fn members(schema: &mut Map<String, Value>, key_schema: &KeySchema, path: &str) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let Some(keys) = &key_schema.keys else {
        if key_schemas().contains_key(&join("*")) {
            schema.insert("additionalProperties".into(), schema_at(&join("*")));
        }
        return;
    };
    let shared = path == "defaults" || path == ENDPOINT;
    let member = |key: &&'static str| match shared && section_names().any(|name| name == *key) {
        true => ((*key).to_owned(), json!({ "$ref": format!("#/$defs/{key}") })),
        false => ((*key).to_owned(), schema_at(&join(key))),
    };
    schema.insert("properties".into(), keys.iter().map(member).collect::<Map<_, _>>().into());
    schema.insert("additionalProperties".into(), false.into());
    let required =
        keys.iter().filter(|key| key_schemas().get(&join(key)).is_some_and(|key_schema| key_schema.required));
    let required: Vec<Value> = required.map(|key| (*key).into()).collect();
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shared sections have one definition, so both must accept the same.
    #[test]
    fn defaults_and_endpoints_read_their_sections_alike() {
        for (path, key_schema) in key_schemas() {
            if let Some(rest) = path.strip_prefix("defaults.") {
                assert_eq!(key_schemas().get(&format!("{ENDPOINT}.{rest}")), Some(key_schema), "{path}");
            }
        }
        assert!(section_names().count() > 10);
    }
}
