//! What templates may use and how they write, as frozen (ING-3.3-17).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use patra_core::{Code, Fault, Level};

use super::Snapshot;
use crate::expr::{Allowed, NullPolicy, Rules, Scope, TimeStyle};
use crate::problem::Flaw;
use crate::words::Role;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Expr {
    /// `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_functions: Option<Vec<String>>,
    pub timezone: String,
    pub null_policy: NullPolicy,
    pub time_format: String,
}

impl Default for Expr {
    fn default() -> Expr {
        Expr {
            allowed_functions: None,
            timezone: "UTC".into(),
            null_policy: NullPolicy::default(),
            time_format: "iso".into(),
        }
    }
}

impl Snapshot {
    /// By which the templates of its requests are compiled.
    pub fn rules(&self) -> Result<Rules, Fault> {
        let unusable = |flaw: Flaw| {
            Fault::new(Code::ConfigError, Level::L4, format!("the snapshot is unusable: {}", flaw.message))
        };
        let allowed = match &self.expr.allowed_functions {
            None => Allowed::all(),
            Some(names) => Allowed::only(names.iter().map(String::as_str)).map_err(unusable)?,
        };
        Ok(Rules {
            allowed,
            nulls: self.expr.null_policy,
            times: TimeStyle::parse(&self.expr.time_format).map_err(unusable)?,
            scope: Scope {
                params: Some(Arc::new(self.params.keys().cloned().collect())),
                credential: !self.auth.is_none(),
                ids: self.role == Role::Detail,
            },
        })
    }
}
