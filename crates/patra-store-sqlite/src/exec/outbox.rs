//! Outbox: events written in the transaction that they report, and leased by the relay that delivers them.

use patra_core::Ts;
use patra_core::tx::{
    ClaimEvents, EVENTS_KEPT, EventSettled, EventUpdate, EventsClaimed, EventsRetried, NewEvent, OutboxEvent,
    PURGE_BATCH, RETRY_BATCH, RetryEvents, SettleEvent,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::Result;
use crate::sql::time;

const INSERT: &str = "
INSERT INTO outbox_event
  (project_key, event_type, topic, idempotency_key, payload, status_code, not_before, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, 'PENDING', ?6, ?6)
ON CONFLICT (idempotency_key) DO NOTHING";

const FORGET: &str = "
DELETE FROM outbox_event
WHERE id IN (SELECT id FROM outbox_event WHERE ended_at < ?1 ORDER BY ended_at LIMIT ?2)";

// Skips topics with an event in delivery, and events behind an earlier one of their topic that waits for a retry.
pub(crate) const TAKE: &str = "
UPDATE outbox_event
SET lease_owner = ?1, leased_until = ?2
WHERE id IN (
  SELECT next.id FROM outbox_event next INDEXED BY idx_outbox_pending
  WHERE next.status_code = 'PENDING' AND next.event_type = ?5
    AND next.not_before <= ?3
    AND NOT EXISTS (
      SELECT 1 FROM outbox_event held INDEXED BY idx_outbox_leased
      WHERE held.leased_until IS NOT NULL AND held.topic = next.topic AND held.leased_until > ?3)
    AND NOT EXISTS (
      SELECT 1 FROM outbox_event earlier INDEXED BY idx_outbox_topic
      WHERE earlier.status_code = 'PENDING' AND earlier.topic = next.topic AND earlier.id < next.id
        AND earlier.not_before > ?3)
  ORDER BY next.id
  LIMIT ?4)
RETURNING id, project_key, event_type, topic, idempotency_key, payload, tries, created_at";

const READ_TRIES: &str = "
SELECT tries FROM outbox_event WHERE id = ?1 AND lease_owner = ?2 AND status_code = 'PENDING'";

const SETTLE: &str = "
UPDATE outbox_event
SET status_code = ?2, tries = ?3, last_error = coalesce(?4, last_error), not_before = ?5, ended_at = ?6, lease_owner = NULL, leased_until = NULL
WHERE id = ?1";

const RETRY: &str = "
UPDATE outbox_event
SET status_code = 'PENDING', tries = 0, not_before = ?1, ended_at = NULL
WHERE id IN (
  SELECT id FROM outbox_event INDEXED BY idx_outbox_failed
  WHERE status_code = 'FAILED' AND (?2 IS NULL OR project_key = ?2) AND (?3 IS NULL OR id = ?3)
  ORDER BY id
  LIMIT ?4)";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT, FORGET, TAKE, READ_TRIES, SETTLE, RETRY];

pub(super) fn put(db: &Connection, event: &NewEvent, now: Ts) -> Result<()> {
    let NewEvent { project_key, event_type, topic, idempotency_key, payload } = event;
    let values = params![project_key, event_type, topic, idempotency_key, payload, now.micros()];
    db.prepare_cached(INSERT)?.execute(values)?;
    Ok(())
}

pub(super) fn take(db: &Connection, op: &ClaimEvents, now: Ts) -> Result<EventsClaimed> {
    db.prepare_cached(FORGET)?.execute(params![(now - EVENTS_KEPT).micros(), PURGE_BATCH])?;
    let values = params![op.owner, (now + op.lease).micros(), now.micros(), op.limit, op.event_type];
    let mut statement = db.prepare_cached(TAKE)?;
    let mut events: Vec<OutboxEvent> = statement
        .query_map(values, |row| {
            Ok(OutboxEvent {
                id: row.get(0)?,
                project_key: row.get(1)?,
                event_type: row.get(2)?,
                topic: row.get(3)?,
                idempotency_key: row.get(4)?,
                payload: row.get(5)?,
                tries: row.get(6)?,
                created_at: time(row, 7)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    events.sort_by_key(|event| event.id);
    Ok(EventsClaimed { events, now })
}

pub(super) fn settle(db: &Connection, op: &SettleEvent, now: Ts) -> Result<EventSettled> {
    let held: Option<u32> =
        db.prepare_cached(READ_TRIES)?.query_row(params![op.id, op.owner], |row| row.get(0)).optional()?;
    let Some(failed) = held else { return Ok(EventSettled) };
    let EventUpdate { status, tries, error, retry_in } = op.delivery.settle(failed);
    let not_before = now + retry_in.unwrap_or_default();
    let ended = retry_in.is_none().then_some(now.micros());
    let values = params![op.id, status, tries, error, not_before.micros(), ended];
    db.prepare_cached(SETTLE)?.execute(values)?;
    Ok(EventSettled)
}

pub(super) fn retry(db: &Connection, op: &RetryEvents, now: Ts) -> Result<EventsRetried> {
    let values = params![now.micros(), op.project_key, op.event, RETRY_BATCH];
    let events = db.prepare_cached(RETRY)?.execute(values)?;
    Ok(EventsRetried { events: u32::try_from(events).unwrap_or(RETRY_BATCH) })
}
