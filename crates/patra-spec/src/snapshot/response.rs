//! How an answer is read and what becomes of its items, as frozen.

use serde::{Deserialize, Serialize};

use patra_core::{Code, Level};

use crate::manifest::{Csv, Html, Paths, Xml};
use crate::words::{FieldType, Format, OnError, ParamLocation};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Response {
    pub format: Format,
    #[serde(skip_serializing_if = "is_false")]
    pub lenient: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<Csv>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xml: Option<Xml>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<Html>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorRule>,
    pub items_path: String,
    pub id_path: Paths,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_separator: Option<String>,
    /// Missing only for UPDATE (C-23).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at_format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_header: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub total_is_estimate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more_header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_path: Option<String>,
}

/// An error that hides in an answer of status 200, or what one of another status means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorRule {
    #[serde(flatten)]
    pub when: Condition,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<u16>,
    pub level: Level,
    pub code: Code,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_path: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub throttle: bool,
}

/// What must be so at a path; every test that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_equals: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub r#in: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mapping {
    /// Every value of query, headers and form, with what must be so of it (ING-3.4-10).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request_params: Vec<RequestParam>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<Condition>,
    pub output_fields: Vec<OutputField>,
    /// Constants among the fields.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub add: serde_json::Map<String, serde_json::Value>,
    /// Members that the payload goes without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestParam {
    pub name: String,
    pub location: ParamLocation,
    /// The template.
    pub expr: String,
    /// Sent when the template gives null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OutputField {
    pub name: String,
    pub expr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<FieldType>,
    /// How a timestamp is written at the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub required: bool,
    #[serde(skip_serializing_if = "is_null")]
    pub on_error: OnError,
}

pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_null(on_error: &OnError) -> bool {
    *on_error == OnError::Null
}
