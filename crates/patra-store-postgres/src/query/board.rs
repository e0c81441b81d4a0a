//! Data of the boards: the current queue and the counters by the minute.

use patra_core::port::board::{
    ActivePause, CursorFilter, CursorStep, HttpStatusCount, MAX_ROWS, MAX_STEPS, QueueDepth, SeriesStep, TopError,
    Watermark, WorkCounts, WorkFilter,
};
use patra_core::port::{BoardQueries, BoxFuture};
use patra_core::state::Operation;
use patra_core::tx::{PartitionKey, PauseSubject, TxError};
use patra_core::{CursorId, Level, RunId, TaskId, Ts, Window};
use tokio_postgres::Row;

use super::{count, inventory};
use crate::PostgresStore;
use crate::error::Fail;
use crate::pool::Session;
use crate::time::{Time, maybe};

/// Filter of the rows. Project, source, endpoint and operation are the first four parameters.
macro_rules! about {
    () => {
        "($1::text IS NULL OR project_key = $1) AND ($2::text IS NULL OR provenance_code = $2)
  AND ($3::text IS NULL OR endpoint_name = $3) AND ($4::text IS NULL OR operation_code = $4)"
    };
}

/// In the order of [`WorkCounts`].
macro_rules! sums {
    () => {
        "sum(picks)::bigint, sum(succeeded)::bigint, sum(partial)::bigint, sum(failed)::bigint, sum(batches)::bigint,
  sum(batches_failed)::bigint, sum(latency_ms)::bigint, sum(inserted)::bigint, sum(updated)::bigint, sum(skipped)::bigint,
  sum(rejected)::bigint, sum(late)::bigint, sum(retries)::bigint, sum(throttled)::bigint, sum(permits)::bigint,
  sum(wait_ms)::bigint, sum(retry_after)::bigint, sum(demoted)::bigint, sum(quota_soft)::bigint, sum(quota_hard)::bigint,
  sum(qps_downshift)::bigint, sum(page_size_shrink)::bigint, sum(concurrency_down)::bigint, sum(circuit_open)::bigint,
  sum(resliced)::bigint"
    };
}

pub(crate) const QUEUED: &str = concat!(
    "
SELECT provenance_code, endpoint_name, operation_code, count(*) FILTER (WHERE status_code = 'QUEUED'),
  count(*) FILTER (WHERE status_code = 'QUEUED' AND scheduled_at <= $5),
  min(scheduled_at) FILTER (WHERE status_code = 'QUEUED' AND scheduled_at <= $5),
  min(scheduled_at) FILTER (WHERE status_code = 'QUEUED' AND scheduled_at > $5),
  count(*) FILTER (WHERE status_code <> 'QUEUED'), max(c_max)
FROM ing_task
WHERE status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING') AND ",
    about!(),
    "
GROUP BY provenance_code, endpoint_name, operation_code"
);

const NOW: &str = "SELECT clock_timestamp()";

const HELD: &str = "
SELECT kind_code, provenance_code, endpoint_name, operation_code, reason, created_at
FROM ing_hold
WHERE released_at IS NULL AND plan_id IS NULL AND slice_id IS NULL AND task_id IS NULL AND credential_id IS NULL
ORDER BY id
LIMIT $1";

pub(crate) const COUNTS: &str = concat!(
    "
SELECT ",
    sums!(),
    ", provenance_code, endpoint_name, operation_code
FROM ing_minute
WHERE minute >= $5 AND minute < $6 AND ",
    about!(),
    "
GROUP BY provenance_code, endpoint_name, operation_code"
);

pub(crate) const SERIES: &str = concat!(
    "
SELECT ",
    sums!(),
    ", date_bin($7::bigint * interval '1 minute', minute, to_timestamp(0)) AS step
FROM ing_minute
WHERE minute >= $5 AND minute < $6 AND ",
    about!(),
    "
GROUP BY step
ORDER BY step
LIMIT $8"
);

pub(crate) const ERRORS: &str = concat!(
    "
SELECT provenance_code, endpoint_name, operation_code, level, error_code, sum(errors)::bigint AS errors,
  (array_agg(message ORDER BY last_at DESC, run_id DESC))[1], max(last_at) AS last_at,
  (array_agg(task_id ORDER BY last_at DESC, run_id DESC))[1], (array_agg(run_id ORDER BY last_at DESC, run_id DESC))[1],
  (array_agg(batch_no ORDER BY last_at DESC, run_id DESC))[1]
FROM ing_error_minute
WHERE minute >= $5 AND minute < $6 AND ($7::text IS NULL OR level = $7) AND ",
    about!(),
    "
GROUP BY provenance_code, endpoint_name, operation_code, level, error_code
ORDER BY errors DESC, last_at DESC, provenance_code, endpoint_name, operation_code, level, error_code
LIMIT $8"
);

