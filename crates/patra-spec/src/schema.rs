//! The JSON Schema of manifests, for editors. What is allowed where is what the reader was found to accept; what it means
//! is what the reference says. So neither has to be kept in step by hand, and a key without a line in the reference is
//! found by a test.

mod reference;

use serde_json::{Map, Value, json};

use crate::read::tour::{Form, Shape, Type, shapes};

/// Any letters in between are as in [`crate::Iso`]: weeks to seconds, no months and no years.
const DURATION: &str = r"^\s*[Pp]([0-9.,]+[WwDd])*([Tt]([0-9.,]+[HhMmSs])+)?\s*$";

/// Draft 2020-12.
pub fn schema() -> Value {
    let mut root = place("");
    let sections = section_names().map(|name| (name.to_owned(), place(&format!("{ENDPOINT}.{name}"))));
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

/// Sections that `defaults` and every endpoint have alike are written once.
fn section_names() -> impl Iterator<Item = &'static str> {
    let keys = shapes().get("defaults").and_then(|shape| shape.keys.clone()).unwrap_or_default();
    keys.into_iter().filter(|key| shapes().get(&format!("{ENDPOINT}.{key}")).is_some_and(is_section))
}

fn is_section(shape: &Shape) -> bool {
    shape.types.contains(&Type::Map)
}

/// What may stand at a path, with everything below it.
fn place(path: &str) -> Value {
    let Some(shape) = shapes().get(path) else { return json!({}) };
    let mut schema = Map::new();
    if shape.types.len() < ANYTHING {
        let mut types: Vec<&str> = shape.types.iter().map(|shown| name(*shown, shape)).collect();
        // A key without a value counts as absent.
        if !shape.required && is_keyed(path) {
            types.push("null");
        }
        let types = if let [one] = types[..] { json!(one) } else { json!(types) };
        schema.insert("type".into(), types);
    }
    if let Some(description) = reference::describe(path) {
        schema.insert("description".into(), description.into());
    }
    form(&mut schema, shape, path);
    if shape.types.contains(&Type::List)
        && let element = format!("{path}[]")
        && shapes().contains_key(&element)
    {
        schema.insert("items".into(), place(&element));
    }
    if shape.types.contains(&Type::Map) {
        members(&mut schema, shape, path);
    }
    schema.into()
}

/// All types there are.
const ANYTHING: usize = 5;

fn name(shown: Type, shape: &Shape) -> &'static str {
    match shown {
        Type::Text => "string",
        Type::Number if shape.form == Some(Form::Whole) => "integer",
        Type::Number => "number",
        Type::Bool => "boolean",
        Type::List => "array",
        Type::Map => "object",
    }
}

/// Whether the path is that of a key of a section; names and elements always have a value.
fn is_keyed(path: &str) -> bool {
    !path.is_empty() && !path.ends_with('*') && !path.ends_with("[]")
}

fn form(schema: &mut Map<String, Value>, shape: &Shape, path: &str) {
    match &shape.form {
        Some(Form::Whole) => drop(schema.insert("minimum".into(), 0.into())),
        Some(Form::Duration) => drop(schema.insert("pattern".into(), DURATION.into())),
        Some(Form::Instant) => drop(schema.insert("examples".into(), json!(["2024-01-01", "2024-01-01T08:00:00Z"]))),
        Some(Form::Words(words)) => {
            // Either case is read; an editor offers both.
            let mut all: Vec<Value> = words.iter().map(|word| word.as_str().into()).collect();
            all.extend(words.iter().map(|word| word.to_uppercase().into()));
            if is_keyed(path) {
                all.push(Value::Null);
            }
            schema.insert("enum".into(), all.into());
        }
        Some(Form::Code) | None => {}
    }
}

fn members(schema: &mut Map<String, Value>, shape: &Shape, path: &str) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let Some(keys) = &shape.keys else {
        if shapes().contains_key(&join("*")) {
            schema.insert("additionalProperties".into(), place(&join("*")));
        }
        return;
    };
    let shared = path == "defaults" || path == ENDPOINT;
    let member = |key: &&'static str| match shared && section_names().any(|name| name == *key) {
        true => ((*key).to_owned(), json!({ "$ref": format!("#/$defs/{key}") })),
        false => ((*key).to_owned(), place(&join(key))),
    };
    schema.insert("properties".into(), keys.iter().map(member).collect::<Map<_, _>>().into());
    schema.insert("additionalProperties".into(), false.into());
    let required = keys.iter().filter(|key| shapes().get(&join(key)).is_some_and(|shape| shape.required));
    let required: Vec<Value> = required.map(|key| (*key).into()).collect();
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two would otherwise need two definitions.
    #[test]
    fn defaults_and_endpoints_read_their_sections_alike() {
        for (path, shape) in shapes() {
            if let Some(rest) = path.strip_prefix("defaults.") {
                assert_eq!(shapes().get(&format!("{ENDPOINT}.{rest}")), Some(shape), "{path}");
            }
        }
        assert!(section_names().count() > 10);
    }
}
