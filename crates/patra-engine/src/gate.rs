//! The rate gate: every request of this process needs its permit. Processes share permits through the store and fetch
//! them ahead; the arithmetic is in [`patra_core::gate`].

mod rate_class;

use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::time::{MissedTickBehavior, sleep, timeout};

use patra_core::Ts;
use patra_core::gate::{GateLimits, GateRefusal, GateRequest, GateSignal, GateView, Permit, PermitResult};
use patra_core::port::{Clock, CommandsExt as _, Store};
use patra_core::rng::Rng;
use patra_core::tx::{PartitionKey, RequestPermits, TxError};
use patra_spec::Snapshot;

use self::rate_class::{PendingGateRequest, RateClass, RateClassWaiter, RateClasses};
use crate::events;
use crate::shared::lock;

/// Interval between two attempts while the store has no permits.
const LOOK: Duration = Duration::from_millis(200);

/// Time limit of a request to the store.
const PATIENCE_WITH_STORE: Duration = Duration::from_secs(4);

/// Interval of returning permits that nobody used to the store.
const RETURN_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time for returning all permits when the process ends.
const PATIENCE_AT_END: Duration = Duration::from_secs(2);

/// Shortest deadline of the first in the queue: no other request would get a slot sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most keys that are remembered with a spacing of their own. Each request to their hosts names it again.
const MAX_SPACED: usize = 10_000;

/// The rate key of a request, and its declared limits.
#[derive(Clone, PartialEq, Debug)]
pub struct RateLane {
    pub key: Arc<str>,
    /// Class that shares the key with other classes, by weight.
    pub class: Arc<str>,
    pub weight: u32,
    /// Permits that one request takes.
    pub cost: u32,
    pub limits: GateLimits,
}

/// A request for a permit.
#[derive(Clone, Copy, Debug)]
pub struct PermitRequester<'a> {
    pub lane: &'a RateLane,
    /// May use the reserve of a quota.
    pub first: bool,
    /// Percentage of its share of the rate.
    pub percent: u32,
    /// Longest wait in this process.
    pub deadline: Duration,
}

#[derive(Debug)]
pub struct RateGate {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    owner: String,
    rng: Mutex<Rng>,
    classes: Mutex<RateClasses>,
    /// The least time between two requests of a key, where its host asks for one.
    spacing: Mutex<HashMap<Arc<str>, Duration>>,
}

/// The right to send one request. It is given back when not spent.
#[derive(Debug)]
pub struct PermitToken {
    class: Arc<RateClass>,
    clock: Arc<dyn Clock>,
    permits: Vec<Permit>,
    pub waited: Duration,
    pub view: Option<Arc<GateView>>,
}

impl PermitToken {
    /// Returns true when the token is still valid: the request must leave now. It is void when too much time has
    /// passed, or when the upstream has asked for a pause meanwhile.
    pub fn spend(mut self) -> bool {
        let now = self.clock.steady();
        self.class.inner().permit_cache.spend(&mut self.permits, now)
    }
}

impl Drop for PermitToken {
    fn drop(&mut self) {
        if !self.permits.is_empty() {
            let now = self.clock.steady();
            let mut inner = self.class.inner();
            self.permits.drain(..).for_each(|permit| inner.permit_cache.give_back(permit, now));
        }
    }
}

impl RateLane {
    pub fn of(spec: &Snapshot) -> RateLane {
        RateLane {
            key: spec.gate_key().into(),
            class: format!("{}/{}", spec.provenance_code, spec.endpoint_code).into(),
            weight: spec.rate_limit.weight,
            cost: spec.rate_limit.cost,
            limits: spec.gate_limits(),
        }
    }
}

