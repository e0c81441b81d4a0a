//! What all connections of a server share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::gate::Gate;
use super::log::Log;
use crate::access::vault::Vault;
use crate::dataset::Dataset;
use crate::script::Script;
use crate::stats::{AccessStats, Counters, Stats};

#[derive(Debug)]
pub(super) struct State {
    pub(super) dataset: Dataset,
    pub(super) base_url: String,
    pub(super) counters: Counters,
    pub(super) gate: Gate,
    pub(super) log: Log,
    pub(super) started: Instant,
    /// Tokens and sessions; they outlive a reset of the counts.
    pub(super) vault: Mutex<Vault>,
    /// Requests to the doors.
    pub(super) doors: AtomicU64,
    /// Requests to the provider of tweets, by whom they were about.
    by_user: Mutex<BTreeMap<String, u64>>,
    /// Behind a pointer, so that a request takes it in one step and then sees no half-made change.
    script: Mutex<Arc<Script>>,
}

impl State {
    pub(super) fn new(dataset: Dataset, script: Script, base_url: String) -> Self {
        Self {
            dataset,
            base_url,
            counters: Counters::default(),
            gate: Gate::default(),
            log: Log::default(),
            started: Instant::now(),
            vault: Mutex::default(),
            doors: AtomicU64::new(0),
            by_user: Mutex::default(),
            script: Mutex::new(Arc::new(script)),
        }
    }

    pub(super) fn script(&self) -> Arc<Script> {
        lock(&self.script).clone()
    }

    /// All of the change or, if it fails, nothing.
    pub(super) fn change_script<E>(&self, change: impl FnOnce(&mut Script) -> Result<(), E>) -> Result<(), E> {
        let mut current = lock(&self.script);
        let mut script = Script::clone(&current);
        change(&mut script)?;
        *current = Arc::new(script);
        Ok(())
    }

    /// The number of the data request that has just come, from 1.
    pub(super) fn next_number(&self) -> u64 {
        self.counters.data_requests.fetch_add(1, Relaxed) + 1
    }

    /// The number of the request about this user that has just come, from 1.
    pub(super) fn next_of(&self, user: &str) -> u64 {
        let mut counts = lock(&self.by_user);
        let count = counts.entry(user.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub(super) fn by_user(&self) -> BTreeMap<String, u64> {
        lock(&self.by_user).clone()
    }

    pub(super) fn stats(&self) -> Stats {
        Stats { access: lock(&self.vault).stats, ..self.counters.snapshot() }
    }

    pub(super) fn reset(&self) {
        self.counters.reset();
        lock(&self.vault).stats = AccessStats::default();
        self.doors.store(0, Relaxed);
        self.gate.reset();
        self.log.clear();
        lock(&self.by_user).clear();
    }
}

/// A panic elsewhere must not silence the server: what the locks guard is valid at every moment.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
