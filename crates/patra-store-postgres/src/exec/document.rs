//! Documents that users add, stored as items.

use patra_core::tx::{DocumentPut, PutDocument};

use super::scope::scope_id;
use crate::error::Fail;
use crate::pool::{Session, pipeline};

/// `xmax` is 0 in an inserted row; an unchanged row is not returned.
const PUT: &str = "
INSERT INTO item
  (project_key, provenance_code, scope_id, dedup_key, endpoint_name, kind, updated_at, source_version,
   content_hash, fields, payload, run_id, batch_no, created_at, stored_at, refresh_checked_at, mapping_generation)
SELECT $1, 'documents', scope, $2, 'documents', 'document', now, 0, $3, $4, $5, 0, 0, now, now, now, ''
FROM (SELECT clock_timestamp() AS now, item_scope_of($1, 'documents', 'document') AS scope OFFSET 0) AS moment
ON CONFLICT (scope_id, dedup_key) DO UPDATE
SET updated_at = excluded.updated_at, content_hash = excluded.content_hash, fields = excluded.fields,
  payload = excluded.payload, stored_at = excluded.stored_at, refresh_checked_at = excluded.refresh_checked_at,
  emptied_at = NULL
WHERE item.content_hash <> excluded.content_hash OR item.emptied_at IS NOT NULL
RETURNING id, xmax = 0";

const FIND: &str = concat!(
    "SELECT id FROM item WHERE scope_id = ",
    scope_id!("$1", "'documents'", "'document'"),
    " AND dedup_key = $2"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[PUT, FIND];

pub(super) async fn put(session: &Session, op: &PutDocument) -> Result<DocumentPut, Fail> {
    let [put, find] = session.prepare([PUT, FIND]).await?;
    let hash = op.content_hash.as_slice();
    let ((), stored, found) = pipeline!(
        session.begin(),
        session.opt(&put, &[&op.project_key, &op.uri, &hash, &op.fields, &op.payload]),
        session.one(&find, &[&op.project_key, &op.uri]),
    )?;
    session.commit().await?;
    let created = stored.as_ref().map(|row| row.try_get::<_, bool>(1)).transpose()?;
    Ok(DocumentPut { id: found.try_get(0)?, created: created == Some(true), changed: created == Some(false) })
}
