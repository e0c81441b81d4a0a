use std::sync::Arc;

use patra_core::port::Queries as _;
use patra_testkit::ManualClock;

use super::*;
use crate::{Options, SqliteStore};

fn options(path: &Path) -> Options {
    Options::new(path, Arc::new(ManualClock::default()))
}

/// A database with one row in a table of its own.
fn made(path: &Path, row: &str) {
    drop(SqliteStore::open(&options(path)).unwrap());
    write(path, row);
}

fn write(path: &Path, row: &str) {
    let db = Connection::open(path).unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS precious (x TEXT)").unwrap();
    db.execute("INSERT INTO precious VALUES (?1)", [row]).unwrap();
}

fn rows(path: &Path) -> Vec<String> {
    let db = Connection::open(path).unwrap();
    let mut statement = db.prepare("SELECT x FROM precious ORDER BY x").unwrap();
    statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

// covers: CRAWL-DAY3-4, CRAWL-155
#[test]
fn backup_in_use_restores_and_keeps_the_replaced_database() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("data/patra.db");
    made(&database, "first");
    let store = SqliteStore::open(&options(&database)).unwrap();
    let copy = folder.path().join("copies/one.db");
    let taken = backup(&database, &copy).unwrap();
    assert_eq!((taken.schema_version, &taken.path), (inspect(&copy).unwrap().schema_version, &copy));
    assert!(matches!(backup(&database, &copy), Err(BackupError::Exists { .. })));
    assert!(matches!(
        restore(&database, &copy, Ts::from_secs(0)),
        Err(BackupError::Database(OpenError::Locked { pid: Some(_), .. }))
    ));
    drop(store);
    write(&database, "second");
    let restored = restore(&database, &copy, Ts::from_secs(0)).unwrap();
    assert_eq!(rows(&database), ["first"]);
    let replaced = restored.replaced.unwrap();
    assert!(replaced.ends_with("patra.db.replaced-19700101T000000Z"), "{}", replaced.display());
    assert_eq!(rows(&replaced), ["first", "second"]);
    // A copy is a normal database.
    drop(SqliteStore::open(&options(&database)).unwrap());
    #[cfg(unix)]
    for (path, expected) in [(&database, 0o600), (&copy, 0o600), (&folder.path().join("data"), 0o700)] {
        assert_eq!(mode(path), expected, "{}", path.display());
    }
}

// covers: CRAWL-DAY3-4
#[test]
fn foreign_or_broken_copy_is_refused_without_changes() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("patra.db");
    made(&database, "first");
    let file = |name: &str| folder.path().join(name);
    fs::write(file("text"), "this is no database, however long it may be").unwrap();
    Connection::open(file("foreign")).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    backup(&database, &file("cut")).unwrap();
    let bytes = fs::read(file("cut")).unwrap();
    let middle = bytes.len() / 2;
    let mut torn = bytes.clone();
    torn[middle..middle + 60_000].fill(0x5a);
    fs::write(file("torn"), torn).unwrap();
    fs::write(file("cut"), &bytes[..middle]).unwrap();
    for name in ["text", "foreign", "torn", "cut", "missing"] {
        let refused = restore(&database, &file(name), Ts::from_secs(0)).unwrap_err();
        assert!(refused.to_string().contains(name), "{name}: {refused}");
    }
    assert_eq!(rows(&database), ["first"]);
    assert!(!file("patra.db.restoring").exists());
}

// covers: CRAWL-DAY3-4
#[tokio::test]
async fn migration_of_an_existing_database_starts_with_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("patra.db");
    let backups = folder.path().join(FOLDER);
    // A missing or unchanged database is not copied.
    drop(SqliteStore::open(&options(&database)).unwrap());
    drop(SqliteStore::open(&options(&database)).unwrap());
    assert!(!backups.exists());
    let older = || {
        fs::remove_file(&database).unwrap();
        let db = Connection::open(&database).unwrap();
        db.execute_batch(migrate::tests_only::NO_VERSION).unwrap();
        drop(db);
        write(&database, "older");
    };
    for _ in 0..KEPT + 2 {
        older();
        let store = SqliteStore::open(&options(&database)).unwrap();
        assert_eq!(store.ping().await.unwrap(), 1);
    }
    let mut copies: Vec<_> = fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().path()).collect();
    copies.sort();
    assert_eq!(copies.len(), KEPT, "{copies:?}");
    assert_eq!(inspect(&copies[0]).unwrap().schema_version, 0);
    assert_eq!(rows(&copies[0]), ["older"]);
    // Without room for the copy nothing is migrated, unless the operator overrides it.
    older();
    fs::remove_dir_all(&backups).unwrap();
    fs::write(&backups, "in the way").unwrap();
    let refused = SqliteStore::open(&options(&database)).unwrap_err();
    assert!(matches!(refused, OpenError::NoBackup { .. }), "{refused}");
    assert!(migrate::version(&Connection::open(&database).unwrap()).unwrap() == 0);
    SqliteStore::open(&Options { backup_before_migration: false, ..options(&database) }).unwrap();
}
