//! The query side. Each answer is one statement, so it is one snapshot.

pub(crate) mod credential;
pub(crate) mod dictionary;
pub(crate) mod list;
pub(crate) mod progress;
pub(crate) mod registry;

use patra_core::port::query::Key;

use crate::error::{Fail, refused};
use crate::pool::Session;

const SNAPSHOT: &str = "SELECT body FROM ing_snapshot WHERE hash = $1";
const KEY: &str = "SELECT prefix, hash, scope, revoked_at IS NOT NULL FROM api_key WHERE prefix = $1";
const PING: &str = "SELECT max(version) FROM patra_migration";

/// Every fixed statement of the query side, so that a test can prepare them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[SNAPSHOT, KEY, PING, progress::PROGRESS, registry::READ, dictionary::READ];

pub(crate) async fn snapshot(session: &Session, hash: String) -> Result<Option<String>, Fail> {
    let [statement] = session.prepare([SNAPSHOT]).await?;
    Ok(session.opt(&statement, &[&hash]).await?.map(|row| row.try_get(0)).transpose()?)
}

pub(crate) async fn key(session: &Session, prefix: String) -> Result<Option<Key>, Fail> {
    let [statement] = session.prepare([KEY]).await?;
    let Some(row) = session.opt(&statement, &[&prefix]).await? else { return Ok(None) };
    Ok(Some(Key {
        prefix: row.try_get(0)?,
        hash: row.try_get(1)?,
        scope: row.try_get::<_, &str>(2)?.parse()?,
        revoked: row.try_get(3)?,
    }))
}

pub(crate) async fn ping(session: &Session) -> Result<u32, Fail> {
    let [statement] = session.prepare([PING]).await?;
    let version: Option<i32> = session.one(&statement, &[]).await?.try_get(0)?;
    version.and_then(|version| u32::try_from(version).ok()).ok_or_else(|| refused("no migration is on record"))
}
