//! The queries of the port, on a connection that cannot write.

pub(crate) mod board;
mod crawl;
mod credential;
pub(crate) mod dictionary;
mod evidence;
pub(crate) mod job;
mod list;
pub(crate) mod load;
pub(crate) mod next_due;
pub(crate) mod pool;
mod progress;
mod registry;
pub(crate) mod source;
pub(crate) mod tweet;

use patra_core::credential::Credential;
use patra_core::port::credential::CredentialFilter;
use patra_core::port::load::StoreLoad;
use patra_core::port::next_due::NextDue;
use patra_core::port::query::{
    BatchEvidence, BatchPage, JobProgress, PlanLineage, RegisteredProvenance, StoredApiKey, StoredRawResponse,
    StoredVersion, View, ViewFilter, ViewRow,
};
use patra_core::port::{BoxFuture, CredentialQueries, Queries};
use patra_core::record::{DetailCandidate, RecordStream, RecordVersion};
use patra_core::registry::DictType;
use patra_core::tx::{IdRange, RefreshCriteria, TxError};
use patra_core::{PlanId, RunId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Result;
use crate::exec::scope::scope_id;
use crate::exec::{candidate, segment};
use crate::reader::SqliteReader;
use crate::sql::{time, word};

const READ_SNAPSHOT: &str = "SELECT body FROM ing_snapshot WHERE hash = ?1";
const READ_KEY: &str =
    "SELECT prefix, hash, scope, revoked_at IS NOT NULL, projects, shared FROM api_key WHERE prefix = ?1";
const READ_STORED: &str = concat!(
    "SELECT updated_at, source_version, content_hash, mapping_generation FROM item WHERE scope_id = ",
    scope_id!("?1", "?2", "?3"),
    " AND dedup_key = ?4"
);
const READ_VERSION: &str = "SELECT max(version) FROM patra_migration";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&[&str]] = &[
    &[READ_SNAPSHOT, READ_KEY, READ_STORED, READ_VERSION],
    next_due::STATEMENTS,
    board::STATEMENTS,
    crawl::STATEMENTS,
    credential::STATEMENTS,
    dictionary::STATEMENTS,
    evidence::STATEMENTS,
    job::STATEMENTS,
    load::STATEMENTS,
    pool::STATEMENTS,
    progress::STATEMENTS,
    registry::STATEMENTS,
    source::STATEMENTS,
    tweet::STATEMENTS,
];

#[cfg(test)]
pub(crate) use crawl::{COUNT_COOKIES, COUNT_PLATFORM_COOKIES};
pub(crate) use crawl::{cookie_kind, read_totals};
#[cfg(test)]
pub(crate) use list::statement as list_statement;

impl CredentialQueries for SqliteReader {
    fn credentials(&self, filter: CredentialFilter) -> BoxFuture<'_, Result<Vec<Credential>, TxError>> {
        Box::pin(self.read(move |db| credential::read(db, &filter)))
    }
}

