//! Every row of every table of the schema, in pages, by the primary key.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use patra_core::port::BoxFuture;
use patra_core::port::scan::{MAX_BYTES, MAX_ROWS, Scan, ScanPage};
use patra_core::tx::TxError;

use crate::PostgresStore;
use crate::error::{Fail, refused};
use crate::pool::{Session, quoted};

const TABLES: &str = "
SELECT relname::text FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
ORDER BY relname";

/// Columns, their types, and their position in the primary key, or 0.
const COLUMNS: &str = "
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), coalesce(array_position(i.indkey::int2[], a.attnum), -1)::int4
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = $1
ORDER BY a.attnum";

/// Key of a row if the table has no primary key.
const PLACE: (&str, &str) = ("ctid", "tid");

impl Scan for PostgresStore {
    fn tables(&self) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(tables(session))))
    }

    fn page(&self, table: &str, after: Option<Vec<String>>) -> BoxFuture<'_, Result<ScanPage, TxError>> {
        let table = table.to_owned();
        Box::pin(self.readers.run(move |session| Box::pin(page(session, table, after))))
    }
}

async fn tables(session: &Session) -> Result<Vec<String>, Fail> {
    let [statement] = session.prepare([TABLES]).await?;
    session.rows(&statement, &[]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

struct Column {
    name: String,
    kind: String,
    place: i32,
}

async fn page(session: &Session, table: String, after: Option<Vec<String>>) -> Result<ScanPage, Fail> {
    let [statement] = session.prepare([COLUMNS]).await?;
    let rows = session.rows(&statement, &[&table]).await?;
    let mut columns = rows
        .iter()
        .map(|row| Ok(Column { name: row.try_get(0)?, kind: row.try_get(1)?, place: row.try_get(2)? }))
        .collect::<Result<Vec<_>, Fail>>()?;
    if columns.is_empty() {
        return Err(refused(format!("there is no table {table}")));
    }
    if columns.iter().all(|column| column.place < 0) {
        columns.push(Column { name: PLACE.0.to_owned(), kind: PLACE.1.to_owned(), place: 0 });
    }
    let mut key: Vec<_> = columns.iter().filter(|column| column.place >= 0).collect();
    key.sort_by_key(|column| column.place);
    let client = session.client()?;
    let statement = client.prepare(&statement_text(&table, &columns, &key, after.is_some())).await?;
    let key = key.iter().map(|column| column.name.clone()).collect();
    let mut page =
        ScanPage { columns: columns.into_iter().map(|column| column.name).collect(), key, ..ScanPage::default() };
    let mut rows = pin!(client.query_raw(&statement, after.unwrap_or_default()).await?);
    let mut bytes = 0;
    // Row by row: a page of large rows is cut before all of it is in memory.
    while let Some(row) = rows.try_next().await? {
        let cells =
            (0..page.columns.len()).map(|at| Ok(row.try_get(at)?)).collect::<Result<Vec<Option<String>>, Fail>>()?;
        bytes += cells.iter().flatten().map(String::len).sum::<usize>();
        page.rows.push(cells);
        if page.rows.len() == MAX_ROWS || bytes >= MAX_BYTES {
            let last = page.rows.last().map_or(&[][..], Vec::as_slice);
            page.next =
                Some(page.key.iter().map(|name| page.cell(last, name).unwrap_or_default().to_owned()).collect());
            break;
        }
    }
    Ok(page)
}

fn statement_text(table: &str, columns: &[Column], key: &[&Column], after: bool) -> String {
    let join = |parts: Vec<String>| parts.join(", ");
    let texts = columns.iter().map(|column| match column.kind.as_str() {
        // Bytes that are valid text stay readable.
        "bytea" => format!("encode({}, 'escape')", quoted(&column.name)),
        _ => format!("{}::text", quoted(&column.name)),
    });
    let names = join(key.iter().map(|column| quoted(&column.name)).collect());
    let values = key.iter().enumerate().map(|(at, column)| format!("${}::text::{}", at + 1, column.kind));
    let condition = if after { format!(" WHERE ({names}) > ({})", join(values.collect())) } else { String::new() };
    format!("SELECT {} FROM {}{condition} ORDER BY {names} LIMIT {MAX_ROWS}", join(texts.collect()), quoted(table))
}
