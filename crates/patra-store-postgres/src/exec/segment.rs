//! Records that an UPDATE selects, and their division into key ranges.

use patra_core::record::RecordStream;
use patra_core::tx::{IdRange, MAX_SEGMENTS, ReadSegments, RefreshCriteria, Segments};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::scope::scope_id;
use super::{NOW, moment};
use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// Selected keys after `$5`, for one reason.
macro_rules! stale {
    () => {
        concat!(
            "
  SELECT dedup_key AS key FROM item
  WHERE scope_id = ",
            scope_id!("$1", "$2", "$3"),
            " AND endpoint_name = $4 AND dedup_key > $5
    AND refresh_checked_at < $6::timestamptz"
        )
    };
}

macro_rules! mapped_otherwise {
    () => {
        concat!(
            "
  SELECT dedup_key AS key FROM item
  WHERE scope_id = ",
            scope_id!("$1", "$2", "$3"),
            " AND endpoint_name = $4 AND dedup_key > $5
    AND mapping_generation <> $6::text"
        )
    };
}

macro_rules! signalled {
    () => {
        "
  SELECT item_key AS key FROM ing_signal
  WHERE project_key = $1 AND provenance_code = $2 AND $3::text IS NOT NULL AND endpoint_name = $4 AND item_key > $5
    AND status_code = 'OPEN' AND $6::text IS NULL"
    };
}

/// Last key of every range of `$7` keys and of the last range, among the first `$8` keys.
macro_rules! borders {
    ($wanted:expr) => {
        concat!(
            "
SELECT key, place
FROM (
  SELECT key, row_number() OVER (ORDER BY key) AS place, lead(key) OVER (ORDER BY key) IS NULL AS is_last
  FROM (",
            $wanted,
            "
  ORDER BY key LIMIT $8) AS wanted
) AS numbered
WHERE place % $7 = 0 OR is_last
ORDER BY place"
        )
    };
}

macro_rules! keys {
    ($wanted:expr) => {
        concat!("SELECT key FROM (", $wanted, ") AS wanted WHERE key <= $7 ORDER BY key LIMIT $8")
    };
}

const STALE_BORDERS: &str = borders!(stale!());
const MAPPED_BORDERS: &str = borders!(mapped_otherwise!());
const SIGNALLED_BORDERS: &str = borders!(signalled!());
const STALE_KEYS: &str = keys!(stale!());
const MAPPED_KEYS: &str = keys!(mapped_otherwise!());
const SIGNALLED_KEYS: &str = keys!(signalled!());

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[STALE_BORDERS, MAPPED_BORDERS, SIGNALLED_BORDERS, STALE_KEYS, MAPPED_KEYS, SIGNALLED_KEYS];

/// The criterion of the selection, as the sixth parameter.
enum Bound<'a> {
    Before(Time),
    Other(&'a str),
    Nothing(Option<&'a str>),
}

impl Bound<'_> {
    fn of(wanted: &RefreshCriteria) -> Bound<'_> {
        match wanted {
            RefreshCriteria::Stale { before } => Bound::Before(Time(*before)),
            RefreshCriteria::MappedOtherThan { generation } => Bound::Other(generation),
            RefreshCriteria::Signalled => Bound::Nothing(None),
        }
    }

    fn value(&self) -> &(dyn ToSql + Sync) {
        match self {
            Bound::Before(time) => time,
            Bound::Other(generation) => generation,
            Bound::Nothing(nothing) => nothing,
        }
    }
}

pub(super) async fn read(session: &Session, op: &ReadSegments) -> Result<Segments, Fail> {
    let sql = match op.criteria {
        RefreshCriteria::Stale { .. } => STALE_BORDERS,
        RefreshCriteria::MappedOtherThan { .. } => MAPPED_BORDERS,
        RefreshCriteria::Signalled => SIGNALLED_BORDERS,
    };
    let [borders, now] = session.prepare([sql, NOW]).await?;
    let RecordStream { project_key, provenance_code, endpoint_name, dedup_scope, .. } = &op.stream;
    // Every key sorts after the empty text, since no key is empty.
    let after = op.after.as_deref().unwrap_or_default();
    let size = i64::from(op.size.max(1));
    let most = size * i64::from(op.limit.min(MAX_SEGMENTS));
    let bound = Bound::of(&op.criteria);
    let (Time(now), rows) = pipeline!(
        moment(session, &now),
        session.rows(
            &borders,
            &[project_key, provenance_code, dedup_scope, endpoint_name, &after, bound.value(), &size, &(most + 1),],
        ),
    )?;
    let (mut ranges, mut more): (Vec<IdRange>, _) = (Vec::new(), false);
    for row in &rows {
        if row.try_get::<_, i64>(1)? > most {
            more = true;
            continue;
        }
        let after = ranges.last().map_or_else(|| op.after.clone(), |last| Some(last.through.clone()));
        ranges.push(IdRange { after, through: row.try_get(0)? });
    }
    Ok(Segments { ranges, more, now })
}

/// Returns the selected keys of a range after `after`, at most the limit.
pub(crate) async fn wanted(
    session: &Session,
    stream: RecordStream,
    wanted: RefreshCriteria,
    range: IdRange,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<String>, Fail> {
    let sql = match wanted {
        RefreshCriteria::Stale { .. } => STALE_KEYS,
        RefreshCriteria::MappedOtherThan { .. } => MAPPED_KEYS,
        RefreshCriteria::Signalled => SIGNALLED_KEYS,
    };
    let [keys] = session.prepare([sql]).await?;
    let RecordStream { project_key, provenance_code, endpoint_name, dedup_scope, .. } = &stream;
    // A key before the start of the range is never returned, whatever `after` is.
    let after = after.max(range.after).unwrap_or_default();
    let bound = Bound::of(&wanted);
    let rows = session
        .rows(
            &keys,
            &[
                project_key,
                provenance_code,
                dedup_scope,
                endpoint_name,
                &after,
                bound.value(),
                &range.through,
                &i64::from(limit),
            ],
        )
        .await?;
    rows.iter().map(|row: &Row| Ok(row.try_get(0)?)).collect()
}
