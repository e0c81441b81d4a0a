//! Numbered migrations, applied in one transaction under an advisory lock, so that any number of processes may start at
//! once on an empty database (class 25).

use patra_core::hash;
use tokio_postgres::{Client, Error};

use crate::open::{OpenError, interrupted};
use crate::pool::quoted;

struct Migration {
    version: u32,
    name: &'static str,
    sql: &'static str,
}

/// Same numbers as in SQLite. A released file is never edited.
const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "init", sql: include_str!("../migrations/001_init.sql") }];

/// Newest schema version that this program knows.
pub(crate) const KNOWN: u32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

const TABLE: &str = "CREATE TABLE patra_migration (
  version integer PRIMARY KEY,
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL
)";

const HAS_TABLE: &str =
    "SELECT 1 FROM pg_class WHERE relname = 'patra_migration' AND relnamespace = current_schema()::regnamespace";

/// Migrates the schema to [`KNOWN`].
pub(crate) async fn migrate(client: &mut Client, schema: Option<&str>) -> Result<(), OpenError> {
    let transaction = client.transaction().await.map_err(|error| interrupted(&error))?;
    apply(transaction.client(), schema).await?;
    transaction.commit().await.map_err(|error| interrupted(&error))
}

async fn apply(client: &Client, schema: Option<&str>) -> Result<(), OpenError> {
    // One lock per schema. The wait for it is longer than for other locks: another process may be migrating.
    client
        .batch_execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '60s'")
        .await
        .map_err(|error| interrupted(&error))?;
    client
        .execute(
            "SELECT pg_advisory_xact_lock(hashtext('patra_migration'), hashtext(coalesce($1::text, current_schema()::text)))",
            &[&schema],
        )
        .await
        .map_err(|error| interrupted(&error))?;
    make_ready(client, schema).await.map_err(|error| interrupted(&error))?;
    let applied = applied(client).await.map_err(|error| interrupted(&error))?;
    check(&applied)?;
    for migration in &MIGRATIONS[applied.len()..] {
        run(client, migration).await.map_err(|error| interrupted(&error))?;
        tracing::info!(version = migration.version, name = migration.name, "applied a migration");
    }
    Ok(())
}

/// Schema version of a database, and the newest one that this program knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schema {
    /// `None`: there is no Patra schema.
    pub found: Option<u32>,
    pub known: u32,
}

impl Schema {
    /// The version of a database that a migration is about to change.
    pub fn pending(&self) -> Option<u32> {
        self.found.filter(|found| *found < self.known)
    }
}

pub(crate) async fn schema(client: &Client) -> Result<Schema, OpenError> {
    let there = client.query_opt(HAS_TABLE, &[]).await.map_err(|error| interrupted(&error))?.is_some();
    let found = if there {
        let applied = applied(client).await.map_err(|error| interrupted(&error))?;
        Some(applied.last().map_or(0, |last| last.version))
    } else {
        None
    };
    Ok(Schema { found, known: KNOWN })
}

/// Checks before it creates: a user without the right to create may open an existing schema.
async fn make_ready(client: &Client, schema: Option<&str>) -> Result<(), Error> {
    if let Some(schema) = schema {
        let missing = client.query_opt("SELECT 1 FROM pg_namespace WHERE nspname = $1", &[&schema]).await?.is_none();
        if missing {
            client.batch_execute(&format!("CREATE SCHEMA {}", quoted(schema))).await?;
        }
    }
    if client.query_opt(HAS_TABLE, &[]).await?.is_none() {
        client.batch_execute(TABLE).await?;
    }
    Ok(())
}

struct Applied {
    version: u32,
    name: String,
    checksum: String,
}

async fn applied(client: &Client) -> Result<Vec<Applied>, Error> {
    let rows = client.query("SELECT version, name, checksum FROM patra_migration ORDER BY version", &[]).await?;
    rows.iter()
        .map(|row| {
            let version = row.try_get::<_, i32>(0)?;
            Ok(Applied {
                version: u32::try_from(version).unwrap_or(0),
                name: row.try_get(1)?,
                checksum: row.try_get(2)?,
            })
        })
        .collect()
}

/// Checks that the applied migrations are the first ones of this program, unchanged.
fn check(applied: &[Applied]) -> Result<(), OpenError> {
    if let Some(last) = applied.last()
        && last.version > KNOWN
    {
        return Err(OpenError::Newer { found: last.version, known: KNOWN });
    }
    for (at, found) in applied.iter().enumerate() {
        let same =
            MIGRATIONS.get(at).is_some_and(|known| known.version == found.version && checksum(known) == found.checksum);
        if !same {
            return Err(OpenError::Changed { version: found.version, name: found.name.clone() });
        }
    }
    Ok(())
}

async fn run(client: &Client, migration: &Migration) -> Result<(), Error> {
    client.batch_execute(migration.sql).await?;
    client
        .execute(
            "INSERT INTO patra_migration (version, name, checksum, applied_at)
             VALUES ($1, $2, $3, clock_timestamp())",
            &[&migration.version.cast_signed(), &migration.name, &checksum(migration)],
        )
        .await?;
    Ok(())
}

fn checksum(migration: &Migration) -> String {
    hash::sha256_hex(migration.sql.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(version: u32, checksum: String) -> Applied {
        Applied { version, name: "init".to_owned(), checksum }
    }

    #[test]
    fn a_newer_or_edited_schema_is_refused() {
        assert!(check(&[]).is_ok());
        assert!(check(&[row(1, checksum(&MIGRATIONS[0]))]).is_ok());
        assert!(matches!(check(&[row(1, "x".into())]), Err(OpenError::Changed { version: 1, .. })));
        let newer = check(&[row(1, checksum(&MIGRATIONS[0])), row(KNOWN + 1, String::new())]);
        assert!(matches!(newer, Err(OpenError::Newer { known: KNOWN, .. })));
    }

    #[test]
    fn migrations_are_numbered_without_gaps() {
        assert!(MIGRATIONS.iter().zip(1..).all(|(migration, version)| migration.version == version));
    }
}
