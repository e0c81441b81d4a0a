//! Connections and their settings.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::Options;
use crate::error::OpenError;
use crate::private;
use crate::writer::MOST_FRAMES;

/// Versions before this one can corrupt a database when a checkpoint resets the WAL (sqlite.org/wal.html#walresetbug).
const OLDEST: (i32, &str) = (3_051_003, "3.51.3");

/// Bytes per page. Measured with 300,000 records of 1 KB in pages of 500: in key order 4 KiB would write a tenth more, in
/// twice the calls; in random order 8 KiB writes a third more, in two thirds of the calls.
const PAGE_SIZE: u32 = 8_192;

/// Negative means KiB.
const WRITER_CACHE: i64 = -32 * 1_024;
const READER_CACHE: i64 = -8 * 1_024;

/// A WAL file that had to grow is truncated to this size. The space for steady writing stays allocated; idle time frees
/// it too.
const JOURNAL_SIZE_LIMIT: i64 = MOST_FRAMES * PAGE_SIZE as i64 * 5 / 4;

/// More than the statements of this crate, so that none is prepared twice.
const STATEMENT_CACHE: usize = 512;

/// Time at which a commit reaches the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Synchronous {
    /// Before it returns: survives a power cut.
    #[default]
    Full,
    /// With the next checkpoint: survives a crash of the process; a power cut may undo the last commits.
    Normal,
}

impl Synchronous {
    fn as_str(self) -> &'static str {
        match self {
            Synchronous::Full => "FULL",
            Synchronous::Normal => "NORMAL",
        }
    }
}

pub(crate) fn check_library() -> Result<(), OpenError> {
    if rusqlite::version_number() < OLDEST.0 {
        return Err(OpenError::OldSqlite { found: rusqlite::version().to_owned(), needed: OLDEST.1 });
    }
    Ok(())
}

/// The only connection that writes.
pub(crate) fn writer(options: &Options) -> Result<Connection, OpenError> {
    // SQLite would make it readable by everyone; its log and index get the mode of the database. If it cannot be
    // created, SQLite says why.
    let _ = private::file(&options.path);
    open_writer(options).map_err(|source| OpenError::sqlite(&options.path, source))
}

fn open_writer(options: &Options) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&options.path, flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    // The page size can be set only on the first opening, before the WAL exists.
    connection.pragma_update(None, "page_size", PAGE_SIZE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", options.synchronous.as_str())?;
    // The writer has its own checkpoint job, which does not run inside a commit.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_SIZE_LIMIT)?;
    connection.pragma_update(None, "cache_size", WRITER_CACHE)?;
    common(&connection)?;
    Ok(connection)
}

/// A connection that cannot write.
pub(crate) fn reader(options: &Options) -> Result<Connection, OpenError> {
    open_reader(&options.path, options).map_err(|source| OpenError::sqlite(&options.path, source))
}

fn open_reader(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(options.busy_timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", READER_CACHE)?;
    common(&connection)?;
    Ok(connection)
}

pub(crate) fn common(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // A plan never depends on bound values. Otherwise a statement over a partial index, or an index of expressions, is
    // prepared again for every value, which costs more than running it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Reliability class 21: the WAL-reset bug.
    #[test]
    fn the_linked_library_is_new_enough() {
        assert!(rusqlite::version_number() >= OLDEST.0, "{}", rusqlite::version());
        check_library().unwrap();
    }
}
