//! The HTTP API. Handlers read through the query port and change data through commands; they know no SQL and no engine
//! internals.
//!
//! Everything but health needs a key. Responses under `/api/v1` use one envelope, carry a request id, and never have
//! status 200 for a failure.

mod auth;
mod connection;
mod console;
mod envelope;
pub mod key;
mod limiter;
mod openapi;
mod project_store;
mod request_id;
mod routes;
mod serve;

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::{Clock, Store};
use patra_core::vault::{Vault, VaultCell};
use patra_engine::crawler::Crawler;
use patra_engine::metrics::Metrics;
use patra_engine::replay::LiveReplay;

pub use limiter::Limits;
pub use routes::{metrics_router, router, waiting_router};
pub use serve::{MAX_PER_ADDRESS, serve};

/// State that all handlers share.
#[derive(Clone)]
pub struct Api {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    /// Called after a job was recorded, so that a planner in this process starts at once.
    pub nudge: Arc<dyn Fn() + Send + Sync>,
    /// Seals credentials; the engine of this process opens them with the same keys.
    pub vault: VaultCell,
    /// Creates a vault, if possible; the error is a message for an administrator.
    pub make_vault: Arc<dyn Fn() -> Result<Arc<Vault>, String> + Send + Sync>,
    /// Sends the requests of live replays; `None` in a process without upstream access.
    pub live: Option<LiveReplay>,
    /// Whether public sources can be read without a key (COLL-80).
    pub public_read: bool,
    /// Sends requests to platforms; `None` in a process without upstream access. It cannot store results.
    pub crawler: Option<Crawler>,
    /// A lock without a heartbeat expires after this time.
    pub lock_timeout: Duration,
    /// Default number of records in one claim.
    pub batch_size: u32,
    pub limits: Limits,
    /// Metrics of this process.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("store", &self.store).finish_non_exhaustive()
    }
}
