//! The one way out of this process: every request asks here first. Permits are shared between processes through the store, and
//! fetched ahead; the arithmetic is in [`patra_core::gate`].

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use patra_core::Ts;
use patra_core::gate::{Limits, Permit, Purse, Signal, Try, View, Why};
use patra_core::port::{Clock, CommandsExt as _, Store};
use patra_core::rng::Rng;
use patra_core::tx::{AskGate, Inventory};
use patra_spec::Snapshot;

use crate::events;
use crate::shared::lock;

/// Between two looks while the store has nothing to say.
const LOOK: Duration = Duration::from_millis(200);

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

/// Key and class.
type Place = (Arc<str>, Arc<str>);

#[derive(Debug)]
pub struct Gate {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    owner: String,
    rng: Mutex<Rng>,
    doors: Mutex<HashMap<Place, Arc<Door>>>,
}

/// One class of a key, as this process sees it.
#[derive(Debug, Default)]
struct Door {
    inner: Mutex<Inner>,
    /// Whoever has it is next; the others queue up in the order in which they came, so no task gets two in a row while another
    /// waits (ING-4.10-14).
    turn: tokio::sync::Mutex<()>,
    answered: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    purse: Purse,
    waiting: u32,
    /// Partitions whose requests leave here.
    users: BTreeSet<Inventory>,
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
    /// True when it is not too late: the request must leave now.
    pub fn spend(mut self) -> bool {
        let now = self.clock.steady();
        // The newest counts: the request leaves on that one.
        let good = self.permits.last().is_some_and(|permit| now < permit.until);
        self.permits.clear();
        good
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if !self.permits.is_empty() {
            let now = self.clock.steady();
            let mut inner = lock(&self.door.inner);
            self.permits.drain(..).for_each(|permit| inner.purse.give_back(permit, now));
        }
    }
}

/// One more waits while this lives.
struct Waiting<'a>(&'a Door);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.0.inner).waiting -= 1;
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
            let mut inner = lock(&door.inner);
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
            let now = self.clock.steady();
            match self.attempt(&door, &asker, now) {
                Try::Go(permit) => {
                    token.permits.push(permit);
                    if token.permits.len() as u32 >= asker.lane.cost.max(1) {
                        token.view = lock(&door.inner).purse.view().cloned();
                        token.waited = now.since(began);
                        return Ok(token);
                    }
                }
                Try::At(at) if at.since(began) > patience => return Err((Why::OverDeadline, at)),
                Try::At(at) => wait(&door.answered, at.since(now)).await,
                Try::Empty if now.since(began) > asker.deadline => return Err((Why::OverDeadline, now + LOOK)),
                Try::Empty => wait(&door.answered, LOOK).await,
                Try::Closed(why, until) => return Err((why, until)),
            }
        }
    }

    /// What the far side's answer says about the pace. `sent`: when the request left, in steady time.
    pub fn feedback(self: &Arc<Gate>, lane: &Lane, sent: Ts, answer: &Feedback) {
        let door = self.door(lane);
        let mut urgent = false;
        {
            let mut inner = lock(&door.inner);
            let (sent, now) = (inner.purse.store_time(sent), self.clock.steady());
            for signal in answer.signals(sent) {
                urgent |= inner.purse.hear(signal, now);
            }
        }
        if urgent {
            self.ask_if_needed(&door, Asker { lane, first: true, percent: 100, deadline: Duration::ZERO });
        }
    }

    /// This partition's requests leave through the lane's key: while that is closed, none of its tasks is claimed.
    pub(crate) fn used_by(&self, lane: &Lane, who: &Inventory) {
        let door = self.door(lane);
        let mut inner = lock(&door.inner);
        if !inner.users.contains(who) {
            inner.users.insert(who.clone());
        }
    }

    /// Partitions whose key is closed (ING-4.10-32).
    pub(crate) fn closed(&self, now: Ts) -> Vec<Inventory> {
        let doors: Vec<_> = lock(&self.doors).values().cloned().collect();
        let mut closed = Vec::new();
        for door in doors {
            let inner = lock(&door.inner);
            closed
                .extend(inner.users.iter().filter(|who| inner.purse.closed(comes_first(who), now).is_some()).cloned());
        }
        closed
    }

    /// Listens for what other processes were told.
    pub async fn listen(self: Arc<Gate>) {
        loop {
            let key = self.store.gate_news().await;
            let doors: Vec<_> = lock(&self.doors)
                .iter()
                .filter(|((name, _), _)| key.is_empty() || **name == *key)
                .map(|(_, door)| Arc::clone(door))
                .collect();
            for door in doors {
                lock(&door.inner).purse.empty();
                door.answered.notify_waiters();
            }
        }
    }

    fn attempt(self: &Arc<Gate>, door: &Arc<Door>, asker: &Asker<'_>, now: Ts) -> Try {
        let tried = lock(&door.inner).purse.take(asker.first, now);
        self.ask_if_needed(door, *asker);
        tried
    }

    fn ask_if_needed(self: &Arc<Gate>, door: &Arc<Door>, asker: Asker<'_>) {
        let Asker { lane, first, percent, deadline } = asker;
        let sent = self.clock.steady();
        let Some(mut ask) = ({
            let mut inner = lock(&door.inner);
            let waiting = inner.waiting * lane.cost.max(1);
            inner.purse.ask(waiting, first, sent)
        }) else {
            return;
        };
        ask.member = format!("{} {}", self.owner, lane.class);
        ask.class = lane.class.to_string();
        (ask.weight, ask.percent, ask.deadline) = (lane.weight, percent, deadline.max(PATIENCE));
        let question = AskGate { key: lane.key.to_string(), limits: lane.limits, ask };
        let (gate, door, lane) = (Arc::clone(self), Arc::clone(door), lane.clone());
        tokio::spawn(async move {
            let answer = gate.store.run(Arc::new(question)).await;
            let now = gate.clock.steady();
            {
                let (mut inner, mut rng) = (lock(&door.inner), lock(&gate.rng));
                match &answer {
                    Ok(answer) => inner.purse.on_answer(answer, sent, now, &mut rng),
                    Err(_) => inner.purse.on_failure(now),
                }
            }
            if let Err(error) = &answer {
                events::store_failed("gate", "AskGate", error);
                // A store that is gone must not be asked without end.
                tokio::time::sleep(LOOK).await;
            }
            door.answered.notify_waiters();
            if lock(&door.inner).purse.has_news() {
                gate.ask_if_needed(&door, Asker { lane: &lane, first, percent, deadline });
            }
        });
    }

    fn door(&self, lane: &Lane) -> Arc<Door> {
        let place = (Arc::clone(&lane.key), Arc::clone(&lane.class));
        Arc::clone(lock(&self.doors).entry(place).or_default())
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

async fn wait(answered: &Notify, at_most: Duration) {
    let _ = tokio::time::timeout(at_most.max(Duration::from_micros(500)), answered.notified()).await;
}
