//! Readers for the sections `params`, `partitions` and `expr`, and for request parameters.

use std::collections::BTreeMap;

use super::reader::ManifestReader;
use crate::manifest::{ExprConfig, ParamConfig, ParentConfig, PartitionConfig, RequestParamConfig};
use crate::yaml::{YamlNode, YamlValue};

pub(super) fn params(
    reader: &mut ManifestReader,
    path: &str,
    node: &YamlNode,
) -> Option<BTreeMap<String, ParamConfig>> {
    let section = reader.section(path, node)?;
    let mut params = BTreeMap::new();
    for entry in section.entries {
        let path = reader.enter(path, &entry.key, entry);
        params.insert(entry.key.clone(), param(reader, &path, &entry.value).unwrap_or_default());
    }
    Some(params)
}

fn param(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<ParamConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let param = ParamConfig {
        default: reader.get(s, "default", ManifestReader::scalar),
        required: reader.get(s, "required", ManifestReader::flag),
        pattern: reader.get(s, "pattern", ManifestReader::text),
        secret: reader.get(s, "secret", ManifestReader::flag),
        description: reader.get(s, "description", ManifestReader::text),
    };
    reader.close(&section);
    Some(param)
}

pub(super) fn partitions(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<Vec<PartitionConfig>> {
    reader.list(path, node, partition)
}

fn partition(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<PartitionConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let partition = PartitionConfig {
        param: reader.get(s, "param", ManifestReader::text),
        values: reader.get(s, "values", ManifestReader::scalars).unwrap_or_default(),
        parent: reader.get(s, "parent", parent),
    };
    reader.close(&section);
    Some(partition)
}

fn parent(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<ParentConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let parent = ParentConfig {
        endpoint: reader.get(s, "endpoint", ManifestReader::code),
        path: reader.get(s, "path", ManifestReader::text),
    };
    reader.close(&section);
    Some(parent)
}

pub(super) fn expr(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<ExprConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let expr = ExprConfig {
        allowed_functions: reader.get(s, "allowed_functions", ManifestReader::scalars),
        null_policy: reader.get(s, "null_policy", ManifestReader::keyword),
        time_format: reader.get(s, "time_format", ManifestReader::text),
        timezone: reader.get(s, "timezone", ManifestReader::text),
    };
    reader.close(&section);
    Some(expr)
}

/// Named request parameters, as in `query`, `headers` and forms.
pub(super) fn request_params(
    reader: &mut ManifestReader,
    path: &str,
    node: &YamlNode,
) -> Option<BTreeMap<String, RequestParamConfig>> {
    let section = reader.section(path, node)?;
    let mut params = BTreeMap::new();
    for entry in section.entries {
        let path = reader.enter(path, &entry.key, entry);
        if let Some(param) = request_param(reader, &path, &entry.value) {
            params.insert(entry.key.clone(), param);
        }
    }
    Some(params)
}

fn request_param(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<RequestParamConfig> {
    match &node.data {
        YamlValue::Text(text) | YamlValue::Number(text) => return Some(RequestParamConfig::plain(text.as_str())),
        YamlValue::Bool(yes) => return Some(RequestParamConfig::plain(yes.to_string())),
        YamlValue::Map(_) => {}
        YamlValue::Null | YamlValue::List(_) => {
            return reader.expected(path, node, "a text, a number, a boolean, or a section with `expr`");
        }
    }
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let expr = reader.get(s, "expr", ManifestReader::scalar);
    let param = RequestParamConfig {
        default: reader.get(s, "default", ManifestReader::scalar),
        required: reader.get(s, "required", ManifestReader::flag).unwrap_or_default(),
        pattern: reader.get(s, "pattern", ManifestReader::text),
        expr: expr.clone().unwrap_or_default(),
    };
    reader.close(&section);
    if expr.is_none() {
        reader.missing(&section, "expr");
    }
    Some(param)
}
