//! The shared contract of the stores, and random sequences compared with its model.

use std::sync::{Arc, Mutex};

use patra_store_postgres::{Options, PostgresStore};
use patra_testkit::contract::{Subject, differential, run_case};
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
    let Some(first) = database() else { return };
    let seeds = std::env::var("PATRA_TEST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let databases = Mutex::new(vec![first]);
    let make = async || {
        let next = database().expect("a server");
        let made = subject(&next).await;
        databases.lock().expect("the list").push(next);
        made
    };
    differential(make, 0..seeds).await;
}
