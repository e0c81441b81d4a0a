//! YAML to a tree in which every key and value knows where it was written. All budgets of the parser are on, so an alias
//! bomb, a deep nest or a huge file ends in a problem, not in the machine's memory.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned, UserMessageFormatter};

use crate::origin::{Origin, Pos};
use crate::problem::{Problem, quote};

/// Largest manifest, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;
const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 50_000;

/// A value and its place. Scalars keep their spelling: a query parameter `1.10` must not become `1.1`.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: Pos,
    pub(crate) shift: Option<u32>,
    pub(crate) data: Data,
}

#[derive(Debug)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_at: Pos,
    pub(crate) value: Node,
}

impl Node {
    /// What stands here, for "expected x, found y".
    pub(crate) fn found(&self) -> String {
        match &self.data {
            Data::Null => "nothing".into(),
            Data::Bool(yes) => format!("`{yes}`"),
            Data::Number(text) => format!("the number {text}"),
            Data::Text(text) => format!("the text {}", quote(text)),
            Data::List(_) => "a list".into(),
            Data::Map(_) => "a section".into(),
        }
    }
}

/// Reads one YAML document.
pub(crate) fn parse(file: &str, text: &str) -> Result<Node, Problem> {
    let origin = Origin { file: file.to_owned(), ..Origin::default() };
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, a manifest may have {MAX_BYTES}", text.len());
        return Err(origin.at(Pos { line: 1, column: 1 }, "", message, None));
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
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options) {
        Ok(raw) => Ok(resolve(raw, text)),
        Err(error) => {
            let at = error.location().map_or(Pos { line: 1, column: 1 }, pos);
            Err(origin.at(at, "", format!("the YAML cannot be read: {}", reason(&error)), None))
        }
    }
}

fn reason(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().render_with_formatter(&UserMessageFormatter);
    if text.contains("Documents {") {
        return "a manifest is one document, this file holds several".to_owned();
    }
    // The place is ours to print; the parser appends it to its own text as well.
    let line = text.lines().next().unwrap_or_default();
    line.split(" at line ").next().unwrap_or(line).to_owned()
}

/// The tree as the parser gives it, before the spelling of scalars is looked up.
enum Raw {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E: de::Error>(self, yes: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(yes))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Number(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Number(number.to_string()))
    }

    fn visit_i128<E: de::Error>(self, number: i128) -> Result<Raw, E> {
        Ok(Raw::Number(number.to_string()))
    }

    fn visit_u128<E: de::Error>(self, number: u128) -> Result<Raw, E> {
        Ok(Raw::Number(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Raw, E> {
        Ok(Raw::Number(number.to_string()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Raw, E> {
        if text.contains('\0') {
            return Err(E::custom("a text holds the character NUL, which cannot be stored"));
        }
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

fn resolve(raw: Spanned<Raw>, source: &str) -> Node {
    // A value that came through an alias is shown where it was written, not where it was used.
    let written = written(raw.defined, source);
    let mut shift = None;
    let data = match raw.value {
        Raw::Null => Data::Null,
        Raw::Bool(yes) => Data::Bool(yes),
        Raw::Number(number) => Data::Number(written.map_or(number, |text| text.trim().to_owned())),
        Raw::Text(text) => {
            shift = written.filter(|written| !written.contains('\n')).and_then(|written| {
                let start = written.find(text.as_str())?;
                u32::try_from(written[..start].chars().count()).ok()
            });
            Data::Text(text)
        }
        Raw::List(items) => Data::List(items.into_iter().map(|item| resolve(item, source)).collect()),
        Raw::Map(entries) => Data::Map(entries.into_iter().map(|entry| resolve_entry(entry, source)).collect()),
    };
    Node { at: pos(raw.defined), shift, data }
}

fn resolve_entry((key, value): (Spanned<String>, Spanned<Raw>), source: &str) -> Entry {
    Entry { key_at: pos(key.defined), key: key.value, value: resolve(value, source) }
}

fn written(location: Location, source: &str) -> Option<&str> {
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let len = usize::try_from(location.span().byte_len()?).ok()?;
    source.get(start..start.checked_add(len)?).filter(|text| !text.is_empty())
}

fn pos(location: Location) -> Pos {
    let number = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
    Pos { line: number(location.line()), column: number(location.column()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(node: &Node) -> String {
        let at = format!("{}:{}", node.at.line, node.at.column);
        match &node.data {
            Data::List(items) => format!("{at}[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
            Data::Map(entries) => {
                let entry = |e: &Entry| format!("{}@{}:{}={}", e.key, e.key_at.line, e.key_at.column, show(&e.value));
                format!("{at}{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
            }
            _ => format!("{at} {}{}", node.found(), node.shift.map_or(String::new(), |shift| format!("+{shift}"))),
        }
    }

    fn check(yaml: &str, expected: &str) {
        let shown = parse("t.yaml", yaml).map_or_else(|problem| problem.to_string(), |node| show(&node));
        assert_eq!(shown, expected, "{yaml}");
    }

    #[test]
    fn every_key_and_value_knows_its_place_and_spelling() {
        check(
            "a: 1.10\nb: {c: \"x${ y }\", d: plain}",
            "1:1{a@1:1=1:4 the number 1.10 b@2:1=2:4{c@2:5=2:8 the text \"x${ y }\"+1 d@2:19=2:22 the text \"plain\"+0}}",
        );
        check("- true\n- no\n- ~\n- '007'", "1:1[1:3 `true` 2:3 the text \"no\"+0 3:3 nothing 4:3 the text \"007\"+1]");
        check("a: &x {k: 1}\nb: *x", "1:1{a@1:1=1:7{k@1:8=1:11 the number 1} b@2:1=1:7{k@1:8=1:11 the number 1}}");
    }

    #[test]
    fn broken_yaml_is_one_problem_with_a_place() {
        check("a: [1", "t.yaml:1:4: the YAML cannot be read: unclosed bracket '['");
        check("a: 1\na: 2", "t.yaml:2:1: the YAML cannot be read: duplicate mapping key: a not allowed here");
        check("", "1:1 nothing");
        check(
            "a: 1\n---\nb: 2",
            "t.yaml:2:1: the YAML cannot be read: a manifest is one document, this file holds several",
        );
        check("a: *b", "t.yaml:1:4: the YAML cannot be read: reference to unknown value");
        check("a: !!binary '&'", "t.yaml:1:13: the YAML cannot be read: invalid !!binary base64");
    }

    #[test]
    fn bombs_are_refused_quickly() {
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
