//! Load from many writers at once.

use std::sync::Arc;

use patra_core::port::query::{View, ViewFilter};
use patra_core::port::{Commands, Queries};
use patra_core::state::Operation;
use patra_store_sqlite::{Options, SqliteStore};
use patra_testkit::ManualClock;
use patra_testkit::contract::make;
use patra_testkit::cookie_load::{self, WallClock};

// Prints figures. See `patra_testkit::cookie_load`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn cookie_load() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new(folder.path().join("patra.db"), Arc::new(WallClock));
    cookie_load::measure(Arc::new(SqliteStore::open(&options).unwrap())).await;
}

const WRITERS: u32 = 16;
const EACH: u32 = 100;

// Reliability classes 19 and 21.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_and_readers_never_see_a_busy_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("patra.db");
    let store = SqliteStore::open(&Options::new(&path, Arc::new(ManualClock::default()))).unwrap();
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            for turn in 0..EACH {
                let trigger = make::fire(&format!("{writer}-{turn}"), Operation::Harvest);
                store.execute(trigger.into()).await.unwrap();
                store.list(View::Jobs, ViewFilter { limit: 10, ..ViewFilter::default() }).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    drop(store);
    let file = rusqlite::Connection::open(&path).unwrap();
    let count: u32 = file.query_row("SELECT count(*) FROM ing_schedule_instance", (), |row| row.get(0)).unwrap();
    assert_eq!(count, WRITERS * EACH);
    let verdict: String = file.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}
