//! When there is something to do: the first entry of each queue.

use patra_core::Ts;
use patra_core::port::ahead::Ahead;
use rusqlite::Connection;

use crate::error::Result;
use crate::exec::first_scheduled;
use crate::sql::maybe_time;

pub(crate) const LOOK: &str = "
SELECT
  (SELECT min(next_due_at) FROM reg_schedule),
  (SELECT min(max(not_before, coalesce(leased_until, 0))) FROM ing_schedule_instance INDEXED BY idx_instance_waiting
   WHERE status_code = 'REQUESTED' AND provenance_code <> 'resource_pool'),
  (SELECT min(max(not_before, coalesce(leased_until, 0))) FROM ing_schedule_instance
   WHERE status_code = 'REQUESTED' AND provenance_code = 'resource_pool'),
  (SELECT min(scheduled_at) FROM ing_task WHERE status_code = 'QUEUED' AND source_id IS NOT NULL),
  (SELECT min(leased_until) FROM ing_task WHERE status_code IN ('DISPATCHED', 'EXECUTING'))";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOOK];

pub(super) fn read(db: &Connection, now: Ts) -> Result<Ahead> {
    let task = first_scheduled(db)?;
    let ahead = db.prepare_cached(LOOK)?.query_row((), |row| {
        Ok(Ahead {
            now,
            schedule: maybe_time(row, 0)?,
            trigger: maybe_time(row, 1)?,
            chore: maybe_time(row, 2)?,
            task,
            poll: maybe_time(row, 3)?,
            lease: maybe_time(row, 4)?,
        })
    })?;
    Ok(ahead)
}
