use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use patra_core::tx::{CreateKey, FiredDue, KeyCreated, KeyRevoked, KeyScope, RevokeKey, Sweep};
use patra_testkit::ManualClock;
use rusqlite::params;
use tempfile::TempDir;

use super::*;
use crate::error::Error;
use crate::{Options, connect};

thread_local! {
    /// Number of operations that ran.
    static CARRIED_OUT: Cell<u32> = const { Cell::new(0) };
}

/// A store of names instead of the real operations: creating inserts a name, revoking misbehaves as requested.
fn toy(db: &Connection, tx: &Tx, now: Ts) -> Result<Done> {
    CARRIED_OUT.set(CARRIED_OUT.get() + 1);
    match tx {
        Tx::RevokeKey(op) if op.prefix == "fenced" => Err(Error::Tx(TxError::Fenced)),
        Tx::CreateKey(op) => {
            db.execute("INSERT INTO name VALUES (?1, ?2)", params![op.name, now.micros()])?;
            Ok(Done::CreateKey(KeyCreated { created: true }))
        }
        Tx::RevokeKey(op) => {
            db.execute("INSERT INTO name VALUES (?1, 0)", [&op.prefix])?;
            match &*op.prefix {
                "panic" => panic!("on purpose"),
                "fail" => Err(Error::Tx(TxError::Conflict)),
                _ => Ok(Done::RevokeKey(KeyRevoked { revoked: true })),
            }
        }
        _ => Ok(Done::FireDue(FiredDue { fired: 0, next_due: None, now })),
    }
}

fn options(folder: &TempDir) -> Options {
    let mut options = Options::new(folder.path().join("patra.db"), Arc::new(ManualClock::default()));
    options.busy_timeout = Duration::from_millis(50);
    options
}

fn connection(folder: &TempDir) -> Connection {
    let connection = connect::writer(&options(folder)).unwrap();
    connection.execute_batch("CREATE TABLE IF NOT EXISTS name (name TEXT PRIMARY KEY, at INTEGER)").unwrap();
    connection
}

fn start(folder: &TempDir, clock: Arc<ManualClock>) -> io::Result<Writer> {
    let operations = Operations { execute: toy, follow: |_, _| Ok(()), saw: |_, _| Ok(()) };
    Writer::start(connection(folder), Arc::new(StoreClock::new(clock, None)), operations)
}

fn create(name: &str) -> Tx {
    let key = CreateKey {
        prefix: String::new(),
        hash: String::new(),
        name: name.into(),
        scope: KeyScope::Read,
        projects: Vec::new(),
        shared: false,
        only_first: false,
    };
    key.into()
}

fn revoke(prefix: &str) -> Tx {
    RevokeKey { prefix: prefix.into() }.into()
}

fn names(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT name FROM name ORDER BY name").unwrap();
    statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn commit(connection: &Connection, operations: &[Tx]) -> Vec<Result<Done, TxError>> {
    group::commit(connection, operations.iter(), toy, &mut || Ts::from_secs(1))
}

#[test]
fn short_operations_do_not_wait_for_long_ones_twice() {
    let (sender, waiting) = channel();
    let room = Arc::new(Semaphore::new(100));
    let send = |tx: Tx| {
        let room = Arc::clone(&room).try_acquire_owned().unwrap();
        sender.send(Job { tx, reply: oneshot::channel().0, _room: room }).unwrap();
    };
    let long =
        || Tx::from(Sweep { limit: 5_000, max_attempts: 1, all_owners: false, longest_lease: Duration::from_secs(60) });
    let mut backlog = Backlog::default();
    let mut next = || -> Vec<String> { backlog.next(&waiting).iter().map(|job| job.tx.name().to_owned()).collect() };
    for tx in [long(), create("a"), long(), revoke("b")] {
        send(tx);
    }
    assert_eq!(next(), ["CreateKey", "RevokeKey"], "the short ones first");
    send(create("c"));
    send(long());
    assert_eq!(next(), ["Sweep", "Sweep"], "then everybody, in order, as many as fit");
    assert_eq!(next(), ["CreateKey"]);
    assert_eq!(next(), ["Sweep"]);
    assert!(backlog.is_empty());
}

#[test]
fn failing_or_panicking_operation_is_rolled_back_alone() {
    let folder = tempfile::tempdir().unwrap();
    let connection = connection(&folder);
    let answers = commit(&connection, &[create("a"), revoke("fail"), create("a"), revoke("panic"), create("b")]);
    assert!(answers[0].is_ok() && answers[4].is_ok());
    assert_eq!(answers[1], Err(TxError::Conflict));
    assert!(matches!(&answers[2], Err(TxError::Refused(reason)) if reason.contains("UNIQUE")), "{:?}", answers[2]);
    assert!(matches!(&answers[3], Err(TxError::Refused(reason)) if reason.contains("on purpose")), "{:?}", answers[3]);
    assert_eq!(names(&options(&folder).path), ["a", "b"]);
}

#[test]
fn operation_failing_before_a_write_does_not_repeat_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let connection = connection(&folder);
    let answers = commit(&connection, &[create("a"), revoke("fenced"), create("b")]);
    assert_eq!((answers[0].is_ok(), &answers[1], answers[2].is_ok()), (true, &Err(TxError::Fenced), true));
    assert_eq!((names(&options(&folder).path), CARRIED_OUT.get()), (vec!["a".into(), "b".into()], 3));
}

