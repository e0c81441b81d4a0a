//! One pass over a JSON text that extracts selected values and skips the rest without building anything.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use patra_spec::Selector;
use patra_spec::selector::PathSegment;

use super::memory::MAX_PAGE_RECORDS;

/// The selectors as a tree, so that a shared prefix is walked once.
#[derive(Debug)]
pub(super) struct PathTree {
    root: PathNode,
    slots: usize,
}

/// The value at the path of a list.
#[derive(Debug)]
pub(super) enum ListValue<'a> {
    List(Vec<&'a RawValue>),
    /// A list of more elements than a page may have, and their number.
    TooLong(usize),
    Null,
    Object,
    Other,
}

#[derive(Debug, Default)]
struct PathNode {
    /// Slots of the values at this node.
    here: Vec<usize>,
    /// The value here is a list that is split on the way.
    list: bool,
    keys: Vec<(String, PathNode)>,
    indexes: Vec<(usize, PathNode)>,
}

impl PathTree {
    /// Slot n of a result belongs to `selectors[n]`.
    pub(super) fn new(selectors: &[Selector]) -> PathTree {
        let mut root = PathNode::default();
        for (slot, selector) in selectors.iter().enumerate() {
            let mut node = &mut root;
            for segment in selector.segments() {
                node = node.child(segment);
            }
            node.here.push(slot);
        }
        PathTree { root, slots: selectors.len() }
    }

    /// The value at this path alone is a list: it is split in the same pass, and has no text of its own.
    pub(super) fn listing(mut self, selector: &Selector) -> PathTree {
        let node = selector.segments().iter().fold(&mut self.root, |node, segment| node.child(segment));
        node.list = node.here.len() == 1 && node.is_leaf();
        self
    }

    /// The raw text at each selector. Checks on the way that the whole text is JSON.
    pub(super) fn find<'a>(&self, text: &'a str) -> Result<Vec<Option<&'a RawValue>>, serde_json::Error> {
        Ok(self.find_listed(text)?.0)
    }

    /// The raw texts, and the elements of the list, if there is one to split.
    pub(super) fn find_listed<'a>(
        &self,
        text: &'a str,
    ) -> Result<(Vec<Option<&'a RawValue>>, Option<ListValue<'a>>), serde_json::Error> {
        let (mut found, mut listed) = (vec![None; self.slots], None);
        self.walk(text, &mut found, &mut listed)?;
        Ok((found, listed))
    }

    /// Extracts into a list that is reused.
    pub(super) fn find_into<'a>(
        &self,
        text: &'a str,
        found: &mut Vec<Option<&'a RawValue>>,
    ) -> Result<(), serde_json::Error> {
        found.clear();
        found.resize(self.slots, None);
        self.walk(text, found, &mut None)
    }

    fn walk<'a>(
        &self,
        text: &'a str,
        found: &mut [Option<&'a RawValue>],
        listed: &mut Option<ListValue<'a>>,
    ) -> Result<(), serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        Seed { node: &self.root, found, listed }.deserialize(&mut deserializer)?;
        deserializer.end()
    }
}

impl PathNode {
    fn child(&mut self, segment: &PathSegment) -> &mut PathNode {
        fn get<K: PartialEq>(list: &mut Vec<(K, PathNode)>, key: K) -> &mut PathNode {
            let at = list.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                list.push((key, PathNode::default()));
                list.len() - 1
            });
            &mut list[at].1
        }
        match segment {
            PathSegment::Key(key) => get(&mut self.keys, key.clone()),
            PathSegment::Index(index) => get(&mut self.indexes, *index),
        }
    }

    fn is_leaf(&self) -> bool {
        self.keys.is_empty() && self.indexes.is_empty()
    }
}

struct Seed<'n, 'f, 'a> {
    node: &'n PathNode,
    found: &'f mut [Option<&'a RawValue>],
    listed: &'f mut Option<ListValue<'a>>,
}

impl<'a> DeserializeSeed<'a> for Seed<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.node.here.is_empty() {
            return deserializer.deserialize_any(self);
        }
        if self.node.list {
            *self.listed = Some(deserializer.deserialize_any(ListVisitor)?);
            return Ok(());
        }
        let raw: &'a RawValue = serde::Deserialize::deserialize(deserializer)?;
        for slot in &self.node.here {
            self.found[*slot] = Some(raw);
        }
        // A selector goes deeper too, which is rare: walks this part again.
        if !self.node.is_leaf() {
            let _ = serde_json::Deserializer::from_str(raw.get()).deserialize_any(self);
        }
        Ok(())
    }
}

impl<'a> Visitor<'a> for Seed<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(KeySeed(&self.node.keys))? {
            match key {
                Some(node) => map.next_value_seed(Seed { node, found: &mut *self.found, listed: &mut *self.listed })?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        for at in 0.. {
            let more = match self.node.indexes.iter().find(|(index, _)| *index == at) {
                Some((_, node)) => {
                    seq.next_element_seed(Seed { node, found: &mut *self.found, listed: &mut *self.listed })?.is_some()
                }
                None => seq.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The value of a text, whose elements are split if it is a list.
pub(super) fn listed(text: &str) -> Option<ListValue<'_>> {
    serde_json::Deserializer::from_str(text).deserialize_any(ListVisitor).ok()
}

struct ListVisitor;

impl<'a> Visitor<'a> for ListVisitor {
    type Value = ListValue<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<ListValue<'a>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
            if items.len() > MAX_PAGE_RECORDS {
                let mut count = items.len();
                drop(items);
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                return Ok(ListValue::TooLong(count));
            }
        }
        Ok(ListValue::List(items))
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<ListValue<'a>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(ListValue::Object)
    }

    fn visit_unit<E>(self) -> Result<ListValue<'a>, E> {
        Ok(ListValue::Null)
    }
    fn visit_bool<E>(self, _: bool) -> Result<ListValue<'a>, E> {
        Ok(ListValue::Other)
    }
    fn visit_i64<E>(self, _: i64) -> Result<ListValue<'a>, E> {
        Ok(ListValue::Other)
    }
    fn visit_u64<E>(self, _: u64) -> Result<ListValue<'a>, E> {
        Ok(ListValue::Other)
    }
    fn visit_f64<E>(self, _: f64) -> Result<ListValue<'a>, E> {
        Ok(ListValue::Other)
    }
    fn visit_str<E>(self, _: &str) -> Result<ListValue<'a>, E> {
        Ok(ListValue::Other)
    }
}

/// Finds the branch of a key without copying the key.
struct KeySeed<'n>(&'n [(String, PathNode)]);

impl<'a, 'n> DeserializeSeed<'a> for KeySeed<'n> {
    type Value = Option<&'n PathNode>;

    fn deserialize<D: serde::Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for KeySeed<'n> {
    type Value = Option<&'n PathNode>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|(known, _)| known == key).map(|(_, node)| node))
    }
}
