//! The schema for editors, with a validator for the subset of JSON Schema that it uses.

use serde_json::{Value, json};

use crate::{EVERYTHING, WORKS, sources};

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// The validation errors of a document.
fn check(document: &Value) -> Vec<String> {
    let schema = patra_spec::schema();
    let mut problems = Vec::new();
    validate(&schema, &schema, document, "", &mut problems);
    problems
}

fn validate(root: &Value, schema: &Value, value: &Value, path: &str, problems: &mut Vec<String>) {
    if let Some(section) = schema["$ref"].as_str() {
        let section = root.pointer(section.trim_start_matches('#')).unwrap_or_else(|| panic!("no {section}"));
        validate(root, section, value, path, problems);
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().map(|one| one.as_str().unwrap()).collect(),
        _ => Vec::new(),
    };
    let is = |name: &str| match name {
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("no type {other}"),
    };
    if !types.is_empty() && !types.iter().any(|name| is(name)) {
        problems.push(format!("{path}: {value} is none of {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        problems.push(format!("{path}: {value} is not one of {}", schema["enum"]));
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !regex::Regex::new(pattern).unwrap().is_match(text)
    {
        problems.push(format!("{path}: {text:?} does not match {pattern}"));
    }
    if let (Some(minimum), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
        && number < minimum
    {
        problems.push(format!("{path}: {number} is less than {minimum}"));
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        if schema["items"].is_object() {
            validate(root, &schema["items"], item, &format!("{path}[{at}]"), problems);
        }
    }
    let Some(map) = value.as_object() else { return };
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(key) {
            problems.push(format!("{path}: {key} is missing"));
        }
    }
    for (key, value) in map {
        let (path, other) = (format!("{path}.{key}"), &schema["additionalProperties"]);
        match &schema["properties"][key] {
            Value::Null if *other == json!(false) => problems.push(format!("{path}: unknown")),
            Value::Null if other.is_object() => validate(root, other, value, &path, problems),
            Value::Null => {}
            known => validate(root, known, value, &path, problems),
        }
    }
}

#[test]
fn the_manifests_of_the_repository_are_valid() {
    for text in sources() {
        assert_eq!(check(&yaml(&text)), [""; 0]);
    }
    // Exported YAML is valid as well.
    let exported = patra_spec::to_yaml(&crate::manifest(EVERYTHING));
    assert_eq!(check(&yaml(&exported)), [""; 0]);
}

#[test]
fn the_schema_and_the_reader_agree_on_mistakes() {
    for (from, to, expected) in [
        ("provenance: crossref", "provnance: crossref", ": provenance is missing"),
        ("page_size: 100", "page_sise: 100", ".endpoints.works.pagination.page_sise: unknown"),
        ("page_size: 100", "page_size: many", ".endpoints.works.pagination.page_size: \"many\" is none of"),
        ("page_size: 100", "page_size: -1", ".endpoints.works.pagination.page_size: -1 is less than 0"),
        ("type: token", "type: tokn", ".endpoints.works.pagination.type: \"tokn\" is not one of"),
        ("safety_lag: PT10M", "safety_lag: 10m", ".endpoints.works.window.safety_lag: \"10m\" does not match"),
        ("role: search", "role: 1", ".endpoints.works.role: 1 is none of"),
        ("burst: 10", "burst: ten", ".defaults.rate_limit.burst: \"ten\" is none of"),
        ("fields: {", "fields: { bad: { type: string },", ".endpoints.works.fields.bad: path is missing"),
        ("defaults:", "defaults:\n  schedule: { every: PT1H }", ".defaults.schedule: unknown"),
    ] {
        assert!(WORKS.contains(from), "{from}");
        let text = WORKS.replacen(from, to, 1);
        let problems = check(&yaml(&text));
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{problems:?}");
        assert!(patra_spec::read("t.yaml", &text).is_err(), "the reader takes {to}");
    }
}

/// The manifest with every key is complete.
#[test]
fn full_manifest_has_every_key() {
    let (schema, document) = (patra_spec::schema(), yaml(EVERYTHING));
    let mut unused = Vec::new();
    for (section, schema) in schema["$defs"].as_object().unwrap() {
        let mut places = vec![&document["defaults"][section]];
        places.extend(document["endpoints"].as_object().unwrap().values().map(|endpoint| &endpoint[section]));
        used(schema, &places, section, &mut unused);
    }
    let endpoints: Vec<_> = document["endpoints"].as_object().unwrap().values().collect();
    used(&schema["properties"]["endpoints"]["additionalProperties"], &endpoints, "endpoints.*", &mut unused);
    used(&schema, &[&document], "", &mut unused);
    // Accepted by the reader and rejected by a check: a login has plain templates only.
    unused.retain(|path| !path.starts_with("auth.session.body.form.*."));
    assert!(unused.is_empty(), "tests/it/everything.yaml does not use {unused:#?}");
}

fn used(schema: &Value, places: &[&Value], path: &str, unused: &mut Vec<String>) {
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let inner: Vec<_> = places.iter().filter_map(|place| place.get(key)).collect();
        // Shared sections were checked in both places.
        if inner.is_empty() && schema["$ref"].is_null() {
            unused.push(format!("{path}.{key}"));
        } else {
            used(schema, &inner, &format!("{path}.{key}"), unused);
        }
    }
    let (any, items) = (&schema["additionalProperties"], &schema["items"]);
    if any["properties"].is_object() {
        let inner: Vec<_> = places.iter().filter_map(|place| place.as_object()).flat_map(|map| map.values()).collect();
        used(any, &inner, &format!("{path}.*"), unused);
    }
    if items["properties"].is_object() {
        let inner: Vec<_> = places.iter().filter_map(|place| place.as_array()).flatten().collect();
        used(items, &inner, &format!("{path}[]"), unused);
    }
}

#[test]
fn every_property_is_described() {
    fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
        for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{key}");
            if schema["description"].as_str().is_none_or(str::is_empty) && schema["$ref"].is_null() {
                found.push(path.clone());
            }
            undescribed(schema, &path, found);
        }
        for inner in
            ["additionalProperties", "items"].map(|inner| &schema[inner]).into_iter().filter(|inner| inner.is_object())
        {
            undescribed(inner, path, found);
        }
    }
    let (schema, mut found) = (patra_spec::schema(), Vec::new());
    undescribed(&schema, "", &mut found);
    for (name, section) in schema["$defs"].as_object().unwrap() {
        undescribed(section, name, &mut found);
        assert!(section["description"].is_string(), "{name}");
    }
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}
