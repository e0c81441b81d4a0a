//! The queries of the port, on a connection that cannot write.

mod credential;
pub(crate) mod dictionary;
mod list;
mod progress;
mod registry;

use patra_core::credential::Credential;
use patra_core::port::credential::Ask;
use patra_core::port::query::{Filter, Key, Progress, Registered, Row, View};
use patra_core::port::{Boxed, Credentials, Queries};
use patra_core::record::{Candidate, Stream};
use patra_core::registry::DictType;
use patra_core::tx::TxError;
use rusqlite::{Connection, OptionalExtension};

use crate::error::Result;
use crate::exec::candidate;
use crate::reader::SqliteReader;
use crate::sql::word;

const READ_SNAPSHOT: &str = "SELECT body FROM ing_snapshot WHERE hash = ?1";
const READ_KEY: &str = "SELECT prefix, hash, scope, revoked_at IS NOT NULL FROM api_key WHERE prefix = ?1";
const READ_VERSION: &str = "SELECT max(version) FROM patra_migration";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&[&str]] = &[
    &[READ_SNAPSHOT, READ_KEY, READ_VERSION],
    credential::STATEMENTS,
    dictionary::STATEMENTS,
    progress::STATEMENTS,
    registry::STATEMENTS,
];

#[cfg(test)]
pub(crate) use list::statement as list_statement;

impl Credentials for SqliteReader {
    fn credentials(&self, ask: Ask) -> Boxed<'_, Result<Vec<Credential>, TxError>> {
        Box::pin(self.read(move |db| credential::read(db, &ask)))
    }
}

impl Queries for SqliteReader {
    fn registry(&self, provenance_code: &str) -> Boxed<'_, Result<Option<Registered>, TxError>> {
        let code = provenance_code.to_owned();
        Box::pin(self.read(move |db| registry::read(db, &code)))
    }

    fn dictionary(&self) -> Boxed<'_, Result<Vec<DictType>, TxError>> {
        Box::pin(self.read(dictionary::read))
    }

    fn snapshot(&self, hash: &str) -> Boxed<'_, Result<Option<String>, TxError>> {
        let hash = hash.to_owned();
        Box::pin(self.read(move |db| read_text(db, READ_SNAPSHOT, &hash)))
    }

    fn screen(&self, stream: &Stream, candidates: &[Candidate]) -> Boxed<'_, Result<Vec<Candidate>, TxError>> {
        let (stream, candidates, now) = (stream.clone(), candidates.to_vec(), self.now());
        Box::pin(self.read(move |db| candidate::screen(db, &stream, candidates, now)))
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
