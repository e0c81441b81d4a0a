//! The ports: interfaces that the engine needs from the outside. Object-safe, batch-shaped, commands apart from
//! queries, so that a read-only interface is given nothing that can write.

pub mod board;
pub mod crawl;
pub mod credential;
pub mod load;
pub mod next_due;
pub mod notifier;
pub mod pool;
pub mod query;
pub mod scan;
pub mod signer;
pub mod source;
pub mod transport;
mod view;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::time::Ts;
use crate::tx::{Done, Tx, TxError, TxOperation};

pub use board::BoardQueries;
pub use crawl::CrawlQueries;
pub use credential::CredentialQueries;
pub use notifier::Notifier;
pub use pool::PoolQueries;
pub use query::Queries;
pub use scan::Scan;
pub use signer::Signer;
pub use source::SourceQueries;
pub use transport::Transport;

/// A boxed future, so that ports can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The wall clock. Leases use the database's clock instead.
pub trait Clock: fmt::Debug + Send + Sync {
    fn now(&self) -> Ts;

    /// A clock that runs evenly and never steps, for timers and for leases as this process sees them. It equals `now`
    /// at the start of the process and may differ from it later.
    fn steady(&self) -> Ts {
        self.now()
    }
}

/// Randomness good enough for secrets.
pub trait Entropy: fmt::Debug + Send + Sync {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String>;
}

/// The command side of a store: each value of [`Tx`] is one transaction, with the same meaning in every store.
///
/// An implementation runs the transaction to its end even when the returned future is dropped: a caller that gives up
/// must not leave half a transaction behind.
pub trait Commands: fmt::Debug + Send + Sync {
    fn execute(&self, tx: Tx) -> BoxFuture<'_, Result<Done, TxError>>;

    /// The next key of the rate gate that was slowed down or silenced by any process; empty for all keys. A store of
    /// one process never reports any.
    fn gate_changes(&self) -> BoxFuture<'_, String> {
        Box::pin(std::future::pending())
    }
}

/// Both sides of one store, and access to its sealed data.
pub trait Store:
    Commands + Queries + CredentialQueries + SourceQueries + CrawlQueries + PoolQueries + BoardQueries
{
}

impl<T: Commands + Queries + CredentialQueries + SourceQueries + CrawlQueries + PoolQueries + BoardQueries> Store
    for T
{
}

/// Runs one operation and returns its own result type.
pub trait CommandsExt: Commands {
    fn run<O: TxOperation>(&self, operation: O) -> impl Future<Output = Result<O::Done, TxError>> + Send {
        let done = self.execute(operation.into());
        async move { O::from_done(done.await?) }
    }
}

impl<T: Commands + ?Sized> CommandsExt for T {}
