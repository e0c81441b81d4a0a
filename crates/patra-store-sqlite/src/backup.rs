//! Backups of a database: taken while it is in use, verified, and restored with the replaced database kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use patra_core::Ts;
use rusqlite::{Connection, OpenFlags};

use crate::error::OpenError;
use crate::private;
use crate::{lock, migrate};

/// Default folder of copies, next to the database.
pub const FOLDER: &str = "backups";
/// Number of kept copies made before migrations. Copies made by users are never deleted.
pub const KEPT: usize = 5;
/// Suffix of their names, before the extension.
pub const BEFORE_MIGRATION: &str = "-before-migration";

/// Failure of a backup or of a restore.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{} cannot be written: {source}", path.display())]
    NotWritable { path: PathBuf, source: io::Error },
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("{} cannot be read: {source}", path.display())]
    NotReadable { path: PathBuf, source: io::Error },
    #[error("{} is damaged: {verdict}", path.display())]
    Damaged { path: PathBuf, verdict: String },
    #[error("{} cannot be copied: {source}", path.display())]
    Failed { path: PathBuf, source: rusqlite::Error },
    #[error(transparent)]
    Database(#[from] OpenError),
}

/// A verified copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    pub path: PathBuf,
    pub schema_version: u32,
    pub bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    pub schema_version: u32,
    /// Path of the replaced database, if there was one.
    pub replaced: Option<PathBuf>,
}

/// Name of a copy, without extension: `patra-20240102T030405Z-v1`.
pub fn name(at: Ts, schema_version: u32, before_migration: bool) -> String {
    let end = if before_migration { BEFORE_MIGRATION } else { "" };
    format!("patra-{}-v{schema_version}{end}", stamp(at))
}

/// A time in the format of file names.
pub fn stamp(at: Ts) -> String {
    at.floor_to(Duration::from_secs(1)).to_short_text().replace(['-', ':'], "")
}

/// Version of a database; `None` if it is not one of ours.
pub fn schema_version(database: &Path) -> Result<u32, BackupError> {
    if !database.is_file() {
        return Err(OpenError::Missing { path: database.to_owned() }.into());
    }
    let connection = look(database).map_err(|source| OpenError::sqlite(database, source))?;
    Ok(migrate::version(&connection).map_err(|error| error.at(database))?)
}

fn look(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(connection)
}

/// Copies a database that may be in use: one snapshot, complete, without free pages.
pub fn backup(database: &Path, to: &Path) -> Result<Backup, BackupError> {
    if to.exists() {
        return Err(BackupError::Exists { path: to.to_owned() });
    }
    let not_writable = |source| BackupError::NotWritable { path: to.to_owned(), source };
    if let Some(folder) = to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private::folder(folder).map_err(not_writable)?;
    }
    let part = with_suffix(to, ".part");
    private::remove(&part).map_err(not_writable)?;
    let copied = copy(database, &part).and_then(|()| inspect(&part));
    let checked = match copied {
        Ok(checked) => checked,
        Err(error) => {
            let _ = private::remove(&part);
            return Err(error);
        }
    };
    fs::rename(&part, to).map_err(not_writable)?;
    private::sync_folder(folder_of(to)).map_err(not_writable)?;
    Ok(Backup { path: to.to_owned(), ..checked })
}

fn copy(database: &Path, to: &Path) -> Result<(), BackupError> {
    if !database.is_file() {
        return Err(OpenError::Missing { path: database.to_owned() }.into());
    }
    // SQLite fills an empty file. Created here, so that only the owner can read it.
    let file = private::new_file(to).map_err(|source| BackupError::NotWritable { path: to.to_owned(), source })?;
    let failed = |source| BackupError::Failed { path: database.to_owned(), source };
    let connection = look(database).map_err(failed)?;
    connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]).map_err(failed)?;
    file.sync_all().map_err(|source| BackupError::NotWritable { path: to.to_owned(), source })
}

