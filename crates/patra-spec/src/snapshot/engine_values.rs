//! Converts settings of a snapshot to the engine's types.

use std::time::Duration;

use patra_core::protocol::run::RecordOrder;
use patra_core::state::Operation;
use patra_core::window::Cut;
use patra_core::{Ts, Window, gate, health, paging, retry};

use super::{ASCENDING, DEFAULT_ORDER_BY, Snapshot};
use crate::keywords::{
    MissingRecords, OnMaxPage, OutOfRange, PagingType, RateScope, ResponseFormat, TotalMeaning, VerifyMode, WindowMode,
};

/// Rate limit key of a host, from any URL on it.
pub fn host_key(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or(host);
    let host = host.rsplit('@').next().unwrap_or(host);
    format!("host:{}", host.to_ascii_lowercase())
}

impl Snapshot {
    /// Every slice reads the whole list.
    pub fn reads_whole_list(&self) -> bool {
        self.window.mode == WindowMode::Snapshot
    }

    /// Records that the list no longer has are marked.
    pub fn marks_missing(&self) -> bool {
        self.reads_whole_list() && self.window.missing == MissingRecords::Mark
    }

    /// Records need no update time: they have that of the slice that found them, or of the poll.
    pub fn is_undated(&self) -> bool {
        let replaced = self.window.monotonic || self.reads_whole_list();
        let dated = self.response.updated_at_path.is_some() || self.response.format == ResponseFormat::Tweets;
        self.polled || (replaced && !dated)
    }

    pub fn cut(&self) -> Cut {
        Cut { max_width: self.window.max_window.0, align: self.window.align }
    }

    pub fn safety_lag(&self) -> Duration {
        self.window.safety_lag.0
    }

    /// The window to request: it is extended back by `lookback`, for records that appear late (G-13). The slice and the
    /// watermark are unchanged.
    pub fn request_window(&self, window: Window) -> Window {
        Window { from: window.from - self.window.lookback.unwrap_or_default().0, to: window.to }
    }

    /// The first watermark; every HARVEST snapshot has one.
    pub fn initial(&self) -> Option<Ts> {
        self.window.initial
    }

    pub fn retry_policy(&self) -> retry::RetryPolicy {
        retry::RetryPolicy {
            max_attempts: self.retry.max_attempts,
            min_delay_ms: self.retry.min_delay_ms,
            max_delay_ms: self.retry.max_delay_ms,
            multiplier_percent: self.retry.multiplier_percent,
            jitter_percent: self.retry.jitter_percent,
        }
    }

    pub fn rate(&self) -> gate::Rate {
        gate::Rate { per_sec: self.rate_limit.qps, burst: f64::from(self.rate_limit.burst) }
    }

    pub fn gate_limits(&self) -> gate::GateLimits {
        let rate = &self.rate_limit;
        gate::GateLimits {
            rate: self.rate(),
            quotas: gate::Quotas { hourly: rate.quota_hourly, daily: rate.quota_daily },
            warmup: Duration::from_secs(u64::from(rate.warmup_sec.unwrap_or(0))),
            demote: rate.demote_rate,
        }
    }

    /// Rate limit key of this endpoint's requests (ING-4.10-04, C-31).
    pub fn gate_key(&self) -> String {
        let (source, endpoint) = (&self.provenance_code, &self.endpoint_code);
        match self.rate_limit.scope {
            RateScope::Endpoint => format!("{source}/{endpoint}"),
            RateScope::Source => source.clone(),
            // All endpoints that use the credential share its limits, across sources.
            RateScope::Credential if !self.auth.credential_ref.is_empty() => {
                format!("credential:{}", self.auth.credential_ref)
            }
            RateScope::Credential => format!("credential:{source}"),
            RateScope::Host => host_key(&self.http.base_url),
        }
    }

