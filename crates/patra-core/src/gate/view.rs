//! State of a key for display.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::GateRefusal;
use super::limits::{GateLimits, Rate};
use super::quota::QuotaStatus;
use crate::time::Ts;

/// State of a key, for ledgers, charts and planners.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateView {
    pub rate: f64,
    pub declared: Rate,
    pub cooldown_until: Option<Ts>,
    pub hourly: Option<QuotaStatus>,
    pub daily: Option<QuotaStatus>,
    pub provider: Option<ProviderQuota>,
    pub members: Vec<GateMember>,
    /// Permits granted so far, minus those returned.
    pub permits: u64,
    /// How often the rate was lowered.
    pub lowered: u64,
}

impl GateView {
    /// Requests that the tightest window still allows; `None` without any limit.
    pub fn remaining(&self) -> Option<u64> {
        self.budget().map(|budget| budget.remaining)
    }

    /// The window that allows least.
    pub fn budget(&self) -> Option<RequestBudget> {
        let quotas = [self.hourly, self.daily].into_iter().flatten();
        let own = quotas.map(|of| RequestBudget { remaining: of.remaining, limit: Some(of.limit) });
        let provider = self.provider.map(|of| RequestBudget { remaining: of.remaining, limit: of.limit });
        own.chain(provider).min_by_key(|budget| budget.remaining)
    }

    pub fn is_soft(&self) -> bool {
        self.hourly.is_some_and(|of| of.soft) || self.daily.is_some_and(|of| of.soft)
    }
}

/// Requests that a window still allows, and its size; an upstream may not report the size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestBudget {
    pub remaining: u64,
    pub limit: Option<u64>,
}

/// The upstream's own window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProviderQuota {
    pub remaining: u64,
    pub limit: Option<u64>,
    pub resets_at: Ts,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GateMember {
    pub name: String,
    pub class: String,
    pub weight: u32,
    pub seen: Ts,
    pub(super) limits: GateLimits,
    /// Round trip of the member to the store.
    #[serde(default)]
    pub(super) lead: Duration,
    /// Why its last request was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<GateRefusal>,
}
