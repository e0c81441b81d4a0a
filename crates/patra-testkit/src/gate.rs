//! Simulates many processes on one key of the rate gate: wrong clocks, slow or lost results, processes
//! that die, and an upstream that requests silence and counts the requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use patra_core::Ts;
use patra_core::gate::{GateLimits, GateReply, GateSignal, GateState, Permit, PermitCache, PermitResult, Quotas, Rate};
use patra_core::rng::Rng;

/// Parameters of a simulation.
#[derive(Clone, Debug)]
pub struct GateScenario {
    pub seed: u64,
    pub rate: Rate,
    pub processes: usize,
    /// Concurrent requests of each process.
    pub workers: usize,
    /// Mean interval between kills of a process, and between silences of the upstream; zero for never.
    pub kill_every: Duration,
    pub silence_every: Duration,
    /// Mean interval between steps of the store's clock backwards, by up to an hour; zero for never.
    pub set_back_every: Duration,
    /// Weights of two classes; the processes are assigned to them in turn.
    pub weights: [u32; 2],
    pub permits: usize,
    /// Ends after this time at the latest; zero for never.
    pub lasts: Duration,
    /// With a quota, workers rest often, and no reply of the store is lost.
    pub quota_hourly: Option<u64>,
    pub mutant: Option<GateMutant>,
}

/// A bug on purpose, which a simulation with a quota must notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateMutant {
    /// Permits that were not used are never returned.
    LosesUnused,
    /// Permits are returned twice.
    ReturnsTwice,
}

impl GateScenario {
    pub fn new(seed: u64, per_sec: f64, burst: f64, permits: usize) -> GateScenario {
        GateScenario {
            seed,
            rate: Rate { per_sec, burst },
            processes: 8,
            workers: 16,
            kill_every: Duration::from_secs(20),
            silence_every: Duration::ZERO,
            set_back_every: Duration::ZERO,
            weights: [1, 1],
            permits,
            lasts: Duration::ZERO,
            quota_hourly: None,
            mutant: None,
        }
    }

    fn limits(&self) -> GateLimits {
        let quotas = Quotas { hourly: self.quota_hourly, daily: None };
        GateLimits { rate: self.rate, quotas, ..GateLimits::default() }
    }
}

/// The requests as counted by the upstream.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub permits: usize,
    pub lasted: Duration,
    /// Share of the declared rate that was used, without silences.
    pub used: f64,
    /// Requests beyond the limit in the worst window.
    pub overshoot: f64,
    /// Requests that were sent although their process knew of a silence.
    pub broken_silences: usize,
    pub silences: usize,
    pub kills: usize,
    /// Permits per request to the store.
    pub per_question: f64,
    /// Requests by class.
    pub shares: [f64; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A worker wants to send.
    Send {
        process: usize,
        life: u32,
        worker: usize,
    },
    /// A request is about to leave.
    Leave {
        process: usize,
        life: u32,
        worker: usize,
        permit: usize,
    },
    Arrive {
        process: usize,
        life: u32,
        worker: usize,
        sent: i64,
    },
    /// The response has arrived.
    Refused {
        process: usize,
        life: u32,
        wait: i64,
        sent: i64,
    },
    Asked {
        process: usize,
        life: u32,
        ask: usize,
    },
    Answered {
        process: usize,
        life: u32,
        ask: usize,
    },
    /// A process learns that the upstream requests silence.
    News {
        process: usize,
        life: u32,
    },
    /// A process returns what it did not use.
    Tick {
        process: usize,
        life: u32,
    },
    Kill {
        process: usize,
    },
    SetBack,
}

struct Process {
    life: u32,
    permit_cache: PermitCache,
    /// Error of the process's clock.
    skew: i64,
    waiting: u32,
    hushed_until: i64,
}

