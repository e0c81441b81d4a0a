//! A schema of its own for each test, dropped when the test ends, even by a panic.

use std::hash::{BuildHasher, Hasher};

use patra_core::port::CommandsExt;
use patra_core::tx::{TxError, TxOperation};
use patra_store_postgres::{Options, PostgresStore};
use tokio_postgres::{Client, NoTls};

/// URL of the server under test, or `None` after a line that says why nothing is tested.
#[expect(clippy::print_stdout, reason = "the test log must show that nothing was tested")]
pub(crate) fn server() -> Option<String> {
    let url = std::env::var("PATRA_TEST_POSTGRES_URL").ok();
    if url.is_none() {
        println!("skipped: PATRA_TEST_POSTGRES_URL is not set");
    }
    url
}

#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) url: String,
    pub(crate) name: String,
}

impl Schema {
    pub(crate) fn new() -> Option<Schema> {
        let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
        server().map(|url| Schema { url, name: format!("patra_test_{random:016x}") })
    }

    pub(crate) fn options(&self) -> Options {
        Options { schema: Some(self.name.clone()), application_name: self.name.clone(), ..Options::new(&self.url) }
    }

    pub(crate) async fn open(&self) -> PostgresStore {
        PostgresStore::open(self.options()).await.expect("a store")
    }

    /// A separate connection, in the same schema.
    pub(crate) async fn client(&self) -> Client {
        let client = connect(&self.url).await;
        client.batch_execute(&format!("SET search_path = {}", self.name)).await.expect("the schema");
        client
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (url, name) = (self.url.clone(), self.name.clone());
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let client = connect(&url).await;
                // A failed test may have left sessions with locks.
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
                client.execute(end, &[&name]).await.expect("sessions to end");
                client.batch_execute(&format!("DROP SCHEMA IF EXISTS {name} CASCADE")).await.expect("a schema to drop");
            });
        });
        dropped.join().expect("the schema to be dropped");
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

pub(crate) async fn run<O: TxOperation>(store: &PostgresStore, operation: O) -> Result<O::Done, TxError> {
    store.run(operation).await
}
