//! What a key tells of itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Why;
use super::limits::{Limits, Rate};
use super::quota::Standing;
use crate::time::Ts;

/// For ledgers, pictures and planners.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    pub rate: f64,
    pub declared: Rate,
    pub cooldown_until: Option<Ts>,
    pub hourly: Option<Standing>,
    pub daily: Option<Standing>,
    pub provider: Option<Provider>,
    pub members: Vec<Member>,
    /// Permits handed out so far, less those given back.
    pub permits: u64,
    /// How often the rate was lowered.
    pub lowered: u64,
}

impl View {
    /// Requests that any window still allows; `None` where nothing bounds them.
    pub fn remaining(&self) -> Option<u64> {
        self.budget().map(|budget| budget.remaining)
    }

    /// What is left of the window that allows least.
    pub fn budget(&self) -> Option<Budget> {
        let quotas = [self.hourly, self.daily].into_iter().flatten();
        let own = quotas.map(|of| Budget { remaining: of.remaining, limit: Some(of.limit) });
        let provider = self.provider.map(|of| Budget { remaining: of.remaining, limit: of.limit });
        own.chain(provider).min_by_key(|budget| budget.remaining)
    }

    pub fn is_soft(&self) -> bool {
        self.hourly.is_some_and(|of| of.soft) || self.daily.is_some_and(|of| of.soft)
    }
}

/// Requests that a window still allows, of so many; a far side may not tell of how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    pub remaining: u64,
    pub limit: Option<u64>,
}

/// The far side's own count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Provider {
    pub remaining: u64,
    pub limit: Option<u64>,
    pub resets_at: Ts,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Member {
    pub name: String,
    pub class: String,
    pub weight: u32,
    pub seen: Ts,
    pub(super) limits: Limits,
    /// How long answers take to it.
    #[serde(default)]
    pub(super) lead: Duration,
    /// Why it got nothing when it asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Why>,
}
