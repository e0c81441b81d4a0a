//! The one way out of this process: every request asks here first. Permits are shared between processes through the store, and
//! fetched ahead; the arithmetic is in [`patra_core::gate`].

mod door;

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::time::{sleep, timeout};

use patra_core::Ts;
use patra_core::gate::{Ask, Limits, Permit, Signal, Try, View, Why};
use patra_core::port::{Clock, CommandsExt as _, Store};
use patra_core::rng::Rng;
use patra_core::tx::{AskGate, Inventory, TxError};
use patra_spec::Snapshot;

use self::door::{Door, Doors, Question, Waiting};
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
pub struct Lane {
    pub key: Arc<str>,
    /// Who shares the key with others, by weight.
    pub class: Arc<str>,
    pub weight: u32,
    /// Permits that one request takes.
    pub cost: u32,
    pub limits: Limits,
}

/// Who wants to send.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    pub lane: &'a Lane,
    /// May use what little is left of a quota.
    pub first: bool,
    /// Of its share of the rate, in percent.
    pub percent: u32,
    /// The longest that it waits here.
    pub deadline: Duration,
}

#[derive(Debug)]
pub struct Gate {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    owner: String,
    rng: Mutex<Rng>,
    doors: Mutex<Doors>,
}

/// The right to send one request. Unused, it goes back.
#[derive(Debug)]
pub struct Token {
    door: Arc<Door>,
    clock: Arc<dyn Clock>,
    permits: Vec<Permit>,
    pub waited: Duration,
    pub view: Option<Arc<View>>,
}

impl Token {
    /// True when it is still good: the request must leave now. It is not when too much time has passed, or when the far side has
    /// asked for silence meanwhile.
    pub fn spend(mut self) -> bool {
        let now = self.clock.steady();
        self.door.inner().purse.spend(&mut self.permits, now)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if !self.permits.is_empty() {
            let now = self.clock.steady();
            let mut inner = self.door.inner();
            self.permits.drain(..).for_each(|permit| inner.purse.give_back(permit, now));
        }
    }
}

impl Lane {
    pub fn of(spec: &Snapshot) -> Lane {
        Lane {
            key: spec.gate_key().into(),
            class: format!("{}/{}", spec.provenance_code, spec.endpoint_code).into(),
            weight: spec.rate_limit.weight,
            cost: spec.rate_limit.cost,
            limits: spec.gate_limits(),
        }
    }
}

