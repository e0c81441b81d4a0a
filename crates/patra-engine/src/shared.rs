//! State that the parts of one process share: ports, options, and the signals between the parts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use patra_core::port::{Clock, Notifier, Store, Transport, transport};
use patra_core::protocol::token::REFRESH_LEASE;
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
use crate::maintenance::MaintenanceOptions;
use crate::metrics::Metrics;
use crate::outbox::LAST_DELIVERY;
use crate::pool::CaptureRules;
use crate::prepared::PreparedSpecs;

/// Ports that the engine needs.
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
    /// Executes polls, and queues only requested ones.
    Polls,
    /// Takes back locks, counts crawls, watches alerts.
    Maintenance,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Names this process in leases; must differ between processes and starts.
    pub owner: String,
    pub roles: Vec<EngineRole>,
    /// Tasks that run at once (`C_total`).
    pub concurrency: u32,
    pub lease: Duration,
    /// Interval at which the work poller looks for work of other processes.
    pub poll: Duration,
    pub run: protocol::run::Options,
    /// Seeds jitter only.
    pub seed: u64,
    /// Whether this process is the only one on its database: then all earlier holders of leases are dead.
    pub alone: bool,
    /// How long batches and cursor events stay in the ledger; `None`: for ever.
    pub retention: Option<Duration>,
    /// Average time to store a page above which the store is under pressure (ING-5.7-03).
    pub slow_commit: Duration,
    /// How long in-flight work may take to finish when asked to stop.
    pub grace: Duration,
    /// Options for opening credentials and signing requests.
    pub credentials: CredentialOptions,
    pub collector: CollectorOptions,
    pub crawl_times: CrawlTimes,
    pub maintenance: MaintenanceOptions,
    /// Percentage of successful batches that are logged (ING-14.5-03).
    pub log_batch_percent: u32,
    /// Returns the W3C trace context of the current span, where traces are taken.
    pub trace_context: Option<fn() -> Option<String>>,
    /// Claim only jobs and tasks of this partition, and fire no schedules: for a command that does one thing.
    pub only: Option<PartitionKey>,
    /// Webhooks by the event type that they receive. Events without a webhook wait.
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
            maintenance: MaintenanceOptions::default(),
            log_batch_percent: 1,
            trace_context: None,
            only: None,
            webhooks: BTreeMap::new(),
        }
    }

    /// No lease is granted for longer: on tasks and jobs, on events with their last delivery, on the refresh of a token.
    pub(crate) fn longest_lease(&self) -> Duration {
        self.lease.max(REFRESH_LEASE) + LAST_DELIVERY
    }

    /// How long an idle part sleeps when the work poller does not wake it.
    pub(crate) fn idle_sleep(&self) -> Duration {
        self.poll * 300
    }
}

/// State of one process that all its parts share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ports: Ports,
    pub(crate) options: Options,
    pub(crate) gate: Arc<RateGate>,
    pub(crate) health: Arc<HealthRegistry>,
    pub(crate) advances: AdvanceCoalescers,
    pub(crate) metrics: Arc<Metrics>,
    /// Batches so far: selects the batches to log.
    pub(crate) batches: AtomicU64,
    pub(crate) credentials: Credentials,
    pub(crate) prepared: PreparedSpecs,
    pub(crate) listener: Arc<dyn RunListener>,
    /// Cancelled when no new work may begin.
    pub(crate) drain: CancellationToken,
    /// Cancelled when running work must end too.
    pub(crate) abort: CancellationToken,
    pub(crate) planner_nudge: tokio::sync::Notify,
    pub(crate) schedule_nudge: tokio::sync::Notify,
    pub(crate) executor_nudge: tokio::sync::Notify,
    pub(crate) collector_nudge: tokio::sync::Notify,
    pub(crate) poll_nudge: tokio::sync::Notify,
    pub(crate) background_job_nudge: tokio::sync::Notify,
    pub(crate) sweeper_nudge: tokio::sync::Notify,
    pub(crate) work_poller_nudge: tokio::sync::Notify,
    /// Alerts whose conditions are known not to be met.
    pub(crate) quiet: Mutex<BTreeSet<&'static str>>,
    /// Rules for capturing URLs.
    pub(crate) capture: CaptureRules,
    /// Whether the network is up.
    pub(crate) network: Mutex<NetworkStatus>,
}

impl Shared {
    /// Most tasks of partitions that may have fewer than they declare: zero while the gate of a partition is closed.
    pub(crate) fn caps(&self, now: Ts) -> Vec<(PartitionKey, u32)> {
        let (mut caps, closed) = (self.health.caps(now), self.gate.closed(now));
        caps.retain(|(who, _)| !closed.contains(who));
        caps.extend(closed.into_iter().map(|who| (who, 0)));
        caps
    }
}

impl Shared {
    /// Whether to log the current batch: batches are selected evenly, not by chance.
    pub(crate) fn is_batch_logged(&self) -> bool {
        let percent = u64::from(self.options.log_batch_percent.min(100));
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        (number * percent) % 100 < percent
    }

    /// Whether a request without a response failed because of the network and not because of the upstream (COLL-55).
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

/// Locks, and ignores poisoning: no panic under one of the engine's locks leaves its value half changed.
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
    fn ledger_retention_by_default_is_ninety_days() {
        assert_eq!(Options::new("me").retention, Some(Duration::from_secs(90 * 86_400)));
    }
}