/// Verifies a copy: it is one of ours, of a version that this program knows, and intact.
pub fn inspect(path: &Path) -> Result<Backup, BackupError> {
    let bytes = fs::metadata(path).map_err(|source| BackupError::NotReadable { path: path.to_owned(), source })?.len();
    let failed = |source| BackupError::Database(OpenError::sqlite(path, source));
    let connection = look(path).map_err(failed)?;
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", (), |row| row.get(0)).map_err(failed)?;
    if verdict != "ok" {
        return Err(BackupError::Damaged { path: path.to_owned(), verdict });
    }
    let schema_version = migrate::version(&connection).map_err(|error| error.at(path))?;
    Ok(Backup { path: path.to_owned(), schema_version, bytes })
}

/// Replaces a database that nobody has open with a copy. The old database stays next to it.
pub fn restore(database: &Path, from: &Path, at: Ts) -> Result<Restored, BackupError> {
    let _lock = lock::Lock::take(database)?;
    let schema_version = inspect(from)?.schema_version;
    let not_writable = |source| BackupError::NotWritable { path: database.to_owned(), source };
    // Restores a verified copy of the copy: the disk may be full, and the given file may change meanwhile.
    let fresh = with_suffix(database, ".restoring");
    private::remove(&fresh).map_err(not_writable)?;
    if let Err(error) = refill(&fresh, from).map_err(not_writable).and_then(|()| inspect(&fresh)) {
        let _ = private::remove(&fresh);
        return Err(error);
    }
    let replaced = keep(database, at).map_err(not_writable)?;
    fs::rename(&fresh, database).map_err(not_writable)?;
    private::sync_folder(folder_of(database)).map_err(not_writable)?;
    Ok(Restored { schema_version, replaced })
}

fn refill(fresh: &Path, from: &Path) -> io::Result<()> {
    let mut file = private::new_file(fresh)?;
    io::copy(&mut fs::File::open(from)?, &mut file)?;
    file.sync_all()
}

/// Gives the current database and its log a second name, so that the first name always exists.
fn keep(database: &Path, at: Ts) -> io::Result<Option<PathBuf>> {
    if !database.exists() {
        return Ok(None);
    }
    // Checkpoints the log into the file. A database too damaged for that keeps its log.
    if let Ok(connection) = Connection::open(database) {
        let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
    }
    let kept = free(&with_suffix(database, &format!(".replaced-{}", stamp(at))));
    fs::hard_link(database, &kept).or_else(|_| fs::copy(database, &kept).map(|_| ()))?;
    for end in ["-wal", "-shm"] {
        let log = with_suffix(database, end);
        if log.exists() {
            fs::rename(&log, with_suffix(&kept, end))?;
        }
    }
    Ok(Some(kept))
}

/// Returns an unused path; a number is added where needed.
pub fn free(path: &Path) -> PathBuf {
    let mut free = path.to_owned();
    let mut number = 2;
    while free.exists() {
        let extension = path.extension().unwrap_or_default();
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{number}"));
        free = path.with_file_name(name);
        if !extension.is_empty() {
            free.set_extension(extension);
        }
        number += 1;
    }
    free
}

/// Copies an existing database before a migration changes it, and deletes the oldest such copies.
pub(crate) fn before_migration(database: &Path, version: u32, at: Ts) -> Result<Backup, BackupError> {
    let folder = folder_of(database).join(FOLDER);
    let taken = backup(database, &free(&folder.join(format!("{}.db", name(at, version, true)))))?;
    forget(&folder, &format!("{BEFORE_MIGRATION}.db"));
    Ok(taken)
}

/// Deletes all but the newest [`KEPT`] files of a folder whose names end like this. Names begin with the time.
pub fn forget(folder: &Path, end: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let (stem, extension) = end.rsplit_once('.').unwrap_or((end, ""));
    let is_one = |path: &PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        name.contains(stem) && path.extension().is_some_and(|found| found == extension)
    };
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_one).collect();
    files.sort();
    let old = files.len().saturating_sub(KEPT);
    for file in &files[..old] {
        if let Err(error) = fs::remove_file(file) {
            tracing::warn!(path = %file.display(), error = %error, "an old backup cannot be deleted");
        }
    }
}

fn with_suffix(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests;
