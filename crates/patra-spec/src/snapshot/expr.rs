//! Template rules in a snapshot (ING-3.3-17).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use patra_core::{Code, Fault, Level};

use super::Snapshot;
use crate::expr::{AllowedFunctions, NullPolicy, TemplateRules, TimeStyle, VariableScope};
use crate::keywords::EndpointRole;
use crate::problem::SyntaxError;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExprSpec {
    /// Allowed functions; `None` allows all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_functions: Option<Vec<String>>,
    pub timezone: String,
    pub null_policy: NullPolicy,
    pub time_format: String,
}

impl Default for ExprSpec {
    fn default() -> ExprSpec {
        ExprSpec {
            allowed_functions: None,
            timezone: "UTC".into(),
            null_policy: NullPolicy::default(),
            time_format: "iso".into(),
        }
    }
}

impl Snapshot {
    /// Rules for compiling the templates of its requests.
    pub fn rules(&self) -> Result<TemplateRules, Fault> {
        let unusable = |syntax_error: SyntaxError| {
            Fault::new(Code::ConfigError, Level::L4, format!("the snapshot is unusable: {}", syntax_error.message))
        };
        let allowed = match &self.expr.allowed_functions {
            None => AllowedFunctions::all(),
            Some(names) => AllowedFunctions::only(names.iter().map(String::as_str)).map_err(unusable)?,
        };
        Ok(TemplateRules {
            allowed,
            nulls: self.expr.null_policy,
            times: TimeStyle::parse(&self.expr.time_format).map_err(unusable)?,
            scope: VariableScope {
                params: Some(Arc::new(self.params.keys().cloned().collect())),
                credential: !self.auth.is_none(),
                ids: self.role == EndpointRole::Detail,
            },
        })
    }
}
