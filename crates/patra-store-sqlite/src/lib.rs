//! The store ports on an embedded SQLite database: one thread that writes, a few connections that read.
//!
//! `patra_core::tx` defines the meaning of each operation; this crate implements it in SQLite's SQL. It knows nothing
//! of the engine, HTTP or manifests.

pub mod backup;
mod clock;
mod connect;
mod error;
mod exec;
mod lock;
mod migrate;
mod object;
pub mod private;
mod query;
mod reader;
mod scan;
mod sql;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use patra_core::credential::Credential;
use patra_core::port::credential::CredentialFilter;
use patra_core::port::load::StoreLoad;
use patra_core::port::next_due::NextDue;
use patra_core::port::query::{
    BatchEvidence, BatchPage, JobProgress, PlanLineage, RegisteredProvenance, StoredApiKey, StoredRawResponse,
    StoredVersion, View, ViewFilter, ViewRow,
};
use patra_core::port::{BoxFuture, Clock, Commands, CredentialQueries, Queries};
use patra_core::record::{DetailCandidate, RecordStream};
use patra_core::registry::DictType;
use patra_core::tx::{Done, IdRange, RefreshCriteria, Tx, TxError};
use patra_core::{PlanId, RunId};

pub use connect::Synchronous;
pub use error::OpenError;
pub use reader::SqliteReader;

/// Options of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database file. Its folder is created if it is missing.
    pub path: PathBuf,
    pub clock: Arc<dyn Clock>,
    /// Connections that read at the same time.
    pub readers: usize,
    pub synchronous: Synchronous,
    /// Longest wait for a lock of another program (`sqlite3`, a backup).
    pub busy_timeout: Duration,
    /// Queries that run longer are cancelled: a long reader keeps the WAL from being emptied.
    pub query_timeout: Duration,
    /// Whether to copy an existing database before a migration changes it.
    pub backup_before_migration: bool,
}

impl Options {
    pub fn new(path: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Options {
        Options {
            path: path.into(),
            clock,
            readers: 4,
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            query_timeout: Duration::from_secs(30),
            backup_before_migration: true,
        }
    }
}

/// A store on one database file, for the one process that may write to it. Cheap to clone; dropping the last clone ends
/// the writer and closes the file.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

// Fields are dropped in this order: the lock last, when the file is closed.
#[derive(Debug)]
struct Inner {
    writer: writer::Writer,
    reader: SqliteReader,
    _lock: lock::Lock,
}

impl SqliteStore {
    /// Takes the lock, creates or migrates the database and starts the writer. Blocks for that long: call it before
    /// serving.
    pub fn open(options: &Options) -> Result<SqliteStore, OpenError> {
        connect::check_library()?;
        let lock = lock::Lock::take(&options.path)?;
        let mut connection = connect::writer(options)?;
        if options.backup_before_migration {
            copy_before_migration(&connection, options)?;
        }
        migrate::run(&mut connection, &*options.clock).map_err(|error| error.at(&options.path))?;
        let seen = exec::clock::seen(&connection).map_err(|error| OpenError::sqlite(&options.path, error))?;
        let clock = Arc::new(clock::StoreClock::new(Arc::clone(&options.clock), seen));
        let reader = SqliteReader::open(options, Arc::clone(&clock))?;
        let writer = writer::Writer::start(connection, clock, writer::Operations::STORE)
            .map_err(|source| OpenError::Thread { source })?;
        Ok(SqliteStore { inner: Arc::new(Inner { writer, reader, _lock: lock }) })
    }

    /// Opens a database read-only while another process may own it: no lock, no migration, no writer.
    pub fn open_read_only(options: &Options) -> Result<SqliteReader, OpenError> {
        connect::check_library()?;
        let path: &Path = &options.path;
        if !path.is_file() {
            return Err(OpenError::Missing { path: path.to_owned() });
        }
        let connection = connect::reader(options)?;
        migrate::check(&connection).map_err(|error| error.at(path))?;
        SqliteReader::open(options, Arc::new(clock::StoreClock::new(Arc::clone(&options.clock), None)))
    }

    /// The reading side alone.
    pub fn reader(&self) -> SqliteReader {
        self.inner.reader.clone()
    }
}

fn copy_before_migration(connection: &rusqlite::Connection, options: &Options) -> Result<(), OpenError> {
    let Some(version) = migrate::pending(connection).map_err(|error| error.at(&options.path))? else { return Ok(()) };
    let taken = backup::before_migration(&options.path, version, options.clock.now())
        .map_err(|error| OpenError::NoBackup { path: options.path.clone(), reason: error.to_string() })?;
    tracing::info!(path = %taken.path.display(), schema.version = version, "copied the database before its migration");
    Ok(())
}

impl Commands for SqliteStore {
    fn execute(&self, tx: Tx) -> BoxFuture<'_, Result<Done, TxError>> {
        Box::pin(self.inner.writer.execute(tx))
    }
}

impl CredentialQueries for SqliteStore {
    fn credentials(&self, filter: CredentialFilter) -> BoxFuture<'_, Result<Vec<Credential>, TxError>> {
        self.inner.reader.credentials(filter)
    }
}

impl Queries for SqliteStore {
    fn registry(&self, provenance_code: &str) -> BoxFuture<'_, Result<Option<RegisteredProvenance>, TxError>> {
        self.inner.reader.registry(provenance_code)
    }

    fn dictionary(&self) -> BoxFuture<'_, Result<Vec<DictType>, TxError>> {
        self.inner.reader.dictionary()
    }

    fn snapshot(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, TxError>> {
        self.inner.reader.snapshot(hash)
    }

    fn screen(
        &self,
        stream: &RecordStream,
        candidates: &[DetailCandidate],
    ) -> BoxFuture<'_, Result<Vec<DetailCandidate>, TxError>> {
        self.inner.reader.screen(stream, candidates)
    }

    fn ids_to_refresh(
        &self,
        stream: &RecordStream,
        wanted: &RefreshCriteria,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        self.inner.reader.ids_to_refresh(stream, wanted, range, after, limit)
    }

    fn stored(&self, stream: &RecordStream, keys: &[String]) -> BoxFuture<'_, Result<Vec<StoredVersion>, TxError>> {
        self.inner.reader.stored(stream, keys)
    }

    fn evidence(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<BatchEvidence>, TxError>> {
        self.inner.reader.evidence(run, batch_no)
    }

    fn raw(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<StoredRawResponse>, TxError>> {
        self.inner.reader.raw(run, batch_no)
    }

    fn lineage(&self, plan: PlanId, batches: BatchPage) -> BoxFuture<'_, Result<Option<PlanLineage>, TxError>> {
        self.inner.reader.lineage(plan, batches)
    }

    fn progress(&self, public_id: &str) -> BoxFuture<'_, Result<Option<JobProgress>, TxError>> {
        self.inner.reader.progress(public_id)
    }

    fn key(&self, prefix: &str) -> BoxFuture<'_, Result<Option<StoredApiKey>, TxError>> {
        self.inner.reader.key(prefix)
    }

    fn list(&self, view: View, filter: ViewFilter) -> BoxFuture<'_, Result<Vec<ViewRow>, TxError>> {
        self.inner.reader.list(view, filter)
    }

    fn load(&self) -> BoxFuture<'_, Result<StoreLoad, TxError>> {
        self.inner.reader.load()
    }

    fn next_due(&self) -> BoxFuture<'_, Result<NextDue, TxError>> {
        self.inner.reader.next_due()
    }

    fn ping(&self) -> BoxFuture<'_, Result<u32, TxError>> {
        self.inner.reader.ping()
    }
}
