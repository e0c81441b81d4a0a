//! The `body` of a request.

use super::inputs::request_params;
use super::reader::ManifestReader;
use super::scalar;
use crate::manifest::BodyConfig;
use crate::yaml::{YamlNode, YamlValue};

pub(super) fn body(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<BodyConfig> {
    let YamlValue::Map(_) = node.data else {
        return match &node.data {
            YamlValue::Text(text) => Some(BodyConfig::raw(text.as_str())),
            _ => reader.expected(path, node, "a text, or a section with `json`, `form` or `raw`"),
        };
    };
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let body = BodyConfig {
        json: reader.get(s, "json", json),
        form: reader.get(s, "form", request_params),
        raw: reader.get(s, "raw", ManifestReader::text),
    };
    reader.close(&section);
    Some(body)
}

/// Records the positions of all texts, because each is a template that may have problems.
fn json(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<serde_json::Value> {
    let (YamlValue::Map(_) | YamlValue::List(_)) = node.data else {
        return reader.expected(path, node, "a section or a list");
    };
    places(reader, path, node);
    Some(scalar::to_json(node))
}

fn places(reader: &mut ManifestReader, path: &str, node: &YamlNode) {
    match &node.data {
        YamlValue::Map(entries) => {
            for entry in entries {
                let path = reader.enter(path, &entry.key, entry);
                places(reader, &path, &entry.value);
            }
        }
        YamlValue::List(items) => {
            for (at, item) in items.iter().enumerate() {
                let path = reader.element(path, at, item);
                places(reader, &path, item);
            }
        }
        _ => {}
    }
}
