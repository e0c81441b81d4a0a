//! The one way out of this process: every request asks here first. Permits are shared between processes through the store, and
//! fetched ahead; the arithmetic is in [`patra_core::gate`].

mod rate_class;

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::time::{sleep, timeout};

use patra_core::Ts;
use patra_core::gate::{GateLimits, GateRefusal, GateRequest, GateSignal, GateView, Permit, PermitResult};
use patra_core::port::{Clock, CommandsExt as _, Store};
use patra_core::rng::Rng;
use patra_core::tx::{PartitionKey, RequestPermits, TxError};
use patra_spec::Snapshot;

use self::rate_class::{PendingGateRequest, RateClass, RateClassWaiter, RateClasses};
use crate::events;
use crate::shared::lock;

/// Between two looks while the store has nothing to say.
const LOOK: Duration = Duration::from_millis(200);

/// A store that takes longer has not answered.
const PATIENCE_WITH_STORE: Duration = Duration::from_secs(4);

/// How long the first in the queue waits for its slot, at least: nobody else would get it sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// The key that a request counts for, and what is declared of it.
#[derive(Clone, PartialEq, Debug)]
pub struct RateLane {
    pub key: Arc<str>,
    /// Who shares the key with others, by weight.
    pub class: Arc<str>,
    pub weight: u32,
    /// Permits that one request takes.
    pub cost: u32,
    pub limits: GateLimits,
}

/// Who wants to send.
#[derive(Clone, Copy, Debug)]
pub struct PermitRequester<'a> {
    pub lane: &'a RateLane,
    /// May use what little is left of a quota.
    pub first: bool,
    /// Of its share of the rate, in percent.
    pub percent: u32,
    /// The longest that it waits here.
    pub deadline: Duration,
}

#[derive(Debug)]
pub struct RateGate {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    owner: String,
    rng: Mutex<Rng>,
    doors: Mutex<RateClasses>,
}

/// The right to send one request. Unused, it goes back.
#[derive(Debug)]
pub struct PermitToken {
    door: Arc<RateClass>,
    clock: Arc<dyn Clock>,
    permits: Vec<Permit>,
    pub waited: Duration,
    pub view: Option<Arc<GateView>>,
}

impl PermitToken {
    /// True when it is still good: the request must leave now. It is not when too much time has passed, or when the upstream has
    /// asked for silence meanwhile.
    pub fn spend(mut self) -> bool {
        let now = self.clock.steady();
        self.door.inner().permit_cache.spend(&mut self.permits, now)
    }
}

