//! Errors on opening, and the mapping of SQLite's result codes to the error kinds of the port.

use std::io;
use std::path::{Path, PathBuf};

use patra_core::tx::TxError;
use rusqlite::ErrorCode;

/// Failure to open a database.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the folder {} cannot be created: {source}", folder.display())]
    FolderNotCreatable { folder: PathBuf, source: io::Error },
    #[error("the folder {} is not writable: {source}", folder.display())]
    FolderNotWritable { folder: PathBuf, source: io::Error },
    #[error("{} is in use by another process{}", path.display(), by(*pid))]
    Locked { path: PathBuf, pid: Option<u32> },
    #[error("there is no database at {}", path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a database", path.display())]
    NotADatabase { path: PathBuf },
    #[error("{} is a database, but not one of Patra's: it has tables and no patra_migration", path.display())]
    Foreign { path: PathBuf },
    #[error("{} was written by a newer version: its schema is {found}, this program knows {known}", path.display())]
    SchemaNewer { path: PathBuf, found: u32, known: u32 },
    #[error("{} has an older schema: it is {found}, this program knows {known}; the server migrates it", path.display())]
    SchemaOlder { path: PathBuf, found: u32, known: u32 },
    #[error("migration {version} of {} differs from the one of this program: its checksum is another", path.display())]
    MigrationChanged { path: PathBuf, version: u32 },
    #[error("SQLite {found} is too old: {needed} or later is required, older versions can damage a WAL database")]
    OldSqlite { found: String, needed: &'static str },
    #[error("{} needs a migration, and the backup before it failed: {reason}", path.display())]
    NoBackup { path: PathBuf, reason: String },
    #[error("the writer thread cannot be started: {source}")]
    Thread { source: io::Error },
    #[error("{} cannot be opened: {source}", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
}

fn by(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

impl OpenError {
    /// Maps the common SQLite errors on opening to their causes.
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> OpenError {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked { path, pid: None },
            _ => OpenError::Sqlite { path, source },
        }
    }
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of operations and queries inside this crate, for use with `?`.
#[derive(Debug)]
pub(crate) enum Error {
    Tx(TxError),
    Sqlite(rusqlite::Error),
}

impl Error {
    pub(crate) fn refused(reason: impl Into<String>) -> Error {
        Error::Tx(TxError::Refused(reason.into()))
    }
}

impl From<TxError> for Error {
    fn from(error: TxError) -> Error {
        Error::Tx(error)
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error::Sqlite(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Error {
        Error::refused(format!("a stored JSON value: {error}"))
    }
}

impl From<Error> for TxError {
    fn from(error: Error) -> TxError {
        match error {
            Error::Tx(error) => error,
            Error::Sqlite(error) => not_applied(&error),
        }
    }
}

/// Maps an error after which the transaction was rolled back.
pub(crate) fn not_applied(error: &rusqlite::Error) -> TxError {
    use ErrorCode::*;
    match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => TxError::Busy,
        Some(
            DiskFull
            | SystemIoFailure
            | ReadOnly
            | CannotOpen
            | PermissionDenied
            | OutOfMemory
            | OperationInterrupted
            | FileLockingProtocolFailed,
        ) => TxError::Unavailable(error.to_string()),
        _ => TxError::Refused(error.to_string()),
    }
}

/// Maps an error of COMMIT. After a failed write or sync the commit frame may be in the WAL all the same, and a restart
/// would find it there; every other code is returned before that frame is written.
pub(crate) fn commit_failed(error: &rusqlite::Error) -> TxError {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) => TxError::Unknown(error.to_string()),
        _ => not_applied(error),
    }
}
