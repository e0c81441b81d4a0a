//! Opens the store that the options name, for writing or for reading only.

use std::path::PathBuf;
use std::sync::Arc;

use patra_core::port::query::{View, ViewFilter};
use patra_core::port::{
    BoardQueries, Clock, CrawlQueries, CredentialQueries, PoolQueries, Queries, Scan, SourceQueries, Store,
};
use patra_core::project;
use patra_engine::gate::RateGate;
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

/// Opens the store for reading and writing: migrates it, and updates the dictionary.
pub(crate) async fn open(global: &Global) -> Result<Opened, Error> {
    let opened = open_store(global).await?;
    patra_engine::registry::sync_dictionary(&*opened.store).await?;
    Ok(opened)
}

async fn open_store(global: &Global) -> Result<Opened, Error> {
    if let Some(url) = &global.database_url {
        let store = open_postgres(global, url).await?;
        return Ok(Opened { store: Arc::new(store), alone: false });
    }
    let options = sqlite_options(global);
    let store = tokio::task::spawn_blocking(move || SqliteStore::open(&options)).await;
    let store = store.map_err(|error| Error::unexpected(error.to_string()))?.map_err(|error| sqlite(&error))?;
    Ok(Opened { store: Arc::new(store), alone: true })
}

/// Opens the store for reading only, which works next to a running server.
pub(crate) async fn open_to_read(global: &Global) -> Result<Arc<dyn Queries>, Error> {
    Ok(open_read_only(global).await?.queries)
}

/// A store opened for reading only. Credentials stay encrypted.
pub(crate) struct ReadOnly {
    pub(crate) queries: Arc<dyn Queries>,
    pub(crate) credentials: Arc<dyn CredentialQueries>,
    pub(crate) sources: Arc<dyn SourceQueries>,
    pub(crate) crawls: Arc<dyn CrawlQueries>,
    pub(crate) pool: Arc<dyn PoolQueries>,
    pub(crate) boards: Arc<dyn BoardQueries>,
}

pub(crate) async fn open_crawls(global: &Global) -> Result<Arc<dyn CrawlQueries>, Error> {
    Ok(open_read_only(global).await?.crawls)
}

pub(crate) async fn open_sources(global: &Global) -> Result<Arc<dyn SourceQueries>, Error> {
    Ok(open_read_only(global).await?.sources)
}

pub(crate) async fn open_pool(global: &Global) -> Result<Arc<dyn PoolQueries>, Error> {
    Ok(open_read_only(global).await?.pool)
}

/// The project of the command: the one that is named, or `default`.
pub(crate) async fn project(global: &Global, pool: &(impl PoolQueries + ?Sized)) -> Result<String, Error> {
    let Some(key) = &global.project else { return Ok(project::DEFAULT.to_owned()) };
    known_project(pool, key).await?;
    Ok(key.clone())
}

pub(crate) async fn known_project(pool: &(impl PoolQueries + ?Sized), key: &str) -> Result<(), Error> {
    match pool.projects().await?.iter().any(|known| known.project_key == key) {
        true => Ok(()),
        false => {
            Err(Error::not_found(format!("there is no project {key:?}")).hint("create it with `patra project create`"))
        }
    }
}

/// Fails as if the row did not exist when it belongs to another project.
pub(crate) async fn check_project(
    global: &Global,
    queries: &(impl Queries + ?Sized),
    view: View,
    id: i64,
    name: &str,
) -> Result<(), Error> {
    let Some(key) = &global.project else { return Ok(()) };
    let filter = ViewFilter { project_key: Some(key.clone()), id: Some(id), limit: 1, ..ViewFilter::default() };
    match queries.list(view, filter).await?.is_empty() {
        false => Ok(()),
        true => Err(Error::not_found(format!("there is no {name} in project {key}"))),
    }
}

/// Like [`check_project`], for a job by its public id.
pub(crate) async fn check_project_of_job(
    global: &Global,
    queries: &(impl Queries + ?Sized),
    job: &str,
) -> Result<(), Error> {
    let Some(key) = &global.project else { return Ok(()) };
    let filter = ViewFilter {
        project_key: Some(key.clone()),
        public_id: Some(job.to_owned()),
        limit: 1,
        ..ViewFilter::default()
    };
    match queries.list(View::Jobs, filter).await?.is_empty() {
        false => Ok(()),
        true => Err(Error::not_found(format!("there is no job {job} in project {key}"))),
    }
}

