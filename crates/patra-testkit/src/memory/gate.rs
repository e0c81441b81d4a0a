//! The rate gate.

use patra_core::Ts;
use patra_core::gate::{GateReply, GateState};
use patra_core::tx::RequestPermits;

use super::MemStore;
use super::rows::GateRow;

impl MemStore {
    pub(super) fn ask_gate(&mut self, now: Ts, op: &RequestPermits) -> GateReply {
        let place = self.gates.iter().position(|row| row.key == op.key).unwrap_or_else(|| {
            let state = GateState::new(op.limits, now);
            self.gates.push(GateRow { key: op.key.clone(), state, updated_at: now });
            self.gates.len() - 1
        });
        let row = &mut self.gates[place];
        row.updated_at = now;
        row.state.request(op.limits, &op.request, now)
    }
}
