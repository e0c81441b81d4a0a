//! The far side's own count, as its headers tell it (ING-4.10-18).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::slots::Slot;
use super::view::Provider;
use crate::time::Ts;

/// Two windows that end so close to each other are one: headers count in whole seconds.
const SAME: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Count {
    /// What may still be handed out.
    remaining: u64,
    /// What the far side said last of this window: there is never more.
    reported: u64,
    limit: Option<u64>,
    #[serde(with = "super::micros")]
    resets_at: Ts,
    #[serde(with = "super::micros")]
    heard_at: Ts,
}

impl Count {
    /// The newest word counts, less what is `held` and not on its way yet. Within one window our own count knows of what is on
    /// its way, so it is never raised.
    pub(super) fn heard(
        known: Option<Count>,
        remaining: u64,
        limit: Option<u64>,
        resets_at: Ts,
        held: u64,
        now: Ts,
    ) -> Count {
        let free = remaining.saturating_sub(held);
        let is_same =
            |known: &Count| resets_at.since(known.resets_at) <= SAME && known.resets_at.since(resets_at) <= SAME;
        match known.filter(is_same) {
            Some(known) => Count {
                remaining: known.remaining.min(free),
                reported: known.reported.min(remaining),
                limit,
                heard_at: now,
                ..known
            },
            None => Count { remaining: free, reported: remaining, limit, resets_at, heard_at: now },
        }
    }

    pub(super) fn lasts(&self, now: Ts) -> bool {
        self.resets_at > now
    }

    pub(super) fn shown(&self) -> Provider {
        Provider { remaining: self.remaining, limit: self.limit, resets_at: self.resets_at }
    }

    pub(super) fn charge(&mut self, permits: u64) {
        self.remaining = self.remaining.saturating_sub(permits);
    }

    /// Never sent. Of a slot before the last word nobody knows whether that word was already without it.
    pub(super) fn credit(&mut self, slot: Slot) {
        if slot.at > self.heard_at {
            self.remaining = self.remaining.saturating_add(u64::from(slot.permits)).min(self.reported);
        }
    }

    pub(super) fn set_back(&mut self, by: Duration) {
        (self.resets_at, self.heard_at) = (self.resets_at - by, self.heard_at - by);
    }
}
