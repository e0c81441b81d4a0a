//! The sections `retry`, `rate_limit`, `limits`, `health` and `raw`.

use super::reader::Reader;
use crate::manifest::{HeaderAdaptive, Health, Limits, RateLimit, Raw, Retry};
use crate::yaml::{Data, Node};

pub(super) fn retry(reader: &mut Reader, path: &str, node: &Node) -> Option<Retry> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let retry = Retry {
        max_attempts: reader.get(s, "max_attempts", Reader::whole),
        min_delay: reader.get(s, "min_delay", Reader::duration),
        max_delay: reader.get(s, "max_delay", Reader::duration),
        retryable_status: reader.get(s, "retryable_status", Reader::wholes),
        retryable_codes: reader.get(s, "retryable_codes", Reader::scalars),
    };
    reader.close(&section);
    Some(retry)
}

pub(super) fn rate_limit(reader: &mut Reader, path: &str, node: &Node) -> Option<RateLimit> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let rate_limit = RateLimit {
        scope: reader.get(s, "scope", Reader::word),
        weight: reader.get(s, "weight", Reader::whole),
        cost: reader.get(s, "cost", Reader::whole),
        demote_rate: reader.get(s, "demote_rate", Reader::decimal),
        refill_rate_per_sec: reader.get(s, "refill_rate_per_sec", Reader::decimal),
        burst: reader.get(s, "burst", Reader::whole),
        quota_daily: reader.get(s, "quota_daily", Reader::whole),
        quota_hourly: reader.get(s, "quota_hourly", Reader::whole),
        header_adaptive: reader.get(s, "header_adaptive", header_adaptive),
        warmup_sec: reader.get(s, "warmup_sec", Reader::whole),
        retry_after_respect: reader.get(s, "retry_after_respect", Reader::flag),
    };
    reader.close(&section);
    Some(rate_limit)
}

pub(super) fn limits(reader: &mut Reader, path: &str, node: &Node) -> Option<Limits> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let limits = Limits {
        concurrency: reader.get(s, "concurrency", Reader::whole),
        inventory: reader.get(s, "inventory", Reader::whole),
        page_depth: reader.get(s, "page_depth", Reader::whole),
        max_requests: reader.get(s, "max_requests", Reader::whole),
        max_duration: reader.get(s, "max_duration", Reader::duration),
        error_ratio: reader.get(s, "error_ratio", Reader::decimal),
    };
    reader.close(&section);
    Some(limits)
}

pub(super) fn health(reader: &mut Reader, path: &str, node: &Node) -> Option<Health> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let health = Health {
        throttle_ratio: reader.get(s, "throttle_ratio", Reader::decimal),
        throttle_window: reader.get(s, "throttle_window", Reader::duration),
        failure_ratio: reader.get(s, "failure_ratio", Reader::decimal),
        slow_batch: reader.get(s, "slow_batch", Reader::duration),
        circuit_after: reader.get(s, "circuit_after", Reader::whole),
        circuit_open: reader.get(s, "circuit_open", Reader::duration),
        rate_floor: reader.get(s, "rate_floor", Reader::decimal),
        min_page_size: reader.get(s, "min_page_size", Reader::whole),
        large_response_bytes: reader.get(s, "large_response_bytes", Reader::whole),
    };
    reader.close(&section);
    Some(health)
}

pub(super) fn raw(reader: &mut Reader, path: &str, node: &Node) -> Option<Raw> {
    let mut section = reader.section(path, node)?;
    let raw = Raw { keep: reader.get(&mut section, "keep", Reader::duration) };
    reader.close(&section);
    Some(raw)
}

fn header_adaptive(reader: &mut Reader, path: &str, node: &Node) -> Option<HeaderAdaptive> {
    match &node.data {
        Data::Bool(yes) => Some(HeaderAdaptive::All(*yes)),
        Data::List(_) => reader.scalars(path, node).map(HeaderAdaptive::Named),
        _ => reader.wrong(path, node, "true, false or a list of header names"),
    }
}
