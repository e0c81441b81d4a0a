//! Opening the store that the options name.

use std::path::PathBuf;
use std::sync::Arc;

use patra_core::port::query::{Filter, View};
use patra_core::port::{Boards, Clock, Crawls, Credentials, Pool, Queries, Scan, Sources, Store};
use patra_core::project;
use patra_engine::gate::Gate;
use patra_store_postgres::PostgresStore;
use patra_store_sqlite::{OpenError, SqliteStore, backup};

use crate::cli::Global;
use crate::clock::SystemClock;
use crate::error::Error;
use crate::settings::Environment;

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
        let store = open_postgres(global, url).await?;
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
    pub(crate) crawls: Arc<dyn Crawls>,
    pub(crate) pool: Arc<dyn Pool>,
    pub(crate) boards: Arc<dyn Boards>,
}

pub(crate) async fn open_crawls(global: &Global) -> Result<Arc<dyn Crawls>, Error> {
    Ok(open_to_look(global).await?.crawls)
}

pub(crate) async fn open_sources(global: &Global) -> Result<Arc<dyn Sources>, Error> {
    Ok(open_to_look(global).await?.sources)
}

pub(crate) async fn open_pool(global: &Global) -> Result<Arc<dyn Pool>, Error> {
    Ok(open_to_look(global).await?.pool)
}

/// The project that a command is about: the one that is named, or `default`.
pub(crate) async fn project(global: &Global, pool: &(impl Pool + ?Sized)) -> Result<String, Error> {
    let Some(key) = &global.project else { return Ok(project::DEFAULT.to_owned()) };
    known_project(pool, key).await?;
    Ok(key.clone())
}

pub(crate) async fn known_project(pool: &(impl Pool + ?Sized), key: &str) -> Result<(), Error> {
    match pool.projects().await?.iter().any(|known| known.project_key == key) {
        true => Ok(()),
        false => Err(Error::not_found(format!("there is no project {key:?}")).hint("`patra project create` makes one")),
    }
}

/// Refuses what is another project's as what is not there.
pub(crate) async fn mine(
    global: &Global,
    queries: &(impl Queries + ?Sized),
    view: View,
    id: i64,
    name: &str,
) -> Result<(), Error> {
    let Some(key) = &global.project else { return Ok(()) };
    let filter = Filter { project_key: Some(key.clone()), id: Some(id), limit: 1, ..Filter::default() };
    match queries.list(view, filter).await?.is_empty() {
        false => Ok(()),
        true => Err(Error::not_found(format!("there is no {name} in project {key}"))),
    }
}

/// The same of a job, by its public id.
pub(crate) async fn my_job(global: &Global, queries: &(impl Queries + ?Sized), job: &str) -> Result<(), Error> {
    let Some(key) = &global.project else { return Ok(()) };
    let filter =
        Filter { project_key: Some(key.clone()), public_id: Some(job.to_owned()), limit: 1, ..Filter::default() };
    match queries.list(View::Jobs, filter).await?.is_empty() {
        false => Ok(()),
        true => Err(Error::not_found(format!("there is no job {job} in project {key}"))),
    }
}

/// The same, credentials included.
pub(crate) async fn open_to_look(global: &Global) -> Result<Looking, Error> {
    if let Some(url) = &global.database_url {
        let store = Arc::new(open_postgres(global, url).await?);
        let (queries, credentials) = (Arc::clone(&store) as _, Arc::clone(&store) as _);
        return Ok(Looking {
            queries,
            credentials,
            sources: Arc::clone(&store) as _,
            crawls: Arc::clone(&store) as _,
            boards: Arc::clone(&store) as _,
            pool: store,
        });
    }
    let options = sqlite_options(global);
    let reader = tokio::task::spawn_blocking(move || SqliteStore::open_read_only(&options)).await;
    let reader = reader.map_err(|error| Error::unexpected(error.to_string()))?.map_err(|error| sqlite(&error))?;
    let reader = Arc::new(reader);
    let (queries, credentials) = (Arc::clone(&reader) as _, Arc::clone(&reader) as _);
    Ok(Looking {
        queries,
        credentials,
        sources: Arc::clone(&reader) as _,
        crawls: Arc::clone(&reader) as _,
        boards: Arc::clone(&reader) as _,
        pool: reader,
    })
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
    patra_store_sqlite::Options {
        backup_before_migration: !without_backup(),
        ..patra_store_sqlite::Options::new(database_file(global), clock)
    }
}

/// The file of the embedded database.
pub(crate) fn database_file(global: &Global) -> PathBuf {
    global.data.join("patra.db")
}

/// Whether migrations may change a database of which there is no copy. What cannot be read as a yes is none.
fn without_backup() -> bool {
    Environment::read().is_on("PATRA_MIGRATE_WITHOUT_BACKUP").unwrap_or(false)
}

/// Everything that is in the database, to read: works beside a running server, and changes no schema. `None` when there is no
/// embedded database yet.
pub(crate) async fn open_to_scan(global: &Global) -> Result<Option<Arc<dyn Scan>>, Error> {
    if let Some(url) = &global.database_url {
        let options = patra_store_postgres::Options::new(url);
        let store = PostgresStore::open_as_it_is(options).await.map_err(|error| postgres(&error))?;
        return Ok(Some(Arc::new(store)));
    }
    if !is_there(global) {
        return Ok(None);
    }
    let options = sqlite_options(global);
    let reader = tokio::task::spawn_blocking(move || SqliteStore::open_read_only(&options)).await;
    let reader = reader.map_err(|error| Error::unexpected(error.to_string()))?.map_err(|error| sqlite(&error))?;
    Ok(Some(Arc::new(reader)))
}

/// Opens a PostgreSQL database, migrated; one that a migration will change is copied before.
async fn open_postgres(global: &Global, url: &str) -> Result<PostgresStore, Error> {
    let options = patra_store_postgres::Options::new(url);
    let schema = PostgresStore::schema(&options).await.map_err(|error| postgres(&error))?;
    if let Some(version) = schema.pending()
        && !without_backup()
    {
        let folder = global.data.join(backup::FOLDER);
        let name = format!("{}.dump", backup::name(SystemClock.now(), version, true));
        let taken = patra_store_postgres::backup::dump(&options, &backup::free(&folder.join(name))).await;
        let taken = taken.map_err(|error| {
            let message = format!("the database has to be migrated and could not be copied before: {error}");
            Error::configuration(message).hint(
                "install the PostgreSQL client programs of the server's version; or copy it yourself and set \
                 PATRA_MIGRATE_WITHOUT_BACKUP=1",
            )
        })?;
        backup::forget(&folder, &format!("{}.dump", backup::BEFORE_MIGRATION));
        tracing::info!(path = %taken.path.display(), schema.version = version, "copied the database before its migration");
    }
    PostgresStore::open(options).await.map_err(|error| postgres(&error))
}

pub(crate) fn sqlite(error: &OpenError) -> Error {
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
        OpenError::NoBackup { .. } => {
            "make room for it or mend the folder; PATRA_MIGRATE_WITHOUT_BACKUP=1 migrates without a copy, and without a way back"
        }
        OpenError::OldSqlite { .. } | OpenError::Thread { .. } | OpenError::Sqlite { .. } => {
            return Error::unexpected(error.to_string());
        }
    };
    Error::configuration(error.to_string()).hint(hint)
}

pub(crate) fn postgres(error: &patra_store_postgres::OpenError) -> Error {
    let shown = Error::configuration(error.to_string());
    match error.hint() {
        Some(hint) => shown.hint(hint),
        None => shown,
    }
}
