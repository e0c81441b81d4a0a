//! Health of the upstreams and of the store, as this process sees them: one state per partition and one for the store,
//! in memory. Actions are logged, and counted in the ledger.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use patra_core::Ts;
use patra_core::gate::GateDecision;
use patra_core::health::{Advice, HealthAction, Pressure, RequestOutcome, Thresholds, UpstreamHealth};
use patra_core::rng::Rng;
use patra_core::tx::PartitionKey;

use crate::events;
use crate::metrics::Metrics;
use crate::shared::lock;

#[derive(Debug)]
pub(crate) struct HealthRegistry {
    inner: Mutex<HealthRegistryInner>,
}

#[derive(Debug)]
struct HealthRegistryInner {
    rng: Rng,
    store: Pressure,
    partitions: HashMap<PartitionKey, PartitionHealth>,
}

#[derive(Debug)]
struct PartitionHealth {
    health: UpstreamHealth,
    /// Tasks that the manifest allows at once.
    c_max: u32,
}

impl HealthRegistry {
    pub(crate) fn new(seed: u64, slow_commit: Duration) -> HealthRegistry {
        let store = Pressure::new(slow_commit);
        let inner = HealthRegistryInner { rng: Rng::new(seed), store, partitions: HashMap::new() };
        HealthRegistry { inner: Mutex::new(inner) }
    }

    /// Whether the circuit breaker lets a request through, and the advice for it.
    pub(crate) fn permit(
        &self,
        who: &PartitionKey,
        thresholds: Thresholds,
        c_max: u32,
        now: Ts,
    ) -> (GateDecision, Advice) {
        let mut inner = self.lock();
        let share = inner.store.tasks_percent();
        let partition = inner.partition(who, thresholds, c_max);
        let decision = partition.health.permit(now).map_or(GateDecision::Allow, GateDecision::WaitUntil);
        let advice = partition.health.advice(now);
        (decision, Advice { tasks_percent: advice.tasks_percent.min(share), ..advice })
    }

    /// Records how long a page took to be stored.
    pub(crate) fn on_commit(&self, now: Ts, latency: Duration) {
        if let Some(action) = self.lock().store.on(now, latency) {
            events::store_strained(&action);
        }
    }

    /// Percentage of its capacity that this process should use.
    pub(crate) fn share(&self) -> u32 {
        self.lock().store.tasks_percent()
    }

    pub(crate) fn on(&self, metrics: &Metrics, who: &PartitionKey, now: Ts, outcome: &RequestOutcome) {
        let mut inner = self.lock();
        let HealthRegistryInner { rng, partitions, .. } = &mut *inner;
        let Some(partition) = partitions.get_mut(who) else { return };
        let mut actions: Vec<HealthAction> = Vec::new();
        partition.health.on(now, outcome, rng, &mut actions);
        for action in actions {
            events::healed(metrics, who, &action, now);
        }
    }

    /// Partitions that should take fewer tasks than they may.
    pub(crate) fn caps(&self, now: Ts) -> Vec<(PartitionKey, u32)> {
        let inner = self.lock();
        let lowered = |(who, partition): (&PartitionKey, &PartitionHealth)| {
            let cap = partition.health.advice(now).tasks(partition.c_max);
            (cap < partition.c_max).then(|| (who.clone(), cap))
        };
        inner.partitions.iter().filter_map(lowered).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HealthRegistryInner> {
        lock(&self.inner)
    }
}

impl HealthRegistryInner {
    fn partition(&mut self, who: &PartitionKey, thresholds: Thresholds, c_max: u32) -> &mut PartitionHealth {
        let partition = self
            .partitions
            .entry(who.clone())
            .or_insert_with(|| PartitionHealth { health: UpstreamHealth::new(thresholds), c_max });
        partition.health.set(thresholds);
        partition.c_max = c_max;
        partition
    }
}
