//! Reads a store directly, without the program: SQLite's file or PostgreSQL.

use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::support::Workspace;

/// Returns rows of text; NULL becomes an empty text. The statement must mean the same in both dialects.
pub(super) fn rows(place: &Workspace, statement: &str) -> Vec<Vec<String>> {
    let rows = match place.database_url() {
        Some(url) => block_in_place(|| Handle::current().block_on(postgres(&url, statement))),
        None => sqlite(place, statement).map_err(|error| error.to_string()),
    };
    rows.unwrap_or_else(|error| panic!("{statement}: {error}"))
}

/// Whether the database accepts queries.
pub(super) fn answers(place: &Workspace) -> bool {
    let Some(url) = place.database_url() else { return true };
    block_in_place(|| Handle::current().block_on(postgres(&url, "SELECT 1"))).is_ok()
}

fn sqlite(place: &Workspace, statement: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    use rusqlite::types::Value;
    let connection = rusqlite::Connection::open(place.folder.path().join("data/patra.db"))?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    let mut prepared = connection.prepare(statement)?;
    let columns = prepared.column_count();
    let text = |value: Value| match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text,
        Value::Blob(_) => "(bytes)".to_owned(),
    };
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at).map(text)).collect();
    prepared.query_map([], row)?.collect()
}

async fn postgres(url: &str, statement: &str) -> Result<Vec<Vec<String>>, String> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(|error| error.to_string())?;
    let driver = tokio::spawn(connection);
    let messages = client.simple_query(statement).await.map_err(|error| format!("{error:?}"));
    drop(client);
    let _ = driver.await;
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect())
        }
        _ => None,
    };
    Ok(messages?.into_iter().filter_map(row).collect())
}
