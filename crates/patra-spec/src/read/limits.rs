//! The sections `retry`, `rate_limit`, `limits`, `health` and `raw`.

use super::reader::ManifestReader;
use crate::manifest::{HeaderAdaptive, HealthConfig, LimitsConfig, RateLimitConfig, RawConfig, RetryConfig};
use crate::yaml::{YamlNode, YamlValue};

pub(super) fn retry(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<RetryConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let retry = RetryConfig {
        max_attempts: reader.get(s, "max_attempts", ManifestReader::integer),
        min_delay: reader.get(s, "min_delay", ManifestReader::duration),
        max_delay: reader.get(s, "max_delay", ManifestReader::duration),
        retryable_status: reader.get(s, "retryable_status", ManifestReader::integers),
        retryable_codes: reader.get(s, "retryable_codes", ManifestReader::scalars),
    };
    reader.close(&section);
    Some(retry)
}

pub(super) fn rate_limit(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<RateLimitConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let rate_limit = RateLimitConfig {
        scope: reader.get(s, "scope", ManifestReader::keyword),
        weight: reader.get(s, "weight", ManifestReader::integer),
        cost: reader.get(s, "cost", ManifestReader::integer),
        demote_rate: reader.get(s, "demote_rate", ManifestReader::decimal),
        refill_rate_per_sec: reader.get(s, "refill_rate_per_sec", ManifestReader::decimal),
        burst: reader.get(s, "burst", ManifestReader::integer),
        quota_daily: reader.get(s, "quota_daily", ManifestReader::integer),
        quota_hourly: reader.get(s, "quota_hourly", ManifestReader::integer),
        header_adaptive: reader.get(s, "header_adaptive", header_adaptive),
        warmup_sec: reader.get(s, "warmup_sec", ManifestReader::integer),
        retry_after_respect: reader.get(s, "retry_after_respect", ManifestReader::flag),
    };
    reader.close(&section);
    Some(rate_limit)
}

pub(super) fn limits(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<LimitsConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let limits = LimitsConfig {
        concurrency: reader.get(s, "concurrency", ManifestReader::integer),
        inventory: reader.get(s, "inventory", ManifestReader::integer),
        page_depth: reader.get(s, "page_depth", ManifestReader::integer),
        max_requests: reader.get(s, "max_requests", ManifestReader::integer),
        max_duration: reader.get(s, "max_duration", ManifestReader::duration),
        error_ratio: reader.get(s, "error_ratio", ManifestReader::decimal),
        missing_ratio: reader.get(s, "missing_ratio", ManifestReader::decimal),
    };
    reader.close(&section);
    Some(limits)
}

pub(super) fn health(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<HealthConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let health = HealthConfig {
        throttle_ratio: reader.get(s, "throttle_ratio", ManifestReader::decimal),
        throttle_window: reader.get(s, "throttle_window", ManifestReader::duration),
        failure_ratio: reader.get(s, "failure_ratio", ManifestReader::decimal),
        slow_batch: reader.get(s, "slow_batch", ManifestReader::duration),
        circuit_after: reader.get(s, "circuit_after", ManifestReader::integer),
        circuit_open: reader.get(s, "circuit_open", ManifestReader::duration),
        rate_floor: reader.get(s, "rate_floor", ManifestReader::decimal),
        min_page_size: reader.get(s, "min_page_size", ManifestReader::integer),
        large_response_bytes: reader.get(s, "large_response_bytes", ManifestReader::integer),
    };
    reader.close(&section);
    Some(health)
}

pub(super) fn raw(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<RawConfig> {
    let mut section = reader.section(path, node)?;
    let raw = RawConfig { keep: reader.get(&mut section, "keep", ManifestReader::duration) };
    reader.close(&section);
    Some(raw)
}

fn header_adaptive(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<HeaderAdaptive> {
    match &node.data {
        YamlValue::Bool(yes) => Some(HeaderAdaptive::All(*yes)),
        YamlValue::List(_) => reader.scalars(path, node).map(HeaderAdaptive::Named),
        _ => reader.expected(path, node, "true, false or a list of header names"),
    }
}
