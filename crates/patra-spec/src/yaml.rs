//! Parses YAML into a tree with the position of every key and value. All budgets of the parser are on, so an alias
//! bomb, deep nesting or a huge file gives a problem instead of using up memory.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned, UserMessageFormatter};

use crate::origin::{ManifestOrigin, TextPosition};
use crate::problem::{Problem, quote};

/// Largest manifest, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;
const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 50_000;

/// A value and its position. Scalars keep their spelling: a query parameter `1.10` must not become `1.1`.
#[derive(Debug)]
pub(crate) struct YamlNode {
    pub(crate) at: TextPosition,
    pub(crate) shift: Option<u32>,
    pub(crate) data: YamlValue,
}

#[derive(Debug)]
pub(crate) enum YamlValue {
    Null,
    Bool(bool),
    /// As written in the file.
    Number(String),
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<YamlEntry>),
}

#[derive(Debug)]
pub(crate) struct YamlEntry {
    pub(crate) key: String,
    pub(crate) key_at: TextPosition,
    pub(crate) value: YamlNode,
}

impl YamlNode {
    /// Describes the value, for "expected x, found y".
    pub(crate) fn describe(&self) -> String {
        match &self.data {
            YamlValue::Null => "nothing".into(),
            YamlValue::Bool(yes) => format!("`{yes}`"),
            YamlValue::Number(text) => format!("the number {text}"),
            YamlValue::Text(text) => format!("the text {}", quote(text)),
            YamlValue::List(_) => "a list".into(),
            YamlValue::Map(_) => "a section".into(),
        }
    }
}

/// Reads one YAML document.
pub(crate) fn parse(file: &str, text: &str) -> Result<YamlNode, Problem> {
    let origin = ManifestOrigin { file: file.to_owned(), ..ManifestOrigin::default() };
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, a manifest may have {MAX_BYTES}", text.len());
        return Err(origin.at(TextPosition { line: 1, column: 1 }, "", message, None));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_documents: 1,
            max_total_scalar_bytes: MAX_BYTES,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_recorded_anchor_events: 4 * MAX_NODES,
            max_recorded_anchor_bytes: MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: 1_000,
        },
        strict_booleans: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Spanned<RawYaml>>(text, options) {
        Ok(raw) => Ok(resolve(raw, text)),
        Err(error) => {
            let at = error.location().map_or(TextPosition { line: 1, column: 1 }, position);
            Err(origin.at(at, "", format!("the YAML cannot be read: {}", reason(&error)), None))
        }
    }
}

fn reason(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().render_with_formatter(&UserMessageFormatter);
    if text.contains("Documents {") {
        return "a manifest is one document, this file has several".to_owned();
    }
    // We print the position; the parser's text contains it as well.
    let line = text.lines().next().unwrap_or_default();
    line.split(" at line ").next().unwrap_or(line).to_owned()
}

/// The parser's tree, before the spelling of scalars is looked up.
enum RawYaml {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Spanned<RawYaml>>),
    Map(Vec<(Spanned<String>, Spanned<RawYaml>)>),
}

