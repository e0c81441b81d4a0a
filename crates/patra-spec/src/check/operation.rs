//! What one operation needs beyond a sound endpoint (C-23, ING-4.4-16), and what works less well than it could.

use std::time::Duration;

use patra_core::cron::Cron;
use patra_core::state::Operation;

use super::Check;
use super::limits::{MAX_ATTEMPTS, MAX_CONCURRENCY, MAX_RATE};
use super::request::{MAX_BODY, MAX_TIMEOUT};
use super::window::filters;
use crate::iso::Iso;
use crate::manifest::Endpoint;
use crate::snapshot::Snapshot;
use crate::words::{Format, Role};

/// When a cursor that does not move is reported (C-28).
const STALL: Duration = Duration::from_secs(1_800);
/// From this part of a ceiling on, in percent, a setting is near it.
const NEAR: u64 = 80;

impl Check<'_> {
    pub(crate) fn operation(&mut self, name: &str, endpoint: &Endpoint, operation: Operation) {
        let detail = self.linked_detail(endpoint, operation);
        let path = format!("endpoints.{name}");
        if endpoint.role == Some(Role::Detail) {
            let (does, hint) = match operation {
                Operation::Update => {
                    let hint = "update the search endpoint that names it in `update.detail` or `two_phase.detail`";
                    ("looks after the records of a search", hint)
                }
                Operation::Harvest | Operation::Backfill => {
                    ("reads windows", "read the search endpoint that names it in `two_phase.detail`")
                }
            };
            let message = format!("{operation} {does}, and a detail endpoint is asked for ids");
            return self.report_with(&format!("{path}.role"), message, hint);
        }
        if operation == Operation::Update {
            // Neither window nor watermark: the ids come from what is stored (C-51).
            if endpoint.detail_for(operation).is_none() {
                self.needs_detail(&format!("{path}.update.detail"));
            }
            return;
        }
        // Whatever is there is taken, as it is now.
        if endpoint.polled == Some(true) {
            return;
        }
        // Records come from the detail endpoint where there is one, and their times with them.
        let (source, records) = detail.unwrap_or((name, endpoint));
        let monotonic = endpoint.window.as_ref().is_some_and(|window| window.monotonic == Some(true));
        let replaced = monotonic && filters(endpoint);
        let dated = records.response.updated_at_path.is_some() || records.response.format == Some(Format::Tweets);
        if !dated && !replaced {
            let message = format!("{operation} needs `updated_at_path`: without an update time nothing can be ordered");
            let hint = match monotonic {
                true => "`monotonic` can replace it only where the far side filters: supports_updated_since: true",
                false => "a source without update times can only be read by UPDATE",
            };
            self.report_with(&format!("endpoints.{source}.response.updated_at_path"), message, hint);
        }
        let Some(window) = &endpoint.window else {
            let message = format!("{operation} needs a `window` section");
            return self.report_with(&format!("{path}.window"), message, "with at least watermark_key and initial");
        };
        if window.watermark_key.is_none() {
            let message = format!("{operation} needs `watermark_key`");
            self.report_with(&format!("{path}.window.watermark_key"), message, "for example watermark_key: updated_at");
        }
        if operation == Operation::Harvest && window.initial.is_none() {
            let message = "HARVEST needs `initial`: the time where the first run begins";
            self.report_with(&format!("{path}.window.initial"), message, "for example initial: 2024-01-01");
        }
    }

    fn linked_detail<'a>(&self, endpoint: &Endpoint, operation: Operation) -> Option<(&'a str, &'a Endpoint)>
    where
        Self: 'a,
    {
        let name = endpoint.detail_for(operation)?;
        let (name, detail) = self.manifest.endpoints.get_key_value(name)?;
        Some((name.as_str(), detail))
    }
}

/// What is recorded with the plan and stops nothing (ING-3.3-22).
pub(crate) fn warnings(spec: &Snapshot, endpoint: &Endpoint) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |when: bool, text: String| warnings.extend(when.then_some(text));
    let (response, window, update) = (&spec.response, &spec.window, spec.operation == Operation::Update);
    let records = spec.two_phase.as_ref().map_or(response, |two_phase| &two_phase.detail.response);
    warn(
        records.updated_at_path.is_none() && records.format != Format::Tweets,
        "no response.updated_at_path: records are replaced when their content differs".into(),
    );
    let counted = response.total_path.is_some() || response.total_header.is_some();
    warn(!update && !counted, "no response.total_path: the number of records is not known beforehand".into());
    let all = "the far side does not filter by time: every slice reads all and is filtered here";
    warn(!update && !window.supports_updated_since, all.into());
    let rated = endpoint.rate_limit.refill_rate_per_sec.is_some();
    warn(!rated, "no rate_limit: at most one request per second is sent".into());
    let twice = "window.safety_lag is PT0S and as_of is not true: the last page is read twice";
    warn(!update && window.safety_lag.0.is_zero() && !window.as_of, twice.into());
    let capped = spec.pagination.as_ref().is_some_and(|paging| paging.result_ceiling.is_some());
    let back = "window.lookback counts towards result_ceiling: what it reaches back to is in every narrower window too";
    warn(capped && window.lookback.is_some_and(|lookback| !lookback.0.is_zero()), back.into());
    if let Some((key, pause)) = longest_pause(endpoint).filter(|_| !update) {
        let lag = window.safety_lag.0.saturating_add(pause);
        let text = format!("safety_lag and schedule.{key} make a cursor lag of {}, which looks like a stall", Iso(lag));
        warn(lag >= STALL, text);
    }
    warnings.extend(near_ceilings(spec));
    warnings
}

/// Between two harvests, and what says so.
fn longest_pause(endpoint: &Endpoint) -> Option<(&'static str, Duration)> {
    let schedule = endpoint.schedule.as_ref()?;
    let every = schedule.every.map(|every| ("every", every.0));
    every.or_else(|| Some(("cron", Cron::parse(schedule.cron.as_ref()?).ok()?.longest_pause())))
}

/// A setting close to what is allowed at all was probably meant otherwise (ING-4.17-06).
fn near_ceilings(spec: &Snapshot) -> impl Iterator<Item = String> {
    let millis = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let attempts = u64::from(spec.retry.max_attempts);
    [
        ("retry.max_attempts", attempts, u64::from(MAX_ATTEMPTS)),
        ("rate_limit.refill_rate_per_sec", spec.rate_limit.qps.ceil() as u64, MAX_RATE as u64),
        ("http.connect_timeout", spec.http.connect_timeout_ms, millis(MAX_TIMEOUT)),
        ("http.read_timeout", spec.http.read_timeout_ms, millis(MAX_TIMEOUT)),
        ("http.max_body_bytes", spec.http.max_body_bytes, MAX_BODY),
        ("limits.concurrency", u64::from(spec.limits.concurrency), u64::from(MAX_CONCURRENCY)),
    ]
    .into_iter()
    .filter(|(_, value, ceiling)| value.saturating_mul(100) >= ceiling.saturating_mul(NEAR))
    .map(|(key, _, _)| format!("{key} is near its ceiling"))
}
