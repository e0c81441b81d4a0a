//! Connection pools. An operation runs to its end, within a deadline, even if its caller is dropped.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use patra_core::port::BoxFuture;
use patra_core::tx::TxError;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, NoTls, Row, Statement};

use crate::Options;
use crate::error::{Fail, Health, Phase, describe, lost, refused};

/// A connection that was idle longer than this is checked before use.
const TRUSTED: Duration = Duration::from_secs(1);
/// Longest time that a live server needs for an empty query or a ROLLBACK.
const QUICK: Duration = Duration::from_secs(2);

/// A transaction that is idle this long belongs to a frozen process. The server ends it, because its locks would keep
/// others from taking over the leases.
const FROZEN: Duration = Duration::from_secs(2);

/// Index scans read in order and stop early. They also mark entries of deleted rows, which would otherwise fill the
/// indexes of a queue: a bitmap scan visits all of them every time.
macro_rules! without_bitmaps {
    () => {
        "; SET LOCAL enable_bitmapscan = off"
    };
}

/// See [`Session::begin_by_key`].
pub(crate) const BEGIN_BY_KEY: &str = concat!(
    "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_hashjoin = off; \
     SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off",
    without_bitmaps!()
);

pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A pool of connections with the limits of every use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pool {
    pool: deadpool_postgres::Pool,
    deadline: Duration,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Access of a pool's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Write,
    /// The server refuses writes.
    Read,
}

impl Pool {
    /// Creates the pool without opening a connection.
    pub(crate) fn new(config: &Config, options: &Options, size: usize, access: Access) -> Result<Pool, String> {
        // Fast recycling checks only the socket; the hook asks the server where that is not enough.
        let manager =
            Manager::from_config(config.clone(), NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let setup = session_setup(options, access);
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(options.acquire_timeout))
            .create_timeout(Some(options.connect_timeout))
            .recycle_timeout(Some(QUICK))
            .post_create(Hook::async_fn(move |client, _| {
                let setup = setup.clone();
                Box::pin(async move { client.batch_execute(&setup).await.map_err(HookError::Backend) })
            }))
            .pre_recycle(Hook::async_fn(|client, metrics| {
                Box::pin(async move {
                    if metrics.last_used() < TRUSTED {
                        return Ok(());
                    }
                    client.check_connection().await.map_err(HookError::Backend)
                })
            }))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Pool { pool, deadline: options.deadline })
    }

    pub(crate) async fn get(&self) -> Result<Object, PoolError> {
        self.pool.get().await
    }

    /// Runs `work` in a task of its own, so that a dropped caller does not interrupt a transaction (class 9).
    pub(crate) async fn run<T, W>(&self, work: W) -> Result<T, TxError>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a Session) -> BoxFuture<'a, Result<T, Fail>> + Send + 'static,
    {
        let pool = self.clone();
        tokio::spawn(async move { pool.run_here(work).await })
            .await
            .unwrap_or_else(|error| Err(TxError::Unknown(format!("an operation did not end: {error}"))))
    }

    async fn run_here<T, W>(self, work: W) -> Result<T, TxError>
    where
        W: for<'a> FnOnce(&'a Session) -> BoxFuture<'a, Result<T, Fail>>,
    {
        let client = self.get().await.map_err(|error| TxError::Unavailable(unavailable(&error)))?;
        let session = Session {
            client: Some(client),
            in_transaction: AtomicBool::new(false),
            commit_sent: AtomicBool::new(false),
        };
        let outcome = tokio::time::timeout(self.deadline, work(&session)).await;
        let (answer, health) = match outcome {
            Ok(Ok(done)) => (Ok(done), Health::Good),
            Ok(Err(fail)) => {
                let (error, health) = fail.settle(session.phase());
                (Err(error), health)
            }
            Err(_) => {
                let message = format!("no answer within {:?}", self.deadline);
                (Err(lost(message, session.phase())), Health::Lost)
            }
        };
        session.release(health).await;
        answer
    }
}