impl RateGate {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, owner: impl Into<String>, seed: u64) -> Arc<RateGate> {
        let rng = Mutex::new(Rng::new(seed));
        Arc::new(RateGate {
            store,
            clock,
            owner: owner.into(),
            rng,
            classes: Mutex::default(),
            spacing: Mutex::default(),
        })
    }

    /// Waits for the right to send. Refuses with a reason and a time where that would take too long.
    pub async fn acquire(
        self: &Arc<RateGate>,
        requester: PermitRequester<'_>,
    ) -> Result<PermitToken, (GateRefusal, Ts)> {
        let lane = self.spaced(requester.lane);
        let requester = PermitRequester { lane: &lane, ..requester };
        let class = self.class(requester.lane);
        let began = self.clock.steady();
        let (expected, is_behind) = {
            let mut inner = class.inner();
            inner.waiting += 1;
            (inner.permit_cache.expected_wait(inner.waiting * requester.lane.cost.max(1)), inner.waiting > 1)
        };
        let _waiting = RateClassWaiter(&class);
        // The first in the queue always tries: no other request would notice a change.
        if is_behind && expected > requester.deadline {
            return Err((GateRefusal::OverDeadline, began + expected));
        }
        let _turn = class.turn.lock().await;
        let clock = Arc::clone(&self.clock);
        let mut token =
            PermitToken { class: Arc::clone(&class), clock, permits: Vec::new(), waited: Duration::ZERO, view: None };
        let patience = requester.deadline.max(PATIENCE);
        loop {
            // Before the attempt: a reply that comes right after it must not be missed.
            let mut answered = pin!(class.answered.notified());
            answered.as_mut().enable();
            let now = self.clock.steady();
            match self.attempt(&class, &requester, now) {
                PermitResult::Go(permit) => {
                    token.permits.push(permit);
                    if token.permits.len() as u32 >= requester.lane.cost.max(1) {
                        token.view = class.inner().permit_cache.view().cloned();
                        token.waited = now.since(began);
                        return Ok(token);
                    }
                }
                PermitResult::At(at) if at.since(began) > patience => return Err((GateRefusal::OverDeadline, at)),
                PermitResult::At(at) => wait(answered, at.since(now)).await,
                PermitResult::Empty if now.since(began) > requester.deadline => {
                    return Err((GateRefusal::OverDeadline, now + LOOK));
                }
                PermitResult::Empty => wait(answered, LOOK).await,
                PermitResult::Closed(why, until) => return Err((why, until)),
            }
        }
    }

    /// Applies the feedback of a response. `sent`: when the request left, in steady time.
    pub fn feedback(self: &Arc<RateGate>, lane: &RateLane, sent: Ts, feedback: &GateFeedback) {
        let lane = &*self.spaced(lane);
        let (class, now) = (self.class(lane), self.clock.steady());
        let is_urgent = {
            let permit_cache = &mut class.inner().permit_cache;
            let sent = permit_cache.store_time(sent);
            // No short circuit: every signal must be recorded.
            feedback.signals(sent).fold(false, |urgent, signal| permit_cache.record_signal(signal, now) | urgent)
        };
        if let Some(wait) = feedback.retry_after {
            // Pauses the other classes of the key too.
            lock(&self.classes).hush(&lane.key, now + wait);
        }
        if is_urgent {
            lock(&self.classes).note_shut(lane, &class);
            self.send_signals(&class, lane);
        }
    }

    /// Keeps at least this much time between two requests of a key, in all its classes.
    pub(crate) fn space(&self, key: &Arc<str>, least: Option<Duration>) {
        let least = least.filter(|least| !least.is_zero());
        let is_new = {
            let mut spacing = lock(&self.spacing);
            let before = spacing.get(key).copied();
            if spacing.len() >= MAX_SPACED {
                spacing.clear();
            }
            match least {
                Some(least) => drop(spacing.insert(Arc::clone(key), least)),
                None => drop(spacing.remove(key)),
            }
            before != least
        };
        if is_new && least.is_some() {
            // Permits that came ahead follow the declared rate.
            self.void(key, None);
        }
    }

    /// The lane with the spacing of its key.
    fn spaced<'a>(&self, lane: &'a RateLane) -> Cow<'a, RateLane> {
        match lock(&self.spacing).get(&lane.key) {
            Some(least) => {
                let limits = GateLimits { rate: lane.limits.rate.spaced(*least), ..lane.limits };
                Cow::Owned(RateLane { limits, ..lane.clone() })
            }
            None => Cow::Borrowed(lane),
        }
    }

    /// Records that a partition uses the lane's key: while that is closed, none of its tasks is claimed.
    pub(crate) fn used_by(&self, lane: &RateLane, who: &PartitionKey) {
        let class = self.class(&self.spaced(lane));
        let mut inner = class.inner();
        if !inner.users.contains(who) {
            inner.users.insert(who.clone());
        }
    }

    /// Partitions whose key is closed (ING-4.10-32).
    pub(crate) fn closed(&self, now: Ts) -> Vec<PartitionKey> {
        lock(&self.classes).closed(now)
    }

    /// The last view of each partition's key, for partitions that sent requests lately.
    pub(crate) fn views(&self) -> Vec<(PartitionKey, Arc<GateView>)> {
        lock(&self.classes).views()
    }

    /// Listens for changes that other processes caused, and drops permits of the changed keys. Returns permits that
    /// were not used, so that they do not use up a quota.
    pub async fn listen(self: Arc<RateGate>) {
        let mut tick = tokio::time::interval(RETURN_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = self.store.gate_changes();
        loop {
            tokio::select! {
                key = &mut changes => {
                    self.void(&key, None);
                    changes = self.store.gate_changes();
                }
                _ = tick.tick() => self.return_unused(),
            }
        }
    }

    fn return_unused(self: &Arc<RateGate>) {
        let now = self.clock.steady();
        let classes = lock(&self.classes).of("");
        for class in classes {
            let lane = {
                let mut inner = class.inner();
                inner.lane.clone().filter(|_| inner.permit_cache.has_unused(now))
            };
            if let Some(lane) = lane {
                self.send_signals(&class, &lane);
            }
        }
    }

    /// Returns all permits to the store, when this process sends nothing more.
    pub async fn close(self: &Arc<RateGate>) {
        let all = async {
            let classes = lock(&self.classes).of("");
            for class in classes {
                self.give_back_all(&class).await;
            }
        };
        let _ = timeout(PATIENCE_AT_END, all).await;
    }

    async fn give_back_all(self: &Arc<RateGate>, class: &Arc<RateClass>) {
        loop {
            let mut answered = pin!(class.answered.notified());
            answered.as_mut().enable();
            let (lane, is_pending) = {
                let inner = &mut *class.inner();
                inner.permit_cache.give_back_all();
                let is_pending = inner.permit_cache.has_urgent_signals() || inner.permit_cache.is_requesting();
                (inner.lane.clone(), is_pending)
            };
            let Some(lane) = lane.filter(|_| is_pending) else { return };
            self.send_signals(class, &lane);
            answered.await;
        }
    }

    /// Drops the permits of a key in all its classes, except one that is up to date.
    fn void(&self, key: &str, but: Option<&Arc<RateClass>>) {
        let classes = lock(&self.classes).of(key);
        for class in classes.iter().filter(|class| but.is_none_or(|but| !Arc::ptr_eq(class, but))) {
            class.inner().permit_cache.empty();
            class.answered.notify_waiters();
        }
    }

    fn attempt(self: &Arc<RateGate>, class: &Arc<RateClass>, requester: &PermitRequester<'_>, now: Ts) -> PermitResult {
        let PermitRequester { lane, first, percent, deadline } = *requester;
        let (tried, request) = {
            let inner = &mut *class.inner();
            let tried = inner.permit_cache.take(first, &lane.limits, now);
            (tried, inner.permit_cache.request(inner.waiting * lane.cost.max(1), first, now))
        };
        if let Some(request) = request {
            self.send(class, lane, GateRequest { percent, deadline: deadline.max(PATIENCE), ..request }, now);
        }
        tried
    }

    /// Sends pending signals to the store. Requests no permits: waiting requests do that themselves.
    fn send_signals(self: &Arc<RateGate>, class: &Arc<RateClass>, lane: &RateLane) {
        let now = self.clock.steady();
        let request = class.inner().permit_cache.request(0, true, now);
        if let Some(request) = request {
            self.send(class, lane, request, now);
        }
    }

    /// Sends a request to the store, and applies the reply to the permit cache.
    fn send(self: &Arc<RateGate>, class: &Arc<RateClass>, lane: &RateLane, request: GateRequest, sent: Ts) {
        // Who only reports does not take a share of the rate.
        let reports_only = request.now + request.prefetch == 0;
        let member = if reports_only { String::new() } else { format!("{} {}", self.owner, lane.class) };
        let request = GateRequest { member, class: lane.class.to_string(), weight: lane.weight, ..request };
        let permits = RequestPermits { key: lane.key.to_string(), limits: lane.limits, request };
        let (gate, lane) = (Arc::clone(self), lane.clone());
        let mut pending = PendingGateRequest::new(class, &self.clock);
        tokio::spawn(async move {
            let answer = timeout(PATIENCE_WITH_STORE, gate.store.run(Arc::new(permits))).await;
            let answer = answer.unwrap_or_else(|_| Err(TxError::Unknown("the store does not respond".into())));
            let (now, class) = (gate.clock.steady(), Arc::clone(pending.class()));
            let (is_shut, trip) = {
                let (mut inner, mut rng) = (class.inner(), lock(&gate.rng));
                match &answer {
                    Ok(answer) => inner.permit_cache.on_reply(answer, sent, now, &mut rng),
                    Err(_) => inner.permit_cache.on_failure(now),
                }
                pending.close();
                (inner.permit_cache.refused(false, now).is_some(), inner.permit_cache.trip())
            };
            if answer.is_ok() {
                lock(&gate.classes).trip = Some(trip);
            }
            if is_shut {
                lock(&gate.classes).note_shut(&lane, &class);
            }
            match &answer {
                Ok(answer) if answer.notify_others => gate.void(&lane.key, Some(&class)),
                Ok(_) => {}
                Err(error) => {
                    events::store_failed("gate", "RequestPermits", error);
                    // Limits the rate of requests to a store that is down.
                    sleep(LOOK).await;
                }
            }
            class.answered.notify_waiters();
            if class.inner().permit_cache.has_urgent_signals() {
                gate.send_signals(&class, &lane);
            }
        });
    }

    fn class(&self, lane: &RateLane) -> Arc<RateClass> {
        lock(&self.classes).get(lane, self.clock.steady())
    }
}

/// Feedback of a response for the gate.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct GateFeedback {
    /// The response was 429, or a transient failure of the upstream.
    pub refused: bool,
    pub retry_after: Option<Duration>,
    pub remaining: Option<GateSignal>,
}

impl GateFeedback {
    fn signals(&self, sent: Ts) -> impl Iterator<Item = GateSignal> {
        let refused = self.refused.then_some(GateSignal::Refused { sent });
        [refused, self.retry_after.map(GateSignal::RetryAfter), self.remaining].into_iter().flatten()
    }
}

/// HARVEST may use the reserve of a quota, because its records may be gone later (ING-4.10-25).
pub(crate) fn comes_first(who: &PartitionKey) -> bool {
    who.operation == patra_core::state::Operation::Harvest
}

async fn wait(answered: Pin<&mut Notified<'_>>, at_most: Duration) {
    let _ = timeout(at_most.max(Duration::from_micros(500)), answered).await;
}
