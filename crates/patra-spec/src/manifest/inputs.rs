//! Inputs of a run, and the partitions that bind some of them.

use serde::{Deserialize, Serialize};

use super::EndpointConfig;

/// An input of a run, read in templates as `params.<name>`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ParamConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Pattern that a given value must match as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The value must not be stored in plaintext.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// One dimension: a parameter, and the values that it takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartitionConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentConfig>,
}

/// Partition values that are read from the records of another endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ParentConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Path within the record; defaults to its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl EndpointConfig {
    /// Whether a run needs the parameter: it is declared as required, or the path needs it and it has no default.
    pub(crate) fn requires_param(&self, name: &str) -> bool {
        let Some(param) = self.params.get(name) else { return false };
        let in_path =
            || self.http.path.as_deref().is_some_and(|path| crate::expr::bare_params(path).iter().any(|p| p == name));
        param.default.is_none() && (param.required == Some(true) || in_path())
    }
}
