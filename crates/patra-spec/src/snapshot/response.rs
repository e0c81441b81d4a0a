//! Response decoding and record mapping in a snapshot.

use serde::{Deserialize, Serialize};

use patra_core::{Code, Level};

use crate::keywords::{AbsentList, FieldType, OnFieldError, ParamLocation, ResponseFormat, TotalMeaning};
use crate::manifest::{CsvConfig, HtmlConfig, IdPaths, XmlConfig};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResponseSpec {
    pub format: ResponseFormat,
    #[serde(skip_serializing_if = "is_false")]
    pub lenient: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<CsvConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xml: Option<XmlConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<HtmlConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorRuleSpec>,
    pub items_path: String,
    #[serde(skip_serializing_if = "is_error")]
    pub absent: AbsentList,
    pub id_path: IdPaths,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_separator: Option<String>,
    /// Not required for UPDATE (C-23).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at_format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_header: Option<String>,
    #[serde(skip_serializing_if = "is_exact")]
    pub total: TotalMeaning,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more_header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_path: Option<String>,
}

/// An error rule: an error within a 200 response, or the meaning of an error status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorRuleSpec {
    #[serde(flatten)]
    pub when: ConditionSpec,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<u16>,
    pub level: Level,
    pub code: Code,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_path: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub throttle: bool,
}

/// Conditions on the value at a path. All that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionSpec {
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
pub struct MappingSpec {
    /// Every value of query, headers and form, with its conditions (ING-3.4-10).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request_params: Vec<RequestParamSpec>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<ConditionSpec>,
    pub output_fields: Vec<OutputFieldSpec>,
    /// Constants that are added to the mapped fields.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub add: serde_json::Map<String, serde_json::Value>,
    /// Members that are removed from the payload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestParamSpec {
    pub name: String,
    pub location: ParamLocation,
    /// The template.
    pub expr: String,
    /// Sent if the template renders null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OutputFieldSpec {
    pub name: String,
    pub expr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<FieldType>,
    /// Format of a timestamp at the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub required: bool,
    #[serde(skip_serializing_if = "is_null")]
    pub on_error: OnFieldError,
}

fn is_error(absent: &AbsentList) -> bool {
    *absent == AbsentList::Error
}

fn is_exact(total: &TotalMeaning) -> bool {
    *total == TotalMeaning::Exact
}

pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_null(on_error: &OnFieldError) -> bool {
    *on_error == OnFieldError::Null
}
