//! Schema migrations: numbered files, each applied once, in one transaction, and recorded with its checksum.
//!
//! Safe when several processes start at once: every step takes the write lock before it reads the current state.

use std::path::Path;

use patra_core::hash::sha256_hex;
use patra_core::port::Clock;
use rusqlite::{Connection, TransactionBehavior};

use crate::error::OpenError;

struct Migration {
    version: u32,
    name: &'static str,
    sql: &'static str,
}

/// In order, without gaps. A released file is never edited: its checksum is in every database.
const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "init", sql: include_str!("../migrations/001_init.sql") }];

const CREATE_TABLE: &str = "
CREATE TABLE IF NOT EXISTS patra_migration (
  version INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum TEXT NOT NULL,
  applied_at INTEGER NOT NULL
)";
const HAS_TABLE: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'patra_migration')";
const HAS_OTHERS: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)";
const READ_APPLIED: &str = "SELECT version, checksum FROM patra_migration ORDER BY version";
const INSERT_APPLIED: &str =
    "INSERT INTO patra_migration (version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)";

/// A schema error without the path.
#[derive(Debug)]
pub(crate) enum Error {
    Foreign,
    Newer { found: u32 },
    Older { found: u32 },
    Changed { version: u32 },
    Sqlite(rusqlite::Error),
}

impl Error {
    pub(crate) fn at(self, path: &Path) -> OpenError {
        let known = newest();
        let owned = path.to_owned();
        match self {
            Error::Foreign => OpenError::Foreign { path: owned },
            Error::Newer { found } => OpenError::SchemaNewer { path: owned, found, known },
            Error::Older { found } => OpenError::SchemaOlder { path: owned, found, known },
            Error::Changed { version } => OpenError::MigrationChanged { path: owned, version },
            Error::Sqlite(source) => OpenError::sqlite(path, source),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error::Sqlite(error)
    }
}

/// Migrates the schema to the newest version.
pub(crate) fn run(connection: &mut Connection, clock: &dyn Clock) -> Result<(), Error> {
    run_all(connection, clock, MIGRATIONS)
}

/// Checks, without writing, that the schema is exactly the one this program knows.
pub(crate) fn check(connection: &Connection) -> Result<(), Error> {
    let found = compare(&applied(connection)?, MIGRATIONS)?;
    if found < newest() { Err(Error::Older { found }) } else { Ok(()) }
}

/// Version of a database that a migration is about to change; `None` for an empty or up-to-date one.
pub(crate) fn pending(connection: &Connection) -> Result<Option<u32>, Error> {
    if !connection.query_row(HAS_OTHERS, (), |row| row.get(0))? {
        return Ok(None);
    }
    let found = version(connection)?;
    Ok((found < newest()).then_some(found))
}

/// Version of a database, if it is one of ours and all its migrations are known.
pub(crate) fn version(connection: &Connection) -> Result<u32, Error> {
    if !connection.query_row(HAS_TABLE, (), |row| row.get(0))? {
        return Err(Error::Foreign);
    }
    compare(&applied(connection)?, MIGRATIONS)
}

fn newest() -> u32 {
    MIGRATIONS.last().map_or(0, |last| last.version)
}

fn run_all(connection: &mut Connection, clock: &dyn Clock, migrations: &[Migration]) -> Result<(), Error> {
    loop {
        let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version = compare(&applied(&step)?, migrations)?;
        let Some(next) = migrations.iter().find(|migration| migration.version > version) else { return Ok(()) };
        step.execute_batch(CREATE_TABLE)?;
        step.execute_batch(next.sql)?;
        let applied_at = clock.now().micros();
        step.execute(INSERT_APPLIED, (next.version, next.name, sha256_hex(next.sql.as_bytes()), applied_at))?;
        step.commit()?;
        tracing::info!(schema.version = next.version, schema.name = next.name, "migrated the database");
    }
}

fn applied(connection: &Connection) -> Result<Vec<(u32, String)>, Error> {
    if connection.query_row(HAS_TABLE, (), |row| row.get(0))? {
        let mut statement = connection.prepare(READ_APPLIED)?;
        let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
        return Ok(rows.collect::<Result<_, _>>()?);
    }
    // A foreign database: adding tables to it would be wrong.
    if connection.query_row(HAS_OTHERS, (), |row| row.get(0))? {
        return Err(Error::Foreign);
    }
    Ok(Vec::new())
}

/// Version of the database, if all applied migrations are known and unchanged.
fn compare(applied: &[(u32, String)], migrations: &[Migration]) -> Result<u32, Error> {
    let found = applied.last().map_or(0, |(version, _)| *version);
    for (version, checksum) in applied {
        let Some(known) = migrations.iter().find(|migration| migration.version == *version) else {
            return Err(Error::Newer { found });
        };
        if sha256_hex(known.sql.as_bytes()) != *checksum {
            return Err(Error::Changed { version: *version });
        }
    }
    Ok(found)
}

#[cfg(test)]
pub(crate) mod tests_only {
    /// A Patra database from before the first version.
    pub(crate) const NO_VERSION: &str = super::CREATE_TABLE;
}

#[cfg(test)]
mod tests;
