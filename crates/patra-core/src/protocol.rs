//! The protocols: synchronous state machines. Their input is the time and events, their output what they want done
//! next. They hold no connection, spawn nothing and never wait; the shell in `patra-engine` and the simulator in
//! `patra-testkit` run the same ones.

pub mod advance;
pub mod executor;
pub mod planner;
pub mod run;
pub mod sweeper;
pub mod token;
pub mod work_poller;

use std::time::Duration;

/// The store's clock may differ from ours: a poll just before the due time would find nothing.
const LATER: Duration = Duration::from_millis(5);
