//! Data of the boards: the current queue and the counters by the minute.

use patra_core::port::board::{
    ActivePause, CursorFilter, CursorStep, HttpStatusCount, MAX_ROWS, MAX_STEPS, QueueDepth, SeriesStep, TopError,
    Watermark, WorkCounts, WorkFilter,
};
use patra_core::port::{BoardQueries, BoxFuture};
use patra_core::state::Operation;
use patra_core::tx::{PartitionKey, PauseSubject, TxError};
use patra_core::{CursorId, Level, RunId, TaskId, Ts, Window};
use rusqlite::{Connection, Row, params};

use super::all;
use crate::SqliteStore;
use crate::error::Result;
use crate::reader::SqliteReader;
use crate::sql::{count, maybe_time, maybe_word, time, word};

// Filter of the rows. Project, source, endpoint and operation are the first four parameters.
macro_rules! about {
    () => {
        "(?1 IS NULL OR project_key = ?1) AND (?2 IS NULL OR provenance_code = ?2)
  AND (?3 IS NULL OR endpoint_name = ?3) AND (?4 IS NULL OR operation_code = ?4)"
    };
}

// In the order of `WorkCounts`.
macro_rules! sums {
    () => {
        "sum(picks), sum(succeeded), sum(partial), sum(failed), sum(batches), sum(batches_failed), sum(latency_ms), sum(inserted),
  sum(updated), sum(skipped), sum(rejected), sum(late), sum(retries), sum(throttled), sum(permits), sum(wait_ms),
  sum(retry_after), sum(demoted), sum(quota_soft), sum(quota_hard), sum(qps_downshift), sum(page_size_shrink),
  sum(concurrency_down), sum(circuit_open), sum(resliced)"
    };
}

pub(crate) const READ_QUEUED: &str = concat!(
    "
SELECT provenance_code, endpoint_name, operation_code, count(*) FILTER (WHERE status_code = 'QUEUED'),
  count(*) FILTER (WHERE status_code = 'QUEUED' AND scheduled_at <= ?5),
  min(scheduled_at) FILTER (WHERE status_code = 'QUEUED' AND scheduled_at <= ?5),
  min(scheduled_at) FILTER (WHERE status_code = 'QUEUED' AND scheduled_at > ?5),
  count(*) FILTER (WHERE status_code <> 'QUEUED'), max(c_max)
FROM ing_task INDEXED BY idx_task_open
WHERE status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING') AND ",
    about!(),
    "
GROUP BY provenance_code, endpoint_name, operation_code"
);

const READ_HELD: &str = "
SELECT kind_code, provenance_code, endpoint_name, operation_code, reason, created_at
FROM ing_hold
WHERE released_at IS NULL AND plan_id IS NULL AND slice_id IS NULL AND task_id IS NULL AND credential_id IS NULL
ORDER BY id
LIMIT ?1";

pub(crate) const READ_COUNTS: &str = concat!(
    "
SELECT ",
    sums!(),
    ", provenance_code, endpoint_name, operation_code
FROM ing_minute
WHERE minute >= ?5 AND minute < ?6 AND ",
    about!(),
    "
GROUP BY provenance_code, endpoint_name, operation_code"
);

pub(crate) const READ_SERIES: &str = concat!(
    "
SELECT ",
    sums!(),
    ", minute - minute % (?7 * 60000000) AS step
FROM ing_minute
WHERE minute >= ?5 AND minute < ?6 AND ",
    about!(),
    "
GROUP BY step
ORDER BY step
LIMIT ?8"
);

// SQLite takes the ungrouped columns from the row with the maximum: the last occurrence.
pub(crate) const READ_ERRORS: &str = concat!(
    "
SELECT provenance_code, endpoint_name, operation_code, level, error_code, sum(errors) AS errors, message, last_at, task_id,
  run_id, batch_no, max(printf('%020d %020d', last_at, run_id))
FROM ing_error_minute
WHERE minute >= ?5 AND minute < ?6 AND (?7 IS NULL OR level = ?7) AND ",
    about!(),
    "
GROUP BY provenance_code, endpoint_name, operation_code, level, error_code
ORDER BY errors DESC, last_at DESC, provenance_code, endpoint_name, operation_code, level, error_code
LIMIT ?8"
);

const READ_WATERMARKS: &str = concat!(
    "
SELECT id, project_key, provenance_code, endpoint_name, operation_code, namespace_scope_code, namespace_key, direction_code,
  cursor_value, normalized_instant, updated_at
FROM ing_cursor
WHERE ",
    about!(),
    " AND (?5 IS NULL OR namespace_key = ?5)
ORDER BY normalized_instant NULLS LAST, id
LIMIT ?6"
);

// Uses the index of the timeline, which has the namespace and not the cursor.
pub(crate) const READ_ADVANCES: &str = "
SELECT e.id, e.prev_value, e.new_value, e.observed_max_value, coalesce(e.record_remarks ->> '$.lateArrival', 0), e.run_id,
  e.batch_no, e.created_at
