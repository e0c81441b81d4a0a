//! The shell around the protocols: it executes what they want and feeds back what came. It reaches the outside only
//! through ports, and holds no state that matters across a crash.
//!
//! A long-running part is a service that owns its state and a cheap handle to it: [`Engine`] starts the planner, the
//! executor and the sweeper that its [`Options`] ask for, and stops them.

mod compile;
mod engine;
mod events;
mod executor;
mod gate;
mod planner;
mod prepared;
mod probe;
mod runner;
mod shared;
mod sweeper;

pub use engine::Engine;
pub use events::{Listener, RunEvent};
pub use probe::{Look, probe};
pub use shared::{Options, Ports, Role};
