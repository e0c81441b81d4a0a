//! What becomes of items: the sections `record` and `fields`.

use std::collections::BTreeMap;

use super::reader::Reader;
use super::{response, scalar};
use crate::manifest::{Condition, Field, Record};
use crate::yaml::{Data, Node};

pub(super) fn record(reader: &mut Reader, path: &str, node: &Node) -> Option<Record> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let record = Record {
        filter: reader.get(s, "filter", filter).unwrap_or_default(),
        add: reader.get(s, "add", add).unwrap_or_default(),
        remove: reader.get(s, "remove", remove).unwrap_or_default(),
        dedup_scope: reader.get(s, "dedup_scope", Reader::word),
        emit: reader.get(s, "emit", Reader::flag),
    };
    reader.close(&section);
    Some(record)
}

fn filter(reader: &mut Reader, path: &str, node: &Node) -> Option<Vec<Condition>> {
    reader.list(path, node, |reader, path, node| {
        let mut section = reader.section(path, node)?;
        let condition = response::condition(reader, &mut section);
        reader.close(&section);
        Some(condition)
    })
}

fn remove(reader: &mut Reader, path: &str, node: &Node) -> Option<Vec<String>> {
    reader.list(path, node, Reader::text)
}

fn add(reader: &mut Reader, path: &str, node: &Node) -> Option<BTreeMap<String, serde_json::Value>> {
    let section = reader.section(path, node)?;
    let mut constants = BTreeMap::new();
    for entry in section.entries {
        reader.enter(path, &entry.key, entry);
        constants.insert(entry.key.clone(), scalar::to_json(&entry.value));
    }
    Some(constants)
}

pub(super) fn fields(reader: &mut Reader, path: &str, node: &Node) -> Option<BTreeMap<String, Field>> {
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

fn field(reader: &mut Reader, path: &str, node: &Node) -> Option<Field> {
    let Data::Map(_) = node.data else {
        return match &node.data {
            Data::Text(text) => Some(Field::at(text.as_str())),
            _ => reader.wrong(path, node, "a path, or a section with a path and a type"),
        };
    };
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let field = Field {
        path: reader.get(s, "path", Reader::text).unwrap_or_default(),
        r#type: reader.get(s, "type", Reader::word),
        format: reader.get(s, "format", Reader::text),
        required: reader.get(s, "required", Reader::flag).unwrap_or_default(),
        on_error: reader.get(s, "on_error", Reader::word),
    };
    reader.close(&section);
    if field.path.is_empty() {
        reader.missing(&section, "path");
    }
    Some(field)
}
