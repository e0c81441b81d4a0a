//! The `response` section: how a response is decoded, and where its values are.

use serde::{Deserialize, Serialize};

use patra_core::{Code, Level};

use super::IdPaths;
use crate::keywords::{AbsentList, ResponseFormat, TotalMeaning};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResponseConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ResponseFormat>,
    /// Accepts slightly malformed input: see each format (ING-15-03).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lenient: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<CsvConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xml: Option<XmlConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<HtmlConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorRuleConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_path: Option<String>,
    /// Treatment of a response in which `items_path` finds nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<AbsentList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_path: Option<IdPaths>,
    /// Separator between the parts of an id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_separator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at_format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<TotalMeaning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more_header: Option<String>,
    /// The source's own version of a record; breaks ties of the update time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_path: Option<String>,
}

/// How CSV rows are split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsvConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
    /// Quote character; `none` makes quotes ordinary characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// Whether the first row names the columns; default unless `columns` are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

/// How XML elements become JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct XmlConfig {
    /// Elements that become a list even if there is only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<String>,
    /// Elements that become their text content, without markup.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
}

/// How the rows of an HTML page are found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HtmlConfig {
    /// CSS selector; each match is a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// Fields of a row, by name: a CSS selector within the row, with `@attr` to take an attribute instead of the text,
    /// and `[]` at the end to take all matches.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub fields: std::collections::BTreeMap<String, String>,
    /// Text that marks an empty page; without it a page without rows is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_text: Option<String>,
}

/// An error rule: an error within a 200 response, or the meaning of an error status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorRuleConfig {
    #[serde(flatten)]
    pub when: ConditionConfig,
    /// Error statuses that the rule applies to; if empty, it applies to successful responses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_path: Option<String>,
    /// The error means that the upstream throttles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<bool>,
}

/// Conditions on the value at a path. All that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConditionConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
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
