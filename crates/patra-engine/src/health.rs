//! How the upstreams and the store are doing, as this process sees them: one state per partition and one for the store, in
//! memory. What is done about them is said in the log and counted in the ledger.

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
    wards: HashMap<PartitionKey, PartitionHealth>,
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
        HealthRegistry { inner: Mutex::new(HealthRegistryInner { rng: Rng::new(seed), store, wards: HashMap::new() }) }
    }

    /// Whether the circuit lets a request through, and what else to mind.
    pub(crate) fn permit(
        &self,
        who: &PartitionKey,
        thresholds: Thresholds,
        c_max: u32,
        now: Ts,
    ) -> (GateDecision, Advice) {
        let mut inner = self.lock();
        let share = inner.store.tasks_percent();
        let ward = inner.ward(who, thresholds, c_max);
        let decision = ward.health.permit(now).map_or(GateDecision::Allow, GateDecision::WaitUntil);
        let advice = ward.health.advice(now);
        (decision, Advice { tasks_percent: advice.tasks_percent.min(share), ..advice })
    }

    /// How long a page took to be stored.
    pub(crate) fn on_commit(&self, now: Ts, latency: Duration) {
        if let Some(action) = self.lock().store.on(now, latency) {
            events::store_strained(&action);
        }
    }

    /// How much of its capacity this process should use, in percent.
    pub(crate) fn share(&self) -> u32 {
        self.lock().store.tasks_percent()
    }

    pub(crate) fn on(&self, metrics: &Metrics, who: &PartitionKey, now: Ts, answer: &RequestOutcome) {
        let mut inner = self.lock();
        let HealthRegistryInner { rng, wards, .. } = &mut *inner;
        let Some(ward) = wards.get_mut(who) else { return };
        let mut actions: Vec<HealthAction> = Vec::new();
        ward.health.on(now, answer, rng, &mut actions);
        for action in actions {
            events::healed(metrics, who, &action, now);
        }
    }

    /// Partitions that should take fewer tasks than they may.
    pub(crate) fn caps(&self, now: Ts) -> Vec<(PartitionKey, u32)> {
        let inner = self.lock();
        let lowered = |(who, ward): (&PartitionKey, &PartitionHealth)| {
            let cap = ward.health.advice(now).tasks(ward.c_max);
            (cap < ward.c_max).then(|| (who.clone(), cap))
        };
        inner.wards.iter().filter_map(lowered).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HealthRegistryInner> {
        lock(&self.inner)
    }
}

impl HealthRegistryInner {
    fn ward(&mut self, who: &PartitionKey, thresholds: Thresholds, c_max: u32) -> &mut PartitionHealth {
        let ward = self
            .wards
            .entry(who.clone())
            .or_insert_with(|| PartitionHealth { health: UpstreamHealth::new(thresholds), c_max });
        ward.health.set(thresholds);
        ward.c_max = c_max;
        ward
    }
}
