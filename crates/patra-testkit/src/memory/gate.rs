//! The rate gate.

use patra_core::Ts;
use patra_core::gate::{Answer, State};
use patra_core::tx::AskGate;

use super::MemStore;
use super::rows::GateRow;

impl MemStore {
    pub(super) fn ask_gate(&mut self, now: Ts, op: &AskGate) -> Answer {
        let place = self.gates.iter().position(|row| row.key == op.key).unwrap_or_else(|| {
            let state = State::new(op.limits, now);
            self.gates.push(GateRow { key: op.key.clone(), state, updated_at: now });
            self.gates.len() - 1
        });
        let row = &mut self.gates[place];
        row.updated_at = now;
        row.state.ask(op.limits, &op.ask, now)
    }
}
