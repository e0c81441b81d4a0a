//! The `response` section.

use std::collections::BTreeMap;

use patra_core::{Code, Level};

use super::reader::{ManifestReader, SectionReader};
use crate::manifest::{ConditionConfig, CsvConfig, ErrorRuleConfig, HtmlConfig, IdPaths, ResponseConfig, XmlConfig};
use crate::yaml::{YamlNode, YamlValue};

pub(super) fn response(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<ResponseConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let response = ResponseConfig {
        format: reader.get(s, "format", ManifestReader::keyword),
        lenient: reader.get(s, "lenient", ManifestReader::flag),
        csv: reader.get(s, "csv", csv),
        xml: reader.get(s, "xml", xml),
        html: reader.get(s, "html", html),
        errors: reader.get(s, "errors", errors).unwrap_or_default(),
        items_path: reader.get(s, "items_path", ManifestReader::text),
        absent: reader.get(s, "absent", ManifestReader::keyword),
        id_path: reader.get(s, "id_path", paths),
        id_separator: reader.get(s, "id_separator", ManifestReader::text),
        updated_at_path: reader.get(s, "updated_at_path", ManifestReader::text),
        updated_at_format: reader.get(s, "updated_at_format", ManifestReader::text),
        total_path: reader.get(s, "total_path", ManifestReader::text),
        total_header: reader.get(s, "total_header", ManifestReader::text),
        total: reader.get(s, "total", ManifestReader::keyword),
        has_more_path: reader.get(s, "has_more_path", ManifestReader::text),
        has_more_header: reader.get(s, "has_more_header", ManifestReader::text),
        version_path: reader.get(s, "version_path", ManifestReader::text),
    };
    reader.close(&section);
    Some(response)
}

/// Reads the keys of a condition from its section.
pub(super) fn condition(reader: &mut ManifestReader, s: &mut SectionReader<'_>) -> ConditionConfig {
    ConditionConfig {
        path: reader.get(s, "path", ManifestReader::text),
        exists: reader.get(s, "exists", ManifestReader::flag),
        equals: reader.get(s, "equals", ManifestReader::scalar),
        not_equals: reader.get(s, "not_equals", ManifestReader::scalar),
        r#in: reader.get(s, "in", ManifestReader::scalars).unwrap_or_default(),
        matches: reader.get(s, "matches", ManifestReader::text),
    }
}

fn paths(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<IdPaths> {
    match &node.data {
        YamlValue::List(_) => reader.list(path, node, ManifestReader::text).map(IdPaths),
        YamlValue::Text(text) => Some(IdPaths::one(text.as_str())),
        _ => reader.expected(path, node, "a path, or a list of paths"),
    }
}

fn csv(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<CsvConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let csv = CsvConfig {
        delimiter: reader.get(s, "delimiter", ManifestReader::text),
        quote: reader.get(s, "quote", ManifestReader::text),
        header: reader.get(s, "header", ManifestReader::flag),
        columns: reader.get(s, "columns", ManifestReader::scalars).unwrap_or_default(),
    };
    reader.close(&section);
    Some(csv)
}

fn xml(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<XmlConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let xml = XmlConfig {
        lists: reader.get(s, "lists", ManifestReader::scalars).unwrap_or_default(),
        texts: reader.get(s, "texts", ManifestReader::scalars).unwrap_or_default(),
    };
    reader.close(&section);
    Some(xml)
}

fn html(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<HtmlConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let html = HtmlConfig {
        rows: reader.get(s, "rows", ManifestReader::text),
        fields: reader.get(s, "fields", selectors).unwrap_or_default(),
        empty_text: reader.get(s, "empty_text", ManifestReader::text),
    };
    reader.close(&section);
    Some(html)
}

fn selectors(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<BTreeMap<String, String>> {
    let section = reader.section(path, node)?;
    let mut selectors = BTreeMap::new();
    for entry in section.entries {
        let path = reader.enter(path, &entry.key, entry);
        if let Some(selector) = reader.text(&path, &entry.value) {
            selectors.insert(entry.key.clone(), selector);
        }
    }
    Some(selectors)
}

fn errors(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<Vec<ErrorRuleConfig>> {
    reader.list(path, node, error_rule)
}

fn error_rule(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<ErrorRuleConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let rule = ErrorRuleConfig {
        when: condition(reader, s),
        status: reader.get(s, "status", ManifestReader::integers).unwrap_or_default(),
        level: reader.get(s, "level", level),
        code: reader.get(s, "code", code),
        message_path: reader.get(s, "message_path", ManifestReader::text),
        throttle: reader.get(s, "throttle", ManifestReader::flag),
    };
    reader.close(&section);
    Some(rule)
}

/// L3 data is about one record, so it is no level of a whole response.
fn level(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<Level> {
    match reader.one_of(path, node, &["l1", "l2", "l4"].map(str::to_owned))?.as_str() {
        "l1" => Some(Level::L1),
        "l4" => Some(Level::L4),
        _ => Some(Level::L2),
    }
}

fn code(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<Code> {
    let words: Vec<_> = Code::ALL.iter().map(|code| code.as_str().to_lowercase()).collect();
    let word = reader.one_of(path, node, &words)?;
    Code::ALL.iter().copied().find(|code| code.as_str().eq_ignore_ascii_case(&word))
}