impl Queries for SqliteReader {
    fn registry(&self, provenance_code: &str) -> BoxFuture<'_, Result<Option<RegisteredProvenance>, TxError>> {
        let code = provenance_code.to_owned();
        Box::pin(self.read(move |db| registry::read(db, &code)))
    }

    fn dictionary(&self) -> BoxFuture<'_, Result<Vec<DictType>, TxError>> {
        Box::pin(self.read(dictionary::read))
    }

    fn snapshot(&self, hash: &str) -> BoxFuture<'_, Result<Option<String>, TxError>> {
        let hash = hash.to_owned();
        Box::pin(self.read(move |db| read_text(db, READ_SNAPSHOT, &hash)))
    }

    fn screen(
        &self,
        stream: &RecordStream,
        candidates: &[DetailCandidate],
    ) -> BoxFuture<'_, Result<Vec<DetailCandidate>, TxError>> {
        let (stream, candidates, now) = (stream.clone(), candidates.to_vec(), self.now());
        Box::pin(self.read(move |db| candidate::screen(db, &stream, candidates, now)))
    }

    fn ids_to_refresh(
        &self,
        stream: &RecordStream,
        wanted: &RefreshCriteria,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<String>, TxError>> {
        let (stream, wanted, range) = (stream.clone(), wanted.clone(), range.clone());
        let after = after.map(str::to_owned);
        Box::pin(self.read(move |db| segment::wanted(db, &stream, &wanted, &range, after.as_deref(), limit)))
    }

    fn stored(&self, stream: &RecordStream, keys: &[String]) -> BoxFuture<'_, Result<Vec<StoredVersion>, TxError>> {
        let (stream, keys) = (stream.clone(), keys.to_vec());
        Box::pin(self.read(move |db| read_stored(db, &stream, keys)))
    }

    fn evidence(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<BatchEvidence>, TxError>> {
        Box::pin(self.read(move |db| evidence::evidence(db, run, batch_no)))
    }

    fn raw(&self, run: RunId, batch_no: u32) -> BoxFuture<'_, Result<Option<StoredRawResponse>, TxError>> {
        let now = self.now();
        Box::pin(self.read(move |db| evidence::raw(db, run, batch_no, now)))
    }

    fn lineage(&self, plan: PlanId, batches: BatchPage) -> BoxFuture<'_, Result<Option<PlanLineage>, TxError>> {
        Box::pin(self.read(move |db| evidence::lineage(db, plan, batches)))
    }

    fn progress(&self, public_id: &str) -> BoxFuture<'_, Result<Option<JobProgress>, TxError>> {
        let (public_id, now) = (public_id.to_owned(), self.now());
        Box::pin(self.read(move |db| progress::read(db, &public_id, now)))
    }

    fn key(&self, prefix: &str) -> BoxFuture<'_, Result<Option<StoredApiKey>, TxError>> {
        let prefix = prefix.to_owned();
        Box::pin(self.read(move |db| read_key(db, &prefix)))
    }

    fn list(&self, view: View, filter: ViewFilter) -> BoxFuture<'_, Result<Vec<ViewRow>, TxError>> {
        Box::pin(self.read(move |db| list::read(db, view, &filter)))
    }

    fn load(&self) -> BoxFuture<'_, Result<StoreLoad, TxError>> {
        let now = self.now();
        Box::pin(self.read(move |db| load::read(db, now)))
    }

    fn next_due(&self) -> BoxFuture<'_, Result<NextDue, TxError>> {
        let now = self.now();
        Box::pin(self.read(move |db| next_due::read(db, now)))
    }

    fn ping(&self) -> BoxFuture<'_, Result<u32, TxError>> {
        Box::pin(self.read(|db| Ok(db.prepare_cached(READ_VERSION)?.query_row((), |row| row.get(0))?)))
    }
}

fn all<T>(
    db: &Connection,
    sql: &str,
    values: &[&dyn rusqlite::ToSql],
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut statement = db.prepare_cached(sql)?;
    Ok(statement.query_map(values, read)?.collect::<rusqlite::Result<_>>()?)
}

fn read_text(db: &Connection, sql: &str, key: &str) -> Result<Option<String>> {
    Ok(db.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional()?)
}

fn read_stored(db: &Connection, stream: &RecordStream, keys: Vec<String>) -> Result<Vec<StoredVersion>> {
    let RecordStream { project_key, provenance_code, dedup_scope, .. } = stream;
    let mut statement = db.prepare_cached(READ_STORED)?;
    let mut stored = Vec::new();
    for key in keys {
        let version = statement.query_row(params![project_key, provenance_code, dedup_scope, key], |row| {
            let version = RecordVersion { updated_at: time(row, 0)?, source_version: row.get(1)? };
            Ok((version, row.get(2)?, row.get(3)?))
        });
        let version = version.optional()?;
        stored.extend(version.map(|(version, content_hash, generation)| StoredVersion {
            key,
            version,
            content_hash,
            generation,
        }));
    }
    Ok(stored)
}

fn read_key(db: &Connection, prefix: &str) -> Result<Option<StoredApiKey>> {
    let key = db.prepare_cached(READ_KEY)?.query_row([prefix], |row| {
        let key = StoredApiKey {
            prefix: row.get(0)?,
            hash: row.get(1)?,
            scope: word(row, 2)?,
            projects: Vec::new(),
            shared: row.get(5)?,
            revoked: row.get(3)?,
        };
        Ok((key, row.get::<_, String>(4)?))
    });
    // An unreadable list must not become a key for every project.
    let Some((key, projects)) = key.optional()? else { return Ok(None) };
    Ok(Some(StoredApiKey { projects: serde_json::from_str(&projects)?, ..key }))
}
