//! The reference model, the simulator and the protocols that run against each other over the model. The library has no
//! tests of its own: it would be compiled a second time for them, which takes minutes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod contract;
mod gate;
mod model;
mod random;
mod schema;
mod sim;
mod token;