impl Drop for PermitToken {
    fn drop(&mut self) {
        if !self.permits.is_empty() {
            let now = self.clock.steady();
            let mut inner = self.door.inner();
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
        Arc::new(RateGate { store, clock, owner: owner.into(), rng, doors: Mutex::default() })
    }

    /// Waits for the right to send; says why not, and until when, where that would take too long.
    pub async fn acquire(self: &Arc<RateGate>, asker: PermitRequester<'_>) -> Result<PermitToken, (GateRefusal, Ts)> {
        let door = self.door(asker.lane);
        let began = self.clock.steady();
        let (expected, is_behind) = {
            let mut inner = door.inner();
            inner.waiting += 1;
            (inner.permit_cache.expected_wait(inner.waiting * asker.lane.cost.max(1)), inner.waiting > 1)
        };
        let _waiting = RateClassWaiter(&door);
        // With nobody before it, nobody else finds out what has changed.
        if is_behind && expected > asker.deadline {
            return Err((GateRefusal::OverDeadline, began + expected));
        }
        let _turn = door.turn.lock().await;
        let clock = Arc::clone(&self.clock);
        let mut token =
            PermitToken { door: Arc::clone(&door), clock, permits: Vec::new(), waited: Duration::ZERO, view: None };
        let patience = asker.deadline.max(PATIENCE);
        loop {
            // Before the attempt: an answer that comes right behind it must not be missed.
            let mut answered = pin!(door.answered.notified());
            answered.as_mut().enable();
            let now = self.clock.steady();
            match self.attempt(&door, &asker, now) {
                PermitResult::Go(permit) => {
                    token.permits.push(permit);
                    if token.permits.len() as u32 >= asker.lane.cost.max(1) {
                        token.view = door.inner().permit_cache.view().cloned();
                        token.waited = now.since(began);
                        return Ok(token);
                    }
                }
                PermitResult::At(at) if at.since(began) > patience => return Err((GateRefusal::OverDeadline, at)),
                PermitResult::At(at) => wait(answered, at.since(now)).await,
                PermitResult::Empty if now.since(began) > asker.deadline => {
                    return Err((GateRefusal::OverDeadline, now + LOOK));
                }
                PermitResult::Empty => wait(answered, LOOK).await,
                PermitResult::Closed(why, until) => return Err((why, until)),
            }
        }
    }

    /// What the upstream's answer says about the pace. `sent`: when the request left, in steady time.
    pub fn feedback(self: &Arc<RateGate>, lane: &RateLane, sent: Ts, answer: &GateFeedback) {
        let (door, now) = (self.door(lane), self.clock.steady());
        let is_urgent = {
            let permit_cache = &mut door.inner().permit_cache;
            let sent = permit_cache.store_time(sent);
            // Each of them must be heard.
            answer.signals(sent).fold(false, |urgent, signal| permit_cache.record_signal(signal, now) | urgent)
        };
        if let Some(wait) = answer.retry_after {
            // The other classes of the key leave by doors of their own.
            lock(&self.doors).hush(&lane.key, now + wait);
        }
        if is_urgent {
            lock(&self.doors).note_shut(lane, &door);
            self.tell(&door, lane);
        }
    }

    /// This partition's requests leave through the lane's key: while that is closed, none of its tasks is claimed.
    pub(crate) fn used_by(&self, lane: &RateLane, who: &PartitionKey) {
        let door = self.door(lane);
        let mut inner = door.inner();
        if !inner.users.contains(who) {
            inner.users.insert(who.clone());
        }
    }

    /// Partitions whose key is closed (ING-4.10-32).
    pub(crate) fn closed(&self, now: Ts) -> Vec<PartitionKey> {
        lock(&self.doors).closed(now)
    }

    /// What the key of each partition told last, for those that came through a door lately.
    pub(crate) fn views(&self) -> Vec<(PartitionKey, Arc<GateView>)> {
        lock(&self.doors).views()
    }

    /// Listens for what other processes were told.
    pub async fn listen(self: Arc<RateGate>) {
        loop {
            let key = self.store.gate_changes().await;
            self.void(&key, None);
        }
    }

    /// What was handed out of a key is void, but for one who knows already.
    fn void(&self, key: &str, but: Option<&Arc<RateClass>>) {
        let doors = lock(&self.doors).of(key);
        for door in doors.iter().filter(|door| but.is_none_or(|but| !Arc::ptr_eq(door, but))) {
            door.inner().permit_cache.empty();
            door.answered.notify_waiters();
        }
    }

    fn attempt(self: &Arc<RateGate>, door: &Arc<RateClass>, asker: &PermitRequester<'_>, now: Ts) -> PermitResult {
        let PermitRequester { lane, first, percent, deadline } = *asker;
        let (tried, ask) = {
            let inner = &mut *door.inner();
            let tried = inner.permit_cache.take(first, &lane.limits, now);
            (tried, inner.permit_cache.request(inner.waiting * lane.cost.max(1), first, now))
        };
        if let Some(ask) = ask {
            self.put(door, lane, GateRequest { percent, deadline: deadline.max(PATIENCE), ..ask }, now);
        }
        tried
    }

    /// Only tells: those who wait ask for themselves, as whoever they are.
    fn tell(self: &Arc<RateGate>, door: &Arc<RateClass>, lane: &RateLane) {
        let now = self.clock.steady();
        let ask = door.inner().permit_cache.request(0, true, now);
        if let Some(ask) = ask {
            self.put(door, lane, ask, now);
        }
    }

    /// Puts the question to the store, and the answer into the permit_cache.
    fn put(self: &Arc<RateGate>, door: &Arc<RateClass>, lane: &RateLane, ask: GateRequest, sent: Ts) {
        let member = format!("{} {}", self.owner, lane.class);
        let ask = GateRequest { member, class: lane.class.to_string(), weight: lane.weight, ..ask };
        let asked = RequestPermits { key: lane.key.to_string(), limits: lane.limits, request: ask };
        let (gate, lane) = (Arc::clone(self), lane.clone());
        let mut question = PendingGateRequest::new(door, &self.clock);
        tokio::spawn(async move {
            let answer = timeout(PATIENCE_WITH_STORE, gate.store.run(Arc::new(asked))).await;
            let answer = answer.unwrap_or_else(|_| Err(TxError::Unknown("the store does not answer".into())));
            let (now, door) = (gate.clock.steady(), Arc::clone(question.door()));
            let (is_shut, trip) = {
                let (mut inner, mut rng) = (door.inner(), lock(&gate.rng));
                match &answer {
                    Ok(answer) => inner.permit_cache.on_reply(answer, sent, now, &mut rng),
                    Err(_) => inner.permit_cache.on_failure(now),
                }
                question.close();
                (inner.permit_cache.closed(false, now).is_some(), inner.permit_cache.trip())
            };
            if answer.is_ok() {
                lock(&gate.doors).trip = Some(trip);
            }
            if is_shut {
                lock(&gate.doors).note_shut(&lane, &door);
            }
            match &answer {
                Ok(answer) if answer.notify_others => gate.void(&lane.key, Some(&door)),
                Ok(_) => {}
                Err(error) => {
                    events::store_failed("gate", "RequestPermits", error);
                    // A store that is gone must not be asked without end.
                    sleep(LOOK).await;
                }
            }
            door.answered.notify_waiters();
            if door.inner().permit_cache.has_urgent_signals() {
                gate.tell(&door, &lane);
            }
        });
    }

    fn door(&self, lane: &RateLane) -> Arc<RateClass> {
        lock(&self.doors).get(lane, self.clock.steady())
    }
}

/// What an answer says about the pace.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct GateFeedback {
    /// 429, or a failure of the upstream that passes.
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

/// What HARVEST brings cannot be had later; the others wait when little of a quota is left (ING-4.10-25).
pub(crate) fn comes_first(who: &PartitionKey) -> bool {
    who.operation == patra_core::state::Operation::Harvest
}

async fn wait(answered: Pin<&mut Notified<'_>>, at_most: Duration) {
    let _ = timeout(at_most.max(Duration::from_micros(500)), answered).await;
}
