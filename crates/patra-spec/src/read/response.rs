//! The `response` section.

use std::collections::BTreeMap;

use patra_core::{Code, Level};

use super::reader::{Reader, Section};
use crate::manifest::{Condition, Csv, ErrorRule, Html, Paths, Response, Xml};
use crate::yaml::{Data, Node};

pub(super) fn response(reader: &mut Reader, path: &str, node: &Node) -> Option<Response> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let response = Response {
        format: reader.get(s, "format", Reader::word),
        lenient: reader.get(s, "lenient", Reader::flag),
        csv: reader.get(s, "csv", csv),
        xml: reader.get(s, "xml", xml),
        html: reader.get(s, "html", html),
        errors: reader.get(s, "errors", errors).unwrap_or_default(),
        items_path: reader.get(s, "items_path", Reader::text),
        id_path: reader.get(s, "id_path", paths),
        id_separator: reader.get(s, "id_separator", Reader::text),
        updated_at_path: reader.get(s, "updated_at_path", Reader::text),
        updated_at_format: reader.get(s, "updated_at_format", Reader::text),
        total_path: reader.get(s, "total_path", Reader::text),
        total_header: reader.get(s, "total_header", Reader::text),
        total_is_estimate: reader.get(s, "total_is_estimate", Reader::flag),
        has_more_path: reader.get(s, "has_more_path", Reader::text),
        has_more_header: reader.get(s, "has_more_header", Reader::text),
        version_path: reader.get(s, "version_path", Reader::text),
    };
    reader.close(&section);
    Some(response)
}

/// A condition's tests, out of the section that it stands in.
pub(super) fn condition(reader: &mut Reader, s: &mut Section<'_>) -> Condition {
    Condition {
        path: reader.get(s, "path", Reader::text),
        exists: reader.get(s, "exists", Reader::flag),
        equals: reader.get(s, "equals", Reader::scalar),
        not_equals: reader.get(s, "not_equals", Reader::scalar),
        r#in: reader.get(s, "in", Reader::scalars).unwrap_or_default(),
        matches: reader.get(s, "matches", Reader::text),
    }
}

fn paths(reader: &mut Reader, path: &str, node: &Node) -> Option<Paths> {
    match &node.data {
        Data::List(_) => reader.list(path, node, Reader::text).map(Paths),
        Data::Text(text) => Some(Paths::one(text.as_str())),
        _ => reader.wrong(path, node, "a path, or a list of paths"),
    }
}

fn csv(reader: &mut Reader, path: &str, node: &Node) -> Option<Csv> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let csv = Csv {
        delimiter: reader.get(s, "delimiter", Reader::text),
        quote: reader.get(s, "quote", Reader::text),
        header: reader.get(s, "header", Reader::flag),
        columns: reader.get(s, "columns", Reader::scalars).unwrap_or_default(),
    };
    reader.close(&section);
    Some(csv)
}

fn xml(reader: &mut Reader, path: &str, node: &Node) -> Option<Xml> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let xml = Xml {
        lists: reader.get(s, "lists", Reader::scalars).unwrap_or_default(),
        texts: reader.get(s, "texts", Reader::scalars).unwrap_or_default(),
    };
    reader.close(&section);
    Some(xml)
}

fn html(reader: &mut Reader, path: &str, node: &Node) -> Option<Html> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let html = Html {
        rows: reader.get(s, "rows", Reader::text),
        fields: reader.get(s, "fields", selectors).unwrap_or_default(),
        empty_text: reader.get(s, "empty_text", Reader::text),
    };
    reader.close(&section);
    Some(html)
}

fn selectors(reader: &mut Reader, path: &str, node: &Node) -> Option<BTreeMap<String, String>> {
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

fn errors(reader: &mut Reader, path: &str, node: &Node) -> Option<Vec<ErrorRule>> {
    reader.list(path, node, error_rule)
}

fn error_rule(reader: &mut Reader, path: &str, node: &Node) -> Option<ErrorRule> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let rule = ErrorRule {
        when: condition(reader, s),
        status: reader.get(s, "status", Reader::wholes).unwrap_or_default(),
        level: reader.get(s, "level", level),
        code: reader.get(s, "code", code),
        message_path: reader.get(s, "message_path", Reader::text),
        throttle: reader.get(s, "throttle", Reader::flag),
    };
    reader.close(&section);
    Some(rule)
}

/// L3 is about one record, and so no level of a whole answer.
fn level(reader: &mut Reader, path: &str, node: &Node) -> Option<Level> {
    match reader.dictionary(path, node, &["l1", "l2", "l4"].map(str::to_owned))?.as_str() {
        "l1" => Some(Level::L1),
        "l4" => Some(Level::L4),
        _ => Some(Level::L2),
    }
}

fn code(reader: &mut Reader, path: &str, node: &Node) -> Option<Code> {
    let words: Vec<_> = Code::ALL.iter().map(|code| code.as_str().to_lowercase()).collect();
    let word = reader.dictionary(path, node, &words)?;
    Code::ALL.iter().copied().find(|code| code.as_str().eq_ignore_ascii_case(&word))
}
