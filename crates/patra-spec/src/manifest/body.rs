//! The `body` of a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::RequestParamConfig;

/// One of `json`, `form` and `raw`. A plain text is short for `raw`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "BodyInput", into = "BodyInput")]
pub struct BodyConfig {
    /// Any JSON value; every text in it is a template.
    pub json: Option<serde_json::Value>,
    pub form: Option<BTreeMap<String, RequestParamConfig>>,
    pub raw: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum BodyInput {
    Raw(String),
    Parts(BodySection),
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BodySection {
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<BTreeMap<String, RequestParamConfig>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
}

impl BodyConfig {
    pub fn raw(text: impl Into<String>) -> BodyConfig {
        BodyConfig { raw: Some(text.into()), ..BodyConfig::default() }
    }
}

impl From<BodyInput> for BodyConfig {
    fn from(written: BodyInput) -> BodyConfig {
        match written {
            BodyInput::Raw(text) => BodyConfig::raw(text),
            BodyInput::Parts(BodySection { json, form, raw }) => BodyConfig { json, form, raw },
        }
    }
}

impl From<BodyConfig> for BodyInput {
    /// Normalises to one spelling, so that equal manifests are stored the same.
    fn from(body: BodyConfig) -> BodyInput {
        match body {
            BodyConfig { json: None, form: None, raw: Some(text) } => BodyInput::Raw(text),
            BodyConfig { json, form, raw } => BodyInput::Parts(BodySection { json, form, raw }),
        }
    }
}