#[test]
fn failed_single_operation_leaves_no_open_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let connection = connection(&folder);
    assert_eq!(commit(&connection, &[revoke("fail")]), [Err(TxError::Conflict)]);
    assert!(matches!(commit(&connection, &[revoke("panic")])[0], Err(TxError::Refused(_))));
    assert!(connection.is_autocommit());
    assert!(commit(&connection, &[revoke("fine")])[0].is_ok());
    assert_eq!(names(&options(&folder).path), ["fine"]);
}

#[test]
fn operations_are_busy_while_another_program_writes() {
    let folder = tempfile::tempdir().unwrap();
    let connection = connection(&folder);
    let other = Connection::open(options(&folder).path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(commit(&connection, &[create("a"), create("b")]), [Err(TxError::Busy), Err(TxError::Busy)]);
    other.execute_batch("ROLLBACK").unwrap();
    assert!(commit(&connection, &[create("a")])[0].is_ok());
}

#[test]
fn full_disk_fails_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let connection = connection(&folder);
    // Not one page more than needed.
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    connection.pragma_update(None, "max_page_count", pages).unwrap();
    let answers = commit(&connection, &[create("a"), create(&"x".repeat(100_000)), create("b")]);
    let applied: Vec<_> = names(&options(&folder).path);
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), applied.len(), "{answers:?} {applied:?}");
    assert!(matches!(answers[1], Err(TxError::Unavailable(_))), "{:?}", answers[1]);
    assert!(connection.is_autocommit());
}

#[tokio::test]
async fn operation_runs_although_its_caller_was_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let writer = start(&folder, Arc::default()).unwrap();
    for name in ["a", "b", "c"] {
        let mut given_up = Box::pin(writer.execute(create(name)));
        // Polled once, so it is submitted.
        let _ = std::future::poll_fn(|context| std::task::Poll::Ready(given_up.as_mut().poll(context))).await;
        drop(given_up);
    }
    drop(writer);
    assert_eq!(names(&options(&folder).path), ["a", "b", "c"]);
}

#[tokio::test]
async fn time_never_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Ts::from_secs(100)));
    let writer = start(&folder, clock.clone()).unwrap();
    let now = async || match writer.execute(patra_core::tx::FireDue { limit: 1 }.into()).await {
        Ok(Done::FireDue(done)) => done.now,
        other => panic!("{other:?}"),
    };
    assert_eq!(now().await, Ts::from_secs(100));
    clock.set(Ts::from_secs(50));
    assert_eq!(now().await, Ts::from_secs(100));
    clock.set(Ts::from_secs(101));
    assert_eq!(now().await, Ts::from_secs(101));
}

// Reliability class 20.
#[tokio::test]
async fn the_wal_stays_small_under_writes_and_is_emptied_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let wal = folder.path().join("patra.db-wal");
    let writer = start(&folder, Arc::default()).unwrap();
    let mut largest = 0;
    for turn in 0..60 {
        writer.execute(create(&format!("{turn:04}{}", "x".repeat(1_000_000)))).await.unwrap();
        largest = largest.max(wal.metadata().unwrap().len());
    }
    // 60 MB were written; from 16 MiB on they are copied, and at 32 MiB the writer waits for the copy.
    assert!(largest < 36 * 1_024 * 1_024, "{largest}");
    drop(writer);
    assert!(!wal.exists() || wal.metadata().unwrap().len() == 0);
}

#[tokio::test]
async fn slow_reader_blocks_nothing_and_the_wal_shrinks_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let wal = folder.path().join("patra.db-wal");
    let writer = start(&folder, Arc::default()).unwrap();
    writer.execute(create("before")).await.unwrap();
    let reader = Connection::open(options(&folder).path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM name").unwrap();
    for turn in 0..50 {
        writer.execute(create(&format!("{turn:04}{}", "x".repeat(1_000_000)))).await.unwrap();
    }
    assert!(wal.metadata().unwrap().len() > 32 * 1_024 * 1_024, "pages that the reader may still need are kept");
    drop(reader);
    let emptied = async {
        while wal.metadata().unwrap().len() > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), emptied).await.unwrap();
}
