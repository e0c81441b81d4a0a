//! The doors of a process: one for each class of a key, opened when somebody comes and taken away when nobody does.

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

/// A door that nobody used for so long is taken away. What its key has to remember is in the store.
const IDLE: Duration = Duration::from_secs(600);

/// Between two looks for such doors.
const TIDY: Duration = Duration::from_secs(60);

/// One class of a key, as this process sees it.
#[derive(Debug, Default)]
pub(super) struct RateClass {
    inner: Mutex<RateClassInner>,
    /// Whoever has it is next; the others queue up in the order in which they came, so no task gets two in a row while another
    /// waits (ING-4.10-14).
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) answered: Notify,
}

#[derive(Debug, Default)]
pub(super) struct RateClassInner {
    pub(super) permit_cache: PermitCache,
    pub(super) waiting: u32,
    /// Partitions whose requests leave here.
    pub(super) users: BTreeSet<PartitionKey>,
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
        !is_busy && now.since(inner.used_at) > IDLE && inner.permit_cache.closed(false, now).is_none()
    }
}

/// One more waits while this lives.
pub(super) struct RateClassWaiter<'a>(pub(super) &'a RateClass);

impl Drop for RateClassWaiter<'_> {
    fn drop(&mut self) {
        self.0.inner().waiting -= 1;
    }
}

/// A question that is on its way to the store. Where whoever carries it dies, it has failed: nobody waits for its answer for ever.
pub(super) struct PendingGateRequest {
    door: Arc<RateClass>,
    clock: Arc<dyn Clock>,
    is_open: bool,
}

impl PendingGateRequest {
    pub(super) fn new(door: &Arc<RateClass>, clock: &Arc<dyn Clock>) -> PendingGateRequest {
        PendingGateRequest { door: Arc::clone(door), clock: Arc::clone(clock), is_open: true }
    }

    pub(super) fn door(&self) -> &Arc<RateClass> {
        &self.door
    }

    /// The permit cache knows how it ended.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }
}

impl Drop for PendingGateRequest {
    fn drop(&mut self) {
        if self.is_open {
            self.door.inner().permit_cache.on_failure(self.clock.steady());
        }
    }
}

/// Key and class.
type RateClassKey = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
pub(super) struct RateClasses {
    all: BTreeMap<RateClassKey, Arc<RateClass>>,
    /// Those that were closed when somebody looked: few, however many doors there are.
    shut: BTreeMap<RateClassKey, Arc<RateClass>>,
    tidied_at: Ts,
    /// How long the store took for its last answer to any of them: a new door would have to find that out by slots that come
    /// too late.
    pub(super) trip: Option<Duration>,
}

impl RateClasses {
    pub(super) fn get(&mut self, lane: &RateLane, now: Ts) -> Arc<RateClass> {
        if now.since(self.tidied_at) > TIDY {
            self.tidied_at = now;
            self.all.retain(|_, door| Arc::strong_count(door) > 1 || !door.is_idle(now));
        }
        let new = || match self.trip {
            Some(trip) => {
                let inner = RateClassInner { permit_cache: PermitCache::expecting(trip), ..RateClassInner::default() };
                Arc::new(RateClass { inner: Mutex::new(inner), ..RateClass::default() })
            }
            None => Arc::default(),
        };
        let door = Arc::clone(self.all.entry(place(lane)).or_insert_with(new));
        door.inner().used_at = now;
        door
    }

    /// All classes of a key; of every key where none is named.
    pub(super) fn of(&self, key: &str) -> Vec<Arc<RateClass>> {
        self.named(key).map(|(_, door)| Arc::clone(door)).collect()
    }

    fn named<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (&'a RateClassKey, &'a Arc<RateClass>)> {
        let first = (Arc::from(key), Arc::from(""));
        self.all.range(first..).take_while(move |((name, _), _)| key.is_empty() || **name == *key)
    }

    /// Nothing leaves by this key before then.
    pub(super) fn hush(&mut self, key: &str, until: Ts) {
        let silent: Vec<_> = self.named(key).map(|(place, door)| (place.clone(), Arc::clone(door))).collect();
        for (place, door) in silent {
            door.inner().permit_cache.cool_down(until);
            door.answered.notify_waiters();
            self.shut.insert(place, door);
        }
    }

    /// Nothing leaves by this door now.
    pub(super) fn note_shut(&mut self, lane: &RateLane, door: &Arc<RateClass>) {
        self.shut.entry(place(lane)).or_insert_with(|| Arc::clone(door));
    }

    /// Partitions whose requests cannot leave.
    pub(super) fn closed(&mut self, now: Ts) -> Vec<PartitionKey> {
        let mut closed = Vec::new();
        self.shut.retain(|_, door| {
            let RateClassInner { permit_cache, users, .. } = &*door.inner();
            closed.extend(users.iter().filter(|who| permit_cache.closed(comes_first(who), now).is_some()).cloned());
            permit_cache.closed(false, now).is_some()
        });
        closed
    }

    /// Users of doors that have heard from their key, and what.
    pub(super) fn views(&self) -> Vec<(PartitionKey, Arc<GateView>)> {
        let mut views = Vec::new();
        for door in self.all.values() {
            let inner = door.inner();
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

fn place(lane: &RateLane) -> RateClassKey {
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
    fn doors_that_nobody_uses_are_taken_away() {
        let mut doors = RateClasses::default();
        for host in 0..1_000 {
            doors.get(&lane(&format!("host:{host}")), at(0));
        }
        let held = doors.get(&lane("host:7"), at(0));
        let hushed = doors.get(&lane("host:8"), at(0));
        hushed.inner().permit_cache.record_signal(GateSignal::RetryAfter(Duration::from_secs(3_600)), at(0));
        // The wish for silence was told.
        assert!(hushed.inner().permit_cache.request(0, true, at(0)).is_some());
        hushed.inner().permit_cache.on_reply(&quiet(), at(0), at(0), &mut patra_core::rng::Rng::new(1));
        drop(hushed);
        doors.get(&lane("host:1"), at(599));
        assert_eq!(doors.len(), 1_000);
        doors.get(&lane("host:1"), at(700));
        assert_eq!(doors.len(), 3, "the one in use, the one that somebody holds, and the one that is silent");
        drop(held);
        doors.get(&lane("host:1"), at(3_700));
        assert_eq!(doors.len(), 1);
    }

    // covers: ING-4.10-32
    #[test]
    fn silence_shuts_all_doors_of_the_key_and_no_other_until_it_ends() {
        let mut doors = RateClasses::default();
        let who = |endpoint: &str| PartitionKey {
            provenance_code: "p".into(),
            endpoint_name: endpoint.into(),
            operation: patra_core::state::Operation::Harvest,
        };
        for (key, class) in [("k", "a"), ("k", "b"), ("kk", "c"), ("j", "d")] {
            let door = doors.get(&RateLane { class: class.into(), ..lane(key) }, at(0));
            door.inner().users.insert(who(class));
        }
        doors.hush("k", at(60));
        assert_eq!(doors.closed(at(59)), [who("a"), who("b")]);
        assert_eq!(doors.closed(at(60)), []);
    }

    fn quiet() -> patra_core::gate::GateReply {
        patra_core::gate::GateState::new(GateLimits::default(), at(0)).request(
            GateLimits::default(),
            &Default::default(),
            at(0),
        )
    }
}
