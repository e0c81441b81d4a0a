//! Coverage: windows of a namespace that are done or in progress.

use std::time::Duration;

use patra_core::tx::{Coverage, HISTORY, History, ReadCoverage};
use patra_core::{CursorId, Window};

use super::count;
use super::cursor::mark_at;
use crate::error::Fail;
use crate::pool::Session;
use crate::time::{Time, maybe};

/// Tasks with windows beyond `c.start`, where `c` is the cursor. One half per direction, each with its own index; the
/// other half reads nothing. Forward, a further condition may apply.
macro_rules! tasks_beyond {
    ($forward:literal) => {
        concat!(
            "
  SELECT t.plan_id, t.window_from, t.window_to, t.replaced, t.status_code, t.done_from, t.done_to
  FROM c JOIN ing_task t ON t.cursor_id = c.id AND t.window_to > c.start
  WHERE c.direction_code = 'FORWARD'",
            $forward,
            "
  UNION ALL
  SELECT t.plan_id, t.window_from, t.window_to, t.replaced, t.status_code, t.done_from, t.done_to
  FROM c JOIN ing_task t ON t.cursor_id = c.id AND t.window_from < c.start AND t.operation_code = 'BACKFILL'
  WHERE c.direction_code = 'BACKFILL'"
        )
    };
}
pub(super) use tasks_beyond;

/// One statement, so one snapshot: an epoch with its windows.
pub(crate) const COVERAGE: &str = concat!(
    "
WITH c AS MATERIALIZED (
  SELECT *, coalesce(normalized_instant, origin_instant) AS start FROM ing_cursor
  WHERE project_key = $8 AND provenance_code = $1 AND operation_code = $3 AND cursor_key = $4
    AND namespace_scope_code = $5 AND namespace_key = $6
),
tasks AS MATERIALIZED (",
    tasks_beyond!(""),
    "),
covered AS (
  SELECT window_from, window_to FROM tasks
  WHERE replaced = 0
  GROUP BY plan_id, window_from, window_to
  HAVING bool_and(status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING', 'SUCCEEDED'))
  UNION
  SELECT tasks.done_from, tasks.done_to FROM tasks, c
  WHERE tasks.done_from IS NOT NULL AND tasks.status_code IN ('PARTIAL', 'FAILED', 'CANCELLED')
    AND CASE c.direction_code WHEN 'FORWARD' THEN tasks.done_to > c.start ELSE tasks.done_from < c.start END
),
history AS (
  SELECT sum(items) AS items, sum(window_to - window_from) AS span
  FROM (
    SELECT t.items, t.window_from, t.window_to
    FROM c JOIN ing_task t ON t.cursor_id = c.id
    WHERE t.status_code = 'SUCCEEDED' AND t.window_to IS NOT NULL AND NOT t.params ? 'pages'
    ORDER BY t.window_to DESC, t.id DESC
    LIMIT $7
  ) AS last
)
SELECT clock_timestamp(), c.id, c.origin_instant, c.normalized_instant, c.normalized_numeric, c.cursor_value, c.plan_epoch,
  (SELECT array_agg(window_from ORDER BY window_from, window_to) FROM covered),
  (SELECT array_agg(window_to ORDER BY window_from, window_to) FROM covered),
  (SELECT count(*) FROM ing_task
   WHERE provenance_code = $1 AND endpoint_name = $2 AND operation_code = $3 AND status_code = 'QUEUED'
     AND source_id IS NULL),
  (SELECT t.ordinal FROM ing_task t
   WHERE t.cursor_id = c.id AND t.window_to IS NULL AND t.window_from IS NULL
   ORDER BY t.cursor_id DESC, t.window_to DESC, t.window_from DESC, t.ordinal DESC
   LIMIT 1),
  (SELECT items FROM history)::bigint, (extract(epoch FROM (SELECT span FROM history)) * 1000000)::bigint,
  (SELECT max(h.normalized_instant) FROM ing_cursor h
   WHERE $3 = 'BACKFILL' AND h.provenance_code = $1 AND h.endpoint_name = $2 AND h.operation_code = 'HARVEST'
     AND h.cursor_key = $4 AND h.project_key = $8)
FROM (VALUES (1)) AS always LEFT JOIN c ON true"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[COVERAGE];

pub(super) async fn read(session: &Session, op: &ReadCoverage) -> Result<Coverage, Fail> {
    let [coverage] = session.prepare([COVERAGE]).await?;
    let name = &op.cursor;
    let (operation, scope) = (name.operation.as_str(), name.scope.as_str());
    let row = session
        .one(
            &coverage,
            &[
                &name.provenance_code,
                &name.endpoint_name,
                &operation,
                &name.cursor_key,
                &scope,
                &name.namespace_key,
                &i64::from(HISTORY),
                &name.project_key,
            ],
        )
        .await?;
    let times = |at| Ok::<_, Fail>(row.try_get::<_, Option<Vec<Time>>>(at)?.unwrap_or_default());
    let number = |at| Ok::<_, Fail>(row.try_get::<_, Option<i64>>(at)?);
    let positive = |at| Ok::<_, Fail>(u64::try_from(number(at)?.unwrap_or(0)).unwrap_or(0));
    let covered = times(7)?.into_iter().zip(times(8)?).map(|(Time(from), Time(to))| Window { from, to }).collect();
    Ok(Coverage {
        cursor: number(1)?.map(CursorId),
        origin: maybe(&row, 2)?,
        value: mark_at(&row, 3)?,
        epoch: number(6)?.unwrap_or(0),
        covered,
        next_ordinal: number(10)?.map_or(0, |greatest| greatest + 1),
        queued: count(row.try_get(9)?),
        history: History { items: positive(11)?, span: Duration::from_micros(positive(12)?) },
        harvested: maybe(&row, 13)?,
        now: row.try_get::<_, Time>(0)?.0,
    })
}
