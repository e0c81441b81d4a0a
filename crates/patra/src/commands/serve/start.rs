//! The start of `serve`: everything that needs the database. While a PostgreSQL server is away, or the connection to it
//! is cut, the start waits and tries again from the beginning; every step can be repeated. A wrong configuration ends
//! the start at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use patra_core::port::{Clock as _, CommandsExt as _, Store};
use patra_core::retry::RetryPolicy;
use patra_core::rng::Rng;
use patra_core::tx::{CreateKey, KeyScope};
use patra_engine::{Engine, EngineRole, introduce_types, pool};

use crate::cli::{Global, Role, Serve};
use crate::clock::SystemClock;
use crate::error::Error;
use crate::progress::say;
use crate::settings::{self, Environment};
use crate::signals::Signals;
use crate::supervisor::Supervisor;
use crate::{host, store, tweets, vault};

/// Delays between attempts to reach the database: 200 ms, doubling, at most 5 s.
const ATTEMPTS: RetryPolicy = RetryPolicy {
    max_attempts: u32::MAX,
    min_delay_ms: 200,
    max_delay_ms: 5_000,
    multiplier_percent: 200,
    jitter_percent: 20,
};
/// While the reason stays the same, one attempt of so many is logged: about one a minute.
const LOGGED: u32 = 12;
/// Time that the supervisor is asked for with each attempt: more than an attempt and the delay after it take.
const MORE_TIME: Duration = Duration::from_secs(120);

/// What the rest of the server needs.
pub(super) struct Started {
    pub(super) store: Arc<dyn Store>,
    pub(super) engine: Engine,
    /// Salt of the passphrase, if one was ever set.
    pub(super) salt: Option<String>,
}

/// What happens around a start that has to wait.
pub(super) struct WaitingStart<'a> {
    pub(super) signals: &'a Signals,
    pub(super) supervisor: &'a Supervisor,
    /// Responds with 503 meanwhile.
    pub(super) listener: Option<&'a TcpListener>,
}

/// Starts everything that needs the database. `None`: a signal came first.
pub(super) async fn started(
    global: &Global,
    args: &Serve,
    roles: &[Role],
    mut first_key: Option<&mut FirstKey>,
    waiting: &WaitingStart<'_>,
) -> Result<Option<Started>, Error> {
    let mut rng = Rng::new(SystemClock.now().micros().unsigned_abs());
    let (mut attempt, mut reason, mut stand_in) = (0_u32, String::new(), None);
    loop {
        let tried = tokio::select! {
            tried = try_start(global, args, roles, first_key.as_deref_mut()) => tried,
            _ = waiting.signals.stopped() => return Ok(None),
        };
        let error = match tried {
            Ok(started) => {
                if attempt > 0 {
                    tracing::info!(attempts = attempt + 1, "the database is there");
                }
                if let Some(stand_in) = stand_in {
                    StandIn::end(stand_in).await;
                }
                return Ok(Some(started));
            }
            // Only a server is worth waiting for: an embedded database does not come by itself.
            Err(error) if error.is_passing() && global.database_url.is_some() => error,
            Err(error) => return Err(error),
        };
        attempt = attempt.saturating_add(1);
        let delay = ATTEMPTS.delay(attempt, &mut rng);
        if reason != error.message() || attempt % LOGGED == 0 {
            reason = error.message().to_owned();
            tracing::warn!(reason = %reason, attempt, "waiting for the database");
        }
        waiting.supervisor.waiting(MORE_TIME);
        if let (None, Some(listener)) = (&stand_in, waiting.listener) {
            stand_in = Some(StandIn::on(listener)?);
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = waiting.signals.stopped() => return Ok(None),
        }
    }
}

async fn try_start(
    global: &Global,
    args: &Serve,
    roles: &[Role],
    first_key: Option<&mut FirstKey>,
) -> Result<Started, Error> {
    let opened = store::open(global).await?;
    let engine_roles = roles
        .iter()
        .filter_map(|role| match role {
            Role::Api => None,
            Role::Planner => Some(EngineRole::Planner),
            Role::Executor => Some(EngineRole::Executor),
            Role::Collector => Some(EngineRole::Collector),
        })
        .chain([EngineRole::Maintenance])
        .collect();
    let store = opened.store;
    tweets::apply_settings(global, &store, tweets::Takeover::Full).await?;
    let environment = Environment::read();
    let tracking = environment.flag("POOL_REMOVE_TRACKING")?.map(|removed| removed.to_string());
    settings::write(&*store, &store.settings().await?, [(pool::REMOVE_TRACKING, tracking)]).await?;
    introduce_types(&*store, &environment.intervals().0).await?;
    if let Some(first_key) = first_key {
        first_key.store(&*store).await?;
    }
    let salt = vault::salt(&*store).await?;
    let engine =
        host::engine(global, args.engine, engine_roles, Arc::clone(&store), opened.alone, Arc::new(())).await?;
    Ok(Started { store, engine, salt })
}

/// The key that the first start creates. It is the same in every attempt: when the reply of the database is lost, the
/// next attempt finds the key that was stored, and prints it.
pub(super) struct FirstKey {
    text: String,
    create: CreateKey,
    is_printed: bool,
}

impl FirstKey {
    pub(super) fn generate() -> Result<FirstKey, Error> {
        let (text, create) = patra_api::key::generate("first", KeyScope::Admin, Vec::new(), false, true)
            .map_err(|error| Error::unexpected(format!("the system gives no random bytes: {error}")))?;
        Ok(FirstKey { text, create, is_printed: false })
    }

    /// Stores the key if there was never any, and prints it once.
    async fn store(&mut self, store: &dyn Store) -> Result<(), Error> {
        let created = store.run(self.create.clone()).await?.created;
        let is_own = created || store.key(&self.create.prefix).await?.is_some_and(|key| key.hash == self.create.hash);
        if is_own && !self.is_printed {
            self.is_printed = true;
            say(&format!("This is your administrator key. It is shown only once:\n\n    {}\n", self.text));
        }
        Ok(())
    }
}

/// Responds for the API while it cannot start. Dropping it stops it too, but does not wait.
struct StandIn {
    stop: CancellationToken,
    ended: JoinHandle<()>,
}

impl StandIn {
    fn on(listener: &TcpListener) -> Result<StandIn, Error> {
        use std::os::fd::AsFd as _;
        let shared = std::net::TcpListener::from(listener.as_fd().try_clone_to_owned()?);
        let (stop, listener) = (CancellationToken::new(), TcpListener::from_std(shared)?);
        let ended = tokio::spawn(patra_api::serve(
            listener,
            patra_api::waiting_router(),
            patra_api::MAX_PER_ADDRESS,
            None,
            stop.clone(),
        ));
        Ok(StandIn { stop, ended })
    }

    /// From here on it takes no connection from the API.
    async fn end(mut self) {
        self.stop.cancel();
        let _ = (&mut self.ended).await;
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
