//! The shell around the protocols: executes their wants and feeds back the results. It reaches the outside only through
//! ports, and holds no state that matters across a crash.
//!
//! A long-running part is a service that owns its state and a cheap handle to it: [`Engine`] starts the planner, the
//! executor and the sweeper that its [`Options`] ask for, and stops them.

pub mod alerts;
pub mod board;
pub mod bundle;
mod coalescer;
mod collector;
mod compile;
mod crash;
pub mod crawler;
mod credentials;
mod decoding;
mod engine;
mod events;
mod executor;
pub mod gate;
mod health;
pub mod job_request;
pub mod maintenance;
pub mod metrics;
pub mod operations;
mod outbox;
mod planner;
pub mod pool;
mod prepared;
pub mod registry;
pub mod replay;
mod retention;
mod robots;
mod runner;
pub mod scrape;
mod shared;
mod slice_context;
pub mod sources;
mod spans;
mod sweeper;
mod try_pages;
pub mod try_run;
mod work_poller;

pub use collector::{
    CollectorOptions, PollRequested, SCRAPER_ENABLED, check_source, introduce_types, poll_now, poll_now_from,
};
pub use credentials::{
    CookieChoice, CookieRules, CredentialOptions, Credentials, OutgoingRequest, PermitSource, SentRequest, UsedCookie,
    credential_for, hook_key,
};
pub use credentials::{admin, cookies};
pub use engine::Engine;
pub use events::{RunEvent, RunListener};
pub use jiff::tz::TimeZone;
pub use patra_connectors::links;
pub use shared::{EngineRole, Options, Ports};
pub use try_pages::{NextStep, TriedPage, TryOptions, TryWalk, masked, read_pages};
