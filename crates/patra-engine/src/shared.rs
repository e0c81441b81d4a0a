//! What the parts of one process share: their ports, their options, and the signals between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use patra_core::port::{Clock, Notifier, Store, Transport, transport};
use patra_core::source::NetworkStatus;
use patra_core::tx::PartitionKey;
use patra_core::{Ts, protocol};

use crate::coalescer::AdvanceCoalescers;
use crate::collector::CollectorOptions;
use crate::crawler::CrawlTimes;
use crate::credentials::{CredentialOptions, Credentials};
use crate::events::RunListener;
use crate::gate::RateGate;
use crate::health::HealthRegistry;
use crate::maintenance::KeeperOptions;
use crate::metrics::Metrics;
use crate::pool::CaptureRules;
use crate::prepared::PreparedSpecs;

/// What the engine needs from the outside.
#[derive(Clone, Debug)]
pub struct Ports {
    pub store: Arc<dyn Store>,
    pub transport: Arc<dyn Transport>,
    pub clock: Arc<dyn Clock>,
}

/// A part that a process may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineRole {
    Planner,
    Executor,
    /// Queues and executes the polls of sources.
    Collector,
    /// Executes polls, and queues only what it is asked for.
    Polls,
    /// Takes back locks, counts crawls, watches alerts.
    Keeper,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Names this process in leases; must differ between processes and starts.
    pub owner: String,
    pub roles: Vec<EngineRole>,
    /// Tasks at work at once (`C_total`).
    pub concurrency: u32,
    pub lease: Duration,
    /// Between two looks for work that others have made, see [`Options::uncalled`].
    pub poll: Duration,
    pub run: protocol::run::Options,
    /// Seeds jitter only.
    pub seed: u64,
    /// This process is the only one on its database: whoever held a lease before is dead.
    pub alone: bool,
    /// How long batches and cursor events stay in the ledger; `None`: for ever.
    pub retention: Option<Duration>,
    /// Pages that take longer to be stored, on average, mean that the store is under pressure (ING-5.7-03).
    pub slow_commit: Duration,
    /// How long in-flight work may take to finish when asked to stop.
    pub grace: Duration,
    /// What credentials are opened and requests signed with.
    pub credentials: CredentialOptions,
    pub collector: CollectorOptions,
    pub crawl_times: CrawlTimes,
    pub keeper: KeeperOptions,
    /// Of a hundred batches that went well, so many leave a line (ING-14.5-03).
    pub log_batch_percent: u32,
    /// The W3C trace context of the span at hand, where traces are taken.
    pub trace_context: Option<fn() -> Option<String>>,
    /// Who is told of events, by their type. Those of which nobody is told wait.
    pub webhooks: BTreeMap<String, Arc<dyn Notifier>>,
}

impl Options {
    pub fn new(owner: impl Into<String>) -> Options {
        Options {
            owner: owner.into(),
            roles: vec![EngineRole::Planner, EngineRole::Executor],
            concurrency: 8,
            lease: Duration::from_secs(60),
            poll: Duration::from_secs(2),
            run: protocol::run::Options::default(),
            seed: 0,
            alone: false,
            retention: Some(Duration::from_secs(90 * 24 * 3_600)),
            slow_commit: Duration::from_millis(200),
            grace: Duration::from_secs(30),
            credentials: CredentialOptions::default(),
            collector: CollectorOptions::default(),
            crawl_times: CrawlTimes::default(),
            keeper: KeeperOptions::default(),
            log_batch_percent: 1,
            trace_context: None,
            webhooks: BTreeMap::new(),
        }
    }

    /// How long a part that finds nothing sleeps if nobody calls it, which the work poller does.
    pub(crate) fn uncalled(&self) -> Duration {
        self.poll * 300
    }
}

/// What the parts share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ports: Ports,
    pub(crate) options: Options,
    pub(crate) gate: Arc<RateGate>,
    pub(crate) wards: HealthRegistry,
    pub(crate) lines: AdvanceCoalescers,
    pub(crate) metrics: Arc<Metrics>,
    /// Batches so far, for those who log some of them.
    pub(crate) batches: AtomicU64,
    pub(crate) credentials: Credentials,
    pub(crate) prepared: PreparedSpecs,
    pub(crate) listener: Arc<dyn RunListener>,
    /// No new work.
    pub(crate) drain: CancellationToken,
    /// Not even the old.
    pub(crate) abort: CancellationToken,
    pub(crate) planner_nudge: tokio::sync::Notify,
    pub(crate) schedule_nudge: tokio::sync::Notify,
    pub(crate) executor_nudge: tokio::sync::Notify,
    pub(crate) collector_nudge: tokio::sync::Notify,
    pub(crate) poll_nudge: tokio::sync::Notify,
    pub(crate) chore_nudge: tokio::sync::Notify,
    pub(crate) sweeper_nudge: tokio::sync::Notify,
    pub(crate) lookout_nudge: tokio::sync::Notify,
    /// Alerts that are known not to hold.
    pub(crate) quiet: Mutex<BTreeSet<&'static str>>,
    /// Which URLs somebody wants.
    pub(crate) capture: CaptureRules,
    /// Whether anybody can be reached.
    pub(crate) network: Mutex<NetworkStatus>,
}

impl Shared {
    /// How many tasks partitions may have at most, where that is fewer than they declare: none at all while nothing of theirs
    /// may leave.
    pub(crate) fn caps(&self, now: Ts) -> Vec<(PartitionKey, u32)> {
        let (mut caps, closed) = (self.wards.caps(now), self.gate.closed(now));
        caps.retain(|(who, _)| !closed.contains(who));
        caps.extend(closed.into_iter().map(|who| (who, 0)));
        caps
    }
}

impl Shared {
    /// Whether the batch at hand is one of those that leave a line: evenly, not by chance.
    pub(crate) fn is_batch_logged(&self) -> bool {
        let percent = u64::from(self.options.log_batch_percent.min(100));
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        (number * percent) % 100 < percent
    }

    /// Whether a request that got no answer says something about the network and not about the upstream (COLL-55).
    pub(crate) fn offline(&self, url: &str, error: Option<&transport::Error>) -> bool {
        match error {
            None => lock(&self.network).on_response(),
            Some(transport::Error::Connect { .. }) => {
                return lock(&self.network).on_no_connection(&patra_spec::host_key(url));
            }
            Some(_) => {}
        }
        false
    }
}

/// Nothing panics while it holds one of the engine's locks and leaves what it guards half changed: it is used on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until `at`; for ever at `Ts::MAX`.
pub(crate) async fn sleep_until(now: Ts, at: Ts) {
    if at == Ts::MAX {
        return std::future::pending().await;
    }
    tokio::time::sleep(at.since(now)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-13.5-01, ING-14.11-01
    #[test]
    fn the_ledger_keeps_ninety_days_unless_told_otherwise() {
        assert_eq!(Options::new("me").retention, Some(Duration::from_secs(90 * 86_400)));
    }
}
