//! Lists that are read as a whole: which of their records each pass has seen, and which are gone.
//!
//! A page and a mark of the same record wait for each other: both lock the row of the record first, in the order of the
//! keys, and look at its lists afterwards.

use patra_core::tx::{CommitBatch, LeaseRef, MarkMissing, MissingMarked, TxError};
use tokio_postgres::Statement;

use super::scope::scope_id;
use super::{NOW, count, moment};
use crate::error::Fail;
use crate::pool::{Session, pipeline};

/// The rows of the records are locked: those that the page stores by its upsert, the others by [`super::signal`].
pub(super) const SEE: &str = concat!(
    "
WITH list AS MATERIALIZED (
  SELECT item_list_of($1, $2, $3, $4) AS id
),
listed AS (
  INSERT INTO item_listed (list_id, item_id, slice_id)
  SELECT list.id, item.id, $5
  FROM list, item
  WHERE item.scope_id = ",
    scope_id!("$1", "$2", "$6"),
    " AND item.dedup_key = ANY ($7::text[])
  ORDER BY item.id
  ON CONFLICT (list_id, item_id) DO UPDATE
  SET slice_id = greatest(item_listed.slice_id, excluded.slice_id), missing_since = NULL
)
UPDATE item SET missing_since = NULL
WHERE scope_id = ",
    scope_id!("$1", "$2", "$6"),
    " AND dedup_key = ANY ($7::text[]) AND missing_since IS NOT NULL"
);

const LOCK_TASK: &str = "
SELECT 1 FROM ing_task WHERE id = $1 AND lease_epoch = $2 AND status_code = 'EXECUTING' FOR SHARE";

const FIND_LIST: &str = "
SELECT id FROM item_list
WHERE project_key = $1 AND provenance_code = $2 AND endpoint_name = $3 AND list_key = $4";

pub(crate) const READ_PART: &str = "
SELECT item_id, slice_id, missing_since IS NOT NULL FROM item_listed
WHERE list_id = $1 AND item_id > $2
ORDER BY item_id
LIMIT $3";

const LOCK_ITEMS: &str = "SELECT id FROM item WHERE id = ANY ($1::bigint[]) ORDER BY scope_id, dedup_key FOR UPDATE";

/// A pass that is newer may have seen some of them meanwhile.
const MARK_LISTED: &str = "
UPDATE item_listed SET slice_id = $3, missing_since = $4
WHERE list_id = $1 AND item_id = ANY ($2::bigint[]) AND slice_id < $3 AND missing_since IS NULL";

pub(crate) const MARK_ITEMS: &str = "
UPDATE item SET missing_since = $2
WHERE id = ANY ($1::bigint[]) AND missing_since IS NULL
  AND NOT EXISTS (SELECT 1 FROM item_listed l WHERE l.item_id = item.id AND l.missing_since IS NULL)";

const COUNT_MISSING: &str = "SELECT count(*) FROM item WHERE id = ANY ($1::bigint[]) AND missing_since IS NOT NULL";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[SEE, LOCK_TASK, FIND_LIST, READ_PART, LOCK_ITEMS, MARK_LISTED, MARK_ITEMS, COUNT_MISSING];

/// Records which stored records the page has, and takes their marks away.
pub(super) async fn see(session: &Session, statement: &Statement, op: &CommitBatch) -> Result<(), Fail> {
    let (keys, stream) = (op.listed(), &*op.stream);
    let Some(list) = op.pass.as_ref().and_then(|pass| pass.list.as_ref()).filter(|_| !keys.is_empty()) else {
        return Ok(());
    };
    session
        .write(
            statement,
            &[
                &stream.project_key,
                &stream.provenance_code,
                &stream.endpoint_name,
                &&**list,
                &op.lineage.slice.0,
                &stream.dedup_scope,
                &keys,
            ],
        )
        .await?;
    Ok(())
}

pub(super) async fn mark(session: &Session, op: &MarkMissing) -> Result<MissingMarked, Fail> {
    let LeaseRef { task, fence } = op.lease;
    let [lock, find, read, now] = session.prepare([LOCK_TASK, FIND_LIST, READ_PART, NOW]).await?;
    let [lock_items, mark_listed, mark_items, missing] =
        session.prepare([LOCK_ITEMS, MARK_LISTED, MARK_ITEMS, COUNT_MISSING]).await?;
    let (stream, slice) = (&*op.stream, op.lineage.slice.0);
    let names = [&stream.project_key as crate::rows::Value<'_>, &stream.provenance_code, &stream.endpoint_name];
    let list_key = &*op.list;
    let ((), leased, list) = pipeline!(
        session.begin(),
        session.opt(&lock, &[&task.0, &fence.0]),
        session.opt(&find, &[names[0], names[1], names[2], &list_key]),
    )?;
    leased.ok_or(TxError::Fenced)?;
    let mut marked = MissingMarked::default();
    let Some(list) = list else {
        session.commit().await?;
        return Ok(marked);
    };
    let list: i64 = list.try_get(0)?;
    let rows = session.rows(&read, &[&list, &op.after.unwrap_or(i64::MIN), &i64::from(op.limit)]).await?;
    let (mut gone, mut own) = (Vec::new(), Vec::new());
    for row in &rows {
        let (item, seen_by, is_marked): (i64, i64, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if is_marked && seen_by == slice {
            own.push(item);
        } else if !is_marked && seen_by < slice {
            gone.push(item);
        }
        marked.known += u32::from(!is_marked || seen_by == slice);
        marked.next = Some(item);
    }
    if rows.len() < op.limit as usize {
        marked.next = None;
    }
    if !op.only_count && !gone.is_empty() {
        session.rows(&lock_items, &[&gone]).await?;
        // Read once the locks are held.
        let now = moment(session, &now).await?;
        pipeline!(
            session.write(&mark_listed, &[&list, &gone, &slice, &now]),
            session.write(&mark_items, &[&gone, &now]),
        )?;
    }
    let all: Vec<_> = gone.iter().chain(&own).copied().collect();
    marked.gone = count(all.len() as i64);
    if !all.is_empty() {
        marked.missing = count(session.one(&missing, &[&all]).await?.try_get(0)?);
    }
    session.commit().await?;
    Ok(marked)
}
