//! Records that an UPDATE selects, and their division into key ranges.

use patra_core::Ts;
use patra_core::record::RecordStream;
use patra_core::tx::{IdRange, MAX_SEGMENTS, ReadSegments, RefreshCriteria, Segments};
use rusqlite::{CachedStatement, Connection, Row, params};

use super::scope::scope_id;
use crate::error::Result;

pub(crate) const STALE: &str = concat!(
    "
SELECT dedup_key
FROM item
WHERE scope_id = ",
    scope_id!("?1", "?2", "?3"),
    " AND dedup_key > ?5 AND endpoint_name = ?4 AND refresh_checked_at < ?6
ORDER BY dedup_key"
);

pub(crate) const MAPPED_OTHERWISE: &str = concat!(
    "
SELECT dedup_key
FROM item
WHERE scope_id = ",
    scope_id!("?1", "?2", "?3"),
    " AND dedup_key > ?5 AND endpoint_name = ?4 AND mapping_generation <> ?6
ORDER BY dedup_key"
);

pub(crate) const SIGNALLED: &str = "
SELECT item_key
FROM ing_signal
WHERE project_key = ?1 AND provenance_code = ?2 AND endpoint_name = ?3 AND item_key > ?4 AND status_code = 'OPEN'
ORDER BY item_key";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[STALE, MAPPED_OTHERWISE, SIGNALLED];

pub(super) fn read(db: &Connection, op: &ReadSegments, now: Ts) -> Result<Segments> {
    let (size, limit) = (op.size.max(1), op.limit.min(MAX_SEGMENTS) as usize);
    let mut ranges: Vec<IdRange> = Vec::new();
    let (mut count, mut more) = (0, false);
    each_wanted(db, &op.stream, &op.criteria, op.after.as_deref(), |key| {
        if count % size == 0 {
            more = ranges.len() == limit;
            if more {
                return false;
            }
            let after = ranges.last().map_or_else(|| op.after.clone(), |last| Some(last.through.clone()));
            ranges.push(IdRange { after, through: String::new() });
        }
        count += 1;
        if let Some(last) = ranges.last_mut() {
            key.clone_into(&mut last.through);
        }
        true
    })?;
    Ok(Segments { ranges, more, now })
}

/// Returns the selected keys of a range after `after`, at most the limit.
pub(crate) fn wanted(
    db: &Connection,
    stream: &RecordStream,
    wanted: &RefreshCriteria,
    range: &IdRange,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    // A key before the start of the range is never returned, whatever `after` is.
    let after = after.max(range.after.as_deref());
    if limit == 0 {
        return Ok(keys);
    }
    each_wanted(db, stream, wanted, after, |key| {
        let inside = key <= &*range.through;
        if inside {
            keys.push(key.to_owned());
        }
        inside && keys.len() < limit as usize
    })?;
    Ok(keys)
}

/// Visits the selected keys after `after`, in byte order, until the visitor stops.
fn each_wanted(
    db: &Connection,
    stream: &RecordStream,
    wanted: &RefreshCriteria,
    after: Option<&str>,
    visit: impl FnMut(&str) -> bool,
) -> Result<()> {
    let RecordStream { project_key, provenance_code, endpoint_name, dedup_scope, .. } = stream;
    // Every key sorts after the empty text, since no key is empty.
    let after = after.unwrap_or_default();
    match wanted {
        RefreshCriteria::Stale { before } => {
            let values = params![project_key, provenance_code, dedup_scope, endpoint_name, after, before.micros()];
            go(db.prepare_cached(STALE)?, values, visit)
        }
        RefreshCriteria::MappedOtherThan { generation } => {
            let values = params![project_key, provenance_code, dedup_scope, endpoint_name, after, generation];
            go(db.prepare_cached(MAPPED_OTHERWISE)?, values, visit)
        }
        RefreshCriteria::Signalled => {
            let values = params![project_key, provenance_code, endpoint_name, after];
            go(db.prepare_cached(SIGNALLED)?, values, visit)
        }
    }
}

fn go(
    mut statement: CachedStatement<'_>,
    values: &[&dyn rusqlite::ToSql],
    mut visit: impl FnMut(&str) -> bool,
) -> Result<()> {
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        if !visit(key(row)?) {
            break;
        }
    }
    Ok(())
}

fn key<'a>(row: &'a Row<'_>) -> rusqlite::Result<&'a str> {
    Ok(row.get_ref(0)?.as_str()?)
}
