//! Starts and stops the parts of one process.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use patra_core::SourceId;
use patra_core::port::CommandsExt as _;
use patra_core::rng::Rng;
use patra_core::tx::{Sweep, TxError};
use patra_core::vault::VaultCell;

use crate::coalescer::AdvanceCoalescers;
use crate::crawler::Crawler;
use crate::credentials::Credentials;
use crate::events::RunListener;
use crate::executor::ClaimKind;
use crate::gate::RateGate;
use crate::health::HealthRegistry;
use crate::metrics::Metrics;
use crate::pool::CaptureRules;
use crate::prepared::PreparedSpecs;
use crate::replay::{LiveReplay, ReadOnlyStore};
use crate::shared::{EngineRole, Options, Ports, Shared};
use crate::{collector, executor, maintenance, outbox, planner, pool, retention, sweeper, work_poller};

/// A running engine. Dropping it aborts the parts; [`Engine::stop`] lets them finish.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    parts: JoinSet<()>,
    crawler: Crawler,
}

impl Engine {
    pub async fn start(ports: Ports, options: Options, listener: Arc<dyn RunListener>) -> Result<Engine, TxError> {
        if options.alone {
            take_back(&ports, &options).await?;
        }
        let mut rng = Rng::new(options.seed);
        let gate = RateGate::new(
            Arc::clone(&ports.store),
            Arc::clone(&ports.clock),
            options.owner.clone(),
            rng.fork().next_u64(),
        );
        let shared = Arc::new(Shared {
            metrics: Arc::new(Metrics::new(Arc::clone(&gate))),
            gate,
            batches: AtomicU64::new(0),
            health: Arc::new(HealthRegistry::new(options.seed, options.slow_commit)),
            advances: AdvanceCoalescers::default(),
            credentials: Credentials::new(ports.clone(), options.credentials.clone(), options.owner.clone()),
            prepared: PreparedSpecs::default(),
            listener,
            drain: CancellationToken::new(),
            abort: CancellationToken::new(),
            planner_nudge: tokio::sync::Notify::new(),
            schedule_nudge: tokio::sync::Notify::new(),
            executor_nudge: tokio::sync::Notify::new(),
            collector_nudge: tokio::sync::Notify::new(),
            poll_nudge: tokio::sync::Notify::new(),
            background_job_nudge: tokio::sync::Notify::new(),
            sweeper_nudge: tokio::sync::Notify::new(),
            work_poller_nudge: tokio::sync::Notify::new(),
            capture: CaptureRules::default(),
            quiet: std::sync::Mutex::default(),
            network: std::sync::Mutex::default(),
            ports,
            options,
        });
        let mut parts = JoinSet::new();
        if shared.options.roles.iter().any(|role| *role != EngineRole::Maintenance) {
            parts.spawn(work_poller::serve(Arc::clone(&shared), rng.fork()));
        }
        if shared.options.roles.contains(&EngineRole::Planner) {
            parts.spawn(planner::serve(Arc::clone(&shared), rng.fork()));
        }
        if shared.options.roles.contains(&EngineRole::Executor) {
            parts.spawn(executor::serve(Arc::clone(&shared), rng.fork(), ClaimKind::Tasks));
            parts.spawn(retention::serve(Arc::clone(&shared), rng.fork()));
            parts.spawn(pool::serve(Arc::clone(&shared)));
        }
        if shared.options.roles.contains(&EngineRole::Collector) {
            parts.spawn(collector::serve(Arc::clone(&shared)));
        }
        if shared.options.roles.iter().any(|role| matches!(role, EngineRole::Collector | EngineRole::Polls)) {
            parts.spawn(executor::serve(Arc::clone(&shared), rng.fork(), ClaimKind::Polls));
        }
        if shared.options.roles.iter().any(|role| !matches!(role, EngineRole::Planner | EngineRole::Maintenance)) {
            parts.spawn(listen(Arc::clone(&shared)));
            parts.spawn(sweeper::serve(Arc::clone(&shared), rng.fork()));
        }
        if shared.options.roles.contains(&EngineRole::Maintenance) {
            for (event_type, webhook) in &shared.options.webhooks {
                parts.spawn(outbox::serve(Arc::clone(&shared), event_type.clone(), Arc::clone(webhook)));
            }
        }
        let crawler = crawler(&shared);
        if shared.options.roles.contains(&EngineRole::Maintenance) {
            parts.spawn(maintenance::serve(Arc::clone(&shared), crawler.clone()));
        }
        Ok(Engine { shared, parts, crawler })
    }

