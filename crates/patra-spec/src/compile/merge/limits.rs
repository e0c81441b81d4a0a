//! Retry, rate, limits and health; unset values are the platform's.

use crate::iso_duration::IsoDuration;
use crate::manifest::EndpointConfig;
use crate::snapshot::{HealthSpec, LimitsSpec, RateLimitSpec, RetrySpec};

pub(super) fn retry(endpoint: &EndpointConfig) -> RetrySpec {
    let (retry, platform) = (endpoint.retry.clone(), RetrySpec::default());
    let (min, max) = (retry.min_delay.map(IsoDuration::millis), retry.max_delay.map(IsoDuration::millis));
    // If only one bound is set, the platform's other bound is adjusted to it.
    let min_delay_ms = min.unwrap_or(platform.min_delay_ms.min(max.unwrap_or(u64::MAX)));
    RetrySpec {
        max_attempts: retry.max_attempts.unwrap_or(platform.max_attempts),
        min_delay_ms,
        max_delay_ms: max.unwrap_or(platform.max_delay_ms).max(min_delay_ms),
        retryable_status: retry.retryable_status,
        retryable_codes: retry.retryable_codes.unwrap_or_default(),
        ..platform
    }
}

pub(super) fn rate_limit(endpoint: &EndpointConfig) -> RateLimitSpec {
    let (rate, platform) = (endpoint.rate_limit.clone(), RateLimitSpec::default());
    RateLimitSpec {
        qps: rate.refill_rate_per_sec.unwrap_or(platform.qps),
        burst: rate.burst.unwrap_or(platform.burst),
        scope: rate.scope.unwrap_or(platform.scope),
        weight: rate.weight.unwrap_or(platform.weight),
        cost: rate.cost.unwrap_or(platform.cost),
        demote_rate: rate.demote_rate.unwrap_or(platform.demote_rate),
        quota_daily: rate.quota_daily,
        quota_hourly: rate.quota_hourly,
        header_adaptive: rate.header_adaptive,
        warmup_sec: rate.warmup_sec,
        retry_after_respect: rate.retry_after_respect,
    }
}

pub(super) fn limits(endpoint: &EndpointConfig) -> LimitsSpec {
    let (limits, platform) = (&endpoint.limits, LimitsSpec::default());
    LimitsSpec {
        concurrency: limits.concurrency.unwrap_or(platform.concurrency),
        inventory: limits.inventory.unwrap_or(platform.inventory),
        page_depth: limits.page_depth.unwrap_or(platform.page_depth),
        max_requests: limits.max_requests.unwrap_or(platform.max_requests),
        max_duration: limits.max_duration.unwrap_or(platform.max_duration),
        error_ratio: limits.error_ratio.unwrap_or(platform.error_ratio),
        missing_ratio: limits.missing_ratio.unwrap_or(platform.missing_ratio),
    }
}

pub(super) fn health(endpoint: &EndpointConfig) -> HealthSpec {
    let (health, platform) = (&endpoint.health, HealthSpec::default());
    HealthSpec {
        throttle_ratio: health.throttle_ratio.unwrap_or(platform.throttle_ratio),
        throttle_window: health.throttle_window.unwrap_or(platform.throttle_window),
        failure_ratio: health.failure_ratio.unwrap_or(platform.failure_ratio),
        slow_batch: health.slow_batch.unwrap_or(platform.slow_batch),
        circuit_after: health.circuit_after.unwrap_or(platform.circuit_after),
        circuit_open: health.circuit_open.unwrap_or(platform.circuit_open),
        rate_floor: health.rate_floor.unwrap_or(platform.rate_floor),
        min_page_size: health.min_page_size.unwrap_or(platform.min_page_size),
        large_response_bytes: health.large_response_bytes.unwrap_or(platform.large_response_bytes),
    }
}
