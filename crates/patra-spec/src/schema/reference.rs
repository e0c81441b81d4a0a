//! The key tables of the manifest reference: what each key is for.

use std::sync::LazyLock;

const REFERENCE: &str = include_str!("../../../../docs/manifest.md");

/// One key of a table. A line with several keys is several rows.
#[derive(Debug)]
struct ReferenceRow {
    /// Names in backticks in the heading above; the heading's own words where there are none.
    sections: Vec<String>,
    /// `page_size`, or with its section, `csv.delimiter`.
    key: String,
    kind: String,
    default: String,
    meaning: String,
}

/// The reference text for the key at a path of [`key_schemas`].
pub(super) fn describe(path: &str) -> Option<String> {
    let ReferenceRow { kind, default, meaning, .. } = row_of(path)?;
    let mut text = [kind.as_str(), meaning].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
    if !matches!(default.as_str(), "" | "–") && !default.starts_with("required") {
        text = format!("{text}. Default: {default}");
    }
    Some(plain(&text))
}

fn row_of(path: &str) -> Option<&'static ReferenceRow> {
    let (sections, key) = names(path);
    sections.iter().rev().find_map(|section| {
        let dotted = format!("{section}.{key}");
        rows().iter().find(|row| row.key == dotted || (row.key == key && row.sections.contains(section)))
    })
}

/// The sections around a key, the nearest last, and the key: `endpoints.*.response.errors[].path` is `path` in `errors` in
/// `response`.
fn names(path: &str) -> (Vec<String>, String) {
    let inner = path.strip_prefix("endpoints.*.").or_else(|| path.strip_prefix("defaults."));
    let top = if inner.is_some() { "Endpoint" } else { "Top level" };
    let mut names: Vec<_> = inner.unwrap_or(path).split('.').map(|name| name.trim_end_matches("[]")).collect();
    names.retain(|name| *name != "*");
    let key = names.pop().unwrap_or_default().to_owned();
    let mut sections = vec![top.to_owned()];
    for name in names {
        // Conditions and the values of requests are described once.
        match name {
            "errors" | "filter" => sections.push("Conditions".into()),
            "query" | "headers" | "form" => sections.push("Values of requests".into()),
            _ => {}
        }
        sections.push(name.to_owned());
    }
    (sections, key)
}

fn rows() -> &'static [ReferenceRow] {
    static ROWS: LazyLock<Vec<ReferenceRow>> = LazyLock::new(|| parse(REFERENCE));
    &ROWS
}

/// The rows of all tables whose first column is called `key`.
fn parse(text: &str) -> Vec<ReferenceRow> {
    let (mut rows, mut sections, mut header) = (Vec::new(), Vec::new(), Vec::<String>::new());
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            sections = section_names(heading.trim_start_matches('#').trim());
        }
        let Some(cells) = cells(line) else {
            header.clear();
            continue;
        };
        if header.is_empty() {
            header = cells;
        } else if header[0] == "key" && !cells[0].starts_with("---") {
            rows.extend(row(&header, &cells, &sections));
        }
    }
    rows
}

fn row(header: &[String], cells: &[String], sections: &[String]) -> Vec<ReferenceRow> {
    let cell = |name: &str| {
        let at = header.iter().position(|header| header == name);
        at.and_then(|at| cells.get(at)).cloned().unwrap_or_default()
    };
    let row = |key| ReferenceRow {
        sections: sections.to_vec(),
        key,
        kind: cell("kind"),
        default: cell("default"),
        meaning: cell("meaning"),
    };
    quoted(&cells[0]).into_iter().map(row).collect()
}

/// The cells of a line of a table.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.trim().to_owned()).collect())
}

fn section_names(heading: &str) -> Vec<String> {
    let names = quoted(heading);
    if names.is_empty() { vec![heading.to_owned()] } else { names }
}

/// The texts in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Links become their text.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("](") {
        let Some((_, after)) = link.split_once(')') else { break };
        let (ahead, label) = before.rsplit_once('[').unwrap_or((before, ""));
        plain.push_str(ahead);
        plain.push_str(label);
        rest = after;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::key_schema::{ValueFormat, ValueType, key_schemas};

    /// Keys of the manifest language, without user-chosen names.
    fn keys() -> impl Iterator<Item = &'static String> {
        key_schemas().keys().filter(|path| !path.is_empty() && !path.ends_with('*') && !path.ends_with("[]"))
    }

    #[test]
    fn every_key_is_in_the_reference() {
        let missing: Vec<_> = keys().filter(|path| describe(path).is_none()).collect();
        assert!(missing.is_empty(), "docs/manifest.md has no line for {missing:#?}");
    }

    #[test]
    fn every_line_of_the_reference_is_a_key() {
        let known: Vec<_> = keys().map(|path| names(path)).collect();
        let fits = |row: &ReferenceRow| {
            known.iter().any(|(sections, key)| {
                let alone = *key == row.key && row.sections.iter().any(|section| sections.contains(section));
                alone || sections.iter().any(|section| format!("{section}.{key}") == row.key)
            })
        };
        // The tests are read by `patra test`.
        let rows = rows().iter().filter(|row| row.sections != ["Tests"]);
        let unknown: Vec<_> = rows.filter(|row| !fits(row)).collect();
        assert!(unknown.is_empty(), "no such key: {unknown:#?}");
    }

    /// The type in the reference is the type that the reader accepts.
    #[test]
    fn kinds_are_as_the_reference_says() {
        let mut wrong = Vec::new();
        for path in keys() {
            let (Some(row), Some(key_schema)) = (row_of(path), key_schemas().get(path)) else { continue };
            let word = row.kind.split([' ', ',']).next().unwrap_or_default();
            let fits = match word {
                "text" | "template" | "path" | "header" | "name" | "one" => {
                    key_schema.types.contains(&ValueType::Text) || key_schema.types.contains(&ValueType::Map)
                }
                "duration" => key_schema.format == Some(ValueFormat::Duration),
                "time" => {
                    key_schema.format == Some(ValueFormat::Instant) || key_schema.types.contains(&ValueType::Text)
                }
                "number" => key_schema.types.contains(&ValueType::Number),
                "boolean" => key_schema.types.contains(&ValueType::Bool),
                "section" => key_schema.types.contains(&ValueType::Map),
                "list" => key_schema.types.contains(&ValueType::List),
                _ if row.kind.starts_with('`') => match &key_schema.format {
                    Some(ValueFormat::Keywords(words)) => {
                        let named = quoted(&row.kind);
                        let same = |word: &String| words.contains(&word.to_lowercase());
                        // An alias need not be named.
                        named.iter().all(same) && named.len() + 1 >= words.len()
                    }
                    _ => false,
                },
                _ => true,
            };
            if !fits {
                wrong.push(format!("{path}: {} but {key_schema:?}", row.kind));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn tables_are_read() {
        let text = "## `http` and `x`\n\n| key | kind | default | meaning |\n|---|---|---|---|\n| `a`, `b.c` | text | `1` | see [d](#d) now |\n\n| no | x |\n|---|---|\n| `z` | |\n";
        let rows = parse(text);
        let labels: Vec<_> = rows.iter().map(|row| format!("{:?} {} {}", row.sections, row.key, row.default)).collect();
        assert_eq!(labels, ["[\"http\", \"x\"] a `1`", "[\"http\", \"x\"] b.c `1`"]);
        assert_eq!(plain(&rows[0].meaning), "see d now");
        let described = describe("endpoints.*.window.max_window");
        assert_eq!(described.as_deref(), Some("duration: the widest slice. Default: `P1D`"));
    }
}
