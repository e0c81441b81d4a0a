//! The rate gate. The arithmetic is in the core; here its state is read and written back.

use patra_core::Ts;
use patra_core::gate::{Answer, State};
use patra_core::tx::AskGate;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::{Error, Result};

const READ: &str = "SELECT state FROM ing_gate WHERE rate_key = ?1";

const WRITE: &str = "
INSERT INTO ing_gate (rate_key, state, updated_at) VALUES (?1, ?2, ?3)
ON CONFLICT (rate_key) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[READ, WRITE];

pub(super) fn ask(db: &Connection, op: &AskGate, now: Ts) -> Result<Answer> {
    let stored: Option<String> = db.prepare_cached(READ)?.query_row([&op.key], |row| row.get(0)).optional()?;
    let mut state = match stored {
        Some(text) => {
            State::read(&text).map_err(|error| Error::refused(format!("ing_gate.state of {}: {error}", op.key)))?
        }
        None => State::new(op.limits, now),
    };
    let answer = state.ask(op.limits, &op.ask, now);
    db.prepare_cached(WRITE)?.execute(params![op.key, state.write(), now.micros()])?;
    Ok(answer)
}