const WATERMARKS: &str = concat!(
    "
SELECT id, project_key, provenance_code, endpoint_name, operation_code, namespace_scope_code, namespace_key, direction_code,
  cursor_value, normalized_instant, updated_at
FROM ing_cursor
WHERE ",
    about!(),
    " AND ($5::text IS NULL OR namespace_key = $5)
ORDER BY normalized_instant, id
LIMIT $6"
);

/// Uses the index of the timeline, which has the namespace and not the cursor.
const ADVANCES: &str = "
SELECT e.id, e.prev_value, e.new_value, e.observed_max_value, coalesce((e.record_remarks ->> 'lateArrival')::bigint, 0),
  e.run_id, e.batch_no, e.created_at
FROM ing_cursor c JOIN ing_cursor_event e
  ON e.provenance_code = c.provenance_code AND e.operation_code = c.operation_code
  AND e.namespace_scope_code = c.namespace_scope_code AND e.namespace_key = c.namespace_key AND e.cursor_id = c.id
WHERE c.id = $1 AND e.created_at >= $2 AND e.created_at < $3
ORDER BY e.created_at DESC, e.id DESC
LIMIT $4";

pub(crate) const STATUSES: &str = "
SELECT coalesce((stats -> 'http' ->> 'status')::bigint, 0) AS status, count(*)
FROM ing_task_run_batch WHERE run_id = $1 GROUP BY status ORDER BY status";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[QUEUED, NOW, HELD, COUNTS, SERIES, ERRORS, WATERMARKS, ADVANCES, STATUSES];

impl BoardQueries for PostgresStore {
    fn queued(&self, about: WorkFilter) -> BoxFuture<'_, Result<(Vec<QueueDepth>, Ts), TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(queued(session, about))))
    }

    fn active_pauses(&self) -> BoxFuture<'_, Result<Vec<ActivePause>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(held(session))))
    }

    fn counts(
        &self,
        about: WorkFilter,
        window: Window,
    ) -> BoxFuture<'_, Result<Vec<(PartitionKey, WorkCounts)>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(counts(session, about, window))))
    }

    fn series(
        &self,
        about: WorkFilter,
        window: Window,
        minutes: u32,
    ) -> BoxFuture<'_, Result<Vec<SeriesStep>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(series(session, about, window, minutes))))
    }

    fn errors(
        &self,
        about: WorkFilter,
        level: Option<Level>,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<TopError>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(errors(session, about, level, window, limit))))
    }

    fn watermarks(&self, filter: CursorFilter) -> BoxFuture<'_, Result<Vec<Watermark>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(watermarks(session, filter))))
    }

    fn advances(
        &self,
        cursor: CursorId,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<CursorStep>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(advances(session, cursor, window, limit))))
    }

    fn statuses(&self, run: RunId) -> BoxFuture<'_, Result<Vec<HttpStatusCount>, TxError>> {
        Box::pin(self.readers.run(move |session| Box::pin(statuses(session, run))))
    }
}

async fn queued(session: &Session, about: WorkFilter) -> Result<(Vec<QueueDepth>, Ts), Fail> {
    let [queued, now] = session.prepare([QUEUED, NOW]).await?;
    let now: Time = session.one(&now, &[]).await?.try_get(0)?;
    let WorkFilter { project_key, provenance_code, endpoint_name, operation } = &about;
    let operation = operation.map(Operation::as_str);
    let rows = session.rows(&queued, &[project_key, provenance_code, endpoint_name, &operation, &now]).await?;
    let read = |row: &Row| {
        Ok(QueueDepth {
            partition: inventory(row, 0)?,
            depth: count(row, 3)?,
            due: count(row, 4)?,
            oldest_at: maybe(row, 5)?,
            next_at: maybe(row, 6)?,
            active: count(row, 7)?,
            c_max: count(row, 8)?,
        })
    };
    Ok((rows.iter().map(read).collect::<Result<_, Fail>>()?, now.0))
}

async fn held(session: &Session) -> Result<Vec<ActivePause>, Fail> {
    let [held] = session.prepare([HELD]).await?;
    let read = |row: &Row| {
        Ok(ActivePause {
            kind: row.try_get::<_, &str>(0)?.parse()?,
            subject: PauseSubject {
                provenance_code: row.try_get(1)?,
                endpoint_name: row.try_get(2)?,
                operation: row.try_get::<_, Option<&str>>(3)?.map(str::parse).transpose()?,
                ..PauseSubject::default()
            },
            reason: row.try_get(4)?,
            created_at: row.try_get::<_, Time>(5)?.0,
        })
    };
    session.rows(&held, &[&i64::from(MAX_ROWS)]).await?.iter().map(read).collect()
}

async fn counts(session: &Session, about: WorkFilter, window: Window) -> Result<Vec<(PartitionKey, WorkCounts)>, Fail> {
    let [counts] = session.prepare([COUNTS]).await?;
    let WorkFilter { project_key, provenance_code, endpoint_name, operation } = &about;
    let (operation, from, to) = (operation.map(Operation::as_str), Time(window.from), Time(window.to));
    let rows = session.rows(&counts, &[project_key, provenance_code, endpoint_name, &operation, &from, &to]).await?;
    let read = |row: &Row| Ok((inventory(row, WorkCounts::COLUMNS.len())?, WorkCounts::read(|at| count(row, at))?));
    rows.iter().map(read).collect()
}

