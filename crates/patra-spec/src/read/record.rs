//! Readers for the sections `record` and `fields`.

use std::collections::BTreeMap;

use super::reader::ManifestReader;
use super::{response, scalar};
use crate::manifest::{ConditionConfig, FieldConfig, RecordConfig};
use crate::yaml::{YamlNode, YamlValue};

pub(super) fn record(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<RecordConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let record = RecordConfig {
        filter: reader.get(s, "filter", filter).unwrap_or_default(),
        add: reader.get(s, "add", add).unwrap_or_default(),
        remove: reader.get(s, "remove", remove).unwrap_or_default(),
        dedup_scope: reader.get(s, "dedup_scope", ManifestReader::keyword),
        emit: reader.get(s, "emit", ManifestReader::flag),
    };
    reader.close(&section);
    Some(record)
}

fn filter(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<Vec<ConditionConfig>> {
    reader.list(path, node, |reader, path, node| {
        let mut section = reader.section(path, node)?;
        let condition = response::condition(reader, &mut section);
        reader.close(&section);
        Some(condition)
    })
}

fn remove(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<Vec<String>> {
    reader.list(path, node, ManifestReader::text)
}

fn add(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<BTreeMap<String, serde_json::Value>> {
    let section = reader.section(path, node)?;
    let mut constants = BTreeMap::new();
    for entry in section.entries {
        reader.enter(path, &entry.key, entry);
        constants.insert(entry.key.clone(), scalar::to_json(&entry.value));
    }
    Some(constants)
}

pub(super) fn fields(
    reader: &mut ManifestReader,
    path: &str,
    node: &YamlNode,
) -> Option<BTreeMap<String, FieldConfig>> {
    let section = reader.section(path, node)?;
    let mut fields = BTreeMap::new();
    for entry in section.entries {
        let path = reader.enter(path, &entry.key, entry);
        if let Some(field) = field(reader, &path, &entry.value) {
            fields.insert(entry.key.clone(), field);
        }
    }
    Some(fields)
}

fn field(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<FieldConfig> {
    let YamlValue::Map(_) = node.data else {
        return match &node.data {
            YamlValue::Text(text) => Some(FieldConfig::at(text.as_str())),
            _ => reader.expected(path, node, "a path, or a section with a path and a type"),
        };
    };
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let field = FieldConfig {
        path: reader.get(s, "path", ManifestReader::text).unwrap_or_default(),
        r#type: reader.get(s, "type", ManifestReader::keyword),
        format: reader.get(s, "format", ManifestReader::text),
        required: reader.get(s, "required", ManifestReader::flag).unwrap_or_default(),
        on_error: reader.get(s, "on_error", ManifestReader::keyword),
    };
    reader.close(&section);
    if field.path.is_empty() {
        reader.missing(&section, "path");
    }
    Some(field)
}
