//! Lists that are read as a whole: which of their records each pass has seen, and which are gone.

use patra_core::Ts;
use patra_core::tx::{CommitBatch, LeaseRef, MarkMissing, MissingMarked, TxError};
use rusqlite::{Connection, OptionalExtension, params};

use super::scope;
use crate::error::Result;

const FIND_LIST: &str = "
SELECT id FROM item_list
WHERE project_key = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND list_key = ?4";

const INSERT_LIST: &str = "
INSERT INTO item_list (project_key, provenance_code, endpoint_name, list_key) VALUES (?1, ?2, ?3, ?4) RETURNING id";

// Only stored records can be missing later.
const SEE: &str = "
INSERT INTO item_listed (list_id, item_id, slice_id)
SELECT ?1, id, ?2 FROM item WHERE scope_id = ?3 AND dedup_key = ?4
ON CONFLICT (list_id, item_id) DO UPDATE SET slice_id = max(slice_id, excluded.slice_id), missing_since = NULL";

const UNMARK: &str = "
UPDATE item SET missing_since = NULL WHERE scope_id = ?1 AND dedup_key = ?2 AND missing_since IS NOT NULL";

const READ_EXECUTING: &str = "
SELECT 1 FROM ing_task WHERE id = ?1 AND lease_epoch = ?2 AND status_code = 'EXECUTING'";

pub(crate) const READ_PART: &str = "
SELECT item_id, slice_id, missing_since IS NOT NULL FROM item_listed
WHERE list_id = ?1 AND item_id > ?2
ORDER BY item_id
LIMIT ?3";

const MARK_LISTED: &str = "
UPDATE item_listed SET slice_id = ?3, missing_since = ?4 WHERE list_id = ?1 AND item_id = ?2";

pub(crate) const MARK_ITEM: &str = "
UPDATE item SET missing_since = ?2
WHERE id = ?1 AND missing_since IS NULL
  AND NOT EXISTS (SELECT 1 FROM item_listed WHERE item_id = ?1 AND missing_since IS NULL)";

const IS_MISSING: &str = "SELECT missing_since IS NOT NULL FROM item WHERE id = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[FIND_LIST, INSERT_LIST, SEE, UNMARK, READ_EXECUTING, READ_PART, MARK_LISTED, MARK_ITEM, IS_MISSING];

/// Records which stored records the page has, and takes their marks away.
pub(super) fn see(db: &Connection, op: &CommitBatch) -> Result<()> {
    let (keys, stream) = (op.listed(), &*op.stream);
    let Some(list) = op.pass.as_ref().and_then(|pass| pass.list.as_ref()).filter(|_| !keys.is_empty()) else {
        return Ok(());
    };
    let names = params![stream.project_key, stream.provenance_code, stream.endpoint_name, &**list];
    let found: Option<i64> = db.prepare_cached(FIND_LIST)?.query_row(names, |row| row.get(0)).optional()?;
    let list = match found {
        Some(list) => list,
        None => db.prepare_cached(INSERT_LIST)?.query_row(names, |row| row.get(0))?,
    };
    let scope = scope::number(db, &stream.project_key, &stream.provenance_code, &stream.dedup_scope)?;
    let (mut see, mut unmark) = (db.prepare_cached(SEE)?, db.prepare_cached(UNMARK)?);
    for key in keys {
        see.execute(params![list, op.lineage.slice.0, scope, key])?;
        unmark.execute(params![scope, key])?;
    }
    Ok(())
}

pub(super) fn mark(db: &Connection, op: &MarkMissing, now: Ts) -> Result<MissingMarked> {
    let LeaseRef { task, fence } = op.lease;
    let executing = db.prepare_cached(READ_EXECUTING)?.query_row([task.0, fence.0], |_| Ok(())).optional()?;
    executing.ok_or(TxError::Fenced)?;
    let (stream, slice) = (&*op.stream, op.lineage.slice.0);
    let names = params![stream.project_key, stream.provenance_code, stream.endpoint_name, &*op.list];
    let list: Option<i64> = db.prepare_cached(FIND_LIST)?.query_row(names, |row| row.get(0)).optional()?;
    let mut marked = MissingMarked::default();
    let Some(list) = list else { return Ok(marked) };
    let part: Vec<(i64, i64, bool)> = db
        .prepare_cached(READ_PART)?
        .query_map(params![list, op.after.unwrap_or(i64::MIN), op.limit], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    if part.len() == op.limit as usize {
        marked.next = part.last().map(|(item, ..)| *item);
    }
    let (mut mark_listed, mut mark_item) = (db.prepare_cached(MARK_LISTED)?, db.prepare_cached(MARK_ITEM)?);
    let mut is_missing = db.prepare_cached(IS_MISSING)?;
    for (item, seen_by, is_marked) in part {
        let (is_own, is_gone) = (is_marked && seen_by == slice, !is_marked && seen_by < slice);
        marked.known += u32::from(is_own || !is_marked);
        if !is_own && !is_gone {
            continue;
        }
        marked.gone += 1;
        if is_gone && !op.only_count {
            mark_listed.execute(params![list, item, slice, now.micros()])?;
            mark_item.execute(params![item, now.micros()])?;
        }
        let missing: Option<bool> = is_missing.query_row([item], |row| row.get(0)).optional()?;
        marked.missing += u32::from(missing == Some(true));
    }
    Ok(marked)
}
