//! The scripted far side: a small, fast HTTP/1.1 server that lists synthetic records behind the usual paging styles
//! and misbehaves when told to. The demo, the tests and the benches collect from it.
//!
//! A [`Dataset`] is what the far side has, a [`Script`] how it behaves, a [`Server`] the two on a socket. This crate
//! must not know anything of the collector it is used against: it is the other party.

mod cursor;
mod dataset;
mod paging;
mod query;
mod rng;
mod script;
mod server;
mod stats;
mod time;

pub use crate::dataset::{Builder, Dataset};
pub use crate::script::{Late, RetryAfter, Script, TruncateMode, When};
pub use crate::server::{LogEntry, ScriptHandle, Server};
pub use crate::stats::Stats;
