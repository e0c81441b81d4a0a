//! Copies of the schema with the server's own programs, `pg_dump` and `pg_restore`. They get the password in their
//! environment, because other users of the machine can read a command line.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;

use tokio::process::Command;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

use patra_core::mask::mask;

use crate::error::describe;
use crate::open::{OpenError, configure};
use crate::pool::quoted;
use crate::{Options, migrate};

/// Characters of a program's output that an error message repeats.
const MAX_OUTPUT: usize = 600;

/// Failure of a backup or of a restore.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("the program {0} is not installed, or not in PATH")]
    NoProgram(&'static str),
    #[error("{program} failed: {reason}")]
    Program { program: &'static str, reason: String },
    #[error("{} is not a copy of Patra's schema `{schema}`", path.display())]
    NotACopy { path: PathBuf, schema: String },
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("{} cannot be used: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{0} connections of other Patra processes are open")]
    InUse(i64),
    #[error("the schema could not be replaced: {0}")]
    Exchange(String),
    #[error(transparent)]
    Database(#[from] OpenError),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    pub path: PathBuf,
    pub schema_version: u32,
    pub bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    pub schema_version: u32,
    /// The schema that the old content was renamed to, if there was any.
    pub replaced: Option<String>,
}

/// Copies the schema into a file in the custom format of `pg_dump`.
pub async fn dump(options: &Options, to: &Path) -> Result<Backup, BackupError> {
    let file = |source| BackupError::File { path: to.to_owned(), source };
    if to.exists() {
        return Err(BackupError::Exists { path: to.to_owned() });
    }
    let config = configure(options)?;
    let client = connect(&config).await?;
    let schema = current_schema(&client).await?;
    let found = migrate::schema(&client).await?.found;
    let schema_version = found.ok_or_else(|| BackupError::NotACopy { path: to.to_owned(), schema: schema.clone() })?;
    if let Some(folder) = to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_folder(folder).map_err(file)?;
    }
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    // Created here, so that only the owner can read it; pg_dump fills it.
    private_file(&part).map_err(file)?;
    let mut pg_dump = tool("pg_dump", &config);
    pg_dump.args(["--format=custom", "--no-owner", "--no-privileges", "--schema"]).arg(quoted(&schema));
    pg_dump.arg("--file").arg(&part);
    let done = match run("pg_dump", pg_dump).await {
        Ok(_) => check(&config, &part, &schema).await,
        Err(error) => Err(error),
    };
    if let Err(error) = done {
        let _ = std::fs::remove_file(&part);
        return Err(error);
    }
    std::fs::rename(&part, to).map_err(file)?;
    let bytes = std::fs::metadata(to).map_err(file)?.len();
    Ok(Backup { path: to.to_owned(), schema_version, bytes })
}

/// Checks by its table of contents that a file is a copy of this schema.
async fn check(config: &Config, path: &Path, schema: &str) -> Result<(), BackupError> {
    let mut list = tool("pg_restore", config);
    list.arg("--list").arg(path);
    let listed = run("pg_restore", list).await?;
    let contents = String::from_utf8_lossy(&listed.stdout);
    let wanted = format!(" TABLE DATA {schema} patra_migration ");
    if contents.contains(&wanted) {
        return Ok(());
    }
    Err(BackupError::NotACopy { path: path.to_owned(), schema: schema.to_owned() })
}

