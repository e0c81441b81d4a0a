//! The sections `retry`, `rate_limit`, `limits`, `health` and `raw`.

use serde::{Deserialize, Serialize};

use crate::iso_duration::IsoDuration;
use crate::keywords::RateScope;

/// The `retry` section: how one batch is retried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_delay: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<IsoDuration>,
    /// Retryable statuses, instead of 408, 425, 429 and all 5xx (C-38).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable_status: Option<Vec<u16>>,
    /// Error codes of the upstream that are transient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable_codes: Option<Vec<String>>,
}

/// The token bucket and the quotas (ING-4.10-45).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimitConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RateScope>,
    /// Share of the rate, relative to other endpoints in the same scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Permits per request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
    /// Divisor of the rate after the upstream throttles.
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

/// Which response headers adapt the rate: all known ones, none, or those named (C-30).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HeaderAdaptive {
    All(bool),
    Named(Vec<String>),
}

/// The `limits` section: how much may be in progress at once, and how much one slice or one run may use (ING-8.2-04,
/// ING-13.1-01).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Most tasks of one partition that run at the same time, over all processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Number of waiting tasks at which planning stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<u32>,
    /// Most pages of one slice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<IsoDuration>,
    /// Largest share of ids with rejected details; above it a task fails (ING-12.2-05).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_ratio: Option<f64>,
    /// Largest share of a list that one pass marks as missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_ratio: Option<f64>,
}

/// The `health` section: thresholds at which a partition is slowed down (ING-12.2-08).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HealthConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_window: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_batch: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_open: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_floor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_page_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_response_bytes: Option<u64>,
}

/// The `raw` section: retention of raw responses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawConfig {
    /// Retention of raw responses; absent means that they are not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<IsoDuration>,
}
