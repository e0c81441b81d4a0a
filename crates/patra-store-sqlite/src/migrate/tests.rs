use std::thread;
use std::time::Duration;

use patra_testkit::ManualClock;

use super::*;

fn first() -> Migration {
    Migration { version: 1, name: "one", sql: "CREATE TABLE one (x INTEGER)" }
}

// Reliability class 25.
#[test]
fn concurrent_starts_on_an_empty_file_all_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("patra.db");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut connection = Connection::open(&path).unwrap();
                connection.busy_timeout(Duration::from_secs(30)).unwrap();
                run(&mut connection, &ManualClock::default()).unwrap();
                check(&connection).unwrap();
            });
        }
    });
    let connection = Connection::open(&path).unwrap();
    let count: u32 = connection.query_row("SELECT count(*) FROM patra_migration", (), |row| row.get(0)).unwrap();
    assert_eq!(count, newest());
}

#[test]
fn failed_migration_is_rolled_back_and_earlier_ones_stay() {
    let mut connection = Connection::open_in_memory().unwrap();
    let broken =
        Migration { version: 2, name: "two", sql: "CREATE TABLE two (x INTEGER); CREATE TABLE one (x INTEGER)" };
    let refused = run_all(&mut connection, &ManualClock::default(), &[first(), broken]).unwrap_err();
    assert!(matches!(refused, Error::Sqlite(_)), "{refused:?}");
    assert_eq!(applied(&connection).unwrap().len(), 1);
    assert!(connection.prepare("SELECT * FROM two").is_err());
}

#[test]
fn newer_schema_edited_file_and_foreign_database_have_different_errors() {
    let mut connection = Connection::open_in_memory().unwrap();
    let clock = ManualClock::default();
    let second = Migration { version: 2, name: "two", sql: "CREATE TABLE two (x INTEGER)" };
    run_all(&mut connection, &clock, &[first(), second]).unwrap();
    let newer = run_all(&mut connection, &clock, &[first()]).unwrap_err();
    assert!(matches!(newer, Error::Newer { found: 2 }), "{newer:?}");
    assert!(newer.at(Path::new("x.db")).to_string().contains("its schema is 2, this program knows 1"));

    let edited = Migration { sql: "CREATE TABLE one (y INTEGER)", ..first() };
    let changed = run_all(&mut connection, &clock, &[edited]).unwrap_err();
    assert!(matches!(changed, Error::Changed { version: 1 }), "{changed:?}");

    let mut foreign = Connection::open_in_memory().unwrap();
    foreign.execute_batch("CREATE TABLE moz_places (id INTEGER)").unwrap();
    assert!(matches!(run(&mut foreign, &clock), Err(Error::Foreign)));
}

#[test]
fn migrations_are_numbered_without_gaps() {
    let versions: Vec<_> = MIGRATIONS.iter().map(|migration| migration.version).collect();
    assert_eq!(versions, (1..=newest()).collect::<Vec<_>>());
}
