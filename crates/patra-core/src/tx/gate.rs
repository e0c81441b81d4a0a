//! The rate gate: the state of a key is read, changed by [`GateState::request`] and written back, under a lock on the
//! key.

use crate::gate::{GateLimits, GateRequest};

#[cfg(doc)]
use crate::gate::GateState;

/// Requests permits, returns unused ones, or reports what the upstream said. It is not repeated after an unknown
/// outcome: lost slots do no harm, slots that are returned twice would.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestPermits {
    pub key: String,
    pub limits: GateLimits,
    pub request: GateRequest,
}
