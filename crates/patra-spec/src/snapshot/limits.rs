//! How patiently, how fast and how much the far side is asked, and when it is spared, as frozen (ING-3.3-15).

use serde::{Deserialize, Serialize};

use crate::iso::Iso;
use crate::manifest::HeaderAdaptive;
use crate::words::RateScope;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retry {
    pub policy: String,
    pub max_attempts: u32,
    pub min_delay_ms: u64,
    pub max_delay_ms: u64,
    pub multiplier_percent: u32,
    pub jitter_percent: u32,
    /// Instead of the default set (C-38).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable_status: Option<Vec<u16>>,
    /// The far side's own codes for what passes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retryable_codes: Vec<String>,
}

impl Default for Retry {
    fn default() -> Retry {
        let platform = patra_core::retry::Policy::default();
        Retry {
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

impl Retry {
    /// Whether an answer of this status is tried again: what was declared, or the default set (C-38).
    pub fn is_retryable(&self, status: u16) -> bool {
        match &self.retryable_status {
            Some(declared) => declared.contains(&status),
            None => matches!(status, 408 | 425 | 429 | 500..=599),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimit {
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
    /// `None`: only `Retry-After`, which is always obeyed (ING-4.10-37).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_adaptive: Option<HeaderAdaptive>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_sec: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_respect: Option<bool>,
}

/// What nobody declares does not change the hash of a snapshot.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

fn is_two(value: &f64) -> bool {
    *value == 2.0
}

impl Default for RateLimit {
    /// ING-4.10-36.
    fn default() -> RateLimit {
        RateLimit {
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

/// How much may be under way at once, and how much one slice or one run may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// C_max: tasks of one partition that run at the same time, over all processes (ING-13.1-01).
    pub concurrency: u32,
    /// QUEUED tasks from which on nothing new is planned (ING-5.2-04).
    pub inventory: u32,
    /// Pages; a slice that the first total says is deeper is cut (ING-8.2-02).
    pub page_depth: u32,
    /// Of one run (ING-8.2-04).
    pub max_requests: u32,
    pub max_duration: Iso,
    /// Share of ids whose details are refused as wrong; with more a task fails (ING-12.2-05).
    pub error_ratio: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            concurrency: 4,
            inventory: 1_000,
            page_depth: 200,
            max_requests: 800,
            max_duration: Iso::secs(900),
            error_ratio: 0.1,
        }
    }
}

/// From when on a partition is spared (ING-12.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Health {
    /// Share of 429 within `throttle_window` from which on requests are slowed down.
    pub throttle_ratio: f64,
    pub throttle_window: Iso,
    /// Share of failed requests in that time from which on fewer are sent, by fewer tasks (ING-5.2-08).
    pub failure_ratio: f64,
    /// Average time of a batch from which on less is asked for at once.
    pub slow_batch: Iso,
    /// Failures in a row that open the circuit.
    pub circuit_after: u32,
    /// How long it stays open at least; with jitter up to twice as long.
    pub circuit_open: Iso,
    /// What is left of the configured rate at least.
    pub rate_floor: f64,
    pub min_page_size: u32,
    /// Size of an answer from which on less is asked for (ING-8.4-01).
    pub large_response_bytes: u64,
}

impl Default for Health {
    fn default() -> Health {
        let platform = patra_core::health::Thresholds::default();
        Health {
            throttle_ratio: platform.throttle_ratio,
            throttle_window: Iso(platform.throttle_window),
            failure_ratio: platform.failure_ratio,
            slow_batch: Iso(platform.slow_batch),
            circuit_after: platform.circuit_after,
            circuit_open: Iso(platform.circuit_open),
            rate_floor: platform.rate_floor,
            min_page_size: platform.min_page_size,
            large_response_bytes: platform.large_response_bytes,
        }
    }
}
