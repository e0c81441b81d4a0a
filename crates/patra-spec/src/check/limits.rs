//! How patiently and how fast the far side may be asked (ING-4.17-06).

use super::Check;
use super::request::is_header_name;
use crate::manifest::{HeaderAdaptive, RateLimit, Retry};

pub(super) const MAX_ATTEMPTS: u32 = 20;
pub(super) const MAX_RATE: f64 = 10_000.0;
const MAX_WARMUP_SEC: u32 = 86_400;
const MAX_CODES: usize = 64;

impl Check<'_> {
    pub(super) fn retry(&mut self, path: &str, retry: &Retry) {
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
                401 => self.report(&path, "401 rejects the credential: trying again does not help"),
                400..=599 => {}
                _ => self.report(&path, format!("{status} is no status of an error: expected 400 to 599")),
            }
        }
        let codes = retry.retryable_codes.iter().flatten();
        for (at, _) in codes.clone().enumerate().filter(|(_, code)| code.trim().is_empty()) {
            self.report(&format!("{path}.retryable_codes[{at}]"), "the code is empty");
        }
        if codes.count() > MAX_CODES {
            self.report(&format!("{path}.retryable_codes"), format!("at most {MAX_CODES} codes are looked for"));
        }
    }

    pub(super) fn rate_limit(&mut self, path: &str, rate: &RateLimit) {
        if rate.refill_rate_per_sec.is_some_and(|rate| rate <= 0.0 || rate > MAX_RATE) {
            let message = format!("expected more than 0 and at most {MAX_RATE} requests per second");
            self.report(&format!("{path}.refill_rate_per_sec"), message);
        }
        if rate.burst == Some(0) {
            self.report(&format!("{path}.burst"), "expected at least 1");
        }
        for (key, quota) in [("quota_daily", rate.quota_daily), ("quota_hourly", rate.quota_hourly)] {
            if quota == Some(0) {
                self.report(&format!("{path}.{key}"), "expected at least 1");
            }
        }
        if let (Some(daily), Some(hourly)) = (rate.quota_daily, rate.quota_hourly)
            && hourly > daily
        {
            let message = format!("{hourly} requests an hour are more than the {daily} of a whole day");
            self.report(&format!("{path}.quota_hourly"), message);
        }
        if let Some(HeaderAdaptive::Named(names)) = &rate.header_adaptive {
            for (at, name) in names.iter().enumerate().filter(|(_, name)| !is_header_name(name)) {
                let message = format!("{} is no header name", crate::problem::quote(name));
                self.report(&format!("{path}.header_adaptive[{at}]"), message);
            }
        }
        if rate.warmup_sec.is_some_and(|secs| secs > MAX_WARMUP_SEC) {
            self.report(&format!("{path}.warmup_sec"), format!("expected at most {MAX_WARMUP_SEC} seconds"));
        }
    }
}
