//! The `schedule` section (ING-5.2-01).

use serde::{Deserialize, Serialize};

use patra_core::state::UpdateReason;

use crate::iso_duration::IsoDuration;

/// When HARVEST fires: either `every` or `cron`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<IsoDuration>,
    /// Cron pattern with five fields, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub update: Vec<UpdateScheduleConfig>,
}

/// When UPDATE fires, once per reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpdateScheduleConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<UpdateReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
}
