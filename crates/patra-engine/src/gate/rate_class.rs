//! Rate classes of a process: one for each class of a key, created on use and removed when idle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use patra_core::Ts;
use patra_core::gate::{GateView, PermitCache};
use patra_core::port::Clock;
use patra_core::tx::PartitionKey;

use super::{RateLane, comes_first};
use crate::shared::lock;

/// Idle time after which a class is removed. The state of its key is in the store.
const IDLE: Duration = Duration::from_secs(600);

/// Interval of removing idle classes.
const TIDY: Duration = Duration::from_secs(60);

/// One class of a key, as this process sees it.
#[derive(Debug, Default)]
pub(super) struct RateClass {
    inner: Mutex<RateClassInner>,
    /// Lock of the first in the queue. It is fair, so no task gets two permits in a row while another waits
    /// (ING-4.10-14).
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) answered: Notify,
}

#[derive(Debug, Default)]
pub(super) struct RateClassInner {
    pub(super) permit_cache: PermitCache,
    pub(super) waiting: u32,
    /// Partitions that send requests through this class.
    pub(super) users: BTreeSet<PartitionKey>,
    /// Lane of the last request.
    pub(super) lane: Option<RateLane>,
    used_at: Ts,
}

impl RateClass {
    pub(super) fn inner(&self) -> std::sync::MutexGuard<'_, RateClassInner> {
        lock(&self.inner)
    }

    fn is_idle(&self, now: Ts) -> bool {
        let inner = self.inner();
        let is_busy =
            inner.waiting > 0 || inner.permit_cache.is_requesting() || inner.permit_cache.has_urgent_signals();
        !is_busy && now.since(inner.used_at) > IDLE && inner.permit_cache.refused(false, now).is_none()
    }
}

/// Counts one waiting request while it lives.
pub(super) struct RateClassWaiter<'a>(pub(super) &'a RateClass);

impl Drop for RateClassWaiter<'_> {
    fn drop(&mut self) {
        self.0.inner().waiting -= 1;
    }
}

/// A request to the store in progress. It counts as failed when its task is dropped, so that nothing waits for it for
/// ever.
pub(super) struct PendingGateRequest {
    class: Arc<RateClass>,
    clock: Arc<dyn Clock>,
    is_open: bool,
}

impl PendingGateRequest {
    pub(super) fn new(class: &Arc<RateClass>, clock: &Arc<dyn Clock>) -> PendingGateRequest {
        PendingGateRequest { class: Arc::clone(class), clock: Arc::clone(clock), is_open: true }
    }

    pub(super) fn class(&self) -> &Arc<RateClass> {
        &self.class
    }

    /// Marks the request as ended: the permit cache has its result.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }
}

impl Drop for PendingGateRequest {
    fn drop(&mut self) {
        if self.is_open {
            self.class.inner().permit_cache.on_failure(self.clock.steady());
        }
    }
}

/// Key and class.
type RateClassKey = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
pub(super) struct RateClasses {
    all: BTreeMap<RateClassKey, Arc<RateClass>>,
    /// Classes that were closed when last checked: few, however many classes there are.
    shut: BTreeMap<RateClassKey, Arc<RateClass>>,
    tidied_at: Ts,
    /// Latency of the store's last reply to any class, for new classes: measuring it themselves would cost them slots.
    pub(super) trip: Option<Duration>,
}

impl RateClasses {
    pub(super) fn get(&mut self, lane: &RateLane, now: Ts) -> Arc<RateClass> {
        if now.since(self.tidied_at) > TIDY {
            self.tidied_at = now;
            self.all.retain(|_, class| Arc::strong_count(class) > 1 || !class.is_idle(now));
        }
        let new = || match self.trip {
            Some(trip) => {
                let inner = RateClassInner { permit_cache: PermitCache::expecting(trip), ..RateClassInner::default() };
                Arc::new(RateClass { inner: Mutex::new(inner), ..RateClass::default() })
            }
            None => Arc::default(),
        };
        let class = Arc::clone(self.all.entry(key_of(lane)).or_insert_with(new));
        {
            let mut inner = class.inner();
            inner.used_at = now;
            if inner.lane.as_ref() != Some(lane) {
                inner.lane = Some(lane.clone());
            }
        }
        class
    }

    /// All classes of a key; of every key where none is named.
    pub(super) fn of(&self, key: &str) -> Vec<Arc<RateClass>> {
        self.named(key).map(|(_, class)| Arc::clone(class)).collect()
    }

