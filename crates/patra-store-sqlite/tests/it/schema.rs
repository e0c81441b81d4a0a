//! The catalogue of a new database: the tables, columns, keys, words and indexes that the requirements name.

use std::sync::Arc;

use patra_store_sqlite::{Options, SqliteStore};
use patra_testkit::ManualClock;
use patra_testkit::schema::{
    CRAWLER, CURSORS, Catalogue, Column, Index, JOBS, PLANS, POOL, RUNS, TASKS, check, check_generated,
};
use rusqlite::Connection;

/// The first column of every row, as text.
fn texts(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map((), |row| row.get::<_, Option<String>>(0)).unwrap();
    rows.map(|text| text.unwrap().unwrap_or_default()).collect()
}

fn catalogue(db: &Connection) -> Catalogue {
    let mut catalogue = Catalogue::default();
    for table in texts(db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'") {
        let mut columns = db.prepare("SELECT name, \"notnull\", pk, hidden FROM pragma_table_xinfo(?1)").unwrap();
        let column = |row: &rusqlite::Row<'_>| {
            let (required, key, hidden): (bool, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
            let (table, name) = (table.clone(), row.get(0)?);
            Ok(Column { table, name, required: required || key > 0, generated: hidden != 0 })
        };
        catalogue.columns.extend(columns.query_map([&table], column).unwrap().map(Result::unwrap));
        let mut indexes = db.prepare("SELECT name, \"unique\", partial FROM pragma_index_list(?1)").unwrap();
        let index = |row: &rusqlite::Row<'_>| {
            let (table, name): (_, String) = (table.clone(), row.get(0)?);
            let columns = texts(db, &format!("SELECT name FROM pragma_index_info('{name}') ORDER BY seqno"));
            Ok(Index { table, name, unique: row.get(1)?, partial: row.get(2)?, columns })
        };
        catalogue.indexes.extend(indexes.query_map([&table], index).unwrap().map(Result::unwrap));
        for sql in texts(db, &format!("SELECT sql FROM sqlite_schema WHERE name = '{table}'")) {
            for check in sql.split("CHECK (").skip(1) {
                let Some((column, list)) = check.split_once(" IN (") else { continue };
                let list = list.split(')').next().unwrap_or_default();
                let words = list.split(", ").filter_map(|word| word.strip_prefix('\'')?.strip_suffix('\''));
                catalogue.words.extend(words.map(|word| (table.clone(), column.to_owned(), word.to_owned())));
            }
        }
    }
    catalogue
}

fn new_catalogue() -> Catalogue {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("patra.db");
    let store = SqliteStore::open(&Options::new(&path, Arc::new(ManualClock::default()))).unwrap();
    let found = catalogue(&Connection::open(&path).unwrap());
    drop(store);
    found
}

// covers: ING-7.1-02, ING-7.1-04, ING-7.11-02
#[test]
fn a_job_has_its_columns_and_index() {
    check(&new_catalogue(), JOBS);
}

// covers: ING-7.2-01, ING-7.2-02, ING-7.2-03, ING-7.2-05, ING-7.3-02, ING-7.3-04, ING-7.11-02, ING-7.12-01, ING-7.12-02
#[test]
fn plans_and_slices_have_their_columns_words_and_keys() {
    check(&new_catalogue(), PLANS);
}

// covers: ING-5.6-04, ING-7.4-02, ING-7.4-03, ING-7.4-04, ING-7.4-05, ING-7.11-01, ING-7.11-02, ING-7.11-04
// covers: ING-7.12-03, ING-13.3-08
#[test]
fn tasks_have_their_columns_words_key_and_indexes() {
    check(&new_catalogue(), TASKS);
}

// covers: ING-7.5-02, ING-7.5-03, ING-7.5-04, ING-7.6-03, ING-7.10-02, ING-7.11-02, ING-7.12-04
#[test]
fn runs_and_batches_have_their_columns_words_and_keys() {
    check(&new_catalogue(), RUNS);
}

// covers: ING-7.7-01, ING-7.7-02, ING-7.7-03, ING-7.8-04, ING-7.11-02, ING-7.11-03, ING-7.12-04, ING-0.2-09
#[test]
fn cursors_and_events_have_their_columns_words_keys_and_indexes() {
    check(&new_catalogue(), CURSORS);
}

// covers: CRAWL-DAY1-1, CRAWL-FIX-1, CRAWL-25, CRAWL-32, CRAWL-43, CRAWL-49, CRAWL-GAP-10
#[test]
fn the_tables_of_the_crawler_have_their_columns_words_keys_and_indexes() {
    check(&new_catalogue(), CRAWLER);
}

// covers: POOL-100, POOL-101, POOL-102, POOL-103, POOL-104, POOL-105, POOL-106, POOL-107, POOL-108, POOL-110
#[test]
fn the_tables_of_the_pool_have_their_columns_keys_and_indexes() {
    check(&new_catalogue(), POOL);
}

// covers: ING-13.3-01
#[test]
fn no_column_is_generated() {
    check_generated(&new_catalogue());
}
