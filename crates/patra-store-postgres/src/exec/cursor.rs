//! Progress marks: what is covered, how far the completed prefix reaches, and the move behind its event.

use patra_core::cursor::completed_prefix;
use patra_core::tx::{Advance, AdvanceCursor, Coverage, CursorMoved, ReadCoverage, RecordAdvance};
use patra_core::{CursorId, Window};

use super::count;
use crate::error::{Fail, refused};
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// One statement, so one snapshot: an epoch with the windows that belong to it.
const COVERAGE: &str = "
SELECT clock_timestamp(), c.id, c.origin_instant, c.normalized_instant, c.plan_epoch, beyond.starts, beyond.ends,
  (SELECT count(*) FROM ing_task
   WHERE provenance_code = $1 AND endpoint_name = $2 AND operation_code = $3 AND status_code = 'QUEUED')
FROM (VALUES (1)) AS always
LEFT JOIN ing_cursor c ON c.provenance_code = $1 AND c.operation_code = $3 AND c.cursor_key = $4
  AND c.namespace_scope_code = $5 AND c.namespace_key = $6
LEFT JOIN LATERAL (
  SELECT array_agg(t.window_from ORDER BY t.window_from, t.window_to) AS starts,
    array_agg(t.window_to ORDER BY t.window_from, t.window_to) AS ends
  FROM ing_task t
  WHERE t.cursor_id = c.id AND t.window_to > coalesce(c.normalized_instant, c.origin_instant)
    AND t.status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING', 'SUCCEEDED')
) AS beyond ON true";

const LOCK: &str = "SELECT origin_instant, normalized_instant, version FROM ing_cursor WHERE id = $1 FOR UPDATE";

const NEWEST: &str = "SELECT max(new_instant) FROM ing_cursor_event WHERE cursor_id = $1";

const COMPLETED: &str = "
SELECT t.window_from, t.window_to
FROM ing_cursor c JOIN ing_task t ON t.cursor_id = c.id
WHERE c.id = $1 AND t.status_code = 'SUCCEEDED' AND t.window_to > coalesce(c.normalized_instant, c.origin_instant)";

const RECORD: &str = "
INSERT INTO ing_cursor_event (cursor_id, provenance_code, endpoint_name, operation_code, cursor_key,
  namespace_scope_code, namespace_key, direction_code, prev_value, new_value, prev_instant, new_instant,
  observed_max_value, task_id, run_id, idempotent_key, created_at)
SELECT id, provenance_code, endpoint_name, operation_code, cursor_key,
  namespace_scope_code, namespace_key, direction_code, cursor_value, $2, normalized_instant, $3,
  $4, $5, $6, $7, clock_timestamp()
FROM ing_cursor WHERE id = $1
ON CONFLICT (idempotent_key) DO NOTHING";

const ADVANCE: &str = "
UPDATE ing_cursor
SET cursor_value = $2, normalized_instant = $3, version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 AND version = $4 AND (normalized_instant IS NULL OR normalized_instant < $3)
  AND EXISTS (SELECT 1 FROM ing_cursor_event WHERE cursor_id = $1 AND new_instant >= $3)
RETURNING id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[COVERAGE, LOCK, NEWEST, COMPLETED, RECORD, ADVANCE];

pub(super) async fn read_coverage(session: &Session, op: &ReadCoverage) -> Result<Coverage, Fail> {
    let [coverage] = session.prepare([COVERAGE]).await?;
    let name = &op.cursor;
    let (operation, scope) = (name.operation.as_str(), name.scope.as_str());
    let row = session
        .one(
            &coverage,
            &[&name.provenance_code, &name.endpoint_name, &operation, &name.cursor_key, &scope, &name.namespace_key],
        )
        .await?;
    let time = |at| Ok::<_, Fail>(row.try_get::<_, Option<Time>>(at)?.map(|Time(ts)| ts));
    let times = |at| Ok::<_, Fail>(row.try_get::<_, Option<Vec<Time>>>(at)?.unwrap_or_default());
    let covered = times(5)?.into_iter().zip(times(6)?).map(|(Time(from), Time(to))| Window { from, to }).collect();
    Ok(Coverage {
        cursor: row.try_get::<_, Option<i64>>(1)?.map(CursorId),
        origin: time(2)?,
        value: time(3)?,
        epoch: row.try_get::<_, Option<i64>>(4)?.unwrap_or(0),
        covered,
        queued: count(row.try_get(7)?),
        now: row.try_get::<_, Time>(0)?.0,
    })
}

pub(super) async fn record_advance(session: &Session, op: RecordAdvance) -> Result<Advance, Fail> {
    let [lock, newest, completed, record] = session.prepare([LOCK, NEWEST, COMPLETED, RECORD]).await?;
    let id = op.cursor.0;
    // Events and windows are read by statements that start when the lock is held: none of an earlier turn is missing.
    let ((), row, newest, completed) = pipeline!(
        session.begin(),
        session.opt(&lock, &[&id]),
        session.one(&newest, &[&id]),
        session.rows(&completed, &[&id]),
    )?;
    let row = row.ok_or_else(|| refused(format!("there is no cursor {id}")))?;
    let value = row.try_get::<_, Option<Time>>(1)?.map(|Time(at)| at);
    let start = value.unwrap_or(row.try_get::<_, Time>(0)?.0);
    let newest = newest.try_get::<_, Option<Time>>(0)?.map(|Time(at)| at);
    let windows = completed
        .iter()
        .map(|row| Ok(Window { from: row.try_get::<_, Time>(0)?.0, to: row.try_get::<_, Time>(1)?.0 }))
        .collect::<Result<Vec<_>, Fail>>()?;
    let prefix = completed_prefix(start, &windows);
    let mut target = newest;
    if prefix > newest.map_or(start, |newest| newest.max(start)) {
        let (task, run) = op.cause.unzip();
        let (task, run) = (task.map(|task| task.0), run.map(|run| run.0));
        let observed = op.observed_max.map(|at| at.to_string());
        let key = format!("{id}:{}", prefix.micros());
        session.write(&record, &[&id, &prefix.to_string(), &Time(prefix), &observed, &task, &run, &key]).await?;
        target = Some(prefix);
    }
    session.commit().await?;
    Ok(Advance { value, target, version: row.try_get(2)? })
}

pub(super) async fn advance(session: &Session, op: AdvanceCursor) -> Result<CursorMoved, Fail> {
    let [advance] = session.prepare([ADVANCE]).await?;
    let rows = session.alone(&advance, &[&op.cursor.0, &op.to.to_string(), &Time(op.to), &op.version]).await?;
    Ok(CursorMoved { moved: !rows.is_empty() })
}
