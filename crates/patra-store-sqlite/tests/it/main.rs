//! The store as others see it: the shared contract, and what is SQLite's own about opening and closing.

mod load;
mod open;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use patra_store_sqlite::{Options, SqliteStore};
use patra_testkit::ManualClock;
use patra_testkit::contract::{Subject, Time, run_all};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let count = AtomicUsize::new(0);
    run_all(async || {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let clock = Arc::new(ManualClock::default());
        let path = folder.path().join(format!("{number}/patra.db"));
        let store = SqliteStore::open(Options::new(path, clock.clone())).unwrap();
        Subject { store: Arc::new(store), time: Time::Manual(clock) }
    })
    .await;
}
