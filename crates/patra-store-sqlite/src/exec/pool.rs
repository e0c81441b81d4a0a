//! The URL pool: URLs by library with their counters, captures, and documents.

use patra_core::project::Library;
use patra_core::tx::{
    AddUrls, Capture, CaptureConfigured, Captured, ConfigureCapture, DocumentPut, MAX_JOB_TYPES, MAX_URLS, PutDocument,
    UrlSource, UrlsAdded,
};
use patra_core::{JobId, Ts};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::scope;
use crate::error::{Error, Result};
use crate::sql::from_count;

const INSERT: &str = "
INSERT INTO resource_pool_urls (url, domain, source, source_ref, scope, project_key, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (scope, project_key, url) DO NOTHING";

pub(crate) const IS_SHARED: &str = "
SELECT EXISTS (SELECT 1 FROM resource_pool_urls WHERE scope = 'shared' AND project_key = '' AND url = ?1)";

// Counters of every project that has the URL. There is one writer, so there is one shard.
pub(crate) const COVER: &str = "
UPDATE resource_pool_count SET covered = covered + 1
WHERE scope = 'project' AND EXISTS (
  SELECT 1 FROM resource_pool_urls own
  WHERE own.scope = 'project' AND own.project_key = resource_pool_count.project_key AND own.url = ?1)";

const COUNT: &str = "
INSERT INTO resource_pool_count (scope, project_key, shard, urls, covered) VALUES (?1, ?2, 0, ?3, ?4)
ON CONFLICT (scope, project_key, shard) DO UPDATE SET urls = urls + ?3, covered = covered + ?4";

// The id of its job, if it is part of one.
const READ_PUBLIC_ID: &str = "
SELECT job.public_id
FROM ing_schedule_instance part JOIN ing_schedule_instance job ON job.id = coalesce(part.root_id, part.id)
WHERE part.id = ?1";

const CONFIGURE: &str = "
INSERT INTO resource_pool_capture (project_key, job_type, scope, enabled, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (project_key, job_type) DO UPDATE
SET scope = excluded.scope, enabled = excluded.enabled, updated_at = excluded.updated_at";

const INSERT_DOCUMENT: &str = "
INSERT INTO item
  (project_key, provenance_code, scope_id, dedup_key, endpoint_name, kind, updated_at, source_version,
   content_hash, fields, payload, run_id, batch_no, created_at, stored_at, refresh_checked_at, mapping_generation)
VALUES (?1, 'documents', ?7, ?2, 'documents', 'document', ?6, 0, ?3, ?4, ?5, 0, 0, ?6, ?6, ?6, '')
ON CONFLICT (scope_id, dedup_key) DO NOTHING
RETURNING id";

const REPLACE_DOCUMENT: &str = "
UPDATE item
SET content_hash = ?3, fields = ?4, payload = ?5, updated_at = ?6, stored_at = ?6, refresh_checked_at = ?6,
    emptied_at = NULL
WHERE scope_id = ?7 AND dedup_key = ?2
  AND (content_hash <> ?3 OR emptied_at IS NOT NULL)
RETURNING id";

const FIND_DOCUMENT: &str = "SELECT id FROM item WHERE scope_id = ?1 AND dedup_key = ?2";

const BEGIN: &str = "SAVEPOINT capture";
const UNDO: &str = "ROLLBACK TO capture";
const END: &str = "RELEASE capture";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    INSERT,
    IS_SHARED,
    COVER,
    COUNT,
    READ_PUBLIC_ID,
    CONFIGURE,
    INSERT_DOCUMENT,
    REPLACE_DOCUMENT,
    FIND_DOCUMENT,
    BEGIN,
    UNDO,
    END,
];

pub(super) fn add(db: &Connection, op: &AddUrls, now: Ts) -> Result<UrlsAdded> {
    let urls = op.urls.iter().map(|found| (&*found.url, &*found.domain, &*found.source_ref));
    Ok(UrlsAdded { new: insert(db, op.library, &op.project_key, op.source, urls, now)? })
}

fn insert<'a>(
    db: &Connection,
    library: Library,
    project_key: &str,
    source: UrlSource,
    urls: impl ExactSizeIterator<Item = (&'a str, &'a str, &'a str)>,
    now: Ts,
) -> Result<u32> {
    if urls.len() > MAX_URLS {
        return Err(Error::refused(format!("{} URLs in one request: at most {MAX_URLS}", urls.len())));
    }
    let (scope, owner) = (library.as_str(), library.key(project_key));
    let (mut new, mut covered) = (0, 0);
    for (url, domain, source_ref) in urls {
        let values = params![url, domain, source.as_str(), source_ref, scope, owner, now.micros()];
        if db.prepare_cached(INSERT)?.execute(values)? == 0 {
            continue;
        }
        new += 1;
        match library {
            Library::Shared => {
                db.prepare_cached(COVER)?.execute([url])?;
            }
            Library::Project => {
                let shared: bool = db.prepare_cached(IS_SHARED)?.query_row([url], |row| row.get(0))?;
                covered += u64::from(shared);
            }
        }
    }
    if new > 0 {
        db.prepare_cached(COUNT)?.execute(params![scope, owner, new, from_count(covered)])?;
    }
    Ok(new)
}

/// Captures the URLs of a page. A failure here affects nothing else.
pub(super) fn capture(
    db: &Connection,
    capture: Option<&Capture>,
    project_key: &str,
    instance: Option<JobId>,
    now: Ts,
) -> Result<Captured> {
    let Some(capture) = capture else { return Ok(Captured::None) };
    run(db, BEGIN)?;
    let stored = store(db, capture, project_key, instance, now);
    // The whole transaction was rolled back then, not only this part.
    if db.is_autocommit() {
        return stored.map(|new| Captured::Stored { new });
    }
    let captured = match stored {
        Ok(new) => Captured::Stored { new },
        Err(error) => {
            let reason = patra_core::tx::TxError::from(error);
            tracing::warn!(project_key, job_type = capture.job_type, %reason, "URLs of a page could not be stored");
            run(db, UNDO)?;
            Captured::Failed
        }
    };
    run(db, END)?;
    Ok(captured)
}

fn store(db: &Connection, capture: &Capture, project_key: &str, instance: Option<JobId>, now: Ts) -> Result<u32> {
    let task_id: Option<String> = match instance {
        Some(id) => db.prepare_cached(READ_PUBLIC_ID)?.query_row([id.0], |row| row.get(0)).optional()?,
        None => None,
    };
    let source_ref = capture.source_ref(task_id.as_deref());
    let urls = capture.urls.iter().map(|(url, domain)| (&**url, &**domain, &*source_ref));
    insert(db, capture.library, project_key, UrlSource::Task, urls, now)
}

fn run(db: &Connection, sql: &str) -> Result<()> {
    db.prepare_cached(sql)?.execute(())?;
    Ok(())
}

pub(super) fn configure(db: &Connection, op: &ConfigureCapture, now: Ts) -> Result<CaptureConfigured> {
    if op.job_types.len() > MAX_JOB_TYPES {
        return Err(Error::refused(format!(
            "{} job types in one request: at most {MAX_JOB_TYPES}",
            op.job_types.len()
        )));
    }
    for job_type in &op.job_types {
        let values = params![op.project_key, job_type, op.library.as_str(), op.enabled, now.micros()];
        db.prepare_cached(CONFIGURE)?.execute(values)?;
    }
    Ok(CaptureConfigured)
}

pub(super) fn put_document(db: &Connection, op: &PutDocument, now: Ts) -> Result<DocumentPut> {
    let (scope, hash) = (scope::number(db, &op.project_key, "documents", "document")?, op.content_hash.as_slice());
    let values = params![op.project_key, op.uri, hash, op.fields, op.payload, now.micros(), scope];
    let id = |sql: &str| -> Result<Option<i64>> {
        Ok(db.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?)
    };
    if let Some(id) = id(INSERT_DOCUMENT)? {
        return Ok(DocumentPut { id, created: true, changed: false });
    }
    if let Some(id) = id(REPLACE_DOCUMENT)? {
        return Ok(DocumentPut { id, created: false, changed: true });
    }
    let id = db.prepare_cached(FIND_DOCUMENT)?.query_row(params![scope, op.uri], |row| row.get(0))?;
    Ok(DocumentPut { id, created: false, changed: false })
}