impl<'de> Deserialize<'de> for RawYaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawYaml, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawYaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<RawYaml, E> {
        Ok(RawYaml::Null)
    }

    fn visit_bool<E: de::Error>(self, yes: bool) -> Result<RawYaml, E> {
        Ok(RawYaml::Bool(yes))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<RawYaml, E> {
        Ok(RawYaml::Number(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<RawYaml, E> {
        Ok(RawYaml::Number(number.to_string()))
    }

    fn visit_i128<E: de::Error>(self, number: i128) -> Result<RawYaml, E> {
        Ok(RawYaml::Number(number.to_string()))
    }

    fn visit_u128<E: de::Error>(self, number: u128) -> Result<RawYaml, E> {
        Ok(RawYaml::Number(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<RawYaml, E> {
        Ok(RawYaml::Number(number.to_string()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RawYaml, E> {
        if text.contains('\0') {
            return Err(E::custom("a text contains the character NUL, which cannot be stored"));
        }
        Ok(RawYaml::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawYaml, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(RawYaml::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawYaml, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(RawYaml::Map(entries))
    }
}

fn resolve(raw: Spanned<RawYaml>, source: &str) -> YamlNode {
    // The position of an aliased value is that of its definition.
    let written = source_text(raw.defined, source);
    let mut shift = None;
    let data = match raw.value {
        RawYaml::Null => YamlValue::Null,
        RawYaml::Bool(yes) => YamlValue::Bool(yes),
        RawYaml::Number(number) => YamlValue::Number(written.map_or(number, |text| text.trim().to_owned())),
        RawYaml::Text(text) => {
            shift = written.filter(|written| !written.contains('\n')).and_then(|written| {
                let start = written.find(text.as_str())?;
                u32::try_from(written[..start].chars().count()).ok()
            });
            YamlValue::Text(text)
        }
        RawYaml::List(items) => YamlValue::List(items.into_iter().map(|item| resolve(item, source)).collect()),
        RawYaml::Map(entries) => {
            YamlValue::Map(entries.into_iter().map(|entry| resolve_entry(entry, source)).collect())
        }
    };
    YamlNode { at: position(raw.defined), shift, data }
}

fn resolve_entry((key, value): (Spanned<String>, Spanned<RawYaml>), source: &str) -> YamlEntry {
    YamlEntry { key_at: position(key.defined), key: key.value, value: resolve(value, source) }
}

fn source_text(location: Location, source: &str) -> Option<&str> {
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let len = usize::try_from(location.span().byte_len()?).ok()?;
    source.get(start..start.checked_add(len)?).filter(|text| !text.is_empty())
}

fn position(location: Location) -> TextPosition {
    let number = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
    TextPosition { line: number(location.line()), column: number(location.column()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(node: &YamlNode) -> String {
        let at = format!("{}:{}", node.at.line, node.at.column);
        match &node.data {
            YamlValue::List(items) => format!("{at}[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
            YamlValue::Map(entries) => {
                let entry =
                    |e: &YamlEntry| format!("{}@{}:{}={}", e.key, e.key_at.line, e.key_at.column, show(&e.value));
                format!("{at}{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
            }
            _ => format!("{at} {}{}", node.describe(), node.shift.map_or(String::new(), |shift| format!("+{shift}"))),
        }
    }

    fn check(yaml: &str, expected: &str) {
        let shown = parse("t.yaml", yaml).map_or_else(|problem| problem.to_string(), |node| show(&node));
        assert_eq!(shown, expected, "{yaml}");
    }

    #[test]
    fn nodes_have_position_and_spelling() {
        check(
            "a: 1.10\nb: {c: \"x${ y }\", d: plain}",
            "1:1{a@1:1=1:4 the number 1.10 b@2:1=2:4{c@2:5=2:8 the text \"x${ y }\"+1 d@2:19=2:22 the text \"plain\"+0}}",
        );
        check("- true\n- no\n- ~\n- '007'", "1:1[1:3 `true` 2:3 the text \"no\"+0 3:3 nothing 4:3 the text \"007\"+1]");
        check("a: &x {k: 1}\nb: *x", "1:1{a@1:1=1:7{k@1:8=1:11 the number 1} b@2:1=1:7{k@1:8=1:11 the number 1}}");
    }

    #[test]
    fn invalid_yaml_is_one_problem_with_a_position() {
        check("a: [1", "t.yaml:1:4: the YAML cannot be read: unclosed bracket '['");
        check("a: 1\na: 2", "t.yaml:2:1: the YAML cannot be read: duplicate mapping key: a not allowed here");
        check("", "1:1 nothing");
        check(
            "a: 1\n---\nb: 2",
            "t.yaml:2:1: the YAML cannot be read: a manifest is one document, this file has several",
        );
        check("a: *b", "t.yaml:1:4: the YAML cannot be read: reference to unknown value");
        check("a: !!binary '&'", "t.yaml:1:13: the YAML cannot be read: invalid !!binary base64");
    }

    #[test]
    fn yaml_bombs_are_rejected_quickly() {
        let bomb = (1..9).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |yaml, n| {
            let list = vec![format!("*a{}", n - 1); 9].join(",");
            format!("{yaml}a{n}: &a{n} [{list}]\n")
        });
        for yaml in [
            bomb,
            "[".repeat(10_000),
            "{a: ".repeat(10_000),
            format!("a: {}", "x".repeat(MAX_BYTES)),
            "- 1\n".repeat(60_000),
        ] {
            assert!(parse("t.yaml", &yaml).is_err());
        }
    }
}
