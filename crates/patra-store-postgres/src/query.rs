//! The query side. Each result is one snapshot: one statement, or several in a transaction with one snapshot.

pub(crate) mod board;
pub(crate) mod crawl;
pub(crate) mod credential;
pub(crate) mod dictionary;
pub(crate) mod document;
pub(crate) mod evidence;
pub(crate) mod job;
pub(crate) mod lineage;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod next_due;
pub(crate) mod pool;
pub(crate) mod progress;
pub(crate) mod registry;
pub(crate) mod source;

use bytes::Bytes;
pub(crate) use crawl::cookie_kind;
use patra_core::RunId;
use patra_core::port::query::{StoredApiKey, StoredRawResponse, StoredVersion};
use patra_core::record::{RecordStream, RecordVersion};
use patra_core::tx::PartitionKey;
use tokio_postgres::Row;

use crate::error::{Fail, refused};
use crate::exec::scope::scope_id;
use crate::json::JsonText;
use crate::pool::Session;
use crate::time::Time;

const SNAPSHOT: &str = "SELECT body FROM ing_snapshot WHERE hash = $1";
const KEY: &str = "
SELECT prefix, hash, scope, revoked_at IS NOT NULL, projects, shared = 1 FROM api_key WHERE prefix = $1";
const PING: &str = "SELECT max(version) FROM patra_migration";

const STORED: &str = concat!(
    "
SELECT item.dedup_key, item.updated_at, item.source_version, item.content_hash, item.mapping_generation
FROM unnest($4::text[]) WITH ORDINALITY AS asked (key, place)
JOIN item ON item.scope_id = ",
    scope_id!("$1", "$2", "$3"),
    " AND item.dedup_key = asked.key
ORDER BY asked.place"
);

const RAW: &str = "
SELECT status, headers, body, expires_at FROM ing_raw
WHERE run_id = $1 AND batch_no = $2 AND expires_at > clock_timestamp()";

/// Every fixed statement of the query side, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[SNAPSHOT, KEY, PING, STORED, RAW, next_due::LOOK, progress::PROGRESS, registry::READ, dictionary::READ];

pub(crate) async fn snapshot(session: &Session, hash: String) -> Result<Option<String>, Fail> {
    let [statement] = session.prepare([SNAPSHOT]).await?;
    Ok(session.opt(&statement, &[&hash]).await?.map(|row| row.try_get(0)).transpose()?)
}

pub(crate) async fn key(session: &Session, prefix: String) -> Result<Option<StoredApiKey>, Fail> {
    let [statement] = session.prepare([KEY]).await?;
    let Some(row) = session.opt(&statement, &[&prefix]).await? else { return Ok(None) };
    Ok(Some(StoredApiKey {
        prefix: row.try_get(0)?,
        hash: row.try_get(1)?,
        scope: row.try_get::<_, &str>(2)?.parse()?,
        // An unreadable list must not become a key for every project.
        projects: serde_json::from_str(&row.try_get::<_, JsonText>(4)?.0)?,
        shared: row.try_get(5)?,
        revoked: row.try_get(3)?,
    }))
}

pub(crate) async fn stored(
    session: &Session,
    stream: RecordStream,
    keys: Vec<String>,
) -> Result<Vec<StoredVersion>, Fail> {
    let [statement] = session.prepare([STORED]).await?;
    let RecordStream { project_key, provenance_code, dedup_scope, .. } = &stream;
    let rows = session.rows(&statement, &[project_key, provenance_code, dedup_scope, &keys]).await?;
    let stored = rows.iter().map(|row| {
        let hash: &[u8] = row.try_get(3)?;
        Ok(StoredVersion {
            key: row.try_get(0)?,
            version: RecordVersion { updated_at: row.try_get::<_, Time>(1)?.0, source_version: row.try_get(2)? },
            content_hash: hash.try_into().map_err(|_| refused("a content hash has the wrong length"))?,
            generation: row.try_get(4)?,
        })
    });
    stored.collect()
}

pub(crate) async fn raw(session: &Session, run: RunId, batch_no: u32) -> Result<Option<StoredRawResponse>, Fail> {
    let [statement] = session.prepare([RAW]).await?;
    let Some(row) = session.opt(&statement, &[&run.0, &i64::from(batch_no)]).await? else { return Ok(None) };
    Ok(Some(StoredRawResponse {
        status: u16::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0),
        headers: row.try_get(1)?,
        body: Bytes::copy_from_slice(row.try_get(2)?),
        expires_at: row.try_get::<_, Time>(3)?.0,
    }))
}

pub(crate) async fn ping(session: &Session) -> Result<u32, Fail> {
    let [statement] = session.prepare([PING]).await?;
    let version: Option<i32> = session.one(&statement, &[]).await?.try_get(0)?;
    version.and_then(|version| u32::try_from(version).ok()).ok_or_else(|| refused("no migration is on record"))
}

/// Reads the result of a statement that counts.
pub(crate) fn count(row: &Row, at: usize) -> Result<u64, Fail> {
    Ok(u64::try_from(row.try_get::<_, i64>(at)?).unwrap_or(0))
}

/// Reads a partition from three columns.
fn inventory(row: &Row, at: usize) -> Result<PartitionKey, Fail> {
    Ok(PartitionKey {
        provenance_code: row.try_get(at)?,
        endpoint_name: row.try_get(at + 1)?,
        operation: row.try_get::<_, &str>(at + 2)?.parse()?,
    })
}
