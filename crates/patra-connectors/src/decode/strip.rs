//! A copy of an item without some of its members. Everything else stays as it was written, in its order.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use patra_core::Fault;
use patra_spec::Selector;
use patra_spec::selector::PathSegment;

use super::paths::parse;
use super::scalar::quoted;

/// The members to remove, as a tree.
#[derive(Debug, Default)]
pub(super) struct FieldStripper {
    remove: bool,
    below: Vec<(PathSegment, FieldStripper)>,
}

impl FieldStripper {
    /// Nothing when nothing is to be removed.
    pub(super) fn new(paths: &[String]) -> Result<Option<FieldStripper>, Fault> {
        let mut root = FieldStripper::default();
        for path in paths {
            root.insert(&parse(path)?);
        }
        Ok((!paths.is_empty()).then_some(root))
    }

    pub(super) fn apply(&self, raw: &RawValue) -> String {
        let mut out = String::with_capacity(raw.get().len());
        self.copy(raw, &mut out);
        out
    }

    fn insert(&mut self, selector: &Selector) {
        let mut node = self;
        for segment in selector.segments() {
            let known = node.below.iter().position(|(known, _)| known == segment);
            let at = known.unwrap_or_else(|| {
                node.below.push((segment.clone(), FieldStripper::default()));
                node.below.len() - 1
            });
            node = &mut node.below[at].1;
        }
        node.remove = true;
    }

    fn copy(&self, raw: &RawValue, out: &mut String) {
        // A value that cannot be walked is no list or object, or is valid already: it is kept unchanged.
        if self.below.is_empty() || !self.walk(raw, out) {
            out.push_str(raw.get());
        }
    }

    fn walk(&self, raw: &RawValue, out: &mut String) -> bool {
        let before = out.len();
        let mut deserializer = serde_json::Deserializer::from_str(raw.get());
        let copier = JsonCopier { strip: self, out };
        let walked = match raw.get().as_bytes().first() {
            Some(b'{') => deserializer.deserialize_map(copier),
            Some(b'[') => deserializer.deserialize_seq(copier),
            _ => return false,
        };
        if walked.is_err() {
            out.truncate(before);
        }
        walked.is_ok()
    }
}

struct JsonCopier<'s, 'o> {
    strip: &'s FieldStripper,
    out: &'o mut String,
}

impl JsonCopier<'_, '_> {
    fn value(&mut self, strip: Option<&FieldStripper>, raw: &RawValue) {
        match strip {
            Some(strip) => strip.copy(raw, self.out),
            None => self.out.push_str(raw.get()),
        }
    }
}

impl<'a> Visitor<'a> for JsonCopier<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.out.push('{');
        let mut first = true;
        while let Some((key, raw)) = map.next_entry::<std::borrow::Cow<'a, str>, &'a RawValue>()? {
            let named = |segment: &PathSegment| matches!(segment, PathSegment::Key(name) if *name == key);
            let below = self.strip.below.iter().find(|(segment, _)| named(segment)).map(|(_, strip)| strip);
            if below.is_some_and(|strip| strip.remove) {
                continue;
            }
            if !std::mem::take(&mut first) {
                self.out.push(',');
            }
            self.out.push_str(&quoted(&key));
            self.out.push(':');
            self.value(below, raw);
        }
        self.out.push('}');
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut seq: A) -> Result<(), A::Error> {
        self.out.push('[');
        let mut at = 0;
        while let Some(raw) = seq.next_element::<&'a RawValue>()? {
            if at > 0 {
                self.out.push(',');
            }
            let below = self.strip.below.iter().find(|(segment, _)| *segment == PathSegment::Index(at));
            self.value(below.map(|(_, strip)| strip), raw);
            at += 1;
        }
        self.out.push(']');
        Ok(())
    }
}