FROM ing_cursor c JOIN ing_cursor_event e
  ON e.provenance_code = c.provenance_code AND e.operation_code = c.operation_code
  AND e.namespace_scope_code = c.namespace_scope_code AND e.namespace_key = c.namespace_key AND e.cursor_id = c.id
WHERE c.id = ?1 AND e.created_at >= ?2 AND e.created_at < ?3
ORDER BY e.created_at DESC, e.id DESC
LIMIT ?4";

pub(crate) const READ_STATUSES: &str = "
SELECT coalesce(stats ->> '$.http.status', 0) AS status, count(*)
FROM ing_task_run_batch WHERE run_id = ?1 GROUP BY status ORDER BY status";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] =
    &[READ_QUEUED, READ_HELD, READ_COUNTS, READ_SERIES, READ_ERRORS, READ_WATERMARKS, READ_ADVANCES, READ_STATUSES];

impl BoardQueries for SqliteReader {
    fn queued(&self, about: WorkFilter) -> BoxFuture<'_, Result<(Vec<QueueDepth>, Ts), TxError>> {
        let now = self.now();
        Box::pin(self.read(move |db| Ok((queued(db, &about, now)?, now))))
    }

    fn active_pauses(&self) -> BoxFuture<'_, Result<Vec<ActivePause>, TxError>> {
        Box::pin(self.read(|db| all(db, READ_HELD, params![MAX_ROWS], read_held)))
    }

    fn counts(
        &self,
        about: WorkFilter,
        window: Window,
    ) -> BoxFuture<'_, Result<Vec<(PartitionKey, WorkCounts)>, TxError>> {
        Box::pin(self.read(move |db| counts(db, &about, window)))
    }

    fn series(
        &self,
        about: WorkFilter,
        window: Window,
        minutes: u32,
    ) -> BoxFuture<'_, Result<Vec<SeriesStep>, TxError>> {
        Box::pin(self.read(move |db| series(db, &about, window, minutes)))
    }

    fn errors(
        &self,
        about: WorkFilter,
        level: Option<Level>,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<TopError>, TxError>> {
        Box::pin(self.read(move |db| errors(db, &about, level, window, limit)))
    }

    fn watermarks(&self, filter: CursorFilter) -> BoxFuture<'_, Result<Vec<Watermark>, TxError>> {
        Box::pin(self.read(move |db| watermarks(db, &filter)))
    }

    fn advances(
        &self,
        cursor: CursorId,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<CursorStep>, TxError>> {
        Box::pin(self.read(move |db| advances(db, cursor, window, limit)))
    }

    fn statuses(&self, run: RunId) -> BoxFuture<'_, Result<Vec<HttpStatusCount>, TxError>> {
        Box::pin(self.read(move |db| all(db, READ_STATUSES, params![run.0], read_status)))
    }
}

impl BoardQueries for SqliteStore {
    fn queued(&self, about: WorkFilter) -> BoxFuture<'_, Result<(Vec<QueueDepth>, Ts), TxError>> {
        self.inner.reader.queued(about)
    }

    fn active_pauses(&self) -> BoxFuture<'_, Result<Vec<ActivePause>, TxError>> {
        self.inner.reader.active_pauses()
    }

    fn counts(
        &self,
        about: WorkFilter,
        window: Window,
    ) -> BoxFuture<'_, Result<Vec<(PartitionKey, WorkCounts)>, TxError>> {
        self.inner.reader.counts(about, window)
    }

    fn series(
        &self,
        about: WorkFilter,
        window: Window,
        minutes: u32,
    ) -> BoxFuture<'_, Result<Vec<SeriesStep>, TxError>> {
        self.inner.reader.series(about, window, minutes)
    }

    fn errors(
        &self,
        about: WorkFilter,
        level: Option<Level>,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<TopError>, TxError>> {
        self.inner.reader.errors(about, level, window, limit)
    }

    fn watermarks(&self, filter: CursorFilter) -> BoxFuture<'_, Result<Vec<Watermark>, TxError>> {
        self.inner.reader.watermarks(filter)
    }

    fn advances(
        &self,
        cursor: CursorId,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<CursorStep>, TxError>> {
        self.inner.reader.advances(cursor, window, limit)
    }

    fn statuses(&self, run: RunId) -> BoxFuture<'_, Result<Vec<HttpStatusCount>, TxError>> {
        self.inner.reader.statuses(run)
    }
}

fn queued(db: &Connection, about: &WorkFilter, now: Ts) -> Result<Vec<QueueDepth>> {
    let WorkFilter { project_key, provenance_code, endpoint_name, operation } = about;
    let operation = operation.map(Operation::as_str);
    let values = params![project_key, provenance_code, endpoint_name, operation, now.micros()];
    all(db, READ_QUEUED, values, |row| {
        Ok(QueueDepth {
            partition: inventory(row, 0)?,
            depth: count(row, 3)?,
            due: count(row, 4)?,
            oldest_at: maybe_time(row, 5)?,
            next_at: maybe_time(row, 6)?,
            active: count(row, 7)?,
            c_max: count(row, 8)?,
        })
    })
}

