//! The store ports on PostgreSQL, for any number of processes on any number of hosts.
//!
//! The files mirror those of `patra-store-sqlite`. They differ in the SQL dialect and in properties of a server:
//! connections that die, row locks instead of one writer, and the server's clock.

pub mod backup;
mod error;
mod exec;
mod gather;
mod json;
mod migrate;
mod notifications;
mod object;
mod open;
mod pool;
mod query;
mod rows;
mod scan;
#[cfg(test)]
mod tests;
mod time;

use std::fmt;
use std::time::Duration;

use patra_core::credential::Credential;
use patra_core::port::credential::CredentialFilter;
use patra_core::port::load::StoreLoad;
use patra_core::port::next_due::NextDue;
use patra_core::port::query::{
    BatchEvidence, BatchPage, JobProgress, PlanLineage, RegisteredProvenance, StoredApiKey, StoredRawResponse,
    StoredVersion, View, ViewFilter, ViewRow,
};
use patra_core::port::{BoxFuture, Commands, CredentialQueries, Queries};
use patra_core::record::{DetailCandidate, RecordStream};
use patra_core::registry::DictType;
use patra_core::tx::{Done, IdRange, RefreshCriteria, Tx, TxError};
use patra_core::{PlanId, RunId};

pub use migrate::Schema;
pub use open::OpenError;

use crate::gather::{Gather, Kind};
use crate::notifications::Notifications;
use crate::pool::{Access, Pool};

/// Limit for a server that stops responding; a migration of a large table must fit.
const MIGRATION_DEADLINE: Duration = Duration::from_secs(600);

/// Connection settings and limits.
#[derive(Clone)]
pub struct Options {
    /// `postgres://user:password@host:port/database`. Never logged or shown.
    pub url: String,
    /// Connections for writes, except heartbeats, which have their own.
    pub pool_size: usize,
    /// Connections for queries. They cannot write.
    pub readers: usize,
    /// The schema to use, created if it is missing. `None`: the first of the user's `search_path`, mostly `public`.
    pub schema: Option<String>,
    /// The server cancels a statement after this time.
    pub statement_timeout: Duration,
    /// The server stops waiting for a row lock after this time; the operation is then `Busy`.
    pub lock_timeout: Duration,
    /// An operation and its connection are dropped after this time. Longer than `statement_timeout`, for servers that
    /// do not respond at all.
    pub deadline: Duration,
    /// Longest wait for a free connection.
    pub acquire_timeout: Duration,
    pub connect_timeout: Duration,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
}

impl Options {
    pub fn new(url: impl Into<String>) -> Options {
        Options {
            url: url.into(),
            pool_size: 8,
            readers: 4,
            schema: None,
            statement_timeout: Duration::from_secs(15),
            lock_timeout: Duration::from_secs(5),
            deadline: Duration::from_secs(20),
            acquire_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            application_name: "patra".to_owned(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &"***")
            .field("pool_size", &self.pool_size)
            .field("readers", &self.readers)
            .field("schema", &self.schema)
            .field("statement_timeout", &self.statement_timeout)
            .field("lock_timeout", &self.lock_timeout)
            .field("deadline", &self.deadline)
            .field("acquire_timeout", &self.acquire_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("application_name", &self.application_name)
            .finish()
    }
}

/// A PostgreSQL database as a store. Cheap to clone; the clones share their connections.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    pool: Pool,
    /// Group commit on the connections of `pool`.
    gather: Gather,
    /// Renewals never wait behind other work: a saturated pool must not cost leases (class 10).
    heartbeats: Pool,
    /// The query side (ING-3.7-01). It cannot write, whatever it sends.
    readers: Pool,
    notifications: Notifications,
}

impl PostgresStore {
    /// Connects, and migrates the schema to the version of this program.
    pub async fn open(options: Options) -> Result<PostgresStore, OpenError> {
        let config = open::configure(&options)?;
        let pool = Pool::new(&config, &options, options.pool_size.max(1), Access::Write).map_err(OpenError::Failed)?;
        let heartbeats = Pool::new(&config, &options, 1, Access::Write).map_err(OpenError::Failed)?;
        let readers = Pool::new(&config, &options, options.readers.max(1), Access::Read).map_err(OpenError::Failed)?;
        let mut client = pool.get().await.map_err(|error| open::classify(&error, &config))?;
        let migrated =
            tokio::time::timeout(MIGRATION_DEADLINE, migrate::migrate(&mut client, options.schema.as_deref()));
        migrated
            .await
            .unwrap_or_else(|_| Err(OpenError::Interrupted("the migrations did not end in time".to_owned())))?;
        let notifications = Notifications::new(&config, &options);
        Ok(PostgresStore { gather: Gather::new(&pool), pool, heartbeats, readers, notifications })
    }

