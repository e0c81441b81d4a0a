//! When there is something to do: the first entry of each queue.

use patra_core::Ts;
use patra_core::port::ahead::Ahead;

use crate::error::Fail;
use crate::exec::lanes;
use crate::pool::Session;
use crate::time::Time;

/// `greatest` takes no notice of a lease that is none.
pub(crate) const LOOK: &str = concat!(
    "
WITH RECURSIVE ",
    lanes!(),
    ",
waiting AS (
  SELECT provenance_code = 'resource_pool' AS is_chore, greatest(not_before, leased_until) AS free_at
  FROM ing_schedule_instance
  WHERE status_code = 'REQUESTED'
)
SELECT clock_timestamp(),
  (SELECT min(next_due_at) FROM reg_schedule),
  (SELECT min(free_at) FROM waiting WHERE NOT is_chore),
  (SELECT min(free_at) FROM waiting WHERE is_chore),
  (SELECT min(scheduled_at) FROM lanes),
  (SELECT min(scheduled_at) FROM ing_task WHERE status_code = 'QUEUED' AND source_id IS NOT NULL),
  (SELECT min(leased_until) FROM ing_task WHERE status_code IN ('DISPATCHED', 'EXECUTING'))"
);

pub(crate) async fn read(session: &Session) -> Result<Ahead, Fail> {
    let [look] = session.prepare([LOOK]).await?;
    let row = session.one(&look, &[]).await?;
    let first = |column| -> Result<Option<Ts>, Fail> { Ok(row.try_get::<_, Option<Time>>(column)?.map(|Time(at)| at)) };
    Ok(Ahead {
        now: row.try_get::<_, Time>(0)?.0,
        schedule: first(1)?,
        trigger: first(2)?,
        chore: first(3)?,
        task: first(4)?,
        poll: first(5)?,
        lease: first(6)?,
    })
}
