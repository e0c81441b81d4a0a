//! Progress of one trigger.

use patra_core::JobId;
use patra_core::port::query::JobProgress;

use super::count;
use crate::error::Fail;
use crate::json::JsonText;
use crate::pool::Session;
use crate::time::{Time, maybe};

pub(crate) const PROGRESS: &str = "
WITH asked AS (
  SELECT * FROM ing_schedule_instance WHERE public_id = $1
), family AS (
  SELECT id, NULL::text AS made FROM asked
  UNION ALL
  SELECT i.id, i.status_code FROM ing_schedule_instance i JOIN asked ON i.root_id = asked.id
), per_trigger AS (
  SELECT f.made, t.queued, t.active, t.succeeded, t.unverified, t.partial, t.split, t.failed, t.cancelled, t.started_at, t.finished_at
  FROM family f
  CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE status_code = 'QUEUED') AS queued,
      count(*) FILTER (WHERE status_code IN ('DISPATCHED', 'EXECUTING')) AS active,
      count(*) FILTER (WHERE status_code = 'SUCCEEDED' AND replaced = 0) AS succeeded,
      count(*) FILTER (WHERE status_code = 'SUCCEEDED' AND is_unverified = 1) AS unverified,
      count(*) FILTER (WHERE status_code = 'PARTIAL' AND replaced = 0) AS partial,
      count(*) FILTER (WHERE replaced = 1) AS split,
      count(*) FILTER (WHERE status_code = 'FAILED' AND replaced = 0) AS failed,
      count(*) FILTER (WHERE status_code = 'CANCELLED' AND replaced = 0) AS cancelled,
      min(started_at) AS started_at, max(finished_at) AS finished_at
    FROM ing_task task WHERE task.schedule_instance_id = f.id
  ) AS t
), tasks AS (
  SELECT count(made) AS made, count(*) FILTER (WHERE made = 'REQUESTED') AS waiting,
    count(*) FILTER (WHERE made = 'FAILED') AS refused,
    count(*) FILTER (WHERE made <> 'REQUESTED' AND queued + active > 0) AS open,
    coalesce(sum(queued), 0)::bigint AS queued, coalesce(sum(active), 0)::bigint AS active,
    coalesce(sum(succeeded), 0)::bigint AS succeeded, coalesce(sum(partial), 0)::bigint AS partial,
    coalesce(sum(unverified), 0)::bigint AS unverified,
    coalesce(sum(split), 0)::bigint AS split,
    coalesce(sum(failed), 0)::bigint AS failed, coalesce(sum(cancelled), 0)::bigint AS cancelled,
    min(started_at) AS started_at, max(finished_at) AS finished_at
  FROM per_trigger
), batches AS (
  SELECT count(*) AS batches, coalesce(sum(b.inserted), 0)::bigint AS inserted,
    coalesce(sum(b.updated), 0)::bigint AS updated, coalesce(sum(b.skipped), 0)::bigint AS skipped,
    coalesce(sum(b.out_of_window), 0)::bigint AS out_of_window, coalesce(sum(b.filtered), 0)::bigint AS filtered,
    coalesce(sum(b.failed), 0)::bigint AS rejected, coalesce(sum(b.retries), 0)::bigint AS retries,
    coalesce(sum(b.throttled), 0)::bigint AS throttled
  FROM family f JOIN ing_task_run_batch b ON b.schedule_instance_id = f.id
  WHERE b.status_code = 'SUCCEEDED'
)
SELECT asked.id, asked.status_code, asked.record_remarks, t.queued, t.active, t.succeeded, t.partial, t.failed,
  t.cancelled, b.batches, b.inserted, b.updated, b.skipped, b.rejected, b.retries, b.throttled, t.made, t.waiting,
  t.refused, t.open, t.split, asked.project_key, asked.job_type,
  asked.provenance_code = 'resource_pool' AND asked.status_code = 'REQUESTED' AND coalesce(asked.leased_until > now(), false),
  asked.result, asked.request_id, asked.created_at,
  coalesce(asked.started_at, t.started_at), asked.finished_at, t.finished_at,
  (SELECT task.error FROM family f JOIN ing_task task ON task.schedule_instance_id = f.id
   WHERE task.status_code IN ('FAILED', 'PARTIAL') AND task.replaced = 0
   ORDER BY task.finished_at DESC, task.id DESC
   LIMIT 1), b.out_of_window, b.filtered, t.unverified
FROM asked, tasks t, batches b";

pub(crate) async fn progress(session: &Session, public_id: String) -> Result<Option<JobProgress>, Fail> {
    let [statement] = session.prepare([PROGRESS]).await?;
    let Some(row) = session.opt(&statement, &[&public_id]).await? else { return Ok(None) };
    let sum = |at| count(&row, at);
    let mut progress = JobProgress {
        job: JobId(row.try_get(0)?),
        project_key: row.try_get(21)?,
        job_type: row.try_get(22)?,
        in_progress: row.try_get(23)?,
        result: row.try_get::<_, Option<JsonText>>(24)?.map(|JsonText(text)| text),
        request_id: row.try_get(25)?,
        created_at: row.try_get::<_, Time>(26)?.0,
        started_at: maybe(&row, 27)?,
        finished_at: maybe(&row, 28)?,
        job_status: row.try_get::<_, &str>(1)?.parse()?,
        remarks: row.try_get::<_, Option<JsonText>>(2)?.map(|JsonText(text)| text),
        partitions: sum(16)?,
        partitions_waiting: sum(17)?,
        partitions_failed: sum(18)?,
        partitions_open: sum(19)?,
        tasks_queued: sum(3)?,
        tasks_active: sum(4)?,
        tasks_succeeded: sum(5)?,
        tasks_unverified: sum(33)?,
        tasks_partial: sum(6)?,
        tasks_split: sum(20)?,
        tasks_failed: sum(7)?,
        tasks_cancelled: sum(8)?,
        fault: row.try_get::<_, Option<JsonText>>(30)?.map(|JsonText(text)| serde_json::from_str(&text)).transpose()?,
        batches: sum(9)?,
        inserted: sum(10)?,
        updated: sum(11)?,
        skipped: sum(12)?,
        out_of_window: sum(31)?,
        filtered: sum(32)?,
        rejected: sum(13)?,
        retries: sum(14)?,
        throttled: sum(15)?,
    };
    if progress.finished_at.is_none() && progress.is_finished() {
        progress.finished_at = maybe(&row, 29)?;
    }
    Ok(Some(progress))
}
