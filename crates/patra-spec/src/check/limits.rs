//! Checks retries, rates, limits and health thresholds (ING-4.17-06, ING-12.2-08).

use std::time::Duration;

use super::ManifestChecker;
use super::paging::MAX_PAGE_SIZE;
use super::request::is_header_name;
use crate::iso_duration::IsoDuration;
use crate::manifest::{
    EndpointConfig, HeaderAdaptive, HealthConfig, LimitsConfig, RateLimitConfig, RawConfig, RetryConfig,
};

pub(super) const MAX_ATTEMPTS: u32 = 20;
pub(super) const MAX_RATE: f64 = 10_000.0;
pub(super) const MAX_CONCURRENCY: u32 = 64;
const MAX_WEIGHT: u32 = 1_000;
const MAX_COST: u32 = 100;
/// `demoteRateMaxMultiplier` (C-29).
const MAX_DEMOTE: f64 = 4.0;
const MAX_WARMUP_SEC: u32 = 86_400;
const MAX_CODES: usize = 64;
/// Shortest retention of raw responses: shorter ones would be gone before anybody could replay them.
const MIN_KEEP: IsoDuration = IsoDuration::secs(3_600);
const SECOND: IsoDuration = IsoDuration::secs(1);

impl ManifestChecker<'_> {
    /// Checks the limit sections of an endpoint, or of the defaults.
    pub(super) fn limit_sections(&mut self, path: &str, endpoint: &EndpointConfig) {
        self.retry(&format!("{path}.retry"), &endpoint.retry);
        self.rate_limit(&format!("{path}.rate_limit"), &endpoint.rate_limit);
        self.limits(&format!("{path}.limits"), &endpoint.limits);
        self.health(&format!("{path}.health"), &endpoint.health);
        let RawConfig { keep } = endpoint.raw;
        self.at_least(&format!("{path}.raw.keep"), keep, MIN_KEEP);
    }

    /// A request takes all its permits at once, so its cost must not exceed the burst (ING-4.10-10).
    pub(super) fn cost_within_burst(&mut self, path: &str, rate: &RateLimitConfig) {
        let platform = crate::snapshot::RateLimitSpec::default();
        let (cost, burst) = (rate.cost.unwrap_or(platform.cost), rate.burst.unwrap_or(platform.burst));
        if burst > 0 && cost > burst && cost <= MAX_COST {
            let message = format!("a request takes {cost} permits, but there are never more than the burst of {burst}");
            let hint = format!("for example burst: {cost}");
            self.report_with(&format!("{path}.rate_limit.cost"), message, hint);
        }
    }

    fn limits(&mut self, path: &str, limits: &LimitsConfig) {
        if limits.concurrency.is_some_and(|tasks| tasks == 0 || tasks > MAX_CONCURRENCY) {
            self.report(&format!("{path}.concurrency"), format!("expected 1 to {MAX_CONCURRENCY} tasks"));
        }
        for (key, value) in
            [("inventory", limits.inventory), ("page_depth", limits.page_depth), ("max_requests", limits.max_requests)]
        {
            self.at_least_one(&format!("{path}.{key}"), value.map(u64::from));
        }
        self.at_least(&format!("{path}.max_duration"), limits.max_duration, SECOND);
        self.ratio(&format!("{path}.error_ratio"), limits.error_ratio);
        self.ratio(&format!("{path}.missing_ratio"), limits.missing_ratio);
    }

    fn health(&mut self, path: &str, health: &HealthConfig) {
        self.ratio(&format!("{path}.throttle_ratio"), health.throttle_ratio);
        self.ratio(&format!("{path}.failure_ratio"), health.failure_ratio);
        self.ratio(&format!("{path}.rate_floor"), health.rate_floor);
        self.at_least(&format!("{path}.throttle_window"), health.throttle_window, SECOND);
        self.at_least(&format!("{path}.slow_batch"), health.slow_batch, IsoDuration(Duration::from_millis(1)));
        self.at_least(&format!("{path}.circuit_open"), health.circuit_open, SECOND);
        self.at_least_one(&format!("{path}.circuit_after"), health.circuit_after.map(u64::from));
        self.at_least_one(&format!("{path}.large_response_bytes"), health.large_response_bytes);
        if health.min_page_size.is_some_and(|size| size == 0 || size > MAX_PAGE_SIZE) {
            self.report(&format!("{path}.min_page_size"), format!("expected 1 to {MAX_PAGE_SIZE} items"));
        }
    }

    fn ratio(&mut self, path: &str, ratio: Option<f64>) {
        if ratio.is_some_and(|ratio| ratio <= 0.0 || ratio > 1.0) {
            self.report_with(path, "expected more than 0 and at most 1", "a share: 0.05 is 5 %");
        }
    }

    fn at_least(&mut self, path: &str, span: Option<IsoDuration>, least: IsoDuration) {
        if span.is_some_and(|span| span < least) {
            self.report(path, format!("expected at least {least}"));
        }
    }

    fn at_least_one(&mut self, path: &str, count: Option<u64>) {
        if count == Some(0) {
            self.report(path, "expected at least 1");
        }
    }

    fn retry(&mut self, path: &str, retry: &RetryConfig) {
        if retry.max_attempts.is_some_and(|attempts| attempts == 0 || attempts > MAX_ATTEMPTS) {
            self.report(&format!("{path}.max_attempts"), format!("expected 1 to {MAX_ATTEMPTS} attempts"));
        }
        if let (Some(min), Some(max)) = (retry.min_delay, retry.max_delay)
            && min > max
        {
            self.report(&format!("{path}.min_delay"), format!("min_delay {min} is longer than max_delay {max}"));
        }
        for (at, status) in retry.retryable_status.iter().flatten().enumerate() {
            let path = format!("{path}.retryable_status[{at}]");
            match status {
                401 => self.report(&path, "401 rejects the credential: a retry does not help"),
                400..=599 => {}
                _ => self.report(&path, format!("{status} is not an error status: expected 400 to 599")),
            }
        }
        let codes = retry.retryable_codes.iter().flatten();
        for (at, _) in codes.clone().enumerate().filter(|(_, code)| code.trim().is_empty()) {
            self.report(&format!("{path}.retryable_codes[{at}]"), "the code is empty");
        }
        if codes.count() > MAX_CODES {
            self.report(&format!("{path}.retryable_codes"), format!("at most {MAX_CODES} codes are allowed"));
        }
    }

    fn rate_limit(&mut self, path: &str, rate: &RateLimitConfig) {
        if rate.refill_rate_per_sec.is_some_and(|rate| rate <= 0.0 || rate > MAX_RATE) {
            let message = format!("expected more than 0 and at most {MAX_RATE} requests per second");
            self.report(&format!("{path}.refill_rate_per_sec"), message);
        }
        self.at_least_one(&format!("{path}.burst"), rate.burst.map(u64::from));
        for (key, quota) in [("quota_daily", rate.quota_daily), ("quota_hourly", rate.quota_hourly)] {
            self.at_least_one(&format!("{path}.{key}"), quota);
        }
        if let (Some(daily), Some(hourly)) = (rate.quota_daily, rate.quota_hourly)
            && hourly > daily
        {
            let message = format!("{hourly} requests an hour are more than the {daily} of a whole day");
            self.report(&format!("{path}.quota_hourly"), message);
        }
        if let Some(HeaderAdaptive::Named(names)) = &rate.header_adaptive {
            for (at, name) in names.iter().enumerate().filter(|(_, name)| !is_header_name(name)) {
                let message = format!("{} is not a valid header name", crate::problem::quote(name));
                self.report(&format!("{path}.header_adaptive[{at}]"), message);
            }
        }
        if rate.weight.is_some_and(|weight| weight == 0 || weight > MAX_WEIGHT) {
            self.report(&format!("{path}.weight"), format!("expected 1 to {MAX_WEIGHT}"));
        }
        if rate.cost.is_some_and(|cost| cost == 0 || cost > MAX_COST) {
            self.report(&format!("{path}.cost"), format!("expected 1 to {MAX_COST} permits"));
        }
        if rate.demote_rate.is_some_and(|by| !(1.0..=MAX_DEMOTE).contains(&by)) {
            self.report(&format!("{path}.demote_rate"), format!("expected 1 to {MAX_DEMOTE}"));
        }
        if rate.warmup_sec.is_some_and(|secs| secs > MAX_WARMUP_SEC) {
            self.report(&format!("{path}.warmup_sec"), format!("expected at most {MAX_WARMUP_SEC} seconds"));
        }
    }
}