    fn named<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (&'a RateClassKey, &'a Arc<RateClass>)> {
        let first = (Arc::from(key), Arc::from(""));
        self.all.range(first..).take_while(move |((name, _), _)| key.is_empty() || **name == *key)
    }

    /// Closes all classes of a key until a time.
    pub(super) fn hush(&mut self, key: &str, until: Ts) {
        let named: Vec<_> = self.named(key).map(|(key, class)| (key.clone(), Arc::clone(class))).collect();
        for (key, class) in named {
            class.inner().permit_cache.cool_down(until);
            class.answered.notify_waiters();
            self.shut.insert(key, class);
        }
    }

    /// Records that a class is closed.
    pub(super) fn note_shut(&mut self, lane: &RateLane, class: &Arc<RateClass>) {
        self.shut.entry(key_of(lane)).or_insert_with(|| Arc::clone(class));
    }

    /// Partitions whose classes are closed.
    pub(super) fn closed(&mut self, now: Ts) -> Vec<PartitionKey> {
        let mut closed = Vec::new();
        self.shut.retain(|_, class| {
            let RateClassInner { permit_cache, users, .. } = &*class.inner();
            closed.extend(users.iter().filter(|who| permit_cache.closed(comes_first(who), now).is_some()).cloned());
            permit_cache.refused(false, now).is_some()
        });
        closed
    }

    /// Partitions of classes that have a view of their key, with that view.
    pub(super) fn views(&self) -> Vec<(PartitionKey, Arc<GateView>)> {
        let mut views = Vec::new();
        for class in self.all.values() {
            let inner = class.inner();
            if let Some(view) = inner.permit_cache.view() {
                views.extend(inner.users.iter().map(|who| (who.clone(), Arc::clone(view))));
            }
        }
        views
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

fn key_of(lane: &RateLane) -> RateClassKey {
    (Arc::clone(&lane.key), Arc::clone(&lane.class))
}

#[cfg(test)]
mod tests {
    use patra_core::gate::{GateLimits, GateSignal};

    use super::*;

    fn lane(key: &str) -> RateLane {
        RateLane { key: key.into(), class: "c".into(), weight: 1, cost: 1, limits: GateLimits::default() }
    }

    fn at(secs: i64) -> Ts {
        Ts::from_secs(1_000_000 + secs)
    }

    #[test]
    fn idle_classes_are_removed() {
        let mut classes = RateClasses::default();
        for host in 0..1_000 {
            classes.get(&lane(&format!("host:{host}")), at(0));
        }
        let in_use = classes.get(&lane("host:7"), at(0));
        let hushed = classes.get(&lane("host:8"), at(0));
        hushed.inner().permit_cache.record_signal(GateSignal::RetryAfter(Duration::from_secs(3_600)), at(0));
        // The signal has been sent to the store.
        assert!(hushed.inner().permit_cache.request(0, true, at(0)).is_some());
        hushed.inner().permit_cache.on_reply(&quiet(), at(0), at(0), &mut patra_core::rng::Rng::new(1));
        drop(hushed);
        classes.get(&lane("host:1"), at(599));
        assert_eq!(classes.len(), 1_000);
        classes.get(&lane("host:1"), at(700));
        assert_eq!(classes.len(), 3, "the one just used, the one that is referenced, and the one that is cooling down");
        drop(in_use);
        classes.get(&lane("host:1"), at(3_700));
        assert_eq!(classes.len(), 1);
    }

    // covers: ING-4.10-32
    #[test]
    fn cool_down_closes_all_classes_of_the_key_until_it_ends() {
        let mut classes = RateClasses::default();
        let who = |endpoint: &str| PartitionKey {
            provenance_code: "p".into(),
            endpoint_name: endpoint.into(),
            operation: patra_core::state::Operation::Harvest,
        };
        for (key, class) in [("k", "a"), ("k", "b"), ("kk", "c"), ("j", "d")] {
            let rate_class = classes.get(&RateLane { class: class.into(), ..lane(key) }, at(0));
            rate_class.inner().users.insert(who(class));
        }
        classes.hush("k", at(60));
        assert_eq!(classes.closed(at(59)), [who("a"), who("b")]);
        assert_eq!(classes.closed(at(60)), []);
    }

    fn quiet() -> patra_core::gate::GateReply {
        patra_core::gate::GateState::new(GateLimits::default(), at(0)).request(
            GateLimits::default(),
            &Default::default(),
            at(0),
        )
    }
}
