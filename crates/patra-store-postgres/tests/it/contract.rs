//! The shared contract of the stores, and random sequences compared with its model.

use std::sync::Arc;

use patra_store_postgres::{Options, PostgresStore};
use patra_testkit::contract::{Subject, differential, run_case, seeds};
use patra_testkit::postgres::{Database, ServerTime};

/// A database of its own, with a clock that the test controls.
fn database() -> Option<Database> {
    Database::new(async |url| drop(PostgresStore::open(Options::new(url)).await.expect("migrations")))
}

async fn subject(database: &Database) -> Subject {
    let store = PostgresStore::open(Options::new(database.url_in_test_time())).await.expect("a store");
    Subject { store: Arc::new(store), time: Arc::new(ServerTime::of(database).await) }
}

patra_testkit::contract_tests!(super::keeps);

fn keeps(case: &str) {
    let Some(database) = database() else { return };
    run_case(case, async || subject(&database).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_end_like_the_model() {
    for seed in seeds("PATRA_TEST_SEEDS_POSTGRES", 8) {
        // Dropped before the next is made: a long run has many.
        let Some(database) = database() else { return };
        differential(async || subject(&database).await, [seed]).await;
    }
}
