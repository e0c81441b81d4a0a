//! Retry, rate limit, limits and health thresholds in a snapshot (ING-3.3-15).

use serde::{Deserialize, Serialize};

use crate::iso_duration::IsoDuration;
use crate::keywords::RateScope;
use crate::manifest::HeaderAdaptive;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetrySpec {
    pub policy: String,
    pub max_attempts: u32,
    pub min_delay_ms: u64,
    pub max_delay_ms: u64,
    pub multiplier_percent: u32,
    pub jitter_percent: u32,
    /// Retryable statuses, instead of the default set (C-38).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable_status: Option<Vec<u16>>,
    /// Error codes of the upstream that are transient.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retryable_codes: Vec<String>,
}

impl Default for RetrySpec {
    fn default() -> RetrySpec {
        let platform = patra_core::retry::RetryPolicy::default();
        RetrySpec {
            policy: "exponential_jitter".into(),
            max_attempts: platform.max_attempts,
            min_delay_ms: platform.min_delay_ms,
            max_delay_ms: platform.max_delay_ms,
            multiplier_percent: platform.multiplier_percent,
            jitter_percent: platform.jitter_percent,
            retryable_status: None,
            retryable_codes: Vec::new(),
        }
    }
}

impl RetrySpec {
    /// Whether a response with this status is retried: the declared set, or the default set (C-38).
    pub fn is_retryable(&self, status: u16) -> bool {
        match &self.retryable_status {
            Some(declared) => declared.contains(&status),
            None => matches!(status, 408 | 425 | 429 | 500..=599),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimitSpec {
    pub qps: f64,
    pub burst: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub scope: RateScope,
    #[serde(skip_serializing_if = "is_one")]
    pub weight: u32,
    #[serde(skip_serializing_if = "is_one")]
    pub cost: u32,
    #[serde(skip_serializing_if = "is_two")]
    pub demote_rate: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_daily: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_hourly: Option<u64>,
    /// `None` if only `Retry-After` adapts the rate; it is always obeyed (ING-4.10-37).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_adaptive: Option<HeaderAdaptive>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_sec: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_respect: Option<bool>,
}

/// Defaults are not serialised, so they do not change the hash of a snapshot.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

fn is_half(value: &f64) -> bool {
    *value == 0.5
}

fn is_two(value: &f64) -> bool {
    *value == 2.0
}

impl Default for RateLimitSpec {
    /// ING-4.10-36.
    fn default() -> RateLimitSpec {
        RateLimitSpec {
            qps: 1.0,
            burst: 1,
            scope: RateScope::Endpoint,
            weight: 1,
            cost: 1,
            demote_rate: 2.0,
            quota_daily: None,
            quota_hourly: None,
            header_adaptive: None,
            warmup_sec: None,
            retry_after_respect: None,
        }
    }
}

/// Limits on the work in progress, and on one slice or one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitsSpec {
    /// C_max: most tasks of one partition that run at the same time, over all processes (ING-13.1-01).
    pub concurrency: u32,
    /// Number of QUEUED tasks at which planning stops (ING-5.2-04).
    pub inventory: u32,
    /// Most pages of one slice; a slice whose first total shows more is split (ING-8.2-02).
    pub page_depth: u32,
    /// Most requests of one run (ING-8.2-04).
    pub max_requests: u32,
    pub max_duration: IsoDuration,
    /// Largest share of ids with rejected details; above it a task fails (ING-12.2-05).
    pub error_ratio: f64,
    /// Largest share of a list that one pass marks as missing.
    #[serde(skip_serializing_if = "is_half")]
    pub missing_ratio: f64,
}

impl Default for LimitsSpec {
    fn default() -> LimitsSpec {
        LimitsSpec {
            concurrency: 4,
            inventory: 1_000,
            page_depth: 200,
            max_requests: 800,
            max_duration: IsoDuration::secs(900),
            error_ratio: 0.1,
            missing_ratio: 0.5,
        }
    }
}

/// Thresholds at which a partition is slowed down (ING-12.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthSpec {
    /// Share of 429 within `throttle_window` at which requests are slowed down.
    pub throttle_ratio: f64,
    pub throttle_window: IsoDuration,
    /// Share of failed requests in that time at which rate and concurrency are lowered (ING-5.2-08).
    pub failure_ratio: f64,
    /// Average time of a batch at which the page size is reduced.
    pub slow_batch: IsoDuration,
    /// Consecutive failures that open the circuit.
    pub circuit_after: u32,
    /// Shortest time that the circuit stays open; with jitter up to twice as long.
    pub circuit_open: IsoDuration,
    /// Smallest share of the configured rate after slowing down.
    pub rate_floor: f64,
    pub min_page_size: u32,
    /// Response size at which the page size is reduced (ING-8.4-01).
    pub large_response_bytes: u64,
}

impl Default for HealthSpec {
    fn default() -> HealthSpec {
        let platform = patra_core::health::Thresholds::default();
        HealthSpec {
            throttle_ratio: platform.throttle_ratio,
            throttle_window: IsoDuration(platform.throttle_window),
            failure_ratio: platform.failure_ratio,
            slow_batch: IsoDuration(platform.slow_batch),
            circuit_after: platform.circuit_after,
            circuit_open: IsoDuration(platform.circuit_open),
            rate_floor: platform.rate_floor,
            min_page_size: platform.min_page_size,
            large_response_bytes: platform.large_response_bytes,
        }
    }
}
