//! Inputs of a run, and their validation (ING-4.8-06, G-25).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use patra_core::{Code, Fault, Level};

use super::Snapshot;
use super::response::is_false;
use crate::pattern::Pattern;
use crate::suggest::suggest;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParamSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The value must not be stored in plaintext, for example the token of a crawler candidate.
    #[serde(skip_serializing_if = "is_false")]
    pub secret: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// One dimension of the partitions; all combinations of the dimensions are allowed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PartitionSpec {
    pub param: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentSpec>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentSpec {
    pub endpoint: String,
    /// Path within the record's payload; `None` for its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl Snapshot {
    /// The parameters of a run, including those of the detail endpoint: given values, checked, and defaults for the
    /// rest. Parameters bound by partitions need not be given. A fault names the parameter and never shows its value.
    pub fn resolve_params(&self, given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Fault> {
        let refuse = |reason: String| Err(Fault::new(Code::InvalidInput, Level::L2, reason));
        let mut declared: BTreeMap<&String, &ParamSpec> = BTreeMap::new();
        let detail = self.two_phase.iter().flat_map(|two_phase| &two_phase.detail.params);
        declared.extend(detail.chain(&self.params));
        if let Some(unknown) = given.keys().find(|name| !declared.contains_key(name)) {
            let known: Vec<_> = declared.keys().map(|name| name.as_str()).collect();
            let hint = suggest(unknown, &known).map(|hint| format!(": {hint}")).unwrap_or_default();
            let name = crate::problem::shorten(unknown);
            return refuse(format!("`{}` has no parameter `{name}`{hint}", self.endpoint_code));
        }
        let mut resolved = BTreeMap::new();
        for (name, param) in declared {
            match given.get(name).or(param.default.as_ref()) {
                Some(value) => {
                    param.fits(name, value)?;
                    if param.required && value.is_empty() {
                        return refuse(format!("the parameter `{name}` is required and is empty"));
                    }
                    resolved.insert(name.clone(), value.clone());
                }
                None if param.required && !self.partitions.iter().any(|partition| partition.param == *name) => {
                    return refuse(format!("the parameter `{name}` is required and was not given"));
                }
                None => {}
            }
        }
        Ok(resolved)
    }
}

impl ParamSpec {
    fn fits(&self, name: &str, value: &str) -> Result<(), Fault> {
        let Some(pattern) = &self.pattern else { return Ok(()) };
        let whole = Pattern::whole(pattern).map_err(|syntax_error| {
            Fault::new(Code::ConfigError, Level::L4, format!("the pattern of `{name}` is unusable: {syntax_error}"))
        })?;
        if whole.matches(value) {
            return Ok(());
        }
        Err(Fault::new(Code::InvalidInput, Level::L2, format!("the parameter `{name}` does not match {pattern}")))
    }
}
