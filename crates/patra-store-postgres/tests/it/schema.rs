//! The catalogue of a new database: the tables, columns, keys, words and indexes that the requirements name.

use patra_testkit::schema::{
    CRAWLER, CURSORS, Catalogue, Column, Index, JOBS, PLANS, POOL, RUNS, TASKS, check, check_generated,
};
use tokio::sync::OnceCell;
use tokio_postgres::Client;

use crate::support::Schema;

const COLUMNS: &str = "
SELECT c.relname::text, a.attname::text, a.attnotnull, a.attgenerated <> ''
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped";

const INDEXES: &str = "
SELECT t.relname::text, i.relname::text, x.indisunique, x.indpred IS NOT NULL,
  ARRAY(SELECT coalesce(a.attname::text, '')
        FROM unnest(x.indkey::int2[]) WITH ORDINALITY k(number, place)
        LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number AND k.number > 0
        WHERE k.place <= x.indnkeyatts
        ORDER BY k.place)
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
WHERE t.relnamespace = to_regnamespace($1)";

// A list of words, for one column.
const WORDS: &str = "
SELECT t.relname::text, a.attname::text, pg_get_constraintdef(c.oid)
FROM pg_constraint c
JOIN pg_class t ON t.oid = c.conrelid
JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.conkey[1]
WHERE t.relnamespace = to_regnamespace($1) AND c.contype = 'c' AND cardinality(c.conkey) = 1";

async fn catalogue(client: &Client, schema: &str) -> Catalogue {
    let mut catalogue = Catalogue::default();
    for row in client.query(COLUMNS, &[&schema]).await.expect("columns") {
        let (table, name, required, generated) = (row.get(0), row.get(1), row.get(2), row.get(3));
        catalogue.columns.push(Column { table, name, required, generated });
    }
    for row in client.query(INDEXES, &[&schema]).await.expect("indexes") {
        let (table, name, unique, partial, columns) = (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4));
        catalogue.indexes.push(Index { table, name, unique, partial, columns });
    }
    for row in client.query(WORDS, &[&schema]).await.expect("checks") {
        let (table, column, check): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let words = check.split('\'').skip(1).step_by(2);
        catalogue.words.extend(words.map(|word| (table.clone(), column.clone(), word.to_owned())));
    }
    catalogue
}

/// The catalogue of a new schema, read once per process. `None` without a server.
async fn new_catalogue() -> Option<&'static Catalogue> {
    static FOUND: OnceCell<Option<Catalogue>> = OnceCell::const_new();
    let read = async || {
        let schema = Schema::new()?;
        let store = schema.open().await;
        let found = catalogue(&schema.client().await, &schema.name).await;
        drop(store);
        Some(found)
    };
    FOUND.get_or_init(read).await.as_ref()
}

// covers: ING-7.1-02, ING-7.1-04, ING-7.11-02
#[tokio::test]
async fn a_job_has_its_columns_and_index() {
    let Some(found) = new_catalogue().await else { return };
    check(found, JOBS);
}

// covers: ING-7.2-01, ING-7.2-02, ING-7.2-03, ING-7.2-05, ING-7.3-02, ING-7.3-04, ING-7.11-02, ING-7.12-01, ING-7.12-02
#[tokio::test]
async fn plans_and_slices_have_their_columns_words_and_keys() {
    let Some(found) = new_catalogue().await else { return };
    check(found, PLANS);
}

// covers: ING-5.6-04, ING-7.4-02, ING-7.4-03, ING-7.4-04, ING-7.4-05, ING-7.11-01, ING-7.11-02, ING-7.11-04
// covers: ING-7.12-03, ING-13.3-08
#[tokio::test]
async fn tasks_have_their_columns_words_key_and_indexes() {
    let Some(found) = new_catalogue().await else { return };
    check(found, TASKS);
}

// covers: ING-7.5-02, ING-7.5-03, ING-7.5-04, ING-7.6-03, ING-7.10-02, ING-7.11-02, ING-7.12-04
#[tokio::test]
async fn runs_and_batches_have_their_columns_words_and_keys() {
    let Some(found) = new_catalogue().await else { return };
    check(found, RUNS);
}

// covers: ING-7.7-01, ING-7.7-02, ING-7.7-03, ING-7.8-04, ING-7.11-02, ING-7.11-03, ING-7.12-04, ING-0.2-09
#[tokio::test]
async fn cursors_and_events_have_their_columns_words_keys_and_indexes() {
    let Some(found) = new_catalogue().await else { return };
    check(found, CURSORS);
}

// covers: CRAWL-DAY1-1, CRAWL-FIX-1, CRAWL-25, CRAWL-32, CRAWL-43, CRAWL-49, CRAWL-GAP-10
#[tokio::test]
async fn the_tables_of_the_crawler_have_their_columns_words_keys_and_indexes() {
    let Some(found) = new_catalogue().await else { return };
    check(found, CRAWLER);
}

// covers: POOL-100, POOL-101, POOL-102, POOL-103, POOL-104, POOL-105, POOL-106, POOL-107, POOL-108, POOL-110
#[tokio::test]
async fn the_tables_of_the_pool_have_their_columns_keys_and_indexes() {
    let Some(found) = new_catalogue().await else { return };
    check(found, POOL);
}

// covers: ING-13.3-01
#[tokio::test]
async fn no_column_is_generated() {
    let Some(found) = new_catalogue().await else { return };
    check_generated(found);
}
