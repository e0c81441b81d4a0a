//! Writes a manifest as YAML: block style, keys in the order of the reader, quotes only if the text would otherwise be
//! read as something else. Reading the output gives the same document.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::manifest::Manifest;
use crate::read::key_schema::{ValueFormat, key_schemas};

/// YAML allows keys of 1,024 characters in the short form, escapes included.
const MAX_SHORT_KEY: usize = 250;

pub fn to_yaml(manifest: &Manifest) -> String {
    let mut document = manifest.to_document();
    if let Value::Object(map) = &mut document {
        // Defaults are left out.
        map.retain(|key, value| !matches!((key.as_str(), &*value), ("allow_http", Value::Bool(false))));
        map.retain(|key, value| key != "defaults" || value.as_object().is_some_and(|defaults| !defaults.is_empty()));
    }
    let mut yaml = String::new();
    block(&mut yaml, &document, "", 0);
    yaml
}

/// Writes a block value; its first line has no indent.
fn block(out: &mut String, value: &Value, path: &str, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (at, (key, value)) in ordered(map, path).into_iter().enumerate() {
                let (written, inner) = (scalar(key), schema_path(path, key));
                if at > 0 {
                    pad(out, indent);
                }
                if key.len() > MAX_SHORT_KEY {
                    out.push_str(&format!("? {written}\n"));
                    pad(out, indent);
                } else {
                    out.push_str(&written);
                }
                out.push(':');
                after_key(out, value, &inner, indent + 2);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    pad(out, indent);
                }
                out.push_str("- ");
                block(out, item, &format!("{path}[]"), indent + 2);
            }
        }
        _ => {
            after_key(out, value, path, indent);
        }
    }
}

fn after_key(out: &mut String, value: &Value, path: &str, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            pad(out, indent);
            block(out, value, path, indent);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            pad(out, indent);
            block(out, value, path, indent);
        }
        Value::String(text) if is_literal(text) => literal(out, text, indent),
        _ => {
            if !out.ends_with(' ') {
                out.push(' ');
            }
            out.push_str(&inline(value, path));
            out.push('\n');
        }
    }
}

fn inline<'v>(value: &'v Value, path: &str) -> Cow<'v, str> {
    match value {
        Value::String(text) if is_keyword(path) => text.to_lowercase().into(),
        Value::String(text) => scalar(text),
        Value::Object(_) => "{}".into(),
        Value::Array(_) => "[]".into(),
        other => other.to_string().into(),
    }
}

/// Keywords are stored in the case of the dictionary and written in lower case, as in the reference. Error codes and
/// levels keep their case.
fn is_keyword(path: &str) -> bool {
    let word =
        key_schemas().get(path).is_some_and(|key_schema| matches!(key_schema.format, Some(ValueFormat::Keywords(_))));
    word && !path.ends_with(".code") && !path.ends_with(".level")
}

/// Keys in the order of the reader, then names in their own order.
fn ordered<'v>(map: &'v Map<String, Value>, path: &str) -> Vec<(&'v String, &'v Value)> {
    let known = key_schemas().get(path).and_then(|key_schema| key_schema.keys.as_deref()).unwrap_or_default();
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| known.iter().position(|known| known == key).unwrap_or(known.len()));
    entries
}

/// The path of a key in [`key_schemas`].
fn schema_path(path: &str, key: &str) -> String {
    let known = key_schemas().get(path).and_then(|key_schema| key_schema.keys.as_deref());
    let key = if known.is_some_and(|known| known.contains(&key)) { key } else { "*" };
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Whether a text of several lines can be written as a literal block.
fn is_literal(text: &str) -> bool {
    let lines = text.strip_suffix('\n').unwrap_or(text);
    let opens = |c: char| !c.is_whitespace();
    lines.contains('\n')
        && !lines.ends_with('\n')
        && text.starts_with(opens)
        && text.chars().all(|c| c == '\n' || is_printable(c))
        && lines.lines().all(|line| line.trim_end() == line)
}

fn literal(out: &mut String, text: &str, indent: usize) {
    if !out.ends_with(' ') {
        out.push(' ');
    }
    out.push_str(if text.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in text.lines() {
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn scalar(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return text.into();
    }
    let printable = text.chars().all(is_printable);
    if printable && text.contains(['"', '\\']) {
        return format!("'{}'", text.replace('\'', "''")).into();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if is_printable(c) => quoted.push(c),
            c if u32::from(c) > 0xFFFF => quoted.push_str(&format!("\\U{:08X}", u32::from(c))),
            c => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted.into()
}

/// Whether any YAML reader reads the unquoted text as the same text.
fn is_plain(text: &str) -> bool {
    let word = text.to_ascii_lowercase();
    let other = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"];
    let opens = |c: char| c.is_ascii_alphabetic() || matches!(c, '$' | '/' | '_');
    let fits = |c: char| c.is_ascii_graphic() || c == ' ' || (c.is_alphanumeric() && is_printable(c));
    text.starts_with(opens)
        && text.chars().all(fits)
        && !other.contains(&word.as_str())
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([':', ' '])
}

/// Characters that survive in a file: no controls, no line ends other than `\n`, no byte order mark.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}
