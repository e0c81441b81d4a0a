//! Hosts that are polled: the spacing of their polls, and whether the network as a whole is down.

use std::collections::{BTreeMap, BTreeSet};

use super::HOST_GAP;
use crate::time::Ts;

/// Spreads polls of the same host over time, so that other hosts go first.
#[derive(Debug, Default)]
pub struct HostSpacing {
    next: BTreeMap<String, Ts>,
}

impl HostSpacing {
    /// When a poll of the host that is planned now may start. Never before `now`.
    pub fn take(&mut self, host: &str, now: Ts) -> Ts {
        const SWEEP_AT: usize = 10_000;
        if self.next.len() >= SWEEP_AT {
            self.next.retain(|_, at| *at > now);
        }
        let at = self.next.get(host).copied().unwrap_or(now).max(now);
        self.next.insert(host.to_owned(), at + HOST_GAP);
        at
    }
}

/// Whether the network as a whole is down (COLL-55): connections to several hosts failed, and none succeeded.
#[derive(Debug, Default)]
pub struct NetworkStatus {
    failing: BTreeSet<String>,
}

impl NetworkStatus {
    const HOSTS: usize = 3;

    /// Records that a host responded.
    pub fn on_response(&mut self) {
        self.failing.clear();
    }

    /// Records a failed connection to a host. True when the network is down, so that the host is not at fault.
    pub fn on_no_connection(&mut self, host: &str) -> bool {
        if self.failing.len() < NetworkStatus::HOSTS {
            self.failing.insert(host.to_owned());
        }
        self.failing.len() >= NetworkStatus::HOSTS
    }
}
