//! Every row of every table, in pages, by the primary key.

use patra_core::port::BoxFuture;
use patra_core::port::scan::{MAX_BYTES, MAX_ROWS, Scan, ScanPage};
use patra_core::tx::TxError;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params_from_iter};

use crate::error::{Error, Result};
use crate::reader::SqliteReader;

const READ_TABLES: &str =
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name";
const READ_COLUMNS: &str = "SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid";
/// Key of a row if the table has no primary key.
const ROWID: &str = "rowid";

impl Scan for SqliteReader {
    fn tables(&self) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        Box::pin(self.read(tables))
    }

    fn page(&self, table: &str, after: Option<Vec<String>>) -> BoxFuture<'_, Result<ScanPage, TxError>> {
        let table = table.to_owned();
        Box::pin(self.read(move |db| page(db, &table, after.as_deref())))
    }
}

fn tables(db: &Connection) -> Result<Vec<String>> {
    let mut statement = db.prepare(READ_TABLES)?;
    Ok(statement.query_map((), |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

fn page(db: &Connection, table: &str, after: Option<&[String]>) -> Result<ScanPage> {
    let mut statement = db.prepare(READ_COLUMNS)?;
    let columns: Vec<(String, u32)> =
        statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    if columns.is_empty() {
        return Err(Error::refused(format!("there is no table {table}")));
    }
    let mut key: Vec<_> = columns.iter().filter(|(_, place)| *place > 0).collect();
    key.sort_by_key(|(_, place)| *place);
    let mut key: Vec<String> = key.into_iter().map(|(name, _)| name.clone()).collect();
    let mut columns: Vec<String> = columns.into_iter().map(|(name, _)| name).collect();
    if key.is_empty() {
        key.push(ROWID.to_owned());
        columns.push(ROWID.to_owned());
    }
    let mut statement = db.prepare(&statement_text(table, &columns, &key, after.is_some()))?;
    let mut rows = statement.query(params_from_iter(after.unwrap_or_default()))?;
    let mut page = ScanPage { columns, key, ..ScanPage::default() };
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let cells: Vec<_> = (0..page.columns.len()).map(|at| Ok(text(row.get_ref(at)?))).collect::<Result<_>>()?;
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

fn statement_text(table: &str, columns: &[String], key: &[String], after: bool) -> String {
    let list = |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let places = (1..=key.len()).map(|at| format!("?{at}")).collect::<Vec<_>>().join(", ");
    let condition = if after { format!(" WHERE ({}) > ({places})", list(key)) } else { String::new() };
    format!("SELECT {} FROM {}{condition} ORDER BY {} LIMIT {MAX_ROWS}", list(columns), quoted(table), list(key))
}

fn quoted(name: &str) -> String {
    // In double quotes it would be an identifier.
    if name == ROWID { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn text(value: ValueRef<'_>) -> Option<String> {
    Some(match value {
        ValueRef::Null => return None,
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scan_returns_every_row_once_for_any_key() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE one (id INTEGER PRIMARY KEY, x TEXT);
             CREATE TABLE two (a INTEGER NOT NULL, b TEXT NOT NULL, PRIMARY KEY (a, b)) WITHOUT ROWID;
             CREATE TABLE three (x BLOB);
             CREATE TABLE empty (x TEXT);",
        )
        .unwrap();
        for n in 0..1_234 {
            db.execute("INSERT INTO one VALUES (?1, 'x')", [n * 7]).unwrap();
            db.execute("INSERT INTO two VALUES (?1 / 10, 'b' || ?1)", [n]).unwrap();
            db.execute("INSERT INTO three VALUES (CAST('body ' || ?1 AS BLOB))", [n]).unwrap();
        }
        assert_eq!(tables(&db).unwrap(), ["empty", "one", "three", "two"]);
        for (table, expected) in [("one", 1_234), ("two", 1_234), ("three", 1_234), ("empty", 0)] {
            let (mut seen, mut after) = (std::collections::BTreeSet::new(), None);
            loop {
                let page = page(&db, table, after.as_deref()).unwrap();
                assert!(page.rows.len() <= MAX_ROWS);
                seen.extend(page.rows.iter().map(|row| format!("{} {row:?}", page.name(row))));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(seen.len(), expected, "{table}");
        }
        assert!(page(&db, "none", None).is_err());
    }

    #[test]
    fn a_page_of_large_rows_ends_early() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE one (id INTEGER PRIMARY KEY, x BLOB)").unwrap();
        for _ in 0..5 {
            db.execute("INSERT INTO one (x) VALUES (zeroblob(?1))", [MAX_BYTES as i64 / 2]).unwrap();
        }
        let page = page(&db, "one", None).unwrap();
        assert_eq!((page.rows.len(), page.next), (2, Some(vec!["2".to_owned()])));
    }
}
