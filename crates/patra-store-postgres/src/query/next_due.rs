//! Next due time of each queue: its first entry.

use patra_core::Ts;
use patra_core::port::next_due::NextDue;
use patra_core::time::micros;
use patra_core::tx::ADVISORY_TTL;

use crate::error::Fail;
use crate::exec::lanes;
use crate::pool::Session;
use crate::time::Time;

/// Time at which the first waiting row is free, for jobs (`<>`) or background jobs (`=`). Mostly a row is free now, and
/// then the smallest time is not computed. A missing lease counts as free.
macro_rules! first_free {
    ($comparison:literal) => {
        concat!(
            "coalesce(
    (SELECT greatest(not_before, leased_until) FROM ing_schedule_instance
     WHERE status_code = 'REQUESTED' AND provenance_code ",
            $comparison,
            " 'resource_pool' AND greatest(not_before, leased_until) <= (SELECT now FROM moment)
     ORDER BY id LIMIT 1),
    (SELECT min(greatest(not_before, leased_until)) FROM ing_schedule_instance
     WHERE status_code = 'REQUESTED' AND provenance_code ",
            $comparison,
            " 'resource_pool'))"
        )
    };
}

pub(crate) const LOOK: &str = concat!(
    "
WITH RECURSIVE moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
",
    lanes!(),
    "
SELECT (SELECT now FROM moment),
  (SELECT min(next_due_at) FROM reg_schedule),
  least(",
    first_free!("<>"),
    ",
    (SELECT min(created_at) + $1::bigint * interval '1 microsecond' FROM ing_hold
     WHERE kind_code = 'ADVISORY' AND released_at IS NULL)),
  ",
    first_free!("="),
    ",
  (SELECT min(scheduled_at) FROM lanes),
  (SELECT min(scheduled_at) FROM ing_task WHERE status_code = 'QUEUED' AND source_id IS NOT NULL),
  (SELECT min(leased_until) FROM ing_task WHERE status_code IN ('DISPATCHED', 'EXECUTING'))"
);

pub(crate) async fn read(session: &Session) -> Result<NextDue, Fail> {
    let [look] = session.prepare([LOOK]).await?;
    let row = session.one(&look, &[&micros(ADVISORY_TTL)]).await?;
    let first = |column| -> Result<Option<Ts>, Fail> { Ok(row.try_get::<_, Option<Time>>(column)?.map(|Time(at)| at)) };
    Ok(NextDue {
        now: row.try_get::<_, Time>(0)?.0,
        schedule: first(1)?,
        job: first(2)?,
        background_job: first(3)?,
        task: first(4)?,
        poll: first(5)?,
        lease: first(6)?,
    })
}
