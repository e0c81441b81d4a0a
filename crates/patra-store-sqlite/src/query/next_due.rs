//! Next due time of each queue: its first entry.

use patra_core::Ts;
use patra_core::port::next_due::NextDue;
use patra_core::time::micros;
use patra_core::tx::ADVISORY_TTL;
use rusqlite::Connection;

use crate::error::Result;
use crate::exec::first_scheduled;
use crate::sql::maybe_time;

// Time at which the first waiting row is free, for jobs (`<>`) or background jobs (`=`). Mostly a row is free now, and
// then the smallest time is not computed. A missing lease counts as free.
macro_rules! first_free {
    ($index:literal, $comparison:literal) => {
        concat!(
            "coalesce(
    (SELECT max(not_before, coalesce(leased_until, 0)) FROM ing_schedule_instance INDEXED BY ",
            $index,
            "
     WHERE status_code = 'REQUESTED' AND provenance_code ",
            $comparison,
            " 'resource_pool' AND max(not_before, coalesce(leased_until, 0)) <= ?1
     ORDER BY id LIMIT 1),
    (SELECT min(max(not_before, coalesce(leased_until, 0))) FROM ing_schedule_instance INDEXED BY ",
            $index,
            "
     WHERE status_code = 'REQUESTED' AND provenance_code ",
            $comparison,
            " 'resource_pool'))"
        )
    };
}

pub(crate) const LOOK: &str = concat!(
    "
SELECT
  (SELECT min(next_due_at) FROM reg_schedule),
  ",
    first_free!("idx_instance_waiting", "<>"),
    ",
  (SELECT min(created_at) + ?2 FROM ing_hold WHERE kind_code = 'ADVISORY' AND released_at IS NULL),
  ",
    first_free!("idx_instance_chore", "="),
    ",
  (SELECT min(scheduled_at) FROM ing_task WHERE status_code = 'QUEUED' AND source_id IS NOT NULL),
  (SELECT min(leased_until) FROM ing_task WHERE status_code IN ('DISPATCHED', 'EXECUTING'))"
);

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOOK];

pub(super) fn read(db: &Connection, now: Ts) -> Result<NextDue> {
    let task = first_scheduled(db)?;
    let next_due = db.prepare_cached(LOOK)?.query_row([now.micros(), micros(ADVISORY_TTL)], |row| {
        let (trigger, advice) = (maybe_time(row, 1)?, maybe_time(row, 2)?);
        Ok(NextDue {
            now,
            schedule: maybe_time(row, 0)?,
            job: trigger.into_iter().chain(advice).min(),
            background_job: maybe_time(row, 3)?,
            task,
            poll: maybe_time(row, 4)?,
            lease: maybe_time(row, 5)?,
        })
    })?;
    Ok(next_due)
}
