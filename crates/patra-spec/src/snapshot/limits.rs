//! How patiently and how fast the far side is asked, as frozen (ING-3.3-15).

use serde::{Deserialize, Serialize};

use crate::manifest::HeaderAdaptive;

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

impl Default for RateLimit {
    /// ING-4.10-36.
    fn default() -> RateLimit {
        RateLimit {
            qps: 1.0,
            burst: 1,
            quota_daily: None,
            quota_hourly: None,
            header_adaptive: None,
            warmup_sec: None,
            retry_after_respect: None,
        }
    }
}
