//! The ports: what the engine needs from the outside. Object-safe, batch-shaped, commands apart from queries, so that a
//! door that must only read is given nothing that can write.

pub mod ahead;
pub mod board;
pub mod crawl;
pub mod credential;
pub mod load;
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
use crate::tx::{Done, Operation, Tx, TxError};

pub use board::Boards;
pub use crawl::Crawls;
pub use credential::Credentials;
pub use notifier::Notifier;
pub use pool::Pool;
pub use query::Queries;
pub use scan::Scan;
pub use signer::Signer;
pub use source::Sources;
pub use transport::Transport;

/// A boxed future, so that ports can be trait objects.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The wall clock, where one is needed at all. Leases use the database's clock instead.
pub trait Clock: fmt::Debug + Send + Sync {
    fn now(&self) -> Ts;

    /// A time that passes evenly and never steps, for timers and for leases as this process sees them. It equals `now`
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
    fn execute(&self, tx: Tx) -> Boxed<'_, Result<Done, TxError>>;

    /// The next key of the rate gate that has become slower or silent, whoever made it so; empty for all of them. A store of one
    /// process has nothing to tell.
    fn gate_news(&self) -> Boxed<'_, String> {
        Box::pin(std::future::pending())
    }
}

/// Both sides of one store, and the way to what it keeps sealed.
pub trait Store: Commands + Queries + Credentials + Sources + Crawls + Pool + Boards {}

impl<T: Commands + Queries + Credentials + Sources + Crawls + Pool + Boards> Store for T {}

/// Running one operation and getting back its own kind of answer.
pub trait CommandsExt: Commands {
    fn run<O: Operation>(&self, operation: O) -> impl Future<Output = Result<O::Done, TxError>> + Send {
        let answer = self.execute(operation.into());
        async move { O::answer(answer.await?) }
    }
}

impl<T: Commands + ?Sized> CommandsExt for T {}
