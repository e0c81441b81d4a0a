//! `serve`: the long-running process.

mod start;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use patra_api::{Api, Limits};
use patra_core::port::Store;
use patra_engine::Engine;

use self::start::{Started, WaitingStart};
use crate::cli::{Global, Role, Serve};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::settings::Environment;
use crate::signals::Signals;
use crate::supervisor::Supervisor;

pub(crate) async fn run(global: &Global, args: &Serve) -> Result<Exit, Error> {
    let signals = Signals::listen()?;
    let all = [Role::Api, Role::Planner, Role::Executor, Role::Collector];
    let mut roles = if args.roles.is_empty() { all.to_vec() } else { args.roles.clone() };
    roles.retain(|role| *role != Role::Collector || !args.no_collector);
    if args.roles.len() == 1 && global.database_url.is_none() {
        tracing::warn!("only one role on an embedded database: no other process can open it for the other roles");
    }
    if !global.allow_net.is_empty() {
        let networks: Vec<_> = global.allow_net.iter().map(ToString::to_string).collect();
        tracing::warn!(
            networks = networks.join(", "),
            "every source may be configured in these private networks; use --allow-net only if all sources are trusted"
        );
    }
    let listener = match roles.contains(&Role::Api) {
        true => Some(listen(args.listen, "--listen").await?),
        false => None,
    };
    let supervisor = Supervisor::find(&Environment::read());
    let waiting = WaitingStart { signals: &signals, supervisor: &supervisor, listener: listener.as_ref() };
    let mut first = start::FirstKey::generate()?;
    let first = listener.is_some().then_some(&mut first);
    let Some(started) = start::started(global, args, &roles, first, &waiting).await? else { return Ok(Exit::Ok) };
    let Started { store, engine, salt } = started;
    let engine = Arc::new(engine);
    let scraped = match args.metrics_listen {
        Some(address) => Some(start_metrics(address, Arc::clone(&store), &engine, &signals).await?),
        None => None,
    };
    let api = match listener {
        Some(listener) => Some(start_api(global, args, listener, salt, store, &engine, &signals)?),
        None => None,
    };
    tracing::info!(roles = ?roles, "serving; press Ctrl-C to stop");
    supervisor.ready(&format!("serving as {roles:?}").to_lowercase());
    let signal = tokio::select! {
        signal = signals.stopped() => signal,
        never = supervisor.beat() => match never {},
    };
    supervisor.stopping();
    tracing::info!("{signal} received: finishing running work");
    for listening in [api, scraped].into_iter().flatten() {
        let _ = listening.await;
    }
    let in_time = match Arc::into_inner(engine) {
        Some(engine) => engine.stop(signals.hurry.clone()).await,
        None => true,
    };
    tracing::info!(in_time, "stopped");
    Ok(if in_time { Exit::Ok } else { Exit::Failures })
}

fn start_api(
    global: &Global,
    args: &Serve,
    listener: TcpListener,
    salt: Option<String>,
    store: Arc<dyn Store>,
    engine: &Arc<Engine>,
    signals: &Signals,
) -> Result<JoinHandle<()>, Error> {
    tracing::info!(address = %listener.local_addr()?, "the API listens");
    let weak = Arc::downgrade(engine);
    let nudge = Arc::new(move || {
        if let Some(engine) = weak.upgrade() {
            engine.nudge();
        }
    });
    let (vault, of) = (engine.vault(), global.clone());
    let make_vault = Arc::new(move || {
        crate::vault::load_or_create(&of, salt.as_deref()).map_err(|error| error.message().to_owned())
    });
    let live = Some(engine.live());
    let environment = Environment::read();
    let public_read = environment.is_on("PATRA_PUBLIC_READ")?;
    let (crawler, lock_timeout) = (Some(engine.crawler()), environment.maintenance()?.lock_timeout);
    let batch_size = environment.batch_size()?;
    let (clock, limits, metrics) = (Arc::new(SystemClock), Limits::default(), engine.metrics());
    let api = Api {
        store,
        clock,
        nudge,
        vault,
        make_vault,
        live,
        public_read,
        crawler,
        lock_timeout,
        batch_size,
        limits,
        metrics,
    };
    Ok(tokio::spawn(patra_api::serve(
        listener,
        patra_api::router(api),
        args.connections_per_address,
        Some(engine.metrics()),
        signals.stop.clone(),
    )))
}

/// Starts the listener that serves only metrics.
async fn start_metrics(
    address: SocketAddr,
    store: Arc<dyn Store>,
    engine: &Engine,
    signals: &Signals,
) -> Result<JoinHandle<()>, Error> {
    let listener = listen(address, "--metrics-listen").await?;
    tracing::info!(address = %listener.local_addr()?, "metrics can be scraped");
    let router = patra_api::metrics_router(store, engine.metrics());
    let per_address = patra_api::MAX_PER_ADDRESS;
    Ok(tokio::spawn(patra_api::serve(listener, router, per_address, Some(engine.metrics()), signals.stop.clone())))
}

async fn listen(address: SocketAddr, option: &str) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|error| {
        Error::configuration(format!("cannot listen on {address}: {error}"))
            .hint(format!("choose another address with {option}"))
    })
}