    /// The paging rule. Without a `pagination` section one response holds the whole window.
    pub fn paging(&self) -> paging::PagingRule {
        let declared = self.pagination.clone().unwrap_or_default();
        let kind = match self.pagination.as_ref().map(|paging| paging.r#type) {
            Some(PagingType::Token) => paging::PagingKind::Token { initial: declared.initial },
            Some(PagingType::Offset) => paging::PagingKind::Offset,
            Some(PagingType::Page) => paging::PagingKind::Page { base: u64::from(declared.base1 == Some(true)) },
            Some(PagingType::Url) => paging::PagingKind::Url,
            Some(PagingType::Time) | None => paging::PagingKind::Time,
        };
        paging::PagingRule {
            // Without a page size no page is short, and the token alone decides (ING-4.3-13).
            page_size: declared.page_size.unwrap_or(0),
            max_page: declared.max_page,
            always_token: declared.always_token,
            unique_tokens: declared.unique_tokens,
            repeat_ends: declared.repeat_ends,
            limit_param: declared.limit_param,
            limit_max_param: declared.limit_max_param,
            // Without a lag the result set may grow while it is read, so its end is read again (ING-4.5-02).
            tail_probe: declared.tail_probe || self.may_grow(),
            ceiling: declared.result_ceiling,
            can_cut: self.window.supports_updated_since,
            may_omit: kind == paging::PagingKind::Time && self.pagination.is_some() && declared.page_size.is_none(),
            kind,
            estimates: self.response.total == TotalMeaning::Estimate,
            split_at_max: declared.on_max_page == OnMaxPage::Split,
            verify: match (declared.verify, declared.r#type) {
                (VerifyMode::Auto, PagingType::Offset) | (VerifyMode::Seams, _) => paging::Verify::Seams,
                (VerifyMode::Auto | VerifyMode::Total, _) => paging::Verify::Total,
                (VerifyMode::Twice, _) => paging::Verify::Twice,
                (VerifyMode::None, _) => paging::Verify::None,
            },
            max_empty_pages: declared.max_empty_pages.unwrap_or(paging::MAX_EMPTY_PAGES),
            max_idle_requests: declared.max_requests_without_new_records.unwrap_or(paging::MAX_IDLE_REQUESTS),
        }
    }

    fn may_grow(&self) -> bool {
        self.operation == Operation::Harvest
            && self.pagination.is_some()
            && self.safety_lag().is_zero()
            && !self.window.as_of
            // A record that is added meanwhile is in the next pass.
            && !self.reads_whole_list()
    }

    /// The upstream's order by update time, which bounds what has been read (C-13). It is used only if declared, and
    /// only if records have update times.
    pub fn order(&self) -> Option<RecordOrder> {
        let dated = self.response.updated_at_path.is_some() && !self.reads_whole_list();
        let paging = self.pagination.as_ref().filter(|_| dated)?;
        match paging.order_by.as_str() {
            ASCENDING => Some(RecordOrder::Ascending),
            DEFAULT_ORDER_BY if paging.order_declared => Some(RecordOrder::Descending),
            _ => None,
        }
    }

    /// Thresholds at which requests are slowed down.
    pub fn thresholds(&self) -> health::Thresholds {
        health::Thresholds {
            throttle_ratio: self.health.throttle_ratio,
            throttle_window: self.health.throttle_window.0,
            failure_ratio: self.health.failure_ratio,
            slow_batch: self.health.slow_batch.0,
            circuit_after: self.health.circuit_after,
            circuit_open: self.health.circuit_open.0,
            rate_floor: self.health.rate_floor,
            min_page_size: self.health.min_page_size,
            large_response_bytes: self.health.large_response_bytes,
        }
    }

    /// Whether a record outside its slice's window is stored. Defaults to yes if the upstream filters by time.
    pub fn keeps_out_of_range(&self) -> bool {
        match self.window.out_of_range {
            Some(declared) => declared == OutOfRange::Keep,
            None => self.window.supports_updated_since,
        }
    }

    pub fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.http.connect_timeout_ms)
    }

    pub fn read_timeout(&self) -> Duration {
        Duration::from_millis(self.http.read_timeout_ms)
    }

    /// Deadline of one attempt, if declared.
    pub fn timeout(&self) -> Option<Duration> {
        self.http.timeout_ms.map(Duration::from_millis)
    }
}