async fn series(session: &Session, about: WorkFilter, window: Window, minutes: u32) -> Result<Vec<SeriesStep>, Fail> {
    let [series] = session.prepare([SERIES]).await?;
    let WorkFilter { project_key, provenance_code, endpoint_name, operation } = &about;
    let (operation, from, to) = (operation.map(Operation::as_str), Time(window.from), Time(window.to));
    let (minutes, limit) = (i64::from(minutes.max(1)), i64::from(MAX_STEPS));
    let rows = session
        .rows(&series, &[project_key, provenance_code, endpoint_name, &operation, &from, &to, &minutes, &limit])
        .await?;
    let read = |row: &Row| {
        let at = row.try_get::<_, Time>(WorkCounts::COLUMNS.len())?.0;
        Ok(SeriesStep { at, counts: WorkCounts::read(|at| count(row, at))? })
    };
    rows.iter().map(read).collect()
}

async fn errors(
    session: &Session,
    about: WorkFilter,
    level: Option<Level>,
    window: Window,
    limit: u32,
) -> Result<Vec<TopError>, Fail> {
    let [errors] = session.prepare([ERRORS]).await?;
    let WorkFilter { project_key, provenance_code, endpoint_name, operation } = &about;
    let (operation, from, to) = (operation.map(Operation::as_str), Time(window.from), Time(window.to));
    let (level, limit) = (level.map(Level::as_str), i64::from(limit.min(MAX_ROWS)));
    let rows = session
        .rows(&errors, &[project_key, provenance_code, endpoint_name, &operation, &from, &to, &level, &limit])
        .await?;
    let read = |row: &Row| {
        Ok(TopError {
            partition: inventory(row, 0)?,
            level: row.try_get::<_, &str>(3)?.parse()?,
            code: row.try_get::<_, &str>(4)?.parse()?,
            errors: count(row, 5)?,
            message: row.try_get(6)?,
            last_at: row.try_get::<_, Time>(7)?.0,
            task_id: TaskId(row.try_get(8)?),
            run_id: RunId(row.try_get(9)?),
            batch_no: row.try_get::<_, Option<i64>>(10)?.and_then(|no| u32::try_from(no).ok()),
        })
    };
    rows.iter().map(read).collect()
}

async fn watermarks(session: &Session, filter: CursorFilter) -> Result<Vec<Watermark>, Fail> {
    let [watermarks] = session.prepare([WATERMARKS]).await?;
    let WorkFilter { project_key, provenance_code, endpoint_name, operation } = &filter.work;
    let (operation, limit) = (operation.map(Operation::as_str), i64::from(filter.limit.min(MAX_ROWS)));
    let rows = session
        .rows(&watermarks, &[project_key, provenance_code, endpoint_name, &operation, &filter.namespace, &limit])
        .await?;
    let read = |row: &Row| {
        Ok(Watermark {
            cursor: CursorId(row.try_get(0)?),
            project_key: row.try_get(1)?,
            partition: inventory(row, 2)?,
            scope: row.try_get(5)?,
            namespace: row.try_get(6)?,
            direction: row.try_get::<_, &str>(7)?.parse()?,
            value: row.try_get(8)?,
            instant: maybe(row, 9)?,
            updated_at: row.try_get::<_, Time>(10)?.0,
        })
    };
    rows.iter().map(read).collect()
}

async fn advances(session: &Session, cursor: CursorId, window: Window, limit: u32) -> Result<Vec<CursorStep>, Fail> {
    let [advances] = session.prepare([ADVANCES]).await?;
    let (from, to, limit) = (Time(window.from), Time(window.to), i64::from(limit.min(MAX_ROWS)));
    let read = |row: &Row| {
        Ok(CursorStep {
            id: row.try_get(0)?,
            cursor,
            from: row.try_get(1)?,
            to: row.try_get(2)?,
            observed_max_value: row.try_get(3)?,
            late: count(row, 4)?,
            run_id: row.try_get::<_, Option<i64>>(5)?.map(RunId),
            batch_no: row.try_get::<_, Option<i64>>(6)?.and_then(|no| u32::try_from(no).ok()),
            created_at: row.try_get::<_, Time>(7)?.0,
        })
    };
    session.rows(&advances, &[&cursor.0, &from, &to, &limit]).await?.iter().map(read).collect()
}

async fn statuses(session: &Session, run: RunId) -> Result<Vec<HttpStatusCount>, Fail> {
    let [statuses] = session.prepare([STATUSES]).await?;
    let read = |row: &Row| {
        let status = u16::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
        Ok(HttpStatusCount { status, batches: count(row, 1)? })
    };
    session.rows(&statuses, &[&run.0]).await?.iter().map(read).collect()
}
