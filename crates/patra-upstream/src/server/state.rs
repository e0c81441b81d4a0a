//! State shared by all connections of a server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::limiter::RequestLimiter;
use super::log::RequestLog;
use crate::access::token_store::TokenStore;
use crate::dataset::Dataset;
use crate::script::Script;
use crate::stats::{AccessStats, MockApiStats, RequestCounters};

#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) dataset: Dataset,
    pub(super) base_url: String,
    pub(super) counters: RequestCounters,
    pub(super) limiter: RequestLimiter,
    pub(super) log: RequestLog,
    pub(super) started: Instant,
    /// Tokens and sessions; they survive a reset of the counters.
    pub(super) tokens: Mutex<TokenStore>,
    /// Requests to the auth routes.
    pub(super) auth_requests: AtomicU64,
    /// Requests to the tweet provider, by user.
    by_user: Mutex<BTreeMap<String, u64>>,
    /// In an `Arc`, so that a request sees one consistent script.
    script: Mutex<Arc<Script>>,
}

impl ServerState {
    pub(super) fn new(dataset: Dataset, script: Script, base_url: String) -> Self {
        Self {
            dataset,
            base_url,
            counters: RequestCounters::default(),
            limiter: RequestLimiter::default(),
            log: RequestLog::default(),
            started: Instant::now(),
            tokens: Mutex::default(),
            auth_requests: AtomicU64::new(0),
            by_user: Mutex::default(),
            script: Mutex::new(Arc::new(script)),
        }
    }

    pub(super) fn script(&self) -> Arc<Script> {
        lock(&self.script).clone()
    }

    /// Applies the change or, if it fails, leaves the script unchanged.
    pub(super) fn change_script<E>(&self, change: impl FnOnce(&mut Script) -> Result<(), E>) -> Result<(), E> {
        let mut current = lock(&self.script);
        let mut script = Script::clone(&current);
        change(&mut script)?;
        *current = Arc::new(script);
        Ok(())
    }

    /// Number of a new data request, from 1.
    pub(super) fn next_number(&self) -> u64 {
        self.counters.data_requests.fetch_add(1, Relaxed) + 1
    }

    /// Number of a new request for this user, from 1.
    pub(super) fn next_for_user(&self, user: &str) -> u64 {
        let mut counts = lock(&self.by_user);
        let count = counts.entry(user.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub(super) fn by_user(&self) -> BTreeMap<String, u64> {
        lock(&self.by_user).clone()
    }

    pub(super) fn stats(&self) -> MockApiStats {
        MockApiStats { access: lock(&self.tokens).stats, ..self.counters.snapshot() }
    }

    pub(super) fn reset(&self) {
        self.counters.reset();
        lock(&self.tokens).stats = AccessStats::default();
        self.auth_requests.store(0, Relaxed);
        self.limiter.reset();
        self.log.clear();
        lock(&self.by_user).clear();
    }
}

/// Ignores poisoning: a panic elsewhere must not stop the server, and the guarded values are always valid.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
