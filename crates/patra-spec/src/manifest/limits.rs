//! How patiently, how fast and how much the far side is asked, and when it is spared.

use serde::{Deserialize, Serialize};

use crate::iso::Iso;
use crate::words::RateScope;

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
    pub scope: Option<RateScope>,
    /// Against the others of the scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Permits that one request takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
    /// What the rate is divided by when the far side refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demote_rate: Option<f64>,
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

/// How much may be under way at once, and how much one slice or one run may take (ING-8.2-04, ING-13.1-01).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Tasks of one partition that run at the same time, over all processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Tasks that wait: from here on nothing new is planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<u32>,
    /// Pages that one slice may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<Iso>,
    /// Share of ids whose details are refused as wrong; with more a task fails (ING-12.2-05).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_ratio: Option<f64>,
}

/// From when on a partition is spared (ING-12.2-08).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Health {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_window: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_batch: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_open: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_floor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_page_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_response_bytes: Option<u64>,
}

/// Answers as they came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Raw {
    /// How long they are kept; absent: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Iso>,
}
