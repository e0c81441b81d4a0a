//! Opening: one process at a time, clear refusals, readers alongside the owner.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use patra_core::port::{Commands, Queries};
use patra_core::tx::{CreateKey, KeyScope};
use patra_store_sqlite::{OpenError, Options, SqliteStore};
use patra_testkit::ManualClock;

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
    let first = SqliteStore::open(options(folder.path())).unwrap();
    let clone = first.clone();
    let refused = SqliteStore::open(options(folder.path())).unwrap_err();
    assert!(refused.to_string().contains(&format!("pid {}", std::process::id())), "{refused}");
    drop(first);
    assert!(SqliteStore::open(options(folder.path())).is_err(), "a clone still holds it");
    drop(clone);
    let second = SqliteStore::open(options(folder.path())).unwrap();
    assert_eq!(second.ping().await, Ok(1));
}

#[tokio::test]
async fn writes_are_visible_after_reopening_and_to_readers_of_an_owned_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(folder.path())).unwrap();
    store.execute(key("one").into()).await.unwrap();
    let reader = SqliteStore::open_read_only(&options(folder.path())).unwrap();
    assert!(reader.key("one").await.unwrap().is_some());
    store.execute(key("two").into()).await.unwrap();
    assert!(reader.key("two").await.unwrap().is_some(), "a reader sees commits after it was opened");
    drop((store, reader));

    let alone = SqliteStore::open_read_only(&options(folder.path())).unwrap();
    assert!(alone.key("two").await.unwrap().is_some());
    drop(alone);
    let store = SqliteStore::open(options(folder.path())).unwrap();
    assert!(store.key("one").await.unwrap().is_some());
}

#[test]
fn foreign_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let missing = SqliteStore::open_read_only(&options(folder.path())).unwrap_err();
    assert!(matches!(missing, OpenError::Missing { .. }), "{missing}");
    assert!(!folder.path().join("patra.db").exists(), "asking must not make the file");

    fs::write(folder.path().join("patra.db"), "this is a text and not a database, whatever it is called").unwrap();
    let text = SqliteStore::open(options(folder.path())).unwrap_err();
    assert!(matches!(text, OpenError::NotADatabase { .. }), "{text}");

    fs::write(folder.path().join("file"), "").unwrap();
    let folder = SqliteStore::open(options(&folder.path().join("file"))).unwrap_err();
    assert!(matches!(folder, OpenError::FolderNotCreatable { .. }), "{folder}");
}
