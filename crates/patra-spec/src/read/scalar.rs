//! Readers of single values.

use std::collections::BTreeMap;

use patra_core::Ts;

use super::reader::Reader;
use super::tour::Form;
use crate::iso::Iso;
use crate::suggest::suggest;
use crate::words::Word;
use crate::yaml::{Data, Node};

impl Reader {
    pub(super) fn text(&mut self, path: &str, node: &Node) -> Option<String> {
        match &node.data {
            Data::Text(text) => Some(text.clone()),
            _ => self.wrong(path, node, "a text"),
        }
    }

    /// A text, or a number or boolean as it is spelled: `rows: 100` is what one writes for a parameter.
    pub(super) fn scalar(&mut self, path: &str, node: &Node) -> Option<String> {
        match &node.data {
            Data::Text(text) | Data::Number(text) => Some(text.clone()),
            Data::Bool(yes) => Some(yes.to_string()),
            _ => self.wrong(path, node, "a text, a number or a boolean"),
        }
    }

    /// A name that ends up in keys: compared without case, so stored lower-case and trimmed (PLT-04).
    pub(super) fn code(&mut self, path: &str, node: &Node) -> Option<String> {
        self.note(path, || Form::Code);
        let text = self.scalar(path, node)?;
        Some(text.trim().to_lowercase())
    }

    pub(super) fn flag(&mut self, path: &str, node: &Node) -> Option<bool> {
        match &node.data {
            Data::Bool(yes) => Some(*yes),
            _ => self.wrong(path, node, "true or false"),
        }
    }

    pub(super) fn whole<N: TryFrom<u64>>(&mut self, path: &str, node: &Node) -> Option<N> {
        self.note(path, || Form::Whole);
        let number = match &node.data {
            Data::Number(text) => text.replace('_', "").parse::<u64>().ok().and_then(|number| N::try_from(number).ok()),
            _ => None,
        };
        number.or_else(|| self.wrong(path, node, "a whole number, not negative"))
    }

    /// Six digits after the point: a longer fraction might not read back from JSON as the same number, and a stored
    /// document must keep its hash.
    pub(super) fn decimal(&mut self, path: &str, node: &Node) -> Option<f64> {
        let number = match &node.data {
            Data::Number(text) => text.replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite()),
            _ => None,
        };
        let rounded = number.map(|number| (number * 1e6).round() / 1e6);
        rounded.or_else(|| self.wrong(path, node, "a number"))
    }

    pub(super) fn duration(&mut self, path: &str, node: &Node) -> Option<Iso> {
        self.note(path, || Form::Duration);
        match &node.data {
            Data::Text(text) => match text.parse() {
                Ok(iso) => Some(iso),
                Err(message) => {
                    let hint = "durations are ISO-8601: PT30S, PT10M, PT1H, P1D";
                    self.report(path, node, message, Some(hint.into()))
                }
            },
            _ => self.wrong(path, node, "an ISO-8601 duration such as PT10M"),
        }
    }

    pub(super) fn instant(&mut self, path: &str, node: &Node) -> Option<Ts> {
        self.note(path, || Form::Instant);
        match &node.data {
            Data::Text(text) => match text.parse() {
                Ok(at) => Some(at),
                Err(error) => self.report(path, node, format!("{error}"), None),
            },
            _ => self.wrong(path, node, "a time such as 2026-01-31T08:00:00Z, or a date"),
        }
    }

    pub(super) fn word<W: Word>(&mut self, path: &str, node: &Node) -> Option<W> {
        let aliases = W::all().iter().flat_map(|word| word.aliases().iter().copied());
        let words = W::all().iter().map(|word| word.word()).chain(aliases);
        let words: Vec<_> = words.map(str::to_lowercase).collect();
        let text = self.dictionary(path, node, &words)?;
        let is = |word: &str| word.eq_ignore_ascii_case(&text);
        W::all().iter().copied().find(|word| is(word.word()) || word.aliases().iter().any(|alias| is(alias)))
    }

    pub(super) fn dictionary(&mut self, path: &str, node: &Node, words: &[String]) -> Option<String> {
        self.note(path, || Form::Words(words.to_vec()));
        let allowed: Vec<_> = words.iter().map(String::as_str).collect();
        let Data::Text(text) = &node.data else {
            return self.wrong(path, node, &format!("one of {}", allowed.join(", ")));
        };
        let text = text.trim().to_lowercase();
        if words.contains(&text) {
            return Some(text);
        }
        let message = format!("`{text}` is not one of {}", allowed.join(", "));
        let hint = suggest(&text, &allowed).filter(|hint| hint.starts_with("did"));
        self.report(path, node, message, hint)
    }

    pub(super) fn scalars(&mut self, path: &str, node: &Node) -> Option<Vec<String>> {
        self.list(path, node, Reader::scalar)
    }

    pub(super) fn wholes<N: TryFrom<u64>>(&mut self, path: &str, node: &Node) -> Option<Vec<N>> {
        self.list(path, node, Reader::whole)
    }

    /// Name to text.
    pub(super) fn texts(&mut self, path: &str, node: &Node) -> Option<BTreeMap<String, String>> {
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

/// A node as JSON, for what is kept without being understood.
pub(super) fn to_json(node: &Node) -> serde_json::Value {
    match &node.data {
        Data::Null => serde_json::Value::Null,
        Data::Bool(yes) => (*yes).into(),
        Data::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()),
        Data::Text(text) => text.clone().into(),
        Data::List(items) => items.iter().map(to_json).collect(),
        Data::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), to_json(&entry.value))).collect(),
    }
}
