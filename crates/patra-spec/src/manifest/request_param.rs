//! One named value of a request: a template, and the conditions on its rendered value (ING-3.2-10, ING-4.8-06).

use serde::{Deserialize, Serialize};

/// A parameter, header or form field. A plain text is short for a template without conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "RequestParamInput", into = "RequestParamInput")]
pub struct RequestParamConfig {
    pub expr: String,
    /// Sent if the template renders null.
    pub default: Option<String>,
    pub required: bool,
    /// Pattern that the rendered value must match as a whole.
    pub pattern: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum RequestParamInput {
    Short(String),
    Long(RequestParamSection),
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RequestParamSection {
    expr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<String>,
}

impl RequestParamConfig {
    pub fn plain(expr: impl Into<String>) -> RequestParamConfig {
        RequestParamConfig { expr: expr.into(), ..RequestParamConfig::default() }
    }

    pub fn is_plain(&self) -> bool {
        self.default.is_none() && !self.required && self.pattern.is_none()
    }
}

impl From<RequestParamInput> for RequestParamConfig {
    fn from(written: RequestParamInput) -> RequestParamConfig {
        match written {
            RequestParamInput::Short(expr) => RequestParamConfig::plain(expr),
            RequestParamInput::Long(RequestParamSection { expr, default, required, pattern }) => {
                RequestParamConfig { expr, default, required, pattern }
            }
        }
    }
}

impl From<RequestParamConfig> for RequestParamInput {
    /// One spelling per meaning, so that equal manifests are stored alike.
    fn from(param: RequestParamConfig) -> RequestParamInput {
        if param.is_plain() {
            return RequestParamInput::Short(param.expr);
        }
        let RequestParamConfig { expr, default, required, pattern } = param;
        RequestParamInput::Long(RequestParamSection { expr, default, required, pattern })
    }
}
