//! Readers for single values.

use std::collections::BTreeMap;

use patra_core::Ts;

use super::key_schema::ValueFormat;
use super::reader::ManifestReader;
use crate::iso_duration::IsoDuration;
use crate::keywords::Keyword;
use crate::suggest::suggest;
use crate::yaml::{YamlNode, YamlValue};

impl ManifestReader {
    pub(super) fn text(&mut self, path: &str, node: &YamlNode) -> Option<String> {
        match &node.data {
            YamlValue::Text(text) => Some(text.clone()),
            _ => self.expected(path, node, "a text"),
        }
    }

    /// A text, or a number or boolean as spelled, so that `rows: 100` works for a parameter.
    pub(super) fn scalar(&mut self, path: &str, node: &YamlNode) -> Option<String> {
        match &node.data {
            YamlValue::Text(text) | YamlValue::Number(text) => Some(text.clone()),
            YamlValue::Bool(yes) => Some(yes.to_string()),
            _ => self.expected(path, node, "a text, a number or a boolean"),
        }
    }

    /// A name that becomes part of keys. It is compared without case, so it is stored lower-case and trimmed (PLT-04).
    pub(super) fn code(&mut self, path: &str, node: &YamlNode) -> Option<String> {
        self.note_format(path, || ValueFormat::Code);
        let text = self.scalar(path, node)?;
        Some(text.trim().to_lowercase())
    }

    pub(super) fn flag(&mut self, path: &str, node: &YamlNode) -> Option<bool> {
        match &node.data {
            YamlValue::Bool(yes) => Some(*yes),
            _ => self.expected(path, node, "true or false"),
        }
    }

    pub(super) fn integer<N: TryFrom<u64>>(&mut self, path: &str, node: &YamlNode) -> Option<N> {
        self.note_format(path, || ValueFormat::Integer);
        let number = match &node.data {
            YamlValue::Number(text) => {
                text.replace('_', "").parse::<u64>().ok().and_then(|number| N::try_from(number).ok())
            }
            _ => None,
        };
        number.or_else(|| self.expected(path, node, "a whole number, not negative"))
    }

    /// Rounded to six decimal places: a longer fraction might not read back from JSON as the same number, and a stored
    /// document must keep its hash.
    pub(super) fn decimal(&mut self, path: &str, node: &YamlNode) -> Option<f64> {
        let number = match &node.data {
            YamlValue::Number(text) => text.replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite()),
            _ => None,
        };
        let rounded = number.map(|number| (number * 1e6).round() / 1e6);
        rounded.or_else(|| self.expected(path, node, "a number"))
    }

    pub(super) fn duration(&mut self, path: &str, node: &YamlNode) -> Option<IsoDuration> {
        self.note_format(path, || ValueFormat::Duration);
        match &node.data {
            YamlValue::Text(text) => match text.parse() {
                Ok(iso) => Some(iso),
                Err(message) => {
                    let hint = "durations are ISO-8601: PT30S, PT10M, PT1H, P1D";
                    self.report(path, node, message, Some(hint.into()))
                }
            },
            _ => self.expected(path, node, "an ISO-8601 duration such as PT10M"),
        }
    }

    pub(super) fn instant(&mut self, path: &str, node: &YamlNode) -> Option<Ts> {
        self.note_format(path, || ValueFormat::Instant);
        match &node.data {
            YamlValue::Text(text) => match text.parse() {
                Ok(at) => Some(at),
                Err(error) => self.report(path, node, format!("{error}"), None),
            },
            _ => self.expected(path, node, "a time such as 2026-01-31T08:00:00Z, or a date"),
        }
    }

    pub(super) fn keyword<W: Keyword>(&mut self, path: &str, node: &YamlNode) -> Option<W> {
        let aliases = W::all().iter().flat_map(|word| word.aliases().iter().copied());
        let words = W::all().iter().map(|word| word.code()).chain(aliases);
        let words: Vec<_> = words.map(str::to_lowercase).collect();
        let text = self.one_of(path, node, &words)?;
        let is = |word: &str| word.eq_ignore_ascii_case(&text);
        W::all().iter().copied().find(|word| is(word.code()) || word.aliases().iter().any(|alias| is(alias)))
    }

    pub(super) fn one_of(&mut self, path: &str, node: &YamlNode, words: &[String]) -> Option<String> {
        self.note_format(path, || ValueFormat::Keywords(words.to_vec()));
        let allowed: Vec<_> = words.iter().map(String::as_str).collect();
        let YamlValue::Text(text) = &node.data else {
            return self.expected(path, node, &format!("one of {}", allowed.join(", ")));
        };
        let text = text.trim().to_lowercase();
        if words.contains(&text) {
            return Some(text);
        }
        let message = format!("`{text}` is not one of {}", allowed.join(", "));
        let hint = suggest(&text, &allowed).filter(|hint| hint.starts_with("did"));
        self.report(path, node, message, hint)
    }

    pub(super) fn scalars(&mut self, path: &str, node: &YamlNode) -> Option<Vec<String>> {
        self.list(path, node, ManifestReader::scalar)
    }

    pub(super) fn integers<N: TryFrom<u64>>(&mut self, path: &str, node: &YamlNode) -> Option<Vec<N>> {
        self.list(path, node, ManifestReader::integer)
    }

    /// Texts by name.
    pub(super) fn texts(&mut self, path: &str, node: &YamlNode) -> Option<BTreeMap<String, String>> {
        let section = self.section(path, node)?;
        let mut texts = BTreeMap::new();
        for entry in section.entries {
            let path = self.enter(path, &entry.key, entry);
            if let Some(text) = self.scalar(&path, &entry.value) {
                texts.insert(entry.key.clone(), text);
            }
        }
        Some(texts)
    }
}

/// A node as JSON, for values that are stored without interpretation.
pub(super) fn to_json(node: &YamlNode) -> serde_json::Value {
    match &node.data {
        YamlValue::Null => serde_json::Value::Null,
        YamlValue::Bool(yes) => (*yes).into(),
        YamlValue::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()),
        YamlValue::Text(text) => text.clone().into(),
        YamlValue::List(items) => items.iter().map(to_json).collect(),
        YamlValue::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), to_json(&entry.value))).collect(),
    }
}
