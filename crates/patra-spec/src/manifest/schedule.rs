//! When the planner asks by itself (ING-5.2-01).

use serde::{Deserialize, Serialize};

use patra_core::state::UpdateReason;

use crate::iso::Iso;

/// `every` and `cron` say when HARVEST fires, one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Iso>,
    /// Five fields, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub update: Vec<UpdateSchedule>,
}

/// The same for UPDATE, once per reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpdateSchedule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<UpdateReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
}