struct World {
    plan: GateScenario,
    rng: Rng,
    now: i64,
    /// Total by which the store's clock was set back.
    set_back: i64,
    state: GateState,
    processes: Vec<Process>,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    order: u64,
    /// The request to the store, and its result once it is made.
    asks: Vec<(patra_core::gate::GateRequest, i64, Option<GateReply>)>,
    permits: Vec<Permit>,
    arrivals: Vec<i64>,
    by_class: [usize; 2],
    silent_until: i64,
    silent: i64,
    outcome: Outcome,
}

const START: i64 = 1_800_000_000_000_000;

/// Runs a simulation to its end.
pub fn run(plan: GateScenario) -> Outcome {
    let limits = plan.limits();
    let outcome = Outcome {
        permits: 0,
        lasted: Duration::ZERO,
        used: 0.0,
        overshoot: 0.0,
        broken_silences: 0,
        silences: 0,
        kills: 0,
        per_question: 0.0,
        shares: [0.0; 2],
    };
    let mut world = World {
        rng: Rng::new(plan.seed),
        now: START,
        set_back: 0,
        state: GateState::new(limits, Ts::from_micros(START)),
        processes: Vec::new(),
        events: BinaryHeap::new(),
        order: 0,
        asks: Vec::new(),
        permits: Vec::new(),
        arrivals: Vec::new(),
        by_class: [0; 2],
        silent_until: 0,
        silent: 0,
        outcome,
        plan,
    };
    for process in 0..world.plan.processes {
        let born = world.born();
        world.processes.push(born);
        world.wake(process);
        world.next_kill(process);
    }
    world.next_set_back();
    while world.arrivals.len() < world.plan.permits {
        let Some(Reverse((at, _, event))) = world.events.pop() else { break };
        let lasts = world.plan.lasts.as_micros() as i64;
        if lasts > 0 && at > START + lasts {
            break;
        }
        world.now = at;
        world.on(event);
    }
    world.sum_up()
}

impl World {
    fn born(&mut self) -> Process {
        // Up to a minute ahead or behind.
        let skew = self.rng.below(120_000_000) as i64 - 60_000_000;
        Process { life: 0, permit_cache: PermitCache::default(), skew, waiting: 0, hushed_until: 0 }
    }