    /// A crawler that sends through the gate and the cookie pool of this engine. It cannot write.
    pub fn crawler(&self) -> Crawler {
        self.crawler.clone()
    }

    /// The cell of the master key: whoever creates a key sets it here.
    pub fn vault(&self) -> VaultCell {
        self.shared.options.credentials.vault.clone()
    }

    /// Live replays through the gate of this engine. They cannot write.
    pub fn live(&self) -> LiveReplay {
        let Ports { store, transport, clock } = &self.shared.ports;
        let Options { credentials, owner, .. } = &self.shared.options;
        let (store, owner) = (ReadOnlyStore::of(store), owner.clone());
        let live = LiveReplay::new(store, Arc::clone(transport), Arc::clone(clock), credentials.clone(), owner);
        live.through(Arc::clone(&self.shared.gate))
    }

    /// Metrics of this engine.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// Number of pages whose URLs could not be captured.
    pub fn capture_failures(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.shared.capture.failures)
    }

    /// Wakes the parts after a trigger was recorded, instead of at the next poll.
    pub fn nudge(&self) {
        self.shared.planner_nudge.notify_one();
        self.shared.executor_nudge.notify_one();
        self.shared.collector_nudge.notify_one();
        self.shared.poll_nudge.notify_one();
        self.shared.background_job_nudge.notify_one();
    }

    /// Queues the polls of all due sources once, and returns these sources.
    pub async fn poll_due(&self) -> Result<Vec<SourceId>, TxError> {
        collector::poll_due(&self.shared).await
    }

    /// Empties old items and forgets old polls, at most once an hour.
    pub async fn clean(&self) {
        collector::clean(&self.shared).await;
    }

    /// Stops the engine: claims nothing more, lets running work finish or give back its task, and returns when all
    /// parts have ended, at the latest after the grace period, and at once when `hurry` fires. Returns whether
    /// everything ended in time.
    pub async fn stop(mut self, hurry: CancellationToken) -> bool {
        self.shared.drain.cancel();
        let grace = self.shared.options.grace;
        let all = async {
            while self.parts.join_next().await.is_some() {}
            self.shared.credentials.settled().await;
        };
        let in_time = tokio::select! {
            () = all => true,
            () = tokio::time::sleep(grace) => false,
            () = hurry.cancelled() => false,
        };
        self.shared.abort.cancel();
        self.parts.shutdown().await;
        tokio::select! {
            () = self.shared.gate.close() => {}
            () = hurry.cancelled() => {}
        }
        in_time
    }
}

/// Listens for changes of the gate until the drain begins.
async fn listen(shared: Arc<Shared>) {
    let gate = Arc::clone(&shared.gate);
    tokio::select! {
        () = gate.listen() => {}
        () = shared.drain.cancelled() => {}
    }
}

/// Takes back every lease: their holders ran in an earlier process on this database.
async fn take_back(ports: &Ports, options: &Options) -> Result<(), TxError> {
    loop {
        let (max_attempts, longest_lease) = (options.run.max_attempts, options.longest_lease());
        let sweep = Sweep { limit: 1_000, max_attempts, all_owners: true, longest_lease };
        let swept = ports.store.run(sweep).await?;
        if swept.requeued.len() + swept.failed.len() < 1_000 {
            return Ok(());
        }
    }
}

fn crawler(shared: &Arc<Shared>) -> Crawler {
    let (Ports { store, transport, clock }, options) = (&shared.ports, &shared.options);
    let ports = Ports {
        store: Arc::new(ReadOnlyStore::renewing(store)),
        transport: Arc::clone(transport),
        clock: Arc::clone(clock),
    };
    let credentials = Credentials::new(ports, options.credentials.clone(), options.owner.clone());
    let health = (Arc::clone(&shared.health), Arc::clone(&shared.metrics));
    Crawler::new(store, credentials, Arc::clone(&shared.gate), Arc::clone(clock), options.crawl_times, health)
}
