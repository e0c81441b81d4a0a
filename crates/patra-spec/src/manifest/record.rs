//! What becomes of an item: which are kept, what is taken out of them, what is left of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Condition;
use crate::words::{DedupScope, FieldType, OnError};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// All must hold, otherwise the item is skipped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<Condition>,
    /// Constants among the mapped fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub add: BTreeMap<String, serde_json::Value>,
    /// Members that the stored payload goes without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Within what ids are unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_scope: Option<DedupScope>,
    /// What is stored is told to the world outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emit: Option<bool>,
}

/// A mapped field. Written as a path alone, it is taken as it came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Field {
    pub path: String,
    pub r#type: Option<FieldType>,
    pub format: Option<String>,
    pub required: bool,
    pub on_error: Option<OnError>,
}

/// Both spellings.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Short(String),
    Long(Long),
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Long {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<FieldType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_error: Option<OnError>,
}

impl Field {
    pub fn at(path: impl Into<String>) -> Field {
        Field { path: path.into(), ..Field::default() }
    }
}

impl From<Written> for Field {
    fn from(written: Written) -> Field {
        match written {
            Written::Short(path) => Field::at(path),
            Written::Long(Long { path, r#type, format, required, on_error }) => {
                Field { path, r#type, format, required, on_error }
            }
        }
    }
}

impl From<Field> for Written {
    /// One spelling per meaning, so that equal manifests are stored alike.
    fn from(field: Field) -> Written {
        if field == Field::at(field.path.as_str()) {
            return Written::Short(field.path);
        }
        let Field { path, r#type, format, required, on_error } = field;
        Written::Long(Long { path, r#type, format, required, on_error })
    }
}
