//! Retention: old ledger rows move to the archive, and expired rows are deleted.

use patra_core::tx::{ArchiveLedger, ExportRecorded, LedgerArchived, RecordExport};
use tokio_postgres::Row;

use super::{NOW, count, minute, moment};
use crate::error::Fail;
use crate::object::object;
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// For this transaction only: a trigger forbids all other deletions of events.
const ARCHIVING: &str = "SELECT set_config('patra.archiving', 'on', true)";

/// A locked row is being archived by another process.
pub(crate) const READ_BATCHES: &str = "
SELECT b.*
FROM ing_task_run_batch b JOIN ing_task t ON t.id = b.task_id
WHERE b.created_at < $1 AND t.status_code IN ('SUCCEEDED', 'FAILED', 'PARTIAL', 'CANCELLED')
ORDER BY b.created_at, b.id
LIMIT $2
FOR UPDATE OF b SKIP LOCKED";

/// By number, which is the order of creation. The value of a cursor is aligned to its newest event, which stays.
const READ_EVENTS: &str = "
SELECT e.*
FROM ing_cursor_event e
WHERE e.created_at < $1 AND EXISTS (
  SELECT 1 FROM ing_cursor_event newer WHERE newer.cursor_id = e.cursor_id AND newer.id > e.id)
ORDER BY e.id
LIMIT $2
FOR UPDATE OF e SKIP LOCKED";

const INSERT: &str = "
INSERT INTO ing_archive (kind_code, row_id, schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_no, body,
  created_at, archived_at)
SELECT $1, old.row_id, old.schedule_instance_id, old.plan_id, old.slice_id, old.task_id, old.run_id, old.batch_no, old.body,
  old.created_at, $11
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[],
    $10::timestamptz[])
  WITH ORDINALITY AS old (row_id, schedule_instance_id, plan_id, slice_id, task_id, run_id, batch_no, body, created_at,
    place)
ORDER BY old.place";

const DELETE_BATCHES: &str = "DELETE FROM ing_task_run_batch WHERE id = ANY ($1::bigint[])";

const DELETE_EVENTS: &str = "DELETE FROM ing_cursor_event WHERE id = ANY ($1::bigint[])";

const DELETE_RAW: &str = "
DELETE FROM ing_raw
WHERE (run_id, batch_no) IN (
  SELECT run_id, batch_no FROM ing_raw WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

const DELETE_HOLDS: &str = "
DELETE FROM ing_hold
WHERE id IN (SELECT id FROM ing_hold WHERE released_at < $1 ORDER BY released_at, id LIMIT $2 FOR UPDATE SKIP LOCKED)";

const DELETE_SIGNALS: &str = "
DELETE FROM ing_signal
WHERE id IN (
  SELECT id FROM ing_signal WHERE status_code <> 'OPEN' AND updated_at < $1
  ORDER BY updated_at, id LIMIT $2 FOR UPDATE SKIP LOCKED)";

const EXPORT: &str = "
INSERT INTO ing_export (run_id, batch_no, created_by, reason, package_hash, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, clock_timestamp(), $6)
RETURNING id";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    ARCHIVING,
    READ_BATCHES,
    READ_EVENTS,
    INSERT,
    DELETE_BATCHES,
    DELETE_EVENTS,
    DELETE_RAW,
    DELETE_HOLDS,
    DELETE_SIGNALS,
    EXPORT,
];

pub(super) async fn archive(session: &Session, op: ArchiveLedger) -> Result<LedgerArchived, Fail> {
    let [archiving, now, batches, events] = session.prepare([ARCHIVING, NOW, READ_BATCHES, READ_EVENTS]).await?;
    let [insert, delete_batches, delete_events] = session.prepare([INSERT, DELETE_BATCHES, DELETE_EVENTS]).await?;
    let [raw, holds, signals] = session.prepare([DELETE_RAW, DELETE_HOLDS, DELETE_SIGNALS]).await?;
    let (before, limit) = (Time(op.before), i64::from(op.limit));
    let ((), _, now, batches, events) = pipeline!(
        session.begin(),
        session.one(&archiving, &[]),
        moment(session, &now),
        session.rows(&batches, &[&before, &limit]),
        session.rows(&events, &[&before, &limit]),
    )?;
    minute::fold(session, now).await?;
    let (batches, events) = (Old::of(&batches)?, Old::of(&events)?);
    let (_, _, _, _, raw, holds, signals, ()) = pipeline!(
        batches.store(session, &insert, "BATCH", now),
        session.write(&delete_batches, &[&batches.ids]),
        events.store(session, &insert, "EVENT", now),
        session.write(&delete_events, &[&events.ids]),
        session.write(&raw, &[&now, &limit]),
        session.write(&holds, &[&before, &limit]),
        session.write(&signals, &[&before, &limit]),
        session.commit(),
    )?;
    Ok(LedgerArchived {
        batches: count(batches.ids.len() as i64),
        events: count(events.ids.len() as i64),
        raw: count(raw.cast_signed()),
        settled: count((holds + signals).cast_signed()),
    })
}

/// Rows for the archive, as arrays for `unnest`.
#[derive(Default)]
struct Old {
    ids: Vec<i64>,
    /// Schedule, plan, slice, task, run and batch number.
    lineage: [Vec<Option<i64>>; 6],
    bodies: Vec<String>,
    created: Vec<Time>,
}

impl Old {
    fn of(rows: &[Row]) -> Result<Old, Fail> {
        let columns = ["schedule_instance_id", "plan_id", "slice_id", "task_id", "run_id", "batch_no"];
        let mut old = Old::default();
        for row in rows {
            old.ids.push(row.try_get("id")?);
            for (ids, column) in old.lineage.iter_mut().zip(columns) {
                ids.push(row.try_get(column)?);
            }
            old.bodies.push(object(row)?.to_string());
            old.created.push(row.try_get("created_at")?);
        }
        Ok(old)
    }

    async fn store(
        &self,
        session: &Session,
        insert: &tokio_postgres::Statement,
        kind: &str,
        now: Time,
    ) -> Result<u64, Fail> {
        let [schedules, plans, slices, tasks, runs, batches] = &self.lineage;
        let (ids, bodies, created) = (&self.ids, &self.bodies, &self.created);
        session
            .write(insert, &[&kind, ids, schedules, plans, slices, tasks, runs, batches, bodies, created, &now])
            .await
    }
}

pub(super) async fn record_export(session: &Session, op: &RecordExport) -> Result<ExportRecorded, Fail> {
    let [export] = session.prepare([EXPORT]).await?;
    let (batch_no, expires_at) = (i64::from(op.batch_no), Time(op.expires_at));
    let rows = session.alone(&export, &[&op.run, &batch_no, &op.by, &op.reason, &op.package_hash, &expires_at]).await?;
    let row = rows.first().ok_or_else(|| crate::error::refused("an export returned no id"))?;
    Ok(ExportRecorded { export: row.try_get(0)? })
}
