//! The shell around the protocols: it executes what they want and feeds back what came. It reaches the outside only
//! through ports, and holds no state that matters across a crash.
//!
//! A long-running part is a service that owns its state and a cheap handle to it: [`Engine`] starts the planner, the
//! executor and the sweeper that its [`Options`] ask for, and stops them.

mod archivist;
pub mod ask;
pub mod blackbox;
pub mod board;
mod collector;
mod compile;
mod crash;
pub mod crawler;
mod credentials;
mod engine;
mod events;
mod executor;
pub mod gate;
mod health;
pub mod keeper;
mod line;
mod lookout;
pub mod metrics;
pub mod operations;
mod outbox;
mod planner;
pub mod pool;
mod prepared;
mod probe;
pub mod registry;
pub mod replay;
mod runner;
pub mod scrape;
mod shape;
mod shared;
pub mod sources;
mod spans;
mod sweeper;
pub mod trial;

pub use collector::{Asked, CollectorOptions, SCRAPER_ENABLED, check_source, introduce_types, poll_now};
pub use credentials::{
    CookieRules, CredentialOptions, Credentials, Errand, Permits, Pool, Sent, Used, credential_for, hook_key,
};
pub use credentials::{admin, cookies};
pub use engine::Engine;
pub use events::{Listener, RunEvent};
pub use jiff::tz::TimeZone;
pub use patra_connectors::links;
pub use probe::{Look, Outlook, Probe, Walk, masked, probe};
pub use shared::{Options, Ports, Role};
