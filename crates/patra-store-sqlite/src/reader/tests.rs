use std::sync::Arc;

use patra_testkit::ManualClock;
use tempfile::TempDir;

use super::*;

/// A query that counts for a very long time.
const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n LIMIT 1";

fn reader(timeout: Duration) -> (TempDir, SqliteReader) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::new(folder.path().join("patra.db"), Arc::new(ManualClock::default()));
    options.readers = 1;
    options.query_timeout = timeout;
    connect::writer(&options).unwrap().execute_batch("CREATE TABLE t (x INTEGER)").unwrap();
    let reader = SqliteReader::open(&options, Arc::new(StoreClock::new(options.clock.clone(), None))).unwrap();
    (folder, reader)
}

async fn endless(reader: &SqliteReader) -> Result<i64, TxError> {
    reader.read(|db| Ok(db.query_row(ENDLESS, (), |row| row.get(0))?)).await
}

async fn one(reader: &SqliteReader) -> Result<i64, TxError> {
    reader.read(|db| Ok(db.query_row("SELECT 1", (), |row| row.get(0))?)).await
}

#[tokio::test]
async fn slow_query_is_cancelled_and_its_connection_reused() {
    let (_folder, reader) = reader(Duration::from_millis(50));
    assert!(matches!(endless(&reader).await, Err(TxError::Unavailable(_))));
    assert_eq!(one(&reader).await, Ok(1));
}

#[tokio::test]
async fn dropped_query_is_cancelled() {
    let (_folder, reader) = reader(Duration::from_secs(60));
    let gone = tokio::time::timeout(Duration::from_millis(50), endless(&reader)).await;
    assert!(gone.is_err());
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), one(&reader)).await, Ok(Ok(1)));
}

#[tokio::test]
async fn panicking_query_returns_its_connection() {
    let (_folder, reader) = reader(Duration::from_secs(60));
    let panicked = reader.read(|_| -> Result<i64> { panic!("on purpose") }).await;
    assert!(matches!(panicked, Err(TxError::Refused(_))), "{panicked:?}");
    assert_eq!(one(&reader).await, Ok(1));
}

#[tokio::test]
async fn a_reader_cannot_write() {
    let (_folder, reader) = reader(Duration::from_secs(60));
    let refused = reader.read(|db| Ok(db.execute("INSERT INTO t VALUES (1)", ())?)).await;
    assert!(matches!(refused, Err(TxError::Unavailable(_))), "{refused:?}");
}
