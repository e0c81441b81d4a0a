//! The queries of the port, on a connection that cannot write.

mod list;
mod progress;

use patra_core::port::query::{Filter, Key, Progress, Row, View};
use patra_core::port::{Boxed, Queries};
use patra_core::tx::TxError;
use rusqlite::{Connection, OptionalExtension};

use crate::error::Result;
use crate::reader::SqliteReader;
use crate::sql::word;

const READ_MANIFEST: &str = "SELECT document FROM reg_provenance WHERE provenance_code = ?1";
const READ_SNAPSHOT: &str = "SELECT body FROM ing_snapshot WHERE hash = ?1";
const READ_KEY: &str = "SELECT prefix, hash, scope, revoked_at IS NOT NULL FROM api_key WHERE prefix = ?1";
const READ_VERSION: &str = "SELECT max(version) FROM patra_migration";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&[&str]] =
    &[&[READ_MANIFEST, READ_SNAPSHOT, READ_KEY, READ_VERSION], progress::STATEMENTS];

#[cfg(test)]
pub(crate) use list::statement as list_statement;

impl Queries for SqliteReader {
    fn manifest(&self, provenance_code: &str) -> Boxed<'_, Result<Option<String>, TxError>> {
        let code = provenance_code.to_owned();
        Box::pin(self.read(move |db| read_text(db, READ_MANIFEST, &code)))
    }

    fn snapshot(&self, hash: &str) -> Boxed<'_, Result<Option<String>, TxError>> {
        let hash = hash.to_owned();
        Box::pin(self.read(move |db| read_text(db, READ_SNAPSHOT, &hash)))
    }

    fn progress(&self, public_id: &str) -> Boxed<'_, Result<Option<Progress>, TxError>> {
        let public_id = public_id.to_owned();
        Box::pin(self.read(move |db| progress::read(db, &public_id)))
    }

    fn key(&self, prefix: &str) -> Boxed<'_, Result<Option<Key>, TxError>> {
        let prefix = prefix.to_owned();
        Box::pin(self.read(move |db| read_key(db, &prefix)))
    }

    fn list(&self, view: View, filter: Filter) -> Boxed<'_, Result<Vec<Row>, TxError>> {
        Box::pin(self.read(move |db| list::read(db, view, &filter)))
    }

    fn ping(&self) -> Boxed<'_, Result<u32, TxError>> {
        Box::pin(self.read(|db| Ok(db.prepare_cached(READ_VERSION)?.query_row((), |row| row.get(0))?)))
    }
}

fn read_text(db: &Connection, sql: &str, key: &str) -> Result<Option<String>> {
    Ok(db.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional()?)
}

fn read_key(db: &Connection, prefix: &str) -> Result<Option<Key>> {
    let key = db.prepare_cached(READ_KEY)?.query_row([prefix], |row| {
        Ok(Key { prefix: row.get(0)?, hash: row.get(1)?, scope: word(row, 2)?, revoked: row.get(3)? })
    });
    Ok(key.optional()?)
}
