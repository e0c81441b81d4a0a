//! The rate gate. The core does the arithmetic; this reads the state and writes it back.

use patra_core::Ts;
use patra_core::gate::{GateReply, GateState};
use patra_core::tx::RequestPermits;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::Result;

const READ: &str = "SELECT state FROM ing_gate WHERE rate_key = ?1";

const WRITE: &str = "
INSERT INTO ing_gate (rate_key, state, updated_at) VALUES (?1, ?2, ?3)
ON CONFLICT (rate_key) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[READ, WRITE];

pub(super) fn request(db: &Connection, op: &RequestPermits, now: Ts) -> Result<GateReply> {
    let stored: Option<String> = db.prepare_cached(READ)?.query_row([&op.key], |row| row.get(0)).optional()?;
    let mut state = match stored {
        Some(text) => {
            let (state, unreadable) = GateState::read_or_spent(&text, op.limits, now);
            if let Some(error) = unreadable {
                tracing::warn!(rate_key = op.key, %error, "the state of a rate key is unreadable: burst and quotas count as used up");
            }
            state
        }
        None => GateState::new(op.limits, now),
    };
    let reply = state.request(op.limits, &op.request, now);
    db.prepare_cached(WRITE)?.execute(params![op.key, state.write(), now.micros()])?;
    Ok(reply)
}
