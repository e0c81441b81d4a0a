//! Events for the world outside: written with what they tell, leased by whoever delivers them.

use patra_core::Ts;
use patra_core::tx::{EVENTS_KEPT, Event, EventSettled, EventsTaken, MAX_TELLS, SettleEvent, TakeEvents, tell_again};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::Result;
use crate::sql::{maybe_time, time};

const INSERT: &str = "
INSERT INTO outbox_event (project_key, event_type, payload, status_code, not_before, created_at)
VALUES (?1, ?2, ?3, 'PENDING', ?4, ?4)";

const FORGET: &str = "DELETE FROM outbox_event WHERE ended_at < ?1";

pub(crate) const TAKE: &str = "
UPDATE outbox_event
SET lease_owner = ?1, leased_until = ?2
WHERE id IN (
  SELECT id FROM outbox_event INDEXED BY idx_outbox_pending
  WHERE status_code = 'PENDING' AND not_before <= ?3 AND (leased_until IS NULL OR leased_until <= ?3)
  ORDER BY id
  LIMIT ?4)
RETURNING id, project_key, event_type, payload, tries, created_at";

const READ_NEXT: &str = "
SELECT min(max(not_before, coalesce(leased_until, not_before))) FROM outbox_event INDEXED BY idx_outbox_pending
WHERE status_code = 'PENDING'";

const READ_TRIES: &str = "
SELECT tries FROM outbox_event WHERE id = ?1 AND lease_owner = ?2 AND status_code = 'PENDING'";

const SETTLE: &str = "
UPDATE outbox_event
SET status_code = ?2, tries = ?3, last_error = coalesce(?4, last_error), not_before = ?5, ended_at = ?6, lease_owner = NULL, leased_until = NULL
WHERE id = ?1";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT, FORGET, TAKE, READ_NEXT, READ_TRIES, SETTLE];

pub(super) fn put(db: &Connection, project_key: &str, event_type: &str, payload: &str, now: Ts) -> Result<()> {
    db.prepare_cached(INSERT)?.execute(params![project_key, event_type, payload, now.micros()])?;
    Ok(())
}

pub(super) fn take(db: &Connection, op: &TakeEvents, now: Ts) -> Result<EventsTaken> {
    db.prepare_cached(FORGET)?.execute([(now - EVENTS_KEPT).micros()])?;
    let values = params![op.owner, (now + op.lease).micros(), now.micros(), op.limit];
    let mut statement = db.prepare_cached(TAKE)?;
    let mut events: Vec<Event> = statement
        .query_map(values, |row| {
            Ok(Event {
                id: row.get(0)?,
                project_key: row.get(1)?,
                event_type: row.get(2)?,
                payload: row.get(3)?,
                tries: row.get(4)?,
                created_at: time(row, 5)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    events.sort_by_key(|event| event.id);
    let next = db.prepare_cached(READ_NEXT)?.query_row((), |row| maybe_time(row, 0))?;
    Ok(EventsTaken { events, next, now })
}

pub(super) fn settle(db: &Connection, op: &SettleEvent, now: Ts) -> Result<EventSettled> {
    let held: Option<u32> =
        db.prepare_cached(READ_TRIES)?.query_row(params![op.id, op.owner], |row| row.get(0)).optional()?;
    let Some(failed) = held else { return Ok(EventSettled) };
    let tries = if op.error.is_some() { failed.saturating_add(1) } else { failed };
    let (status, not_before, ended) = match &op.error {
        None => ("DELIVERED", now, Some(now)),
        Some(_) if tries >= MAX_TELLS => ("FAILED", now, Some(now)),
        Some(_) => ("PENDING", now + tell_again(tries), None),
    };
    let values = params![op.id, status, tries, op.error, not_before.micros(), ended.map(Ts::micros)];
    db.prepare_cached(SETTLE)?.execute(values)?;
    Ok(EventSettled)
}
