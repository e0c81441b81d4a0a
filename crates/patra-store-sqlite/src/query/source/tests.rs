use patra_testkit::ManualClock;
use rusqlite::StatementStatus;

use super::*;
use crate::{connect, migrate};

const NOW: Ts = Ts::from_secs(1_000_000);

/// A store with so many sources, a hundred of them due.
fn sources(rows: u32) -> Connection {
    let mut db = Connection::open_in_memory().unwrap();
    connect::common(&db).unwrap();
    migrate::run(&mut db, &ManualClock::default()).unwrap();
    db.execute(
        "INSERT INTO source
           (project_key, type, name, config, source_key, is_public, is_active, last_fetched_at, next_due_at, created_at,
            updated_at)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         SELECT 'default', 'rss', i, '{}', i, 1, 1, nullif(i % 10, 0), iif(i <= 100, i, ?2 + i), 0, 0
         FROM n",
        params![rows, NOW.micros()],
    )
    .unwrap();
    db
}

/// Steps of SQLite's virtual machine to find the due sources.
fn steps(rows: u32) -> i32 {
    let db = sources(rows);
    let due = due(&db, 1_000, NOW).unwrap();
    assert_eq!((due.sources.len(), due.next), (100, Some(Ts::from_micros(NOW.micros() + 101))));
    [READ_DUE, READ_NEXT_DUE]
        .map(|sql| db.prepare_cached(sql).unwrap().get_status(StatementStatus::VmStep))
        .into_iter()
        .sum()
}

// covers: COLL-32
#[test]
fn tick_costs_only_due_sources() {
    assert_eq!(steps(1_000), steps(100_000));
}
