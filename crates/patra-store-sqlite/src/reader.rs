//! The read side: a few connections that cannot write, used from blocking threads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use patra_core::Ts;
use patra_core::tx::TxError;
use rusqlite::{Connection, InterruptHandle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::clock::StoreClock;
use crate::error::{OpenError, Result};
use crate::{Options, connect};

/// Read access to a database file, from the process that writes it or from another one. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SqliteReader {
    pool: Arc<Pool>,
    clock: Arc<StoreClock>,
}

#[derive(Debug)]
struct Pool {
    /// One permit per connection: with a permit there is a connection in `idle`.
    room: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
    timeout: Duration,
}

impl SqliteReader {
    pub(crate) fn open(options: &Options, clock: Arc<StoreClock>) -> Result<SqliteReader, OpenError> {
        let count = options.readers.max(1);
        let idle = (0..count).map(|_| connect::reader(options)).collect::<Result<Vec<_>, _>>()?;
        let room = Arc::new(Semaphore::new(count));
        let pool = Arc::new(Pool { room, idle: Mutex::new(idle), timeout: options.query_timeout });
        Ok(SqliteReader { pool, clock })
    }

    pub(crate) fn now(&self) -> Ts {
        self.clock.now()
    }

    /// Runs a query on a free connection. Cancels it when it takes too long or the caller is dropped.
    pub(crate) async fn read<T, Q>(&self, query: Q) -> Result<T, TxError>
    where
        T: Send + 'static,
        Q: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let room = Arc::clone(&self.pool.room).acquire_owned().await;
        let room = room.map_err(|_| TxError::Unavailable("the store is closed".into()))?;
        let borrowed = Borrowed::new(Arc::clone(&self.pool), room);
        let interrupt = borrowed.connection()?.get_interrupt_handle();
        let handle = tokio::task::spawn_blocking(move || {
            let answer = borrowed.connection().and_then(|connection| Ok(query(connection)?));
            (borrowed, answer)
        });
        let mut running = Running { handle, interrupt: Some(interrupt) };
        match tokio::time::timeout(self.pool.timeout, &mut running.handle).await {
            Ok(finished) => {
                // Runs before the connection is returned, so that it cannot interrupt the next query.
                running.interrupt = None;
                finished.map_err(|error| TxError::Refused(format!("a query failed: {error}")))?.1
            }
            Err(_) => Err(TxError::Unavailable(format!("a query took longer than {:?}", self.pool.timeout))),
        }
    }
}

/// A query in progress. Dropping it early cancels the query; the connection goes back to the pool only after that,
/// because it is in the task's result, which lives until `handle` is dropped.
struct Running<T> {
    handle: JoinHandle<T>,
    interrupt: Option<InterruptHandle>,
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if let Some(interrupt) = self.interrupt.take() {
            interrupt.interrupt();
        }
    }
}

/// A connection from the pool; returned on drop.
struct Borrowed {
    connection: Option<Connection>,
    pool: Arc<Pool>,
    _room: OwnedSemaphorePermit,
}

impl Borrowed {
    fn new(pool: Arc<Pool>, room: OwnedSemaphorePermit) -> Borrowed {
        let connection = pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Borrowed { connection, pool, _room: room }
    }

    fn connection(&self) -> Result<&Connection, TxError> {
        self.connection.as_ref().ok_or_else(|| TxError::Refused("the pool of readers is empty".into()))
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let connection = self.connection.take();
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(connection);
    }
}

#[cfg(test)]
mod tests;
