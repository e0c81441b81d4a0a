//! Opening the store that the options name.

use std::sync::Arc;

use patra_core::port::{Clock, Credentials, Queries, Sources, Store};
use patra_engine::gate::Gate;
use patra_store_postgres::PostgresStore;
use patra_store_sqlite::{OpenError, SqliteStore};

use crate::cli::Global;
use crate::clock::SystemClock;
use crate::error::Error;

/// A store, and whether this process is the only one on it.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) alone: bool,
}

/// For reading and writing; migrates, and brings the dictionary up to this program.
pub(crate) async fn open(global: &Global) -> Result<Opened, Error> {
    let opened = open_as_it_is(global).await?;
    patra_engine::registry::sync_dictionary(&*opened.store).await?;
    Ok(opened)
}

async fn open_as_it_is(global: &Global) -> Result<Opened, Error> {
    if let Some(url) = &global.database_url {
        let store =
            PostgresStore::open(patra_store_postgres::Options::new(url)).await.map_err(|error| postgres(&error))?;
        return Ok(Opened { store: Arc::new(store), alone: false });
    }
    let options = sqlite_options(global);
    let store = tokio::task::spawn_blocking(move || SqliteStore::open(options)).await;
    let store = store.map_err(|error| Error::unexpected(error.to_string()))?.map_err(|error| sqlite(&error))?;
    Ok(Opened { store: Arc::new(store), alone: true })
}

/// For reading only: works beside a running server.
pub(crate) async fn open_to_read(global: &Global) -> Result<Arc<dyn Queries>, Error> {
    Ok(open_to_look(global).await?.queries)
}

/// What a replay may have: everything that can be read, and what is sealed, still sealed.
pub(crate) struct Looking {
    pub(crate) queries: Arc<dyn Queries>,
    pub(crate) credentials: Arc<dyn Credentials>,
    pub(crate) sources: Arc<dyn Sources>,
}

pub(crate) async fn open_sources(global: &Global) -> Result<Arc<dyn Sources>, Error> {
    Ok(open_to_look(global).await?.sources)
}

/// The same, credentials included.
pub(crate) async fn open_to_look(global: &Global) -> Result<Looking, Error> {
    if let Some(url) = &global.database_url {
        let store =
            PostgresStore::open(patra_store_postgres::Options::new(url)).await.map_err(|error| postgres(&error))?;
        let store = Arc::new(store);
        return Ok(Looking { queries: Arc::clone(&store) as _, credentials: Arc::clone(&store) as _, sources: store });
    }
    let options = sqlite_options(global);
    let reader = tokio::task::spawn_blocking(move || SqliteStore::open_read_only(&options)).await;
    let reader = reader.map_err(|error| Error::unexpected(error.to_string()))?.map_err(|error| sqlite(&error))?;
    let reader = Arc::new(reader);
    Ok(Looking { queries: Arc::clone(&reader) as _, credentials: Arc::clone(&reader) as _, sources: reader })
}

/// The gate that all processes on a PostgreSQL share, for commands that send a few requests beside them. An embedded database
/// belongs to one process: a command beside it keeps the declared rate by itself.
pub(crate) async fn shared_gate(global: &Global, clock: &Arc<dyn Clock>) -> Result<Option<Arc<Gate>>, Error> {
    if global.database_url.is_none() {
        return Ok(None);
    }
    let store = open_as_it_is(global).await?.store;
    Ok(Some(Gate::new(store, Arc::clone(clock), crate::host::owner()?, clock.now().micros().unsigned_abs())))
}

/// [`open_to_read`]; `None` when there is no embedded database yet.
pub(crate) async fn open_if_there(global: &Global) -> Result<Option<Arc<dyn Queries>>, Error> {
    if is_there(global) { open_to_read(global).await.map(Some) } else { Ok(None) }
}

/// Whether a server is named, or there is an embedded database.
pub(crate) fn is_there(global: &Global) -> bool {
    global.database_url.is_some() || sqlite_options(global).path.exists()
}

fn sqlite_options(global: &Global) -> patra_store_sqlite::Options {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    patra_store_sqlite::Options::new(global.data.join("patra.db"), clock)
}

fn sqlite(error: &OpenError) -> Error {
    let hint = match error {
        OpenError::FolderNotCreatable { .. } | OpenError::FolderNotWritable { .. } => {
            "choose another folder with --data, or change its permissions"
        }
        OpenError::Locked { .. } => {
            "stop that process, or ask it by HTTP (POST /api/v1/jobs, POST /api/v1/manifests); `patra get` works beside it"
        }
        OpenError::Missing { .. } => "`patra apply -f FILE` makes it; or name the right folder with --data",
        OpenError::NotADatabase { .. } | OpenError::Foreign { .. } => "choose another folder with --data",
        OpenError::SchemaNewer { .. } | OpenError::MigrationChanged { .. } => {
            "use the version of patra that wrote it, or a newer one"
        }
        OpenError::SchemaOlder { .. } => "run `patra migrate`",
        OpenError::OldSqlite { .. } | OpenError::Thread { .. } | OpenError::Sqlite { .. } => {
            return Error::unexpected(error.to_string());
        }
    };
    Error::configuration(error.to_string()).hint(hint)
}

fn postgres(error: &patra_store_postgres::OpenError) -> Error {
    let shown = Error::configuration(error.to_string());
    match error.hint() {
        Some(hint) => shown.hint(hint),
        None => shown,
    }
}
