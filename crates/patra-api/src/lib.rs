//! The HTTP door. Handlers read through the query port and write only by recording a trigger; they know no SQL and no
//! engine internals.
//!
//! Everything but health needs a key. Answers under `/api/v1` use one envelope, carry a request id, and never have
//! status 200 for a failure.

mod auth;
mod console;
mod envelope;
pub mod key;
mod limiter;
mod openapi;
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
pub use routes::{metrics_router, router};
pub use serve::serve;

/// What the handlers share.
#[derive(Clone)]
pub struct Api {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    /// Called when a trigger was recorded, so that a planner in this process need not wait for its next look.
    pub nudge: Arc<dyn Fn() + Send + Sync>,
    /// What credentials are sealed with; the engine of this process opens them with the same.
    pub vault: VaultCell,
    /// Makes a vault where one can be made; the error is a sentence for an administrator.
    pub make_vault: Arc<dyn Fn() -> Result<Arc<Vault>, String> + Send + Sync>,
    /// The way out for live replays, where there is one.
    pub live: Option<LiveReplay>,
    /// Whether public sources may be read without a key (COLL-80).
    pub public_read: bool,
    /// Asks platforms, where this process can; it cannot write what it finds.
    pub crawler: Option<Crawler>,
    /// How long a lock without a sign of life is somebody's.
    pub lock_timeout: Duration,
    /// Records in one claim, unless asked otherwise.
    pub batch_size: u32,
    pub limits: Limits,
    /// What this process has counted.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("store", &self.store).finish_non_exhaustive()
    }
}