fn read_held(row: &Row<'_>) -> rusqlite::Result<ActivePause> {
    Ok(ActivePause {
        kind: word(row, 0)?,
        subject: PauseSubject {
            provenance_code: row.get(1)?,
            endpoint_name: row.get(2)?,
            operation: maybe_word(row, 3)?,
            ..PauseSubject::default()
        },
        reason: row.get(4)?,
        created_at: time(row, 5)?,
    })
}

fn counts(db: &Connection, about: &WorkFilter, window: Window) -> Result<Vec<(PartitionKey, WorkCounts)>> {
    let WorkFilter { project_key, provenance_code, endpoint_name, operation } = about;
    let (operation, from, to) = (operation.map(Operation::as_str), window.from.micros(), window.to.micros());
    let values = params![project_key, provenance_code, endpoint_name, operation, from, to];
    all(db, READ_COUNTS, values, |row| {
        Ok((inventory(row, WorkCounts::COLUMNS.len())?, WorkCounts::read(|at| count(row, at))?))
    })
}

fn series(db: &Connection, about: &WorkFilter, window: Window, minutes: u32) -> Result<Vec<SeriesStep>> {
    let WorkFilter { project_key, provenance_code, endpoint_name, operation } = about;
    let (operation, from, to) = (operation.map(Operation::as_str), window.from.micros(), window.to.micros());
    let values = params![project_key, provenance_code, endpoint_name, operation, from, to, minutes.max(1), MAX_STEPS];
    all(db, READ_SERIES, values, |row| {
        Ok(SeriesStep { at: time(row, WorkCounts::COLUMNS.len())?, counts: WorkCounts::read(|at| count(row, at))? })
    })
}

fn errors(
    db: &Connection,
    about: &WorkFilter,
    level: Option<Level>,
    window: Window,
    limit: u32,
) -> Result<Vec<TopError>> {
    let WorkFilter { project_key, provenance_code, endpoint_name, operation } = about;
    let (operation, from, to) = (operation.map(Operation::as_str), window.from.micros(), window.to.micros());
    let (level, limit) = (level.map(Level::as_str), limit.min(MAX_ROWS));
    let values = params![project_key, provenance_code, endpoint_name, operation, from, to, level, limit];
    all(db, READ_ERRORS, values, |row| {
        Ok(TopError {
            partition: inventory(row, 0)?,
            level: word(row, 3)?,
            code: word(row, 4)?,
            errors: count(row, 5)?,
            message: row.get(6)?,
            last_at: time(row, 7)?,
            task_id: TaskId(row.get(8)?),
            run_id: RunId(row.get(9)?),
            batch_no: row.get(10)?,
        })
    })
}

fn watermarks(db: &Connection, filter: &CursorFilter) -> Result<Vec<Watermark>> {
    let WorkFilter { project_key, provenance_code, endpoint_name, operation } = &filter.work;
    let (operation, limit) = (operation.map(Operation::as_str), filter.limit.min(MAX_ROWS));
    let values = params![project_key, provenance_code, endpoint_name, operation, filter.namespace, limit];
    all(db, READ_WATERMARKS, values, |row| {
        Ok(Watermark {
            cursor: CursorId(row.get(0)?),
            project_key: row.get(1)?,
            partition: inventory(row, 2)?,
            scope: row.get(5)?,
            namespace: row.get(6)?,
            direction: word(row, 7)?,
            value: row.get(8)?,
            instant: maybe_time(row, 9)?,
            updated_at: time(row, 10)?,
        })
    })
}

fn advances(db: &Connection, cursor: CursorId, window: Window, limit: u32) -> Result<Vec<CursorStep>> {
    let values = params![cursor.0, window.from.micros(), window.to.micros(), limit.min(MAX_ROWS)];
    all(db, READ_ADVANCES, values, |row| {
        Ok(CursorStep {
            id: row.get(0)?,
            cursor,
            from: row.get(1)?,
            to: row.get(2)?,
            observed_max_value: row.get(3)?,
            late: count(row, 4)?,
            run_id: row.get::<_, Option<i64>>(5)?.map(RunId),
            batch_no: row.get(6)?,
            created_at: time(row, 7)?,
        })
    })
}

fn read_status(row: &Row<'_>) -> rusqlite::Result<HttpStatusCount> {
    Ok(HttpStatusCount { status: row.get(0)?, batches: count(row, 1)? })
}

fn inventory(row: &Row<'_>, at: usize) -> rusqlite::Result<PartitionKey> {
    Ok(PartitionKey { provenance_code: row.get(at)?, endpoint_name: row.get(at + 1)?, operation: word(row, at + 2)? })
}
