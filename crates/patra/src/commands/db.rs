//! `db`: backs up the database and restores it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use patra_core::port::Clock as _;
use patra_store_postgres::backup as postgres;
use patra_store_sqlite::backup as sqlite;

use crate::cli::{Db, Global, Output};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::{output, store};

/// Extensions of backups: of the embedded database, and of PostgreSQL.
const ENDS: [&str; 2] = ["db", "dump"];

pub(crate) async fn run(global: &Global, command: &Db) -> Result<Exit, Error> {
    match command {
        Db::Backup { to } => backup(global, to.as_deref()).await?,
        Db::Restore { file } => restore(global, file).await?,
        Db::Backups => list(global)?,
    }
    Ok(Exit::Ok)
}

async fn backup(global: &Global, to: Option<&Path>) -> Result<(), Error> {
    let (path, version, bytes) = if let Some(url) = &global.database_url {
        let options = patra_store_postgres::Options::new(url);
        let schema =
            patra_store_postgres::PostgresStore::schema(&options).await.map_err(|error| store::postgres(&error))?;
        let to = target(global, to, schema.found.unwrap_or_default(), ENDS[1]);
        let taken = postgres::dump(&options, &to).await.map_err(|error| of_postgres(&error))?;
        (taken.path, taken.schema_version, taken.bytes)
    } else {
        let database = store::database_file(global);
        let version = sqlite::schema_version(&database).map_err(|error| of_sqlite(&error))?;
        let to = target(global, to, version, ENDS[0]);
        let taken = blocking(move || sqlite::backup(&database, &to)).await?.map_err(|error| of_sqlite(&error))?;
        (taken.path, taken.schema_version, taken.bytes)
    };
    let value = json!({ "path": path.display().to_string(), "schema_version": version, "bytes": bytes });
    let text = format!("backed up to {}: schema version {version}, {bytes} bytes", path.display());
    output::result(global.output, &text, &value)
}

/// The file to write: the named one, one in the named folder, or one in the default folder.
fn target(global: &Global, to: Option<&Path>, version: u32, end: &str) -> PathBuf {
    let name = format!("{}.{end}", sqlite::name(SystemClock.now(), version, false));
    match to {
        Some(path) if !path.is_dir() && !path.to_string_lossy().ends_with('/') => path.to_owned(),
        Some(folder) => sqlite::free(&folder.join(name)),
        None => sqlite::free(&global.data.join(sqlite::FOLDER).join(name)),
    }
}

async fn restore(global: &Global, file: &Path) -> Result<(), Error> {
    let (version, kept) = if let Some(url) = &global.database_url {
        let (options, stamp) = (patra_store_postgres::Options::new(url), sqlite::stamp(SystemClock.now()));
        let done = postgres::restore(&options, file, &stamp).await.map_err(|error| of_postgres(&error))?;
        (done.schema_version, done.replaced.map(|schema| format!("schema {schema}")))
    } else {
        let (database, from) = (store::database_file(global), file.to_owned());
        let done = blocking(move || sqlite::restore(&database, &from, SystemClock.now())).await?;
        let done = done.map_err(|error| of_sqlite(&error))?;
        (done.schema_version, done.replaced.map(|path| path.display().to_string()))
    };
    let value = json!({ "restored": file.display().to_string(), "schema_version": version, "replaced": kept });
    let kept = kept.map(|kept| format!("; the replaced database is kept as {kept}")).unwrap_or_default();
    let text = format!("restored from {}: schema version {version}{kept}", file.display());
    output::result(global.output, &text, &value)
}

/// Lists the backups in the data folder, oldest first. Everything shown is in their names; none is opened.
fn list(global: &Global) -> Result<(), Error> {
    let folder = global.data.join(sqlite::FOLDER);
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut copies: Vec<_> = entries.filter_map(|path| Some((described(&path)?, path))).collect();
    copies.sort_by(|one, other| one.1.cmp(&other.1));
    let rows: Vec<_> = copies.into_iter().map(|(value, _)| value).collect();
    if rows.is_empty() && global.output == Output::Table {
        return output::line(&format!("no backups in {}", folder.display()));
    }
    output::values(global.output, &rows)
}

/// Reads the name of a backup: `patra-20240102T030405Z-v1-before-migration.db`.
fn described(path: &Path) -> Option<Value> {
    let extension = path.extension()?.to_str()?;
    let name = path.file_stem()?.to_str()?.strip_prefix("patra-")?;
    let (stamp, rest) = name.split_once("-v")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let version: u32 = digits.parse().ok()?;
    let bytes = std::fs::metadata(path).ok()?.len();
    ENDS.contains(&extension).then(|| {
        json!({
            "path": path.display().to_string(),
            "taken_at": readable(stamp),
            "schema_version": version,
            "before_migration": rest.contains(sqlite::BEFORE_MIGRATION),
            "bytes": bytes,
        })
    })
}

/// `20240102T030405Z` as `2024-01-02T03:04:05Z`.
fn readable(stamp: &str) -> String {
    let marks = [(4, '-'), (6, '-'), (11, ':'), (13, ':')];
    let mut text = String::new();
    for (at, c) in stamp.chars().enumerate() {
        text.extend(marks.iter().filter(|(place, _)| *place == at).map(|(_, mark)| *mark));
        text.push(c);
    }
    text
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::unexpected(error.to_string()))
}

fn of_sqlite(error: &sqlite::BackupError) -> Error {
    use sqlite::BackupError as Of;
    let shown = Error::configuration(error.to_string());
    match error {
        Of::Database(patra_store_sqlite::OpenError::Locked { .. }) => shown.hint("stop the server, then try again"),
        Of::Database(error) => store::sqlite(error),
        Of::Exists { .. } => shown.hint("name another file with --to; existing files are never overwritten"),
        Of::Damaged { .. } => shown.hint("use another backup: `patra db backups` lists them"),
        Of::NotWritable { .. } => shown.hint("check the disk space and the permissions"),
        Of::NotReadable { .. } => shown.hint("`patra db backups` lists the backups"),
        Of::Failed { .. } => shown.hint("check whether the disk is full or the database is damaged"),
    }
}

fn of_postgres(error: &postgres::BackupError) -> Error {
    use postgres::BackupError as Of;
    let shown = Error::configuration(error.to_string());
    match error {
        Of::NoProgram(_) => shown.hint(
            "install the PostgreSQL client programs of the server's version: `apt install postgresql-client`, \
             `dnf install postgresql`, `brew install libpq`",
        ),
        Of::Program { .. } => shown.hint("the client programs must have the server's version or a newer one"),
        Of::NotACopy { .. } => {
            shown.hint("`patra db backups` lists the backups; `patra migrate` creates a missing schema")
        }
        Of::Exists { .. } => shown.hint("name another file with --to; existing files are never overwritten"),
        Of::File { .. } => shown.hint("`patra db backups` lists the backups"),
        Of::InUse(_) => shown.hint("stop every Patra process on this database, then try again"),
        Of::Exchange(_) => shown.hint("the user must own the schema and must be allowed to create schemas"),
        Of::Database(error) => store::postgres(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_a_backup_name_is_readable() {
        let name = sqlite::name(patra_core::Ts::from_secs(1_704_164_645), 3, true);
        assert_eq!(name, "patra-20240102T030405Z-v3-before-migration");
        assert_eq!(readable("20240102T030405Z"), "2024-01-02T03:04:05Z");
    }
}
