//! What a request carries.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::RequestParam;

/// One of three; written as a text alone, it is `raw`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Body {
    /// Any JSON; every text in it is a template.
    pub json: Option<serde_json::Value>,
    pub form: Option<BTreeMap<String, RequestParam>>,
    pub raw: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Raw(String),
    Parts(Parts),
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Parts {
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<BTreeMap<String, RequestParam>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
}

impl Body {
    pub fn raw(text: impl Into<String>) -> Body {
        Body { raw: Some(text.into()), ..Body::default() }
    }
}

impl From<Written> for Body {
    fn from(written: Written) -> Body {
        match written {
            Written::Raw(text) => Body::raw(text),
            Written::Parts(Parts { json, form, raw }) => Body { json, form, raw },
        }
    }
}

impl From<Body> for Written {
    /// One spelling per meaning, so that equal manifests are stored alike.
    fn from(body: Body) -> Written {
        match body {
            Body { json: None, form: None, raw: Some(text) } => Written::Raw(text),
            Body { json, form, raw } => Written::Parts(Parts { json, form, raw }),
        }
    }
}
