//! The protocols: synchronous state machines that are told the time and what happened, and answer with what they want
//! next. They hold no connection, spawn nothing and never wait; the shell in `patra-engine` and the simulator in
//! `patra-testkit` run the same ones.

pub mod advance;
pub mod executor;
pub mod lookout;
pub mod planner;
pub mod run;
pub mod sweeper;
pub mod token;

use std::time::Duration;

/// The store's clock need not be ours: a look just before its time would be in vain.
const LATER: Duration = Duration::from_millis(5);
