//! What the reader accepts, found out by asking it: on a tour every key that it knows is shown a value of each type, and
//! what it takes, refuses and knows of is written down. So the schema and the order of keys are the reader's own, and
//! nothing has to be kept in step with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::reader::{Read, Reader, join};
use crate::origin::Pos;
use crate::yaml::{Data, Entry, Node};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Type {
    Text,
    Number,
    Bool,
    List,
    Map,
}

/// What a text or number must look like, beyond its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// A name that ends up in keys.
    Code,
    Whole,
    Duration,
    Instant,
    Words(Vec<String>),
}

/// What may stand at one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shape {
    pub(crate) types: BTreeSet<Type>,
    pub(crate) form: Option<Form>,
    /// The keys of a section, in the order of the reader. `None`: any name may be a key.
    pub(crate) keys: Option<Vec<&'static str>>,
    pub(crate) required: bool,
}

/// By path. `*` stands for any name and `[]` for every element: `endpoints.*.response.errors[].path`.
pub(crate) fn shapes() -> &'static BTreeMap<String, Shape> {
    static SHAPES: LazyLock<BTreeMap<String, Shape>> = LazyLock::new(|| {
        let mut reader = Reader::new("");
        reader.tour = Some(Tour::default());
        super::manifest(&mut reader, &node(Data::Map(Vec::new())));
        let mut shapes = reader.tour.take().unwrap_or_default().shapes;
        shapes.entry(String::new()).or_default().types.insert(Type::Map);
        shapes.into_iter().map(|(path, shape)| (path.replace("[0]", "[]"), shape)).collect()
    });
    &SHAPES
}

const ANY: &str = "*";

#[derive(Debug, Default)]
pub(super) struct Tour {
    shapes: BTreeMap<String, Shape>,
    /// Where the value last shown was of the wrong type.
    wrong: BTreeSet<String>,
}

impl Tour {
    pub(super) fn wrong(&mut self, path: &str) {
        self.wrong.insert(path.to_owned());
    }

    pub(super) fn keys(&mut self, path: &str, keys: &[&'static str]) {
        self.shape(path).keys = Some(keys.to_vec());
    }

    pub(super) fn required(&mut self, path: &str) {
        self.shape(path).required = true;
    }

    pub(super) fn form(&mut self, path: &str, form: Form) {
        self.shape(path).form = Some(form);
    }

    fn shape(&mut self, path: &str) -> &mut Shape {
        self.shapes.entry(path.to_owned()).or_default()
    }

    /// Notes a type that was not refused.
    fn judge(&mut self, path: &str, shown: Type) {
        if !self.wrong.remove(path) {
            self.shape(path).types.insert(shown);
        }
    }
}

impl Reader {
    /// Shows a value of each type at the place of a key.
    pub(super) fn show<T>(&mut self, section: &str, key: &str, read: Read<T>) {
        let path = join(section, key);
        if self.tour.as_ref().is_none_or(|tour| tour.shapes.get(&path).is_some_and(|shape| !shape.types.is_empty())) {
            return;
        }
        for (shown, value) in values() {
            read(self, &path, &value);
            self.judge(&path, shown);
        }
        let elements = [(ANY, join(&path, ANY)), ("[0]", format!("{path}[0]"))];
        for (kind, element) in elements {
            for (shown, value) in values() {
                let holder = if kind == ANY { Data::Map(vec![entry(value)]) } else { Data::List(vec![value]) };
                self.origin.places.remove(&element);
                read(self, &path, &node(holder));
                // Only what the reader went into: a section with keys of its own knows no other.
                if self.origin.places.contains_key(&element) {
                    self.judge(&element, shown);
                }
            }
        }
        if let Some(tour) = &mut self.tour {
            tour.wrong.remove(&path);
        }
    }

    fn judge(&mut self, path: &str, shown: Type) {
        if let Some(tour) = &mut self.tour {
            tour.judge(path, shown);
        }
    }

    /// On a tour, what the value at a path must look like.
    pub(super) fn note(&mut self, path: &str, form: impl FnOnce() -> Form) {
        if let Some(tour) = &mut self.tour {
            tour.form(path, form());
        }
    }
}

fn values() -> [(Type, Node); 5] {
    [
        (Type::Text, Data::Text("x".into())),
        (Type::Number, Data::Number("1".into())),
        (Type::Bool, Data::Bool(true)),
        (Type::List, Data::List(Vec::new())),
        (Type::Map, Data::Map(Vec::new())),
    ]
    .map(|(shown, data)| (shown, node(data)))
}

fn node(data: Data) -> Node {
    Node { at: Pos::default(), shift: None, data }
}

fn entry(value: Node) -> Entry {
    Entry { key: ANY.to_owned(), key_at: Pos::default(), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(path: &str) -> &'static Shape {
        shapes().get(path).unwrap_or_else(|| panic!("{path} is unknown; {:?}", shapes().keys()))
    }

    #[test]
    fn the_tour_finds_keys_types_and_words() {
        let root = shape("").keys.clone().unwrap();
        assert_eq!(
            root,
            ["provenance", "name", "description", "project", "allow_http", "defaults", "endpoints", "tests"]
        );
        assert!(shape("provenance").required && shape("endpoints").required && !shape("name").required);
        assert_eq!(shape("provenance").form, Some(Form::Code));
        assert_eq!(shape("endpoints").keys, None);
        assert_eq!(Vec::from_iter(&shape("endpoints.*").types), [&Type::Map]);
        let page_size = shape("endpoints.*.pagination.page_size");
        assert_eq!((Vec::from_iter(&page_size.types), &page_size.form), (vec![&Type::Number], &Some(Form::Whole)));
        assert_eq!(shape("defaults.window.max_window").form, Some(Form::Duration));
        let words = ["min", "hour", "day", "minute"].map(str::to_owned).to_vec();
        assert_eq!(shape("endpoints.*.window.align").form, Some(Form::Words(words)));
        // Both spellings of what has two.
        assert_eq!(Vec::from_iter(&shape("endpoints.*.fields.*").types), [&Type::Text, &Type::Map]);
        assert!(shape("endpoints.*.fields.*.path").required);
        assert_eq!(Vec::from_iter(&shape("endpoints.*.response.id_path").types), [&Type::Text, &Type::List]);
        assert_eq!(Vec::from_iter(&shape("endpoints.*.response.id_path[]").types), [&Type::Text]);
        assert_eq!(Vec::from_iter(&shape("endpoints.*.response.errors[].exists").types), [&Type::Bool]);
        // Anything.
        assert_eq!(shape("endpoints.*.record.add.*").types.len(), 5);
        // Closed sections know no other key.
        assert!(!shapes().contains_key("endpoints.*.http.*"));
        assert!(!shapes().contains_key("defaults.schedule"));
    }
}
