//! Where things stand in an answer, and how its bytes are read.

use serde::{Deserialize, Serialize};

use patra_core::{Code, Level};

use super::Paths;
use crate::words::Format;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Response {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Accept what is almost right: see each format (ING-15-03).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lenient: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<Csv>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xml: Option<Xml>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<Html>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_path: Option<Paths>,
    /// Between the parts of an id that has several.
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
    /// The total may change between pages without meaning anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_is_estimate: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more_header: Option<String>,
    /// The source's own version of a record, the tie-breaker after its update time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_path: Option<String>,
}

/// How rows are cut.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Csv {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
    /// `none`: quotes are ordinary characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// Whether the first row names the columns; it does unless `columns` are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

/// How elements become JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Xml {
    /// Elements that are a list even when there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<String>,
    /// Elements of which only the text counts, whatever markup stands in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
}

/// How the rows of a page are found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Html {
    /// A CSS selector: each element that it finds is a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// Member of the row to where it stands: a CSS selector below the row, behind `@` the attribute that is taken in the
    /// place of the text, and `[]` at the end where all that it finds are wanted.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub fields: std::collections::BTreeMap<String, String>,
    /// A text on the page that says that there are none; without it a page without rows is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_text: Option<String>,
}

/// An error that hides in an answer of status 200, or what one of another status means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorRule {
    #[serde(flatten)]
    pub when: Condition,
    /// Of answers that are errors by their status, in the place of those that seem to be none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_path: Option<String>,
    /// The far side asks us to slow down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<bool>,
}

/// What must be so at a path. All tests that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
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
