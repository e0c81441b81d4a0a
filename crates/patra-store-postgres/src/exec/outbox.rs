//! Outbox: events that wait for delivery.

use patra_core::tx::{
    ClaimEvents, EVENTS_KEPT, EventSettled, EventUpdate, EventsClaimed, EventsRetried, NewEvent, OutboxEvent,
    PURGE_BATCH, RETRY_BATCH, RetryEvents, SettleEvent,
};
use tokio_postgres::{Row, Statement};

use super::{NOW, count, micros, moment};
use crate::error::Fail;
use crate::json::{Json, JsonText};
use crate::pool::{Session, pipeline};
use crate::time::Time;

/// Runs in the transaction that the event reports.
pub(super) const INSERT: &str = "
INSERT INTO outbox_event
  (project_key, event_type, topic, idempotency_key, payload, status_code, not_before, created_at)
SELECT e.project_key, e.event_type, e.topic, e.idempotency_key, e.payload, 'PENDING', $6, $6
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::jsonb[])
  WITH ORDINALITY AS e (project_key, event_type, topic, idempotency_key, payload, place)
ORDER BY e.place
ON CONFLICT (idempotency_key) DO NOTHING";

const FORGET: &str = "
DELETE FROM outbox_event
WHERE id = ANY (ARRAY(
  SELECT id FROM outbox_event WHERE ended_at < $1 ORDER BY ended_at LIMIT $2))";

/// Relays claim and settle one after the other: two at once would not see each other's leases and retries within a
/// topic.
const ALONE: &str = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' outbox', 0))";

/// Skips topics with an event in delivery, and events behind an earlier one of their topic that waits for a retry.
const TAKE: &str = "
WITH next AS MATERIALIZED (
  SELECT next.id FROM outbox_event next
  WHERE next.status_code = 'PENDING' AND next.event_type = $5
    AND next.not_before <= $1
    AND NOT EXISTS (
      SELECT 1 FROM outbox_event held
      WHERE held.leased_until IS NOT NULL AND held.topic = next.topic AND held.leased_until > $1)
    AND NOT EXISTS (
      SELECT 1 FROM outbox_event earlier
      WHERE earlier.status_code = 'PENDING' AND earlier.topic = next.topic AND earlier.id < next.id
        AND earlier.not_before > $1)
  ORDER BY next.id
  LIMIT $4
)
UPDATE outbox_event e
SET lease_owner = $2, leased_until = $1::timestamptz + $3::bigint * interval '1 microsecond'
WHERE e.id = ANY (ARRAY(SELECT id FROM next))
RETURNING e.id, e.project_key, e.event_type, e.topic, e.idempotency_key, e.payload, e.tries, e.created_at";

const READ_TRIES: &str = "
SELECT tries FROM outbox_event WHERE id = $1 AND lease_owner = $2 AND status_code = 'PENDING'";

const SETTLE: &str = "
UPDATE outbox_event
SET status_code = $2, tries = $3, last_error = coalesce($4, last_error), not_before = coalesce($5, not_before),
  ended_at = $6, lease_owner = NULL, leased_until = NULL
WHERE id = $1";

const RETRY: &str = "
UPDATE outbox_event
SET status_code = 'PENDING', tries = 0, not_before = clock_timestamp(), ended_at = NULL
WHERE id = ANY (ARRAY(
  SELECT id FROM outbox_event
  WHERE status_code = 'FAILED' AND ($1::text IS NULL OR project_key = $1) AND ($2::bigint IS NULL OR id = $2)
  ORDER BY id
  LIMIT $3))";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT, FORGET, ALONE, TAKE, READ_TRIES, SETTLE, RETRY];

/// Writes the events with [`INSERT`].
pub(super) async fn put(session: &Session, statement: &Statement, events: &[NewEvent], now: Time) -> Result<(), Fail> {
    if events.is_empty() {
        return Ok(());
    }
    let texts = |of: fn(&NewEvent) -> &str| events.iter().map(of).collect::<Vec<_>>();
    let payloads: Vec<_> = events.iter().map(|event| Json(event.payload.as_str())).collect();
    let (projects, types) = (texts(|event| &event.project_key), texts(|event| event.event_type));
    let (topics, keys) = (texts(|event| &event.topic), texts(|event| &event.idempotency_key));
    session.write(statement, &[&projects, &types, &topics, &keys, &payloads, &now]).await?;
    Ok(())
}

pub(super) async fn take(session: &Session, op: &ClaimEvents) -> Result<EventsClaimed, Fail> {
    let [alone, now, forget, take] = session.prepare([ALONE, NOW, FORGET, TAKE]).await?;
    let ((), _, now) = pipeline!(session.begin(), session.one(&alone, &[]), moment(session, &now))?;
    let (_, rows, ()) = pipeline!(
        session.write(&forget, &[&Time(now.0 - EVENTS_KEPT), &i64::from(PURGE_BATCH)]),
        session.rows(&take, &[&now, &op.owner, &micros(op.lease), &i64::from(op.limit), &op.event_type]),
        session.commit(),
    )?;
    let mut events = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    events.sort_by_key(|event| event.id);
    Ok(EventsClaimed { events, now: now.0 })
}

fn read(row: &Row) -> Result<OutboxEvent, Fail> {
    Ok(OutboxEvent {
        id: row.try_get(0)?,
        project_key: row.try_get(1)?,
        event_type: row.try_get(2)?,
        topic: row.try_get(3)?,
        idempotency_key: row.try_get(4)?,
        payload: row.try_get::<_, JsonText>(5)?.0,
        tries: count(row.try_get(6)?),
        created_at: row.try_get::<_, Time>(7)?.0,
    })
}

pub(super) async fn settle(session: &Session, op: &SettleEvent) -> Result<EventSettled, Fail> {
    let [alone, read, now, settle] = session.prepare([ALONE, READ_TRIES, NOW, SETTLE]).await?;
    let ((), _, held, now) = pipeline!(
        session.begin(),
        session.one(&alone, &[]),
        session.opt(&read, &[&op.id, &op.owner]),
        moment(session, &now),
    )?;
    if let Some(held) = held {
        let EventUpdate { status, tries, error, retry_in } = op.delivery.settle(count(held.try_get(0)?));
        let not_before = retry_in.map(|pause| Time(now.0 + pause));
        let ended = retry_in.is_none().then_some(now);
        session.write(&settle, &[&op.id, &status, &i64::from(tries), &error, &not_before, &ended]).await?;
    }
    session.commit().await?;
    Ok(EventSettled)
}

pub(super) async fn retry(session: &Session, op: &RetryEvents) -> Result<EventsRetried, Fail> {
    let [alone, retry] = session.prepare([ALONE, RETRY]).await?;
    let ((), _, events, ()) = pipeline!(
        session.begin(),
        session.one(&alone, &[]),
        session.write(&retry, &[&op.project_key, &op.event, &i64::from(RETRY_BATCH)]),
        session.commit(),
    )?;
    Ok(EventsRetried { events: u32::try_from(events).unwrap_or(RETRY_BATCH) })
}
