//! Events that wait to be told.

use std::time::Duration;

use patra_core::tx::{EVENTS_KEPT, Event, EventSettled, EventsTaken, MAX_TELLS, SettleEvent, TakeEvents, tell_again};
use tokio_postgres::Row;

use super::{NOW, count, micros, moment};
use crate::error::Fail;
use crate::json::JsonText;
use crate::pool::{Session, pipeline};
use crate::time::{Time, maybe};

/// In the caller's transaction, with what it tells.
pub(super) const TELL: &str = "
INSERT INTO outbox_event (project_key, event_type, payload, status_code, not_before, created_at)
VALUES ($1, $2, $3, 'PENDING', $4, $4)";

/// Events that are forgotten in one go: what is more goes the next time.
const FORGOTTEN: i64 = 1_000;

const FORGET: &str = "
DELETE FROM outbox_event
WHERE id = ANY (ARRAY(
  SELECT id FROM outbox_event WHERE ended_at < $1 ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED))";

/// One that is locked is being taken by somebody else.
const TAKE: &str = "
WITH next AS MATERIALIZED (
  SELECT id FROM outbox_event
  WHERE status_code = 'PENDING' AND not_before <= $1 AND (leased_until IS NULL OR leased_until <= $1)
  ORDER BY id
  LIMIT $4
  FOR UPDATE SKIP LOCKED
)
UPDATE outbox_event e
SET lease_owner = $2, leased_until = $1::timestamptz + $3::bigint * interval '1 microsecond'
WHERE e.id = ANY (ARRAY(SELECT id FROM next))
RETURNING e.id, e.project_key, e.event_type, e.payload, e.tries, e.created_at";

const NEXT: &str = "SELECT min(greatest(not_before, leased_until)) FROM outbox_event WHERE status_code = 'PENDING'";

const LOCK: &str = "
SELECT tries FROM outbox_event WHERE id = $1 AND lease_owner = $2 AND status_code = 'PENDING' FOR UPDATE";

const SETTLE: &str = "
UPDATE outbox_event
SET status_code = $2, tries = $3, last_error = coalesce($4, last_error), not_before = coalesce($5, not_before),
  ended_at = $6, lease_owner = NULL, leased_until = NULL
WHERE id = $1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[TELL, FORGET, TAKE, NEXT, LOCK, SETTLE];

pub(super) async fn take(session: &Session, op: &TakeEvents) -> Result<EventsTaken, Fail> {
    let [now, forget, take, next] = session.prepare([NOW, FORGET, TAKE, NEXT]).await?;
    let ((), now) = pipeline!(session.begin(), moment(session, &now))?;
    let (_, rows, next, ()) = pipeline!(
        session.write(&forget, &[&Time(now.0 - EVENTS_KEPT), &FORGOTTEN]),
        session.rows(&take, &[&now, &op.owner, &micros(op.lease), &i64::from(op.limit)]),
        session.one(&next, &[]),
        session.commit(),
    )?;
    let mut events = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    events.sort_by_key(|event| event.id);
    Ok(EventsTaken { events, next: maybe(&next, 0)?, now: now.0 })
}

fn read(row: &Row) -> Result<Event, Fail> {
    Ok(Event {
        id: row.try_get(0)?,
        project_key: row.try_get(1)?,
        event_type: row.try_get(2)?,
        payload: row.try_get::<_, JsonText>(3)?.0,
        tries: count(row.try_get(4)?),
        created_at: row.try_get::<_, Time>(5)?.0,
    })
}

pub(super) async fn settle(session: &Session, op: &SettleEvent) -> Result<EventSettled, Fail> {
    let [lock, now, settle] = session.prepare([LOCK, NOW, SETTLE]).await?;
    let ((), held, now) = pipeline!(session.begin(), session.opt(&lock, &[&op.id, &op.owner]), moment(session, &now))?;
    if let Some(held) = held {
        let tries = count(held.try_get(0)?) + u32::from(op.error.is_some());
        let (status, delay) = match op.error {
            None => ("DELIVERED", None),
            Some(_) if tries >= MAX_TELLS => ("FAILED", None),
            Some(_) => ("PENDING", Some(tell_again(tries))),
        };
        let again = delay.map(|delay: Duration| Time(now.0 + delay));
        let ended = delay.is_none().then_some(now);
        session.write(&settle, &[&op.id, &status, &i64::from(tries), &op.error, &again, &ended]).await?;
    }
    session.commit().await?;
    Ok(EventSettled)
}
