//! The `expr` section: which functions templates may use, and how they render times and null (ING-3.2-11, ING-3.2-12).

use serde::{Deserialize, Serialize};

use crate::expr::NullPolicy;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExprConfig {
    /// Allowed functions; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_functions: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub null_policy: Option<NullPolicy>,
    /// `iso`, `epoch`, `epoch_ms`, `date` or a pattern with `%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}
