//! Opening: one process at a time, clear refusals, readers alongside the owner.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use patra_core::port::{Clock, Commands, Queries};
use patra_core::tx::{CreateKey, Done, FireDue, KeyScope};
use patra_store_sqlite::{OpenError, Options, SqliteStore};
use patra_testkit::ManualClock;
use patra_testkit::contract::make;

fn options(folder: &Path) -> Options {
    Options::new(folder.join("patra.db"), Arc::new(ManualClock::default()))
}

fn key(prefix: &str) -> CreateKey {
    CreateKey {
        prefix: prefix.into(),
        hash: "h".into(),
        name: "n".into(),
        scope: KeyScope::Admin,
        projects: Vec::new(),
        shared: false,
        only_first: false,
    }
}

#[tokio::test]
async fn second_owner_is_refused_with_the_pid_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let first = SqliteStore::open(&options(folder.path())).unwrap();
    let clone = first.clone();
    let refused = SqliteStore::open(&options(folder.path())).unwrap_err();
    assert!(refused.to_string().contains(&format!("pid {}", std::process::id())), "{refused}");
    drop(first);
    assert!(SqliteStore::open(&options(folder.path())).is_err(), "a clone still holds it");
    drop(clone);
    let second = SqliteStore::open(&options(folder.path())).unwrap();
    assert_eq!(second.ping().await, Ok(1));
}

#[tokio::test]
async fn writes_are_visible_after_reopening_and_to_readers_of_an_owned_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&options(folder.path())).unwrap();
    store.execute(key("one").into()).await.unwrap();
    let reader = SqliteStore::open_read_only(&options(folder.path())).unwrap();
    assert!(reader.key("one").await.unwrap().is_some());
    store.execute(key("two").into()).await.unwrap();
    assert!(reader.key("two").await.unwrap().is_some(), "a reader sees commits after it was opened");
    drop((store, reader));

    let alone = SqliteStore::open_read_only(&options(folder.path())).unwrap();
    assert!(alone.key("two").await.unwrap().is_some());
    drop(alone);
    let store = SqliteStore::open(&options(folder.path())).unwrap();
    assert!(store.key("one").await.unwrap().is_some());
}

#[test]
fn foreign_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let missing = SqliteStore::open_read_only(&options(folder.path())).unwrap_err();
    assert!(matches!(missing, OpenError::Missing { .. }), "{missing}");
    assert!(!folder.path().join("patra.db").exists(), "asking must not make the file");

    fs::write(folder.path().join("patra.db"), "this is a text and not a database, whatever it is called").unwrap();
    let text = SqliteStore::open(&options(folder.path())).unwrap_err();
    assert!(matches!(text, OpenError::NotADatabase { .. }), "{text}");

    fs::write(folder.path().join("file"), "").unwrap();
    let folder = SqliteStore::open(&options(&folder.path().join("file"))).unwrap_err();
    assert!(matches!(folder, OpenError::FolderNotCreatable { .. }), "{folder}");
}

/// Opens the store with this clock, and returns how long its schedule waits.
async fn schedule_waits(folder: &Path, clock: &Arc<ManualClock>) -> (SqliteStore, Duration) {
    let store = SqliteStore::open(&Options::new(folder.join("patra.db"), clock.clone())).expect("a store");
    let due = store.next_due().await.expect("due times");
    (store, due.schedule.map_or(Duration::ZERO, |at| at.since(due.now)))
}

#[tokio::test]
async fn clock_that_was_set_back_before_the_start_delays_nothing() {
    const HOUR: i64 = 3_600_000_000;
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    let every = Duration::from_secs(100);
    let (store, _) = schedule_waits(folder.path(), &clock).await;
    store.execute(make::provenance("h", &[(make::ENDPOINT, Some(every))]).into()).await.unwrap();
    clock.advance(Duration::from_secs(10));
    drop(store);
    clock.step(-HOUR);
    let (store, waits) = schedule_waits(folder.path(), &clock).await;
    assert_eq!(waits, Duration::from_secs(90));

    // Killed: it remembers less exactly.
    clock.advance(Duration::from_secs(3));
    store.execute(key("one").into()).await.unwrap();
    let copy = tempfile::tempdir().unwrap();
    for name in ["patra.db", "patra.db-wal"] {
        fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    clock.step(-HOUR);
    let (killed, waits) = schedule_waits(copy.path(), &clock).await;
    assert!(waits <= Duration::from_secs(90) && waits >= Duration::from_secs(87), "{waits:?}");

    // A clock that is ahead at the start looks like time that passed.
    drop(killed);
    clock.step(3 * HOUR);
    let (_, waits) = schedule_waits(copy.path(), &clock).await;
    assert_eq!(waits, Duration::ZERO);
}

#[tokio::test]
async fn reader_and_writer_have_one_time() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    let store = SqliteStore::open(&Options::new(folder.path().join("patra.db"), clock.clone())).unwrap();
    let written = async || match store.execute(FireDue { limit: 1 }.into()).await.unwrap() {
        Done::FireDue(fired) => fired.now,
        other => panic!("{other:?}"),
    };
    for step in [-3_600_000_000, 7_200_000_000, -3_600_000_000] {
        let before = written().await;
        clock.step(step);
        for seconds in 1..=70 {
            clock.advance(Duration::from_secs(1));
            let read = store.next_due().await.unwrap().now;
            // The writer may follow the step now, the reader after it.
            let (now, again) = (written().await, store.next_due().await.unwrap().now);
            assert_eq!(now, again);
            assert!(read == now || now == clock.now(), "{read:?} {now:?}");
            if seconds == 1 {
                assert_eq!(read, before + Duration::from_secs(1), "a step is not followed at once");
            }
        }
        assert_eq!(written().await, clock.now(), "but when it lasts");
    }
}
