//! What became of one trigger.

use patra_core::InstanceId;
use patra_core::port::query::Progress;

use crate::error::Fail;
use crate::json::JsonText;
use crate::pool::Session;

pub(crate) const PROGRESS: &str = "
SELECT i.id, i.status_code, i.record_remarks, t.queued, t.active, t.succeeded, t.partial, t.failed, t.cancelled,
  b.batches, b.inserted, b.updated, b.skipped, b.rejected, b.retries, b.throttled
FROM ing_schedule_instance i
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE status_code = 'QUEUED') AS queued,
    count(*) FILTER (WHERE status_code IN ('DISPATCHED', 'EXECUTING')) AS active,
    count(*) FILTER (WHERE status_code = 'SUCCEEDED') AS succeeded,
    count(*) FILTER (WHERE status_code = 'PARTIAL') AS partial,
    count(*) FILTER (WHERE status_code = 'FAILED') AS failed,
    count(*) FILTER (WHERE status_code = 'CANCELLED') AS cancelled
  FROM ing_task WHERE schedule_instance_id = i.id
) AS t
CROSS JOIN LATERAL (
  SELECT count(*) AS batches, coalesce(sum(inserted), 0)::bigint AS inserted,
    coalesce(sum(updated), 0)::bigint AS updated, coalesce(sum(skipped), 0)::bigint AS skipped,
    coalesce(sum(failed), 0)::bigint AS rejected, coalesce(sum(retries), 0)::bigint AS retries,
    coalesce(sum(throttled), 0)::bigint AS throttled
  FROM ing_task_run_batch WHERE schedule_instance_id = i.id AND status_code = 'SUCCEEDED'
) AS b
WHERE i.public_id = $1";

pub(crate) async fn progress(session: &Session, public_id: String) -> Result<Option<Progress>, Fail> {
    let [statement] = session.prepare([PROGRESS]).await?;
    let Some(row) = session.opt(&statement, &[&public_id]).await? else { return Ok(None) };
    let sum = |at| Ok::<u64, Fail>(u64::try_from(row.try_get::<_, i64>(at)?).unwrap_or(0));
    Ok(Some(Progress {
        instance: InstanceId(row.try_get(0)?),
        trigger_status: row.try_get::<_, &str>(1)?.parse()?,
        remarks: row.try_get::<_, Option<JsonText>>(2)?.map(|JsonText(text)| text),
        tasks_queued: sum(3)?,
        tasks_active: sum(4)?,
        tasks_succeeded: sum(5)?,
        tasks_partial: sum(6)?,
        tasks_failed: sum(7)?,
        tasks_cancelled: sum(8)?,
        batches: sum(9)?,
        inserted: sum(10)?,
        updated: sum(11)?,
        skipped: sum(12)?,
        rejected: sum(13)?,
        retries: sum(14)?,
        throttled: sum(15)?,
    }))
}