/// Opens every part of the store for reading only.
pub(crate) async fn open_read_only(global: &Global) -> Result<ReadOnly, Error> {
    if let Some(url) = &global.database_url {
        let store = Arc::new(open_postgres(global, url).await?);
        let (queries, credentials) = (Arc::clone(&store) as _, Arc::clone(&store) as _);
        return Ok(ReadOnly {
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
    Ok(ReadOnly {
        queries,
        credentials,
        sources: Arc::clone(&reader) as _,
        crawls: Arc::clone(&reader) as _,
        boards: Arc::clone(&reader) as _,
        pool: reader,
    })
}

/// The rate gate that all processes on a PostgreSQL database share, for commands that send a few requests. On an
/// embedded database only one process can write, so another command keeps the declared rate by itself.
pub(crate) async fn shared_gate(global: &Global, clock: &Arc<dyn Clock>) -> Result<Option<Arc<RateGate>>, Error> {
    if global.database_url.is_none() {
        return Ok(None);
    }
    let store = open_store(global).await?.store;
    Ok(Some(RateGate::new(store, Arc::clone(clock), crate::host::owner()?, clock.now().micros().unsigned_abs())))
}

/// Like [`open_to_read`]; `None` if there is no embedded database yet.
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

/// Whether migrations may run without a backup. A value that is not a clear yes counts as no.
fn without_backup() -> bool {
    Environment::read().is_on("PATRA_MIGRATE_WITHOUT_BACKUP").unwrap_or(false)
}

/// Opens the store to scan every table. Works next to a running server and does not migrate. `None` if there is no
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

/// Opens a PostgreSQL database and migrates it, after a backup.
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
            let message = format!("the database needs a migration, and the backup before it failed: {error}");
            Error::configuration(message).hint(
                "install the PostgreSQL client programs of the server's version; or take a backup yourself and set \
                 PATRA_MIGRATE_WITHOUT_BACKUP=1",
            )
        })?;
        backup::forget(&folder, &format!("{}.dump", backup::BEFORE_MIGRATION));
        tracing::info!(path = %taken.path.display(), schema.version = version, "backed up the database before its migration");
    }
    PostgresStore::open(options).await.map_err(|error| postgres(&error))
}

pub(crate) fn sqlite(error: &OpenError) -> Error {
    let hint = match error {
        OpenError::FolderNotCreatable { .. } | OpenError::FolderNotWritable { .. } => {
            "choose another folder with --data, or change its permissions"
        }
        OpenError::Locked { .. } => {
            "only one process can write: stop that process, or use the console or its HTTP API (docs/http.md); \
             `patra get` works alongside it"
        }
        OpenError::Missing { .. } => {
            "`patra apply -f FILE` or `patra source add` creates it; or name the right folder with --data"
        }
        OpenError::NotADatabase { .. } | OpenError::Foreign { .. } => "choose another folder with --data",
        OpenError::SchemaNewer { .. } | OpenError::MigrationChanged { .. } => {
            "use the version of patra that wrote it, or a newer one"
        }
        OpenError::SchemaOlder { .. } => "run `patra migrate`",
        OpenError::NoBackup { .. } => {
            "free some disk space or fix the folder; PATRA_MIGRATE_WITHOUT_BACKUP=1 migrates without a backup, and without a way back"
        }
        OpenError::OldSqlite { .. } | OpenError::Thread { .. } | OpenError::Sqlite { .. } => {
            return Error::unexpected(error.to_string());
        }
    };
    Error::configuration(error.to_string()).hint(hint)
}

pub(crate) fn postgres(error: &patra_store_postgres::OpenError) -> Error {
    let mut shown = Error::configuration(error.to_string());
    if error.is_passing() {
        shown = shown.passing();
    }
    match error.hint() {
        Some(hint) => shown.hint(hint),
        None => shown,
    }
}