/// Sends several statements in order without waiting for the responses in between. They must be prepared before: a
/// statement that is prepared here would be overtaken by the next.
macro_rules! pipeline {
    ($($statement:expr),+ $(,)?) => { tokio::try_join!(biased; $(async { $statement.await }),+) };
}
pub(crate) use pipeline;

/// Statements without rows are not sent.
pub(crate) async fn unless_empty<W, T: Default>(
    wanted: &[W],
    statement: impl Future<Output = Result<T, Fail>>,
) -> Result<T, Fail> {
    if wanted.is_empty() { Ok(T::default()) } else { statement.await }
}

/// One connection while one operation uses it. It goes back to the pool only by [`Session::release`]: one that is
/// dropped otherwise, as in a panic, may be inside a transaction and is closed.
pub(crate) struct Session {
    client: Option<Object>,
    in_transaction: AtomicBool,
    commit_sent: AtomicBool,
}

impl Session {
    pub(crate) async fn prepare<const N: usize>(&self, sql: [&'static str; N]) -> Result<[Statement; N], Fail> {
        let mut statements = Vec::with_capacity(N);
        for text in sql {
            statements.push(self.client()?.prepare_cached(text).await?);
        }
        statements.try_into().map_err(|_| refused("a statement is missing"))
    }

    /// Begins a transaction. It is pipelined with the statement that locks, so it costs no round trip.
    pub(crate) async fn begin(&self) -> Result<(), Fail> {
        self.begin_with("BEGIN").await
    }

    /// Begins a transaction for up to so many operations on rows named by key. Rows are looked up in an index, however
    /// small the table was when the statement was planned, and the plan is made once. It also is `without_bitmaps!`.
    /// Several operations do not wait long for a lock that one of them may meet: each can be repeated alone.
    pub(crate) async fn begin_by_key(&self, operations: usize) -> Result<(), Fail> {
        const IMPATIENT: &str = "; SET LOCAL lock_timeout = 200";
        let impatient = if operations > 1 { IMPATIENT } else { "" };
        self.begin_with(&format!("{BEGIN_BY_KEY}{impatient}")).await
    }

    /// Begins a transaction that can be derived again from committed data. Its commit returns before it is on disk, so
    /// that waiters for its locks do not wait for the disk. A later commit includes it.
    pub(crate) async fn begin_derived(&self) -> Result<(), Fail> {
        // A separate setting after the start of the transaction.
        self.commit_sent.store(false, Ordering::Relaxed);
        self.begin_with(concat!("BEGIN; SET LOCAL synchronous_commit = off", without_bitmaps!())).await
    }

    /// Begins a snapshot for queries of several statements: all of them see the same time.
    pub(crate) async fn begin_reading(&self) -> Result<(), Fail> {
        self.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await
    }

    /// Begins a snapshot to read the progress of a cursor, `without_bitmaps!`: only the first of the waiting rows is
    /// needed.
    pub(crate) async fn begin_looking_ahead(&self) -> Result<(), Fail> {
        self.begin_with(concat!("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", without_bitmaps!())).await
    }

    async fn begin_with(&self, begin: &str) -> Result<(), Fail> {
        self.in_transaction.store(true, Ordering::Relaxed);
        Ok(self.client()?.batch_execute(begin).await?)
    }

    pub(crate) async fn commit(&self) -> Result<(), Fail> {
        self.commit_sent.store(true, Ordering::Relaxed);
        self.client()?.batch_execute("COMMIT").await?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Sets a savepoint, so that the statements after it can be rolled back alone.
    pub(crate) async fn savepoint(&self) -> Result<(), Fail> {
        Ok(self.client()?.batch_execute("SAVEPOINT here").await?)
    }

    pub(crate) async fn roll_back_to_savepoint(&self) -> Result<(), Fail> {
        Ok(self.client()?.batch_execute("ROLLBACK TO SAVEPOINT here").await?)
    }

    /// Runs a statement that is a whole transaction.
    pub(crate) async fn alone(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>, Fail> {
        self.commit_sent.store(true, Ordering::Relaxed);
        Ok(self.client()?.query(statement, params).await?)
    }

    pub(crate) async fn rows(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>, Fail> {
        Ok(self.client()?.query(statement, params).await?)
    }

    pub(crate) async fn one(&self, statement: &Statement, params: Params<'_>) -> Result<Row, Fail> {
        Ok(self.client()?.query_one(statement, params).await?)
    }

    pub(crate) async fn opt(&self, statement: &Statement, params: Params<'_>) -> Result<Option<Row>, Fail> {
        Ok(self.client()?.query_opt(statement, params).await?)
    }

    /// Returns the number of rows written.
    pub(crate) async fn write(&self, statement: &Statement, params: Params<'_>) -> Result<u64, Fail> {
        Ok(self.client()?.execute(statement, params).await?)
    }

    pub(crate) fn client(&self) -> Result<&Object, Fail> {
        self.client.as_ref().ok_or_else(|| refused("the connection was given back"))
    }

    fn phase(&self) -> Phase {
        if self.commit_sent.load(Ordering::Relaxed) { Phase::CommitSent } else { Phase::Open }
    }

    /// Returns the connection to the pool, but only outside a transaction: if it cannot be rolled back, it is closed.
    async fn release(mut self, health: Health) {
        let is_good = match health {
            Health::Lost => false,
            Health::Good if self.in_transaction.load(Ordering::Relaxed) => self.roll_back().await,
            Health::Good => true,
        };
        if is_good {
            drop(self.client.take());
        }
    }

    async fn roll_back(&self) -> bool {
        let Ok(client) = self.client() else { return false };
        matches!(tokio::time::timeout(QUICK, client.batch_execute("ROLLBACK")).await, Ok(Ok(())))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

/// Settings of every connection. Statements are short and many, so parallel workers cost more than they save. They are
/// set after connecting, not in the start-up packet, where some poolers refuse options.
fn session_setup(options: &Options, access: Access) -> String {
    let millis = |span: Duration| span.as_millis().clamp(1, 2_000_000_000);
    let mut setup = format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; SET jit = off; \
         SET max_parallel_workers_per_gather = 0",
        millis(options.statement_timeout),
        millis(options.lock_timeout),
        millis(options.deadline.min(FROZEN)),
    );
    if access == Access::Read {
        setup.push_str("; SET default_transaction_read_only = on");
    }
    if let Some(schema) = &options.schema {
        setup.push_str(&format!("; SET search_path = {}", quoted(schema)));
    }
    setup
}

/// Quotes a name for SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn unavailable(error: &PoolError) -> String {
    match error {
        PoolError::Timeout(TimeoutType::Wait) => "no connection became free in time".to_owned(),
        PoolError::Timeout(_) => "connecting took too long".to_owned(),
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => describe(error),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-3.7-01, ING-3.8-03, ING-2.2-03
    #[tokio::test]
    async fn a_connection_of_the_query_side_cannot_write() {
        let Ok(url) = std::env::var("PATRA_TEST_POSTGRES_URL") else {
            println!("skipped: PATRA_TEST_POSTGRES_URL is not set");
            return;
        };
        let options = Options::new(&url);
        let pool = Pool::new(&url.parse().unwrap(), &options, 1, Access::Read).unwrap();
        let written = pool
            .run(|session| {
                Box::pin(async {
                    let [statement] = session.prepare(["CREATE TABLE patra_never ()"]).await?;
                    session.write(&statement, &[]).await
                })
            })
            .await;
        let Err(TxError::Unavailable(reason)) = written else { panic!("{written:?}") };
        assert!(reason.contains("read-only"), "{reason}");
    }
}