    /// Connects without changing anything, for read-only use of any schema version.
    pub async fn open_as_it_is(options: Options) -> Result<PostgresStore, OpenError> {
        let config = open::configure(&options)?;
        let new = |size| Pool::new(&config, &options, size, Access::Read).map_err(OpenError::Failed);
        let (pool, heartbeats, readers) = (new(1)?, new(1)?, new(options.readers.max(1))?);
        drop(readers.get().await.map_err(|error| open::classify(&error, &config))?);
        let notifications = Notifications::new(&config, &options);
        Ok(PostgresStore { gather: Gather::new(&pool), pool, heartbeats, readers, notifications })
    }

    /// Schema version of the database.
    pub async fn schema(options: &Options) -> Result<Schema, OpenError> {
        let config = open::configure(options)?;
        let pool = Pool::new(&config, options, 1, Access::Read).map_err(OpenError::Failed)?;
        let client = pool.get().await.map_err(|error| open::classify(&error, &config))?;
        migrate::schema(&client).await
    }
}

impl Commands for PostgresStore {
    fn execute(&self, tx: Tx) -> BoxFuture<'_, Result<Done, TxError>> {
        if let Some(kind) = Kind::of(&tx) {
            return Box::pin(self.gather.run(kind, tx));
        }
        let pool = if matches!(tx, Tx::Renew(_)) { &self.heartbeats } else { &self.pool };
        Box::pin(pool.run(move |session| Box::pin(exec::execute(session, tx))))
    }

    fn gate_changes(&self) -> BoxFuture<'_, String> {
        Box::pin(self.notifications.next())
    }
}

impl CredentialQueries for PostgresStore {
    fn credentials(&self, filter: CredentialFilter) -> BoxFuture<'_, Result<Vec<Credential>, TxError>> {
        Box::pin(self.pool.run(move |session| Box::pin(query::credential::credentials(session, filter))))
    }
}

impl Queries for PostgresStore {
    fn registry(&self, provenance_code: &str) -> BoxFuture<'_, Result<Option<RegisteredProvenance>, TxError>> {
        let code = provenance_code.to_owned();
        Box::pin(self.readers.run(move |session| Box::pin(query::registry::read(session, code))))
    }

    fn dictionary(&self) -> BoxFuture<'_, Result<Vec<DictType>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(query::dictionary::read(session))))
    }

    fn snapshot(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, TxError>> {
        let hash = hash.to_owned();
        Box::pin(self.readers.run(move |session| Box::pin(query::snapshot(session, hash))))
    }

    fn screen(
        &self,
        stream: &RecordStream,
        candidates: &[DetailCandidate],
    ) -> BoxFuture<'_, Result<Vec<DetailCandidate>, TxError>> {
        let (stream, candidates) = (stream.clone(), candidates.to_vec());
        Box::pin(self.readers.run(move |session| Box::pin(exec::candidate::screen(session, stream, candidates))))
    }

    fn ids_to_refresh(
        &self,
        stream: &RecordStream,
        wanted: &RefreshCriteria,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        let (stream, wanted, range, after) = (stream.clone(), wanted.clone(), range.clone(), after.map(str::to_owned));
        Box::pin(
            self.readers
                .run(move |session| Box::pin(exec::segment::wanted(session, stream, wanted, range, after, limit))),
        )
    }

    fn stored(&self, stream: &RecordStream, keys: &[String]) -> BoxFuture<'_, Result<Vec<StoredVersion>, TxError>> {
        let (stream, keys) = (stream.clone(), keys.to_vec());
        Box::pin(self.readers.run(move |session| Box::pin(query::stored(session, stream, keys))))
    }

    fn evidence(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<BatchEvidence>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(query::evidence::evidence(session, run, batch_no))))
    }

    fn raw(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<StoredRawResponse>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(query::raw(session, run, batch_no))))
    }

    fn lineage(&self, plan: PlanId, batches: BatchPage) -> BoxFuture<'_, Result<Option<PlanLineage>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(query::lineage::lineage(session, plan, batches))))
    }

    fn progress(&self, public_id: &str) -> BoxFuture<'_, Result<Option<JobProgress>, TxError>> {
        let public_id = public_id.to_owned();
        Box::pin(self.readers.run(move |session| Box::pin(query::progress::progress(session, public_id))))
    }

    fn key(&self, prefix: &str) -> BoxFuture<'_, Result<Option<StoredApiKey>, TxError>> {
        let prefix = prefix.to_owned();
        Box::pin(self.readers.run(move |session| Box::pin(query::key(session, prefix))))
    }

    fn list(&self, view: View, filter: ViewFilter) -> BoxFuture<'_, Result<Vec<ViewRow>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(query::list::list(session, view, filter))))
    }

    fn load(&self) -> BoxFuture<'_, Result<StoreLoad, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(query::load::read(session))))
    }

    fn next_due(&self) -> BoxFuture<'_, Result<NextDue, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(query::next_due::read(session))))
    }

    fn ping(&self) -> BoxFuture<'_, Result<u32, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(query::ping(session))))
    }
}
