//! Starting and stopping the parts of one process.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use patra_core::port::{Clock, Store, Transport};
use patra_core::protocol;
use patra_core::rng::Rng;
use patra_core::tx::{Sweep, TxError};

use crate::events::Listener;
use crate::executor;
use crate::gate::Gate;
use crate::planner;
use crate::prepared::Prepared;
use crate::sweeper;

/// What the engine needs from the outside.
#[derive(Clone, Debug)]
pub struct Ports {
    pub store: Arc<dyn Store>,
    pub transport: Arc<dyn Transport>,
    pub clock: Arc<dyn Clock>,
}

/// A part that a process may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Planner,
    Executor,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Names this process in leases; must differ between processes and starts.
    pub owner: String,
    pub roles: Vec<Role>,
    /// Tasks at work at once (`C_total`).
    pub concurrency: u32,
    pub lease: Duration,
    pub poll: Duration,
    pub run: protocol::run::Options,
    /// Seeds jitter only.
    pub seed: u64,
    /// This process is the only one on its database: whoever held a lease before is dead.
    pub alone: bool,
    /// How long in-flight work may take to finish when asked to stop.
    pub grace: Duration,
}

impl Options {
    pub fn new(owner: impl Into<String>) -> Options {
        Options {
            owner: owner.into(),
            roles: vec![Role::Planner, Role::Executor],
            concurrency: 4,
            lease: Duration::from_secs(60),
            poll: Duration::from_secs(1),
            run: protocol::run::Options::default(),
            seed: 0,
            alone: false,
            grace: Duration::from_secs(30),
        }
    }
}

/// What the parts share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ports: Ports,
    pub(crate) options: Options,
    pub(crate) gate: Gate,
    pub(crate) prepared: Prepared,
    pub(crate) listener: Arc<dyn Listener>,
    /// No new work.
    pub(crate) drain: CancellationToken,
    /// Not even the old.
    pub(crate) abort: CancellationToken,
    pub(crate) planner_nudge: tokio::sync::Notify,
    pub(crate) executor_nudge: tokio::sync::Notify,
}

/// A running engine. Dropping it aborts the parts; [`Engine::stop`] lets them finish.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    parts: JoinSet<()>,
}

impl Engine {
    pub async fn start(ports: Ports, options: Options, listener: Arc<dyn Listener>) -> Result<Engine, TxError> {
        if options.alone {
            take_back(&ports, &options).await?;
        }
        let mut rng = Rng::new(options.seed);
        let shared = Arc::new(Shared {
            gate: Gate::new(Arc::clone(&ports.clock)),
            prepared: Prepared::default(),
            listener,
            drain: CancellationToken::new(),
            abort: CancellationToken::new(),
            planner_nudge: tokio::sync::Notify::new(),
            executor_nudge: tokio::sync::Notify::new(),
            ports,
            options,
        });
        let mut parts = JoinSet::new();
        if shared.options.roles.contains(&Role::Planner) {
            parts.spawn(planner::serve(Arc::clone(&shared), rng.fork()));
        }
        if shared.options.roles.contains(&Role::Executor) {
            parts.spawn(executor::serve(Arc::clone(&shared), rng.fork()));
            parts.spawn(sweeper::serve(Arc::clone(&shared), rng.fork()));
        }
        Ok(Engine { shared, parts })
    }

    /// A trigger was recorded: look now instead of at the next poll.
    pub fn nudge(&self) {
        self.shared.planner_nudge.notify_one();
        self.shared.executor_nudge.notify_one();
    }

    /// Claims nothing more, lets what is in flight finish or give back its task, and returns when all parts have ended:
    /// at the latest after the grace period, and at once when `hurry` fires.
    pub async fn stop(mut self, hurry: CancellationToken) {
        self.shared.drain.cancel();
        let grace = self.shared.options.grace;
        let all = async { while self.parts.join_next().await.is_some() {} };
        tokio::select! {
            () = all => {}
            () = tokio::time::sleep(grace) => {}
            () = hurry.cancelled() => {}
        }
        self.shared.abort.cancel();
        self.parts.shutdown().await;
    }
}

/// Takes back every lease: their holders ran in an earlier process on this database.
async fn take_back(ports: &Ports, options: &Options) -> Result<(), TxError> {
    let commands: &dyn patra_core::port::Commands = &*ports.store;
    loop {
        let sweep = Sweep { limit: 1_000, max_attempts: options.run.max_attempts, everyone: true };
        let swept = commands.run(sweep).await?;
        if swept.requeued.len() + swept.failed.len() < 1_000 {
            return Ok(());
        }
    }
}
