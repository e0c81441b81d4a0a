//! Rollup of the counters: the minutes of a quarter are merged into one row, quarters into hours, and old hours are
//! deleted. Before that, the shards of a minute are merged.

use std::time::Duration;

use patra_core::port::board::{A_MINUTE, A_QUARTER, AN_HOUR, HOURS_KEPT, MINUTES_KEPT, QUARTERS_KEPT};
use patra_core::time::micros;

use crate::error::Fail;
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// After this time nothing is added to a minute any more.
const SHARDS_KEPT: Duration = Duration::from_secs(600);

const FOLD: &str = "
WITH old AS (
  DELETE FROM ing_minute
  WHERE minute >= $1 AND minute < $2 AND (shard <> 0 OR minute <> date_bin($3::bigint * interval '1 microsecond', minute, to_timestamp(0)))
  RETURNING *
)
INSERT INTO ing_minute AS m (minute, project_key, provenance_code, endpoint_name, operation_code, shard,
  picks, succeeded, partial, failed, batches, batches_failed, latency_ms, inserted, updated, skipped, rejected, late,
  retries, throttled, permits, wait_ms, retry_after, demoted, quota_soft, quota_hard, qps_downshift,
  page_size_shrink, concurrency_down, circuit_open, resliced)
SELECT date_bin($3::bigint * interval '1 microsecond', minute, to_timestamp(0)) AS longer, project_key, provenance_code, endpoint_name, operation_code, 0,
  sum(picks), sum(succeeded), sum(partial), sum(failed), sum(batches), sum(batches_failed), sum(latency_ms),
  sum(inserted), sum(updated), sum(skipped), sum(rejected), sum(late), sum(retries), sum(throttled), sum(permits),
  sum(wait_ms), sum(retry_after), sum(demoted), sum(quota_soft), sum(quota_hard), sum(qps_downshift),
  sum(page_size_shrink), sum(concurrency_down), sum(circuit_open), sum(resliced)
FROM old
GROUP BY longer, project_key, provenance_code, endpoint_name, operation_code
ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, shard) DO UPDATE
SET
  picks = m.picks + excluded.picks, succeeded = m.succeeded + excluded.succeeded,
  partial = m.partial + excluded.partial, failed = m.failed + excluded.failed,
  batches = m.batches + excluded.batches, batches_failed = m.batches_failed + excluded.batches_failed,
  latency_ms = m.latency_ms + excluded.latency_ms, inserted = m.inserted + excluded.inserted,
  updated = m.updated + excluded.updated, skipped = m.skipped + excluded.skipped,
  rejected = m.rejected + excluded.rejected, late = m.late + excluded.late, retries = m.retries + excluded.retries,
  throttled = m.throttled + excluded.throttled, permits = m.permits + excluded.permits,
  wait_ms = m.wait_ms + excluded.wait_ms, retry_after = m.retry_after + excluded.retry_after,
  demoted = m.demoted + excluded.demoted, quota_soft = m.quota_soft + excluded.quota_soft,
  quota_hard = m.quota_hard + excluded.quota_hard, qps_downshift = m.qps_downshift + excluded.qps_downshift,
  page_size_shrink = m.page_size_shrink + excluded.page_size_shrink,
  concurrency_down = m.concurrency_down + excluded.concurrency_down,
  circuit_open = m.circuit_open + excluded.circuit_open, resliced = m.resliced + excluded.resliced";

const FOLD_ERRORS: &str = "
WITH old AS (
  DELETE FROM ing_error_minute
  WHERE minute >= $1 AND minute < $2 AND (shard <> 0 OR minute <> date_bin($3::bigint * interval '1 microsecond', minute, to_timestamp(0)))
  RETURNING *
)
INSERT INTO ing_error_minute AS m (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard,
  errors, message, last_at, task_id, run_id, batch_no)
SELECT date_bin($3::bigint * interval '1 microsecond', minute, to_timestamp(0)) AS longer, project_key, provenance_code, endpoint_name, operation_code, level,
  error_code, 0, sum(errors), (array_agg(message ORDER BY last_at DESC, run_id DESC))[1], max(last_at),
  (array_agg(task_id ORDER BY last_at DESC, run_id DESC))[1], (array_agg(run_id ORDER BY last_at DESC, run_id DESC))[1],
  (array_agg(batch_no ORDER BY last_at DESC, run_id DESC))[1]
FROM old
GROUP BY longer, project_key, provenance_code, endpoint_name, operation_code, level, error_code
ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard) DO UPDATE
SET errors = m.errors + excluded.errors, last_at = greatest(m.last_at, excluded.last_at),
  message = CASE WHEN m.last_at > excluded.last_at THEN m.message ELSE excluded.message END,
  task_id = CASE WHEN m.last_at > excluded.last_at THEN m.task_id ELSE excluded.task_id END,
  run_id = CASE WHEN m.last_at > excluded.last_at THEN m.run_id ELSE excluded.run_id END,
  batch_no = CASE WHEN m.last_at > excluded.last_at THEN m.batch_no ELSE excluded.batch_no END";

const FORGET: &str = "DELETE FROM ing_minute WHERE minute < $1";

const FORGET_ERRORS: &str = "DELETE FROM ing_error_minute WHERE minute < $1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[FOLD, FOLD_ERRORS, FORGET, FORGET_ERRORS];

pub(super) async fn fold(session: &Session, now: Time) -> Result<(), Fail> {
    let [fold, fold_errors, forget, forget_errors] =
        session.prepare([FOLD, FOLD_ERRORS, FORGET, FORGET_ERRORS]).await?;
    let [shards, minutes, quarters, hours] =
        [SHARDS_KEPT, MINUTES_KEPT, QUARTERS_KEPT, HOURS_KEPT].map(|kept| Time(now.0 - kept));
    let [minute, quarter, hour] = [A_MINUTE, A_QUARTER, AN_HOUR].map(micros);
    pipeline!(
        session.write(&forget, &[&hours]),
        session.write(&forget_errors, &[&hours]),
        session.write(&fold, &[&hours, &quarters, &hour]),
        session.write(&fold_errors, &[&hours, &quarters, &hour]),
        session.write(&fold, &[&quarters, &minutes, &quarter]),
        session.write(&fold_errors, &[&quarters, &minutes, &quarter]),
        session.write(&fold, &[&minutes, &shards, &minute]),
        session.write(&fold_errors, &[&minutes, &shards, &minute]),
    )?;
    Ok(())
}