    fn at(&mut self, at: i64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at.max(self.now), self.order, event)));
    }

    fn wake(&mut self, process: usize) {
        let life = self.processes[process].life;
        for worker in 0..self.plan.workers {
            let at = self.now + self.rng.below(1_000) as i64;
            self.at(at, Event::Send { process, life, worker });
        }
        self.at(self.now + 1_000_000, Event::Tick { process, life });
    }

    fn tick(&mut self, process: usize, life: u32) {
        let local = self.local(process);
        let has_unused = self.processes[process].permit_cache.has_unused(local);
        if has_unused {
            self.ask_for(process, 0);
        }
        self.at(self.now + 1_000_000, Event::Tick { process, life });
    }

    fn next_kill(&mut self, process: usize) {
        let every = self.plan.kill_every.as_micros() as u64 * self.plan.processes as u64;
        if every > 0 {
            let at = self.now + self.rng.below(2 * every) as i64;
            self.at(at, Event::Kill { process });
        }
    }

    fn next_set_back(&mut self) {
        let every = self.plan.set_back_every.as_micros() as u64;
        if every > 0 {
            let at = self.now + self.rng.below(2 * every) as i64;
            self.at(at, Event::SetBack);
        }
    }

    fn store_time(&self) -> Ts {
        Ts::from_micros(self.now - self.set_back)
    }

    fn local(&self, process: usize) -> Ts {
        Ts::from_micros(self.now + self.processes[process].skew)
    }

    fn lives(&self, process: usize, life: u32) -> bool {
        self.processes[process].life == life
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Send { process, life, worker } if self.lives(process, life) => self.send(process, life, worker),
            Event::Leave { process, life, worker, permit } if self.lives(process, life) => {
                self.leave(process, life, worker, permit);
            }
            Event::Tick { process, life } if self.lives(process, life) => self.tick(process, life),
            Event::SetBack => {
                // A step by a moment, or by a lot.
                let by = if self.rng.chance(50) { self.rng.below(3_600_000_000) } else { self.rng.below(50_000) };
                self.set_back += by as i64;
                self.next_set_back();
            }
            Event::Arrive { process, life, worker, sent } => self.arrive(process, life, worker, sent),
            Event::Refused { process, life, wait, sent } if self.lives(process, life) => {
                let Process { permit_cache, skew, .. } = &mut self.processes[process];
                let sent = permit_cache.store_time(Ts::from_micros(sent + *skew));
                let local = Ts::from_micros(self.now + *skew);
                permit_cache.record_signal(GateSignal::Refused { sent }, local);
                permit_cache.record_signal(GateSignal::RetryAfter(Duration::from_micros(wait as u64)), local);
                self.processes[process].hushed_until = self.silent_until;
                self.ask(process);
            }
            Event::News { process, life } if self.lives(process, life) => {
                self.processes[process].permit_cache.empty();
                self.processes[process].hushed_until = self.silent_until;
            }
            Event::Asked { process, life, ask } => {
                if self.asks[ask].0.signals.iter().any(|signal| matches!(signal, GateSignal::RetryAfter(_))) {
                    self.notify_all();
                }
                let (time, (question, _, answer)) = (self.store_time(), &mut self.asks[ask]);
                match self.plan.mutant {
                    Some(GateMutant::LosesUnused) => question.returned.clear(),
                    Some(GateMutant::ReturnsTwice) => question.returned.extend_from_within(..),
                    None => {}
                }
                *answer = Some(self.state.request(self.plan.limits(), question, time));
                let at = self.now + 100 + self.rng.below(8_000) as i64;
                self.at(at, Event::Answered { process, life, ask });
            }
            Event::Answered { process, life, ask } if self.lives(process, life) => self.answered(process, ask),
            Event::Kill { process } => {
                let life = self.processes[process].life + 1;
                self.processes[process] = Process { life, ..self.born() };
                self.outcome.kills += 1;
                self.wake(process);
                self.next_kill(process);
            }
            _ => {}
        }
    }

    fn notify_all(&mut self) {
        for process in 0..self.plan.processes {
            let (at, life) = (self.now + 500 + self.rng.below(10_000) as i64, self.processes[process].life);
            self.at(at, Event::News { process, life });
        }
    }

    fn send(&mut self, process: usize, life: u32, worker: usize) {
        let local = self.local(process);
        let tried = self.processes[process].permit_cache.take(true, &self.plan.limits(), local);
        let again = Event::Send { process, life, worker };
        match tried {
            PermitResult::Go(permit) => {
                // The process may stall between the permit and the send.
                let held_up = if self.rng.chance(5) { self.rng.below(60_000) } else { self.rng.below(200) } as i64;
                self.permits.push(permit);
                let permit = self.permits.len() - 1;
                self.at(self.now + held_up, Event::Leave { process, life, worker, permit });
            }
            PermitResult::At(at) => self.at(at.micros() - self.processes[process].skew, again),
            PermitResult::Empty => {
                let at = self.now + 5_000 + self.rng.below(5_000) as i64;
                self.at(at, again);
            }
            PermitResult::Closed(_, until) => self.at(until.micros() - self.processes[process].skew + 1, again),
        }
        self.processes[process].waiting = match tried {
            PermitResult::Go(_) => self.processes[process].waiting.saturating_sub(1),
            _ => self.plan.workers as u32 / 2,
        };
        self.processes[process].waiting = self.processes[process].waiting.max(1);
        self.ask(process);
    }

    /// Drops a request whose permit is late or void by now.
    fn leave(&mut self, process: usize, life: u32, worker: usize, permit: usize) {
        let local = self.local(process);
        let mut permits = vec![self.permits[permit]];
        if !self.processes[process].permit_cache.spend(&mut permits, local) {
            self.at(self.now, Event::Send { process, life, worker });
            return;
        }
        if self.now < self.processes[process].hushed_until {
            self.outcome.broken_silences += 1;
        }
        let (sent, way) = (self.now, 200 + self.rng.below(4_000) as i64);
        self.at(sent + way, Event::Arrive { process, life, worker, sent });
    }

    fn ask(&mut self, process: usize) {
        self.ask_for(process, self.processes[process].waiting);
    }

    fn ask_for(&mut self, process: usize, waiting: u32) {
        let local = self.local(process);
        let Process { permit_cache, life, .. } = &mut self.processes[process];
        let life = *life;
        let Some(mut ask) = permit_cache.request(waiting, true, local) else { return };
        let class = process % 2;
        ask.member = format!("{process}-{life}");
        ask.class = class.to_string();
        (ask.weight, ask.percent) = (self.plan.weights[class], 100);
        ask.deadline = Duration::from_secs(15);
        self.asks.push((ask, self.now, None));
        let at = self.now + 100 + self.rng.below(4_000) as i64;
        self.at(at, Event::Asked { process, life, ask: self.asks.len() - 1 });
    }

    fn answered(&mut self, process: usize, ask: usize) {
        let local = self.local(process);
        let (_, sent, answer) = &self.asks[ask];
        let sent = Ts::from_micros(*sent + self.processes[process].skew);
        let permit_cache = &mut self.processes[process].permit_cache;
        match (answer, self.plan.quota_hourly.is_none() && self.rng.chance(2)) {
            (Some(answer), false) => permit_cache.on_reply(answer, sent, local, &mut self.rng),
            // The result was lost, and its slots with it.
            _ => permit_cache.on_failure(local),
        }
    }

    fn arrive(&mut self, process: usize, life: u32, worker: usize, sent: i64) {
        self.arrivals.push(self.now);
        self.by_class[process % 2] += 1;
        let every = self.plan.silence_every.as_secs_f64() * self.plan.rate.per_sec;
        if every > 0.0 && self.now > self.silent_until && self.rng.below(every as u64) == 0 {
            let wait = 2_000_000 + self.rng.below(3_000_000) as i64;
            (self.silent_until, self.outcome.silences) = (self.now + wait, self.outcome.silences + 1);
            self.silent += wait;
            let at = self.now + 500;
            self.at(at, Event::Refused { process, life, wait, sent });
        }
        let rests = self.plan.quota_hourly.is_some() && self.rng.chance(200);
        let rest = if rests { self.rng.below(10_000_000) } else { self.rng.below(40_000) };
        self.at(self.now + 2_000 + rest as i64, Event::Send { process, life, worker });
    }

    fn sum_up(mut self) -> Outcome {
        let (first, last) = (self.arrivals[0], self.now);
        let lasted = last - first;
        let Rate { per_sec, burst } = self.plan.rate;
        self.outcome.overshoot = [1.0, 10.0, 60.0]
            .into_iter()
            .map(|secs| {
                let most = burst + per_sec * secs;
                worst(&self.arrivals, (secs * 1e6) as i64) as f64 - most
            })
            .fold(f64::MIN, f64::max);
        self.outcome.permits = self.arrivals.len();
        self.outcome.lasted = Duration::from_micros(lasted as u64);
        let busy = (lasted - self.silent) as f64 / 1e6;
        self.outcome.used = self.arrivals.len() as f64 / (per_sec * busy);
        self.outcome.per_question = self.arrivals.len() as f64 / self.asks.len().max(1) as f64;
        self.outcome.shares = self.by_class.map(|count| count as f64 / self.arrivals.len() as f64);
        self.outcome
    }
}

/// The most requests in any window of this length.
fn worst(arrivals: &[i64], window: i64) -> usize {
    let (mut first, mut worst) = (0, 0);
    for (last, at) in arrivals.iter().enumerate() {
        while arrivals[first] <= at - window {
            first += 1;
        }
        worst = worst.max(last + 1 - first);
    }
    worst
}
