//! The upstream's own count, as its headers report it (ING-4.10-18).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::slots::Slot;
use super::view::ProviderQuota;
use crate::time::Ts;

/// Two windows that end this close to each other are the same: headers count in whole seconds.
const SAME: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ProviderCount {
    /// Requests that may still be granted.
    remaining: u64,
    /// The upstream's last report for this window: an upper bound.
    reported: u64,
    limit: Option<u64>,
    #[serde(with = "super::micros")]
    resets_at: Ts,
    #[serde(with = "super::micros")]
    heard_at: Ts,
}

impl ProviderCount {
    /// Applies a new report, minus granted permits (`granted`) that are not sent yet. Within one window our own count
    /// already includes requests in flight, so it is never raised.
    pub(super) fn updated(
        known: Option<ProviderCount>,
        remaining: u64,
        limit: Option<u64>,
        resets_at: Ts,
        granted: u64,
        now: Ts,
    ) -> ProviderCount {
        let free = remaining.saturating_sub(granted);
        let is_same = |known: &ProviderCount| {
            resets_at.since(known.resets_at) <= SAME && known.resets_at.since(resets_at) <= SAME
        };
        match known.filter(is_same) {
            Some(known) => ProviderCount {
                remaining: known.remaining.min(free),
                reported: known.reported.min(remaining),
                limit,
                heard_at: now,
                ..known
            },
            None => ProviderCount { remaining: free, reported: remaining, limit, resets_at, heard_at: now },
        }
    }

    pub(super) fn lasts(&self, now: Ts) -> bool {
        self.resets_at > now
    }

    pub(super) fn shown(&self) -> ProviderQuota {
        ProviderQuota { remaining: self.remaining, limit: self.limit, resets_at: self.resets_at }
    }

    pub(super) fn charge(&mut self, permits: u64) {
        self.remaining = self.remaining.saturating_sub(permits);
    }

    /// Returns a slot that was never used. For a slot before the last report it is unknown whether the report
    /// includes it.
    pub(super) fn credit(&mut self, slot: Slot) {
        if slot.at > self.heard_at {
            self.remaining = self.remaining.saturating_add(u64::from(slot.permits)).min(self.reported);
        }
    }

    pub(super) fn shift(&mut self, micros: i64) {
        (self.resets_at, self.heard_at) = (self.resets_at.shifted(micros), self.heard_at.shifted(micros));
    }
}
