//! Checks what one operation needs beyond a valid endpoint (C-23, ING-4.4-16), and collects warnings.

use std::time::Duration;

use patra_core::cron::Cron;
use patra_core::state::Operation;

use super::ManifestChecker;
use super::limits::{MAX_ATTEMPTS, MAX_CONCURRENCY, MAX_RATE};
use super::request::{MAX_BODY, MAX_TIMEOUT};
use super::window::{filters_by_time, reads_whole_list};
use crate::iso_duration::IsoDuration;
use crate::keywords::{EndpointRole, ResponseFormat};
use crate::manifest::EndpointConfig;
use crate::snapshot::Snapshot;

/// A cursor that does not move for this long is reported as stalled (C-28).
const STALL: Duration = Duration::from_secs(1_800);
/// A setting at or above this percentage of its ceiling causes a warning.
const NEAR: u64 = 80;

impl ManifestChecker<'_> {
    pub(crate) fn operation(&mut self, name: &str, endpoint: &EndpointConfig, operation: Operation) {
        let detail = self.linked_detail(endpoint, operation);
        let path = format!("endpoints.{name}");
        if endpoint.role == Some(EndpointRole::Detail) {
            let (does, hint) = match operation {
                Operation::Update => {
                    let hint = "update the search endpoint that names it in `update.detail` or `two_phase.detail`";
                    ("updates the records of a search", hint)
                }
                Operation::Harvest | Operation::Backfill => {
                    ("reads windows", "read the search endpoint that names it in `two_phase.detail`")
                }
            };
            let message = format!("{operation} {does}; a detail endpoint only fetches records by id");
            return self.report_with(&format!("{path}.role"), message, hint);
        }
        if operation == Operation::Update {
            // UPDATE needs neither window nor watermark: its ids come from stored records (C-51).
            if endpoint.detail_for(operation).is_none() {
                self.needs_detail(&format!("{path}.update.detail"));
            }
            return;
        }
        // A polled endpoint has no window.
        if endpoint.polled == Some(true) {
            return;
        }
        if reads_whole_list(endpoint) {
            if operation == Operation::Backfill {
                let message =
                    "BACKFILL reads windows of the past, and with `mode: snapshot` every pass reads the whole list";
                self.report_with(&format!("{path}.window.mode"), message, "run HARVEST instead");
            }
            return;
        }
        // If there is a detail endpoint, records and their update times come from it.
        let (source, records) = detail.unwrap_or((name, endpoint));
        let monotonic = endpoint.window.as_ref().is_some_and(|window| window.monotonic == Some(true));
        let replaced = monotonic && filters_by_time(endpoint);
        let dated =
            records.response.updated_at_path.is_some() || records.response.format == Some(ResponseFormat::Tweets);
        if !dated && !replaced {
            let message =
                format!("{operation} needs `updated_at_path`: without an update time records cannot be ordered");
            let hint = match monotonic {
                true => "`monotonic` can replace it only if the upstream filters by time: supports_updated_since: true",
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
            let message = "HARVEST needs `initial`: the start time of the first run";
            self.report_with(&format!("{path}.window.initial"), message, "for example initial: 2024-01-01");
        }
    }

    fn linked_detail<'a>(
        &self,
        endpoint: &EndpointConfig,
        operation: Operation,
    ) -> Option<(&'a str, &'a EndpointConfig)>
    where
        Self: 'a,
    {
        let name = endpoint.detail_for(operation)?;
        let (name, detail) = self.manifest.endpoints.get_key_value(name)?;
        Some((name.as_str(), detail))
    }
}

/// Warnings that are recorded with the plan and do not stop it (ING-3.3-22).
pub(crate) fn warnings(spec: &Snapshot, endpoint: &EndpointConfig) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |when: bool, text: String| warnings.extend(when.then_some(text));
    let (response, window, update) = (&spec.response, &spec.window, spec.operation == Operation::Update);
    let records = spec.two_phase.as_ref().map_or(response, |two_phase| &two_phase.detail.response);
    warn(
        records.updated_at_path.is_none() && records.format != ResponseFormat::Tweets,
        "no response.updated_at_path: records are replaced when their content differs".into(),
    );
    let counted = response.total_path.is_some() || response.total_header.is_some();
    warn(!update && !counted, "no response.total_path: the number of records is not known in advance".into());
    let whole = spec.reads_whole_list();
    let all = match spec.keeps_out_of_range() {
        true => "the upstream does not filter by time: every slice reads and keeps all records, whatever their time",
        false => "the upstream does not filter by time: every slice reads all records and filters them locally",
    };
    warn(!update && !whole && !window.supports_updated_since, all.into());
    let rated = endpoint.rate_limit.refill_rate_per_sec.is_some();
    warn(!rated, "no rate_limit: at most one request per second is sent".into());
    let twice = "window.safety_lag is PT0S and as_of is not true: the last page is read twice";
    warn(!update && !whole && window.safety_lag.0.is_zero() && !window.as_of, twice.into());
    let capped = spec.pagination.as_ref().is_some_and(|paging| paging.result_ceiling.is_some());
    let back = "window.lookback counts towards result_ceiling: its records are in every narrower window too";
    warn(capped && window.lookback.is_some_and(|lookback| !lookback.0.is_zero()), back.into());
    if let Some((key, pause)) = longest_pause(endpoint).filter(|_| !update) {
        let lag = window.safety_lag.0.saturating_add(pause);
        let text = format!(
            "safety_lag and schedule.{key} make a cursor lag of {}, which looks like a stall",
            IsoDuration(lag)
        );
        warn(lag >= STALL, text);
    }
    warnings.extend(near_ceilings(spec));
    warnings
}

/// Longest time between two harvests, with the schedule key that sets it.
fn longest_pause(endpoint: &EndpointConfig) -> Option<(&'static str, Duration)> {
    let schedule = endpoint.schedule.as_ref()?;
    let every = schedule.every.map(|every| ("every", every.0));
    every.or_else(|| Some(("cron", Cron::parse(schedule.cron.as_ref()?).ok()?.longest_pause())))
}

/// Warns about settings close to their ceiling: they are often mistakes (ING-4.17-06).
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
