//! Builds the engine for commands that collect: options, environment and ports in, a started engine out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use patra_core::port::{Clock as _, Signer, SourceQueries, Store, Transport};
use patra_core::tx::{PartitionKey, RECORDS_STORED, TWEETS_COLLECTED};
use patra_core::vault::VaultCell;
use patra_engine::{CredentialOptions, Engine, EngineRole, Options, Ports, RunListener};
use patra_http::HttpSigner;

use crate::cli::{self, Global};
use crate::clock::SystemClock;
use crate::error::Error;
use crate::settings::Environment;
use crate::traces;
use crate::vault;

/// Starts the engine with these roles on a store.
pub(crate) async fn engine(
    global: &Global,
    settings: cli::Engine,
    roles: Vec<EngineRole>,
    store: Arc<dyn Store>,
    alone: bool,
    listener: Arc<dyn RunListener>,
) -> Result<Engine, Error> {
    start(global, settings, roles, store, alone, listener, None).await
}

/// Starts an engine that plans and runs the work of one endpoint and operation, and nothing else.
pub(crate) async fn engine_for(
    global: &Global,
    settings: cli::Engine,
    partition: PartitionKey,
    store: Arc<dyn Store>,
    alone: bool,
    listener: Arc<dyn RunListener>,
) -> Result<Engine, Error> {
    let roles = vec![EngineRole::Planner, EngineRole::Executor];
    start(global, settings, roles, store, alone, listener, Some(partition)).await
}

async fn start(
    global: &Global,
    settings: cli::Engine,
    roles: Vec<EngineRole>,
    store: Arc<dyn Store>,
    alone: bool,
    listener: Arc<dyn RunListener>,
    only: Option<PartitionKey>,
) -> Result<Engine, Error> {
    let environment = Environment::read();
    if let (_, ignored) = environment.intervals()
        && !ignored.is_empty()
    {
        tracing::warn!(ignored = ?ignored, "ignoring intervals that are not a number of minutes of at least 1");
    }
    let credentials = credentials(global, &*store).await?;
    let summarization = environment.summarization()?;
    let emit_tweets = summarization.is_some();
    let webhooks = [(TWEETS_COLLECTED, summarization), (RECORDS_STORED, environment.records_webhook()?)];
    let ports = Ports { store, transport: transport(global)?, clock: Arc::new(SystemClock) };
    let options = Options {
        roles,
        alone,
        concurrency: settings.concurrency,
        lease: Duration::from_secs(settings.lease_secs),
        retention: (settings.retention_days > 0)
            .then(|| Duration::from_secs(u64::from(settings.retention_days) * 24 * 3_600)),
        seed: SystemClock.now().micros().unsigned_abs(),
        credentials,
        collector: environment.collector()?,
        crawl_times: environment.crawl_times()?,
        maintenance: environment.maintenance()?,
        run: patra_core::protocol::run::Options { emit_tweets, ..Default::default() },
        webhooks: webhooks.into_iter().filter_map(|(event, webhook)| Some((event.to_owned(), webhook?))).collect(),
        log_batch_percent: environment.log_batch_percent()?,
        trace_context: Some(traces::context),
        grace: environment.grace()?,
        only,
        ..Options::new(owner()?)
    };
    Ok(Engine::start(ports, options, listener).await?)
}

/// Starts an engine that only collects sources.
pub(crate) async fn collector(
    global: &Global,
    roles: Vec<EngineRole>,
    store: Arc<dyn Store>,
    alone: bool,
) -> Result<Engine, Error> {
    let settings = cli::Engine { concurrency: 1, lease_secs: 60, retention_days: 0 };
    engine(global, settings, roles, store, alone, Arc::new(())).await
}

/// The vault that decrypts credentials, the services that sign requests, and the limits of cookies.
pub(crate) async fn credentials(global: &Global, store: &dyn SourceQueries) -> Result<CredentialOptions, Error> {
    const PREFIX: &str = "PATRA_SIGNER_";
    let named = std::env::vars().filter_map(|(name, url)| Some((name.strip_prefix(PREFIX)?.to_owned(), url)));
    let mut signers = BTreeMap::new();
    // The command line overrides the environment.
    for (name, url) in named.chain(global.signers.iter().cloned()) {
        let signer = HttpSigner::new(&url)
            .map_err(|error| Error::configuration(format!("cannot use the signer `{name}`: {error}")))?;
        signers.insert(patra_engine::hook_key(&name), Arc::new(signer) as Arc<dyn Signer>);
    }
    let vault = VaultCell::new(vault::load(global, vault::salt(store).await?.as_deref())?);
    Ok(CredentialOptions { vault, signers, cookies: Environment::read().cookies()? })
}

/// The HTTP client, behind the guard that refuses private addresses.
pub(crate) fn transport(global: &Global) -> Result<Arc<dyn Transport>, Error> {
    let guard = patra_http::AddressGuard::new(global.allow_net.clone());
    match patra_http::Client::new(guard) {
        Ok(client) => Ok(Arc::new(client)),
        Err(error) => Err(Error::unexpected(format!("cannot start the HTTP client: {error}"))),
    }
}

/// A name for this process that no other process has, not even after a restart.
pub(crate) fn owner() -> Result<String, Error> {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let host = host.trim();
    Ok(format!("{}:{}:{}", if host.is_empty() { "host" } else { host }, std::process::id(), random_hex::<4>()?))
}

/// `2 * N` random hex digits.
pub(crate) fn random_hex<const N: usize>() -> Result<String, Error> {
    patra_api::key::random_hex::<N>()
        .map_err(|error| Error::unexpected(format!("the system gives no random bytes: {error}")))
}