impl Gate {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, owner: impl Into<String>, seed: u64) -> Arc<Gate> {
        let rng = Mutex::new(Rng::new(seed));
        Arc::new(Gate { store, clock, owner: owner.into(), rng, doors: Mutex::default() })
    }

    /// Waits for the right to send; says why not, and until when, where that would take too long.
    pub async fn acquire(self: &Arc<Gate>, asker: Asker<'_>) -> Result<Token, (Why, Ts)> {
        let door = self.door(asker.lane);
        let began = self.clock.steady();
        let (expected, is_behind) = {
            let mut inner = door.inner();
            inner.waiting += 1;
            (inner.purse.expected_wait(inner.waiting * asker.lane.cost.max(1)), inner.waiting > 1)
        };
        let _waiting = Waiting(&door);
        // With nobody before it, nobody else finds out what has changed.
        if is_behind && expected > asker.deadline {
            return Err((Why::OverDeadline, began + expected));
        }
        let _turn = door.turn.lock().await;
        let clock = Arc::clone(&self.clock);
        let mut token =
            Token { door: Arc::clone(&door), clock, permits: Vec::new(), waited: Duration::ZERO, view: None };
        let patience = asker.deadline.max(PATIENCE);
        loop {
            // Before the attempt: an answer that comes right behind it must not be missed.
            let mut answered = pin!(door.answered.notified());
            answered.as_mut().enable();
            let now = self.clock.steady();
            match self.attempt(&door, &asker, now) {
                Try::Go(permit) => {
                    token.permits.push(permit);
                    if token.permits.len() as u32 >= asker.lane.cost.max(1) {
                        token.view = door.inner().purse.view().cloned();
                        token.waited = now.since(began);
                        return Ok(token);
                    }
                }
                Try::At(at) if at.since(began) > patience => return Err((Why::OverDeadline, at)),
                Try::At(at) => wait(answered, at.since(now)).await,
                Try::Empty if now.since(began) > asker.deadline => return Err((Why::OverDeadline, now + LOOK)),
                Try::Empty => wait(answered, LOOK).await,
                Try::Closed(why, until) => return Err((why, until)),
            }
        }
    }

    /// What the far side's answer says about the pace. `sent`: when the request left, in steady time.
    pub fn feedback(self: &Arc<Gate>, lane: &Lane, sent: Ts, answer: &Feedback) {
        let (door, now) = (self.door(lane), self.clock.steady());
        let is_urgent = {
            let purse = &mut door.inner().purse;
            let sent = purse.store_time(sent);
            // Each of them must be heard.
            answer.signals(sent).fold(false, |urgent, signal| purse.hear(signal, now) | urgent)
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
    pub(crate) fn used_by(&self, lane: &Lane, who: &Inventory) {
        let door = self.door(lane);
        let mut inner = door.inner();
        if !inner.users.contains(who) {
            inner.users.insert(who.clone());
        }
    }

    /// Partitions whose key is closed (ING-4.10-32).
    pub(crate) fn closed(&self, now: Ts) -> Vec<Inventory> {
        lock(&self.doors).closed(now)
    }

    /// What the key of each partition told last, for those that came through a door lately.
    pub(crate) fn views(&self) -> Vec<(Inventory, Arc<View>)> {
        lock(&self.doors).views()
    }

    /// Listens for what other processes were told.
    pub async fn listen(self: Arc<Gate>) {
        loop {
            let key = self.store.gate_news().await;
            self.void(&key, None);
        }
    }

    /// What was handed out of a key is void, but for one who knows already.
    fn void(&self, key: &str, but: Option<&Arc<Door>>) {
        let doors = lock(&self.doors).of(key);
        for door in doors.iter().filter(|door| but.is_none_or(|but| !Arc::ptr_eq(door, but))) {
            door.inner().purse.empty();
            door.answered.notify_waiters();
        }
    }

    fn attempt(self: &Arc<Gate>, door: &Arc<Door>, asker: &Asker<'_>, now: Ts) -> Try {
        let Asker { lane, first, percent, deadline } = *asker;
        let (tried, ask) = {
            let inner = &mut *door.inner();
            let tried = inner.purse.take(first, &lane.limits, now);
            (tried, inner.purse.ask(inner.waiting * lane.cost.max(1), first, now))
        };
        if let Some(ask) = ask {
            self.put(door, lane, Ask { percent, deadline: deadline.max(PATIENCE), ..ask }, now);
        }
        tried
    }

    /// Only tells: those who wait ask for themselves, as whoever they are.
    fn tell(self: &Arc<Gate>, door: &Arc<Door>, lane: &Lane) {
        let now = self.clock.steady();
        let ask = door.inner().purse.ask(0, true, now);
        if let Some(ask) = ask {
            self.put(door, lane, ask, now);
        }
    }

    /// Puts the question to the store, and the answer into the purse.
    fn put(self: &Arc<Gate>, door: &Arc<Door>, lane: &Lane, ask: Ask, sent: Ts) {
        let member = format!("{} {}", self.owner, lane.class);
        let ask = Ask { member, class: lane.class.to_string(), weight: lane.weight, ..ask };
        let asked = AskGate { key: lane.key.to_string(), limits: lane.limits, ask };
        let (gate, lane) = (Arc::clone(self), lane.clone());
        let mut question = Question::new(door, &self.clock);
        tokio::spawn(async move {
            let answer = timeout(PATIENCE_WITH_STORE, gate.store.run(Arc::new(asked))).await;
            let answer = answer.unwrap_or_else(|_| Err(TxError::Unknown("the store does not answer".into())));
            let (now, door) = (gate.clock.steady(), Arc::clone(question.door()));
            let (is_shut, trip) = {
                let (mut inner, mut rng) = (door.inner(), lock(&gate.rng));
                match &answer {
                    Ok(answer) => inner.purse.on_answer(answer, sent, now, &mut rng),
                    Err(_) => inner.purse.on_failure(now),
                }
                question.close();
                (inner.purse.closed(false, now).is_some(), inner.purse.trip())
            };
            if answer.is_ok() {
                lock(&gate.doors).trip = Some(trip);
            }
            if is_shut {
                lock(&gate.doors).note_shut(&lane, &door);
            }
            match &answer {
                Ok(answer) if answer.news => gate.void(&lane.key, Some(&door)),
                Ok(_) => {}
                Err(error) => {
                    events::store_failed("gate", "AskGate", error);
                    // A store that is gone must not be asked without end.
                    sleep(LOOK).await;
                }
            }
            door.answered.notify_waiters();
            if door.inner().purse.has_news() {
                gate.tell(&door, &lane);
            }
        });
    }

    fn door(&self, lane: &Lane) -> Arc<Door> {
        lock(&self.doors).get(lane, self.clock.steady())
    }
}

/// What an answer says about the pace.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Feedback {
    /// 429, or a failure of the far side that passes.
    pub refused: bool,
    pub retry_after: Option<Duration>,
    pub remaining: Option<Signal>,
}

impl Feedback {
    fn signals(&self, sent: Ts) -> impl Iterator<Item = Signal> {
        let refused = self.refused.then_some(Signal::Refused { sent });
        [refused, self.retry_after.map(Signal::RetryAfter), self.remaining].into_iter().flatten()
    }
}

/// What HARVEST brings cannot be had later; the others wait when little of a quota is left (ING-4.10-25).
pub(crate) fn comes_first(who: &Inventory) -> bool {
    who.operation == patra_core::state::Operation::Harvest
}

async fn wait(answered: Pin<&mut Notified<'_>>, at_most: Duration) {
    let _ = timeout(at_most.max(Duration::from_micros(500)), answered).await;
}