/// Replaces the schema with a copy. The old schema is renamed and kept.
pub async fn restore(options: &Options, from: &Path, stamp: &str) -> Result<Restored, BackupError> {
    std::fs::File::open(from).map_err(|source| BackupError::File { path: from.to_owned(), source })?;
    let config = configure(options)?;
    let client = connect(&config).await?;
    let schema = current_schema(&client).await?;
    check(&config, from, &schema).await?;
    let others = others(&client, config.get_application_name().unwrap_or(&options.application_name)).await?;
    if others > 0 {
        return Err(BackupError::InUse(others));
    }
    let replaced = format!("patra_replaced_{}", stamp.to_lowercase());
    let (here, there) = (quoted(&schema), quoted(&replaced));
    execute(&client, &format!("BEGIN; ALTER SCHEMA {here} RENAME TO {there}; CREATE SCHEMA {here}; COMMIT")).await?;
    let mut pg_restore = tool("pg_restore", &config);
    pg_restore
        .args(["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", "--schema"])
        .arg(&schema);
    // Without a database, pg_restore only prints its statements.
    pg_restore.arg("--dbname").arg(config.get_dbname().or(config.get_user()).unwrap_or("postgres")).arg(from);
    let restored = match run("pg_restore", pg_restore).await {
        Ok(_) => version(&client, from, &schema).await,
        Err(error) => Err(error),
    };
    match restored {
        Ok(schema_version) => Ok(Restored { schema_version, replaced: Some(replaced) }),
        Err(error) => {
            let back = format!("BEGIN; DROP SCHEMA {here} CASCADE; ALTER SCHEMA {there} RENAME TO {here}; COMMIT");
            execute(&client, &back).await?;
            Err(error)
        }
    }
}

/// Checks that this program can open the restored schema.
async fn version(client: &Client, from: &Path, schema: &str) -> Result<u32, BackupError> {
    let found = migrate::schema(client).await?;
    match found.found {
        Some(version) if version > found.known => Err(OpenError::Newer { found: version, known: found.known }.into()),
        Some(version) => Ok(version),
        None => Err(BackupError::NotACopy { path: from.to_owned(), schema: schema.to_owned() }),
    }
}

async fn connect(config: &Config) -> Result<Client, BackupError> {
    let mut config = config.clone();
    config.application_name("patra backup");
    let connected = config.connect(NoTls).await;
    let (client, connection) =
        connected.map_err(|error| OpenError::Unreachable { address: hosts(&config), reason: describe(&error) })?;
    tokio::spawn(connection);
    Ok(client)
}

async fn current_schema(client: &Client) -> Result<String, BackupError> {
    let row = client.query_one("SELECT current_schema()::text", &[]).await.map_err(exchange)?;
    let schema: Option<String> = row.try_get(0).map_err(exchange)?;
    schema.ok_or_else(|| BackupError::Exchange("the user's search_path names no schema that exists".to_owned()))
}

/// Counts connections of processes that have this application name.
async fn others(client: &Client, name: &str) -> Result<i64, BackupError> {
    const COUNT: &str = "
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid()";
    client.query_one(COUNT, &[&name]).await.and_then(|row| row.try_get(0)).map_err(exchange)
}

async fn execute(client: &Client, statements: &str) -> Result<(), BackupError> {
    let done = client.batch_execute(statements).await;
    if done.is_err() {
        let _ = client.batch_execute("ROLLBACK").await;
    }
    done.map_err(exchange)
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn exchange(error: tokio_postgres::Error) -> BackupError {
    BackupError::Exchange(describe(&error))
}

/// A PostgreSQL program that gets the connection settings in its environment.
fn tool(program: &'static str, config: &Config) -> Command {
    let mut command = Command::new(program);
    command.env("PGHOST", hosts(config));
    let ports: Vec<_> = config.get_ports().iter().map(u16::to_string).collect();
    if !ports.is_empty() {
        command.env("PGPORT", ports.join(","));
    }
    if let Some(user) = config.get_user() {
        command.env("PGUSER", user);
    }
    if let Some(name) = config.get_dbname().or(config.get_user()) {
        command.env("PGDATABASE", name);
    }
    if let Some(password) = config.get_password() {
        command.env("PGPASSWORD", String::from_utf8_lossy(password).as_ref());
    }
    command.stdin(std::process::Stdio::null()).kill_on_drop(true);
    command
}

fn hosts(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    hosts.collect::<Vec<_>>().join(",")
}

async fn run(program: &'static str, mut command: Command) -> Result<Output, BackupError> {
    let output = command.output().await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => BackupError::NoProgram(program),
        _ => BackupError::Program { program, reason: error.to_string() },
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let output_text = String::from_utf8_lossy(&output.stderr);
    let output_text: String = mask(output_text.trim()).chars().take(MAX_OUTPUT).collect();
    Err(BackupError::Program {
        program,
        reason: if output_text.is_empty() { output.status.to_string() } else { output_text },
    })
}

fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn private_file(path: &Path) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(|_| ())
}
