//! Records what the reader accepts: each known key is probed with a value of every type, and the accepted types,
//! formats and keys are written down. The schema and the order of keys therefore come from the reader itself and cannot
//! differ from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::reader::{ManifestReader, ReadFn, join};
use crate::origin::TextPosition;
use crate::yaml::{YamlEntry, YamlNode, YamlValue};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ValueType {
    Text,
    Number,
    Bool,
    List,
    Map,
}

/// Format of a text or number, beyond its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueFormat {
    /// A name that becomes part of keys.
    Code,
    Integer,
    Duration,
    Instant,
    Keywords(Vec<String>),
}

/// What is allowed at one path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KeySchema {
    pub(crate) types: BTreeSet<ValueType>,
    pub(crate) format: Option<ValueFormat>,
    /// The keys of a section, in the order of the reader. `None` if any name is allowed.
    pub(crate) keys: Option<Vec<&'static str>>,
    pub(crate) required: bool,
}

/// Key schemas by path. `*` stands for any name and `[]` for every element: `endpoints.*.response.errors[].path`.
pub(crate) fn key_schemas() -> &'static BTreeMap<String, KeySchema> {
    static KEY_SCHEMAS: LazyLock<BTreeMap<String, KeySchema>> = LazyLock::new(|| {
        let mut reader = ManifestReader::new("");
        reader.recorder = Some(SchemaRecorder::default());
        super::manifest(&mut reader, &node(YamlValue::Map(Vec::new())));
        let mut key_schemas = reader.recorder.take().unwrap_or_default().key_schemas;
        key_schemas.entry(String::new()).or_default().types.insert(ValueType::Map);
        key_schemas.into_iter().map(|(path, key_schema)| (path.replace("[0]", "[]"), key_schema)).collect()
    });
    &KEY_SCHEMAS
}

const ANY: &str = "*";

#[derive(Debug, Default)]
pub(super) struct SchemaRecorder {
    key_schemas: BTreeMap<String, KeySchema>,
    /// Paths that rejected the last probed value.
    rejected: BTreeSet<String>,
}

impl SchemaRecorder {
    pub(super) fn wrong_type(&mut self, path: &str) {
        self.rejected.insert(path.to_owned());
    }

    pub(super) fn keys(&mut self, path: &str, keys: &[&'static str]) {
        self.schema_mut(path).keys = Some(keys.to_vec());
    }

    pub(super) fn required(&mut self, path: &str) {
        self.schema_mut(path).required = true;
    }

    pub(super) fn form(&mut self, path: &str, form: ValueFormat) {
        self.schema_mut(path).format = Some(form);
    }

    fn schema_mut(&mut self, path: &str) -> &mut KeySchema {
        self.key_schemas.entry(path.to_owned()).or_default()
    }

    /// Records the probed type, unless it was rejected.
    fn record_accepted(&mut self, path: &str, value_type: ValueType) {
        if !self.rejected.remove(path) {
            self.schema_mut(path).types.insert(value_type);
        }
    }
}

impl ManifestReader {
    /// Probes a key with a value of each type.
    pub(super) fn probe_key<T>(&mut self, section: &str, key: &str, read: ReadFn<T>) {
        let path = join(section, key);
        if self.recorder.as_ref().is_none_or(|recorder| {
            recorder.key_schemas.get(&path).is_some_and(|key_schema| !key_schema.types.is_empty())
        }) {
            return;
        }
        for (value_type, value) in values() {
            read(self, &path, &value);
            self.record_accepted(&path, value_type);
        }
        let elements = [(ANY, join(&path, ANY)), ("[0]", format!("{path}[0]"))];
        for (kind, element) in elements {
            for (value_type, value) in values() {
                let holder =
                    if kind == ANY { YamlValue::Map(vec![entry(value)]) } else { YamlValue::List(vec![value]) };
                self.origin.spans.remove(&element);
                read(self, &path, &node(holder));
                // Only if the reader visited the element: a section with fixed keys has no others.
                if self.origin.spans.contains_key(&element) {
                    self.record_accepted(&element, value_type);
                }
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.rejected.remove(&path);
        }
    }

    fn record_accepted(&mut self, path: &str, value_type: ValueType) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record_accepted(path, value_type);
        }
    }

    /// Records the format of the value at a path, if schemas are being recorded.
    pub(super) fn note_format(&mut self, path: &str, form: impl FnOnce() -> ValueFormat) {
        if let Some(recorder) = &mut self.recorder {
            recorder.form(path, form());
        }
    }
}

fn values() -> [(ValueType, YamlNode); 5] {
    [
        (ValueType::Text, YamlValue::Text("x".into())),
        (ValueType::Number, YamlValue::Number("1".into())),
        (ValueType::Bool, YamlValue::Bool(true)),
        (ValueType::List, YamlValue::List(Vec::new())),
        (ValueType::Map, YamlValue::Map(Vec::new())),
    ]
    .map(|(value_type, data)| (value_type, node(data)))
}

fn node(data: YamlValue) -> YamlNode {
    YamlNode { at: TextPosition::default(), shift: None, data }
}

fn entry(value: YamlNode) -> YamlEntry {
    YamlEntry { key: ANY.to_owned(), key_at: TextPosition::default(), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_schema(path: &str) -> &'static KeySchema {
        key_schemas().get(path).unwrap_or_else(|| panic!("{path} is unknown; {:?}", key_schemas().keys()))
    }

    #[test]
    fn key_schemas_have_keys_types_and_keywords() {
        let root = key_schema("").keys.clone().unwrap();
        assert_eq!(
            root,
            ["provenance", "name", "description", "project", "allow_http", "defaults", "endpoints", "tests"]
        );
        assert!(key_schema("provenance").required && key_schema("endpoints").required && !key_schema("name").required);
        assert_eq!(key_schema("provenance").format, Some(ValueFormat::Code));
        assert_eq!(key_schema("endpoints").keys, None);
        assert_eq!(Vec::from_iter(&key_schema("endpoints.*").types), [&ValueType::Map]);
        let page_size = key_schema("endpoints.*.pagination.page_size");
        assert_eq!(
            (Vec::from_iter(&page_size.types), &page_size.format),
            (vec![&ValueType::Number], &Some(ValueFormat::Integer))
        );
        assert_eq!(key_schema("defaults.window.max_window").format, Some(ValueFormat::Duration));
        let words = ["min", "hour", "day", "minute"].map(str::to_owned).to_vec();
        assert_eq!(key_schema("endpoints.*.window.align").format, Some(ValueFormat::Keywords(words)));
        // Values with a short and a long form accept both.
        assert_eq!(Vec::from_iter(&key_schema("endpoints.*.fields.*").types), [&ValueType::Text, &ValueType::Map]);
        assert!(key_schema("endpoints.*.fields.*.path").required);
        assert_eq!(
            Vec::from_iter(&key_schema("endpoints.*.response.id_path").types),
            [&ValueType::Text, &ValueType::List]
        );
        assert_eq!(Vec::from_iter(&key_schema("endpoints.*.response.id_path[]").types), [&ValueType::Text]);
        assert_eq!(Vec::from_iter(&key_schema("endpoints.*.response.errors[].exists").types), [&ValueType::Bool]);
        // Anything.
        assert_eq!(key_schema("endpoints.*.record.add.*").types.len(), 5);
        // Sections with fixed keys accept no other key.
        assert!(!key_schemas().contains_key("endpoints.*.http.*"));
        assert!(!key_schemas().contains_key("defaults.schedule"));
    }
}
