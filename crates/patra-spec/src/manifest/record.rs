//! The `record` and `fields` sections: which items are kept, and how they are mapped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ConditionConfig;
use crate::keywords::{DedupScope, FieldType, OnFieldError};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordConfig {
    /// Conditions that must all hold, otherwise the item is skipped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<ConditionConfig>,
    /// Constants that are added to the mapped fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub add: BTreeMap<String, serde_json::Value>,
    /// Members that are removed from the stored payload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Scope within which ids are unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_scope: Option<DedupScope>,
    /// Whether an event is emitted for each stored record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emit: Option<bool>,
}

/// A mapped field. A plain path is short for a field without conversion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "FieldInput", into = "FieldInput")]
pub struct FieldConfig {
    pub path: String,
    pub r#type: Option<FieldType>,
    pub format: Option<String>,
    pub required: bool,
    pub on_error: Option<OnFieldError>,
}

/// The written form: a path, or a section.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum FieldInput {
    Short(String),
    Long(FieldSection),
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FieldSection {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<FieldType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_error: Option<OnFieldError>,
}

impl FieldConfig {
    pub fn at(path: impl Into<String>) -> FieldConfig {
        FieldConfig { path: path.into(), ..FieldConfig::default() }
    }
}

impl From<FieldInput> for FieldConfig {
    fn from(written: FieldInput) -> FieldConfig {
        match written {
            FieldInput::Short(path) => FieldConfig::at(path),
            FieldInput::Long(FieldSection { path, r#type, format, required, on_error }) => {
                FieldConfig { path, r#type, format, required, on_error }
            }
        }
    }
}

impl From<FieldConfig> for FieldInput {
    /// One spelling per meaning, so that equal manifests are stored alike.
    fn from(field: FieldConfig) -> FieldInput {
        if field == FieldConfig::at(field.path.as_str()) {
            return FieldInput::Short(field.path);
        }
        let FieldConfig { path, r#type, format, required, on_error } = field;
        FieldInput::Long(FieldSection { path, r#type, format, required, on_error })
    }
}
