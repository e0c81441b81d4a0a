//! The rate gate. The core does the arithmetic; this reads the state under a lock and writes it back.

use patra_core::gate::{GateReply, GateState};
use patra_core::tx::RequestPermits;

use super::{NOW, moment};
use crate::error::Fail;
use crate::pool::{Session, pipeline};

const READ: &str = "SELECT state FROM ing_gate WHERE rate_key = $1 FOR UPDATE";

/// A new key needs a row before it can be locked.
const MAKE: &str = "
INSERT INTO ing_gate (rate_key, state, updated_at) VALUES ($1, $2, $3) ON CONFLICT (rate_key) DO NOTHING";

const WRITE: &str = "UPDATE ing_gate SET state = $2, updated_at = $3 WHERE rate_key = $1";

/// Reaches every process once this transaction is committed.
const NOTIFY: &str = "SELECT pg_notify('patra_gate', current_schema() || ' ' || $1)";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[READ, MAKE, WRITE, NOTIFY];

pub(super) async fn request(session: &Session, op: &RequestPermits) -> Result<GateReply, Fail> {
    let [read, make, write, notify, now] = session.prepare([READ, MAKE, WRITE, NOTIFY, NOW]).await?;
    let ((), row, time) = pipeline!(session.begin(), session.opt(&read, &[&op.key]), moment(session, &now))?;
    let (row, time) = match row {
        Some(row) => (row, time),
        None => {
            let new = GateState::new(op.limits, time.0).write();
            let (_, row, time) = pipeline!(
                session.write(&make, &[&op.key, &new, &time]),
                session.one(&read, &[&op.key]),
                moment(session, &now),
            )?;
            (row, time)
        }
    };
    let text: &str = row.try_get(0)?;
    let (mut state, unreadable) = GateState::read_or_spent(text, op.limits, time.0);
    if let Some(error) = unreadable {
        tracing::warn!(rate_key = op.key, %error, "the state of a rate key is unreadable: burst and quotas count as used up");
    }
    let reply = state.request(op.limits, &op.request, time.0);
    let notify = async {
        match reply.notify_others {
            true => session.one(&notify, &[&op.key]).await.map(|_| ()),
            false => Ok(()),
        }
    };
    let (_, (), ()) = pipeline!(session.write(&write, &[&op.key, &state.write(), &time]), notify, session.commit())?;
    Ok(reply)
}
