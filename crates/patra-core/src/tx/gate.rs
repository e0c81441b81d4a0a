//! The rate gate: the state of a key is read, changed by [`State::ask`] and written back, under a lock on the key.

use crate::gate::{Ask, Limits};

#[cfg(doc)]
use crate::gate::State;

/// Asks for permits, gives some back, or tells what the far side said. After an unknown outcome nobody repeats it: slots that
/// are lost do no harm, slots that were given back twice would.
#[derive(Clone, PartialEq, Debug)]
pub struct AskGate {
    pub key: String,
    pub limits: Limits,
    pub ask: Ask,
}
