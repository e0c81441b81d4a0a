//! A snapshot as the engine's own values.

use std::time::Duration;

use patra_core::protocol::run::Order;
use patra_core::state::Operation;
use patra_core::window::Cut;
use patra_core::{Ts, Window, gate, health, paging, retry};

use super::{ASCENDING, DEFAULT_ORDER_BY, Snapshot};
use crate::words::{OnMaxPage, OutOfRange, PagingType, RateScope};

/// What the requests to a host count for, by some URL on it.
pub fn host_key(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or(host);
    let host = host.rsplit('@').next().unwrap_or(host);
    format!("host:{}", host.to_ascii_lowercase())
}

impl Snapshot {
    pub fn cut(&self) -> Cut {
        Cut { max_width: self.window.max_window.0, align: self.window.align }
    }

    pub fn safety_lag(&self) -> Duration {
        self.window.safety_lag.0
    }

    /// The window to ask for: it reaches back by the declared overlap, for rows that appear late (G-13). The slice itself,
    /// and so the watermark, stays as it is.
    pub fn asked(&self, window: Window) -> Window {
        Window { from: window.from - self.window.lookback.unwrap_or_default().0, to: window.to }
    }

    /// The first watermark; every HARVEST snapshot has one.
    pub fn initial(&self) -> Option<Ts> {
        self.window.initial
    }

    pub fn retry_policy(&self) -> retry::Policy {
        retry::Policy {
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

    pub fn gate_limits(&self) -> gate::Limits {
        let rate = &self.rate_limit;
        gate::Limits {
            rate: self.rate(),
            quotas: gate::Quotas { hourly: rate.quota_hourly, daily: rate.quota_daily },
            warmup: Duration::from_secs(u64::from(rate.warmup_sec.unwrap_or(0))),
            demote: rate.demote_rate,
        }
    }

    /// What the requests of this endpoint count for (ING-4.10-04, C-31).
    pub fn gate_key(&self) -> String {
        let (source, endpoint) = (&self.provenance_code, &self.endpoint_code);
        match self.rate_limit.scope {
            RateScope::Endpoint => format!("{source}/{endpoint}"),
            RateScope::Source => source.clone(),
            // Whoever names the credential shares its limits, whichever source it is.
            RateScope::Credential if !self.auth.credential_ref.is_empty() => {
                format!("credential:{}", self.auth.credential_ref)
            }
            RateScope::Credential => format!("credential:{source}"),
            RateScope::Host => host_key(&self.http.base_url),
        }
    }

    /// Without a `pagination` section one answer holds the whole window.
    pub fn paging(&self) -> paging::Rule {
        let declared = self.pagination.clone().unwrap_or_default();
        let kind = match self.pagination.as_ref().map(|paging| paging.r#type) {
            Some(PagingType::Token) => paging::Kind::Token { initial: declared.initial },
            Some(PagingType::Offset) => paging::Kind::Offset,
            Some(PagingType::Page) => paging::Kind::Page { base: u64::from(declared.base1 == Some(true)) },
            Some(PagingType::Url) => paging::Kind::Url,
            Some(PagingType::Time) | None => paging::Kind::Time,
        };
        paging::Rule {
            kind,
            // Without a size no page is short, and the token alone decides (ING-4.3-13).
            page_size: declared.page_size.unwrap_or(0),
            max_page: declared.max_page,
            always_token: declared.always_token,
            unique_tokens: declared.unique_tokens,
            repeat_ends: declared.repeat_ends,
            limit_param: declared.limit_param,
            limit_max_param: declared.limit_max_param,
            // Without a lag the result set may grow while it is read: look at its end again (ING-4.5-02).
            tail_probe: declared.tail_probe || self.may_grow(),
            ceiling: declared.result_ceiling,
            can_cut: self.window.supports_updated_since,
            estimates: self.response.total_is_estimate,
            split_at_max: declared.on_max_page == OnMaxPage::Split,
        }
    }

    fn may_grow(&self) -> bool {
        self.operation == Operation::Harvest
            && self.pagination.is_some()
            && self.safety_lag().is_zero()
            && !self.window.as_of
    }

    /// The order by update time that the far side keeps: what came bounds what was read (C-13). Only a declared one can be
    /// built on, and only where records have times of their own.
    pub fn order(&self) -> Option<Order> {
        let paging = self.pagination.as_ref().filter(|_| self.response.updated_at_path.is_some())?;
        match paging.order_by.as_str() {
            ASCENDING => Some(Order::Ascending),
            DEFAULT_ORDER_BY if paging.order_declared => Some(Order::Descending),
            _ => None,
        }
    }

    /// From when on the far side is spared.
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

    /// Whether a record outside its slice's window is stored. Unless declared, it is where the far side filters.
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

    /// The deadline of one attempt, when one is declared.
    pub fn timeout(&self) -> Option<Duration> {
        self.http.timeout_ms.map(Duration::from_millis)
    }
}
