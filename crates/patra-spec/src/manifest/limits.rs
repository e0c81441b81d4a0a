//! How patiently and how fast the far side is asked.

use serde::{Deserialize, Serialize};

use crate::iso::Iso;

/// How patiently one batch is retried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_delay: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Iso>,
    /// Instead of 408, 425, 429 and all 5xx (C-38).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable_status: Option<Vec<u16>>,
    /// The far side's own codes for what passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable_codes: Option<Vec<String>>,
}

/// The token bucket and the quotas (ING-4.10-45).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refill_rate_per_sec: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_daily: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_hourly: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_adaptive: Option<HeaderAdaptive>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_sec: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_respect: Option<bool>,
}

/// Which headers of answers set the pace: all that are known, none, or those named (C-30).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HeaderAdaptive {
    All(bool),
    Named(Vec<String>),
}
