//! Rollup of the counters: the minutes of a quarter are merged into one row, quarters into hours, and old hours are
//! deleted. Before that, the shards of a minute are merged.

use patra_core::Ts;
use patra_core::port::board::{A_QUARTER, AN_HOUR, HOURS_KEPT, MINUTES_KEPT, QUARTERS_KEPT};
use patra_core::time::micros;
use rusqlite::Connection;

use crate::error::Result;

const FOLD: &str = "
INSERT INTO ing_minute (minute, project_key, provenance_code, endpoint_name, operation_code, shard,
  picks, succeeded, partial, failed, batches, batches_failed, latency_ms, inserted, updated, skipped, rejected, late,
  retries, throttled, permits, wait_ms, retry_after, demoted, quota_soft, quota_hard, qps_downshift,
  page_size_shrink, concurrency_down, circuit_open, resliced)
SELECT minute - minute % ?3 AS longer, project_key, provenance_code, endpoint_name, operation_code, 0,
  sum(picks), sum(succeeded), sum(partial), sum(failed), sum(batches), sum(batches_failed), sum(latency_ms),
  sum(inserted), sum(updated), sum(skipped), sum(rejected), sum(late), sum(retries), sum(throttled), sum(permits),
  sum(wait_ms), sum(retry_after), sum(demoted), sum(quota_soft), sum(quota_hard), sum(qps_downshift),
  sum(page_size_shrink), sum(concurrency_down), sum(circuit_open), sum(resliced)
FROM ing_minute
WHERE minute >= ?1 AND minute < ?2 AND minute % ?3 <> 0
GROUP BY longer, project_key, provenance_code, endpoint_name, operation_code
ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, shard) DO UPDATE
SET
  picks = picks + excluded.picks, succeeded = succeeded + excluded.succeeded, partial = partial + excluded.partial,
  failed = failed + excluded.failed, batches = batches + excluded.batches,
  batches_failed = batches_failed + excluded.batches_failed, latency_ms = latency_ms + excluded.latency_ms,
  inserted = inserted + excluded.inserted, updated = updated + excluded.updated,
  skipped = skipped + excluded.skipped, rejected = rejected + excluded.rejected, late = late + excluded.late,
  retries = retries + excluded.retries, throttled = throttled + excluded.throttled,
  permits = permits + excluded.permits, wait_ms = wait_ms + excluded.wait_ms,
  retry_after = retry_after + excluded.retry_after, demoted = demoted + excluded.demoted,
  quota_soft = quota_soft + excluded.quota_soft, quota_hard = quota_hard + excluded.quota_hard,
  qps_downshift = qps_downshift + excluded.qps_downshift,
  page_size_shrink = page_size_shrink + excluded.page_size_shrink,
  concurrency_down = concurrency_down + excluded.concurrency_down,
  circuit_open = circuit_open + excluded.circuit_open, resliced = resliced + excluded.resliced";

// SQLite takes the ungrouped columns from the row with the maximum: the last occurrence.
const FOLD_ERRORS: &str = "
INSERT INTO ing_error_minute (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard,
  errors, message, last_at, task_id, run_id, batch_no)
SELECT longer, project_key, provenance_code, endpoint_name, operation_code, level, error_code, 0, errors, message, last_at,
  task_id, run_id, batch_no
FROM (
  SELECT minute - minute % ?3 AS longer, project_key, provenance_code, endpoint_name, operation_code, level, error_code,
    sum(errors) AS errors, message, max(last_at) AS last_at, task_id, run_id, batch_no
  FROM ing_error_minute
  WHERE minute >= ?1 AND minute < ?2 AND minute % ?3 <> 0
  GROUP BY longer, project_key, provenance_code, endpoint_name, operation_code, level, error_code
)
WHERE true
ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard) DO UPDATE
SET errors = errors + excluded.errors, message = excluded.message, last_at = excluded.last_at, task_id = excluded.task_id,
  run_id = excluded.run_id, batch_no = excluded.batch_no";

const DROP_FOLDED: &str = "DELETE FROM ing_minute WHERE minute >= ?1 AND minute < ?2 AND minute % ?3 <> 0";

const DROP_FOLDED_ERRORS: &str = "DELETE FROM ing_error_minute WHERE minute >= ?1 AND minute < ?2 AND minute % ?3 <> 0";

const FORGET: &str = "DELETE FROM ing_minute WHERE minute < ?1";

const FORGET_ERRORS: &str = "DELETE FROM ing_error_minute WHERE minute < ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[FOLD, FOLD_ERRORS, DROP_FOLDED, DROP_FOLDED_ERRORS, FORGET, FORGET_ERRORS];

pub(crate) fn fold(db: &Connection, now: Ts) -> Result<()> {
    let [minutes, quarters, hours] = [MINUTES_KEPT, QUARTERS_KEPT, HOURS_KEPT].map(|kept| (now - kept).micros());
    for statement in [FORGET, FORGET_ERRORS] {
        db.prepare_cached(statement)?.execute([hours])?;
    }
    for (from, to, longer) in [(hours, quarters, AN_HOUR), (quarters, minutes, A_QUARTER)] {
        for statement in [FOLD, DROP_FOLDED, FOLD_ERRORS, DROP_FOLDED_ERRORS] {
            db.prepare_cached(statement)?.execute([from, to, micros(longer)])?;
        }
    }
    Ok(())
}
