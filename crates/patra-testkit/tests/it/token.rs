//! Several processes need a token of one credential, over one store, with an upstream whose refresh tokens work once.
//! A seeded scheduler picks the next process; results are lost, processes stop for minutes, crash, and start again.

use std::time::Duration;

use patra_core::credential::{Binding, CredentialRuntime};
use patra_core::gate::GateDecision;
use patra_core::port::credential::CredentialFilter;
use patra_core::protocol::token::{
    NewToken, Options, TokenInput, TokenMachine, TokenNeed, TokenRefused, TokenTime, Want,
};
use patra_core::rng::Rng;
use patra_core::state::AuthType;
use patra_core::tx::{Done, RefreshLeased, SaveCredential, Tx, TxError};
use patra_core::{Code, CredentialId, Fault, Level, Ts};
use patra_testkit::memory::MemStore;

const CREDENTIAL: CredentialId = CredentialId(1);
const LIFE: Duration = Duration::from_secs(300);
const PROCESSES: usize = 3;
const STEPS: usize = 400;

/// Probability of each fault, in permille.
#[derive(Clone, Copy)]
struct Faults {
    /// A transaction's result is lost, before or after it was applied; or the store is busy.
    store: u64,
    /// A process stops for longer than its lease, or for good.
    stalls: u64,
    /// The upstream's response is lost.
    lost: u64,
}

/// The upstream: a refresh token is a number, and the newest is the only one that works.
#[derive(Default)]
struct MockApi {
    newest: u64,
    in_flight: usize,
    /// Requests with a refresh token that had been used.
    reused: u64,
}

impl MockApi {
    fn refresh(&mut self, serial: u64) -> Result<u64, TokenRefused> {
        if serial != self.newest {
            self.reused += 1;
            return Err(Fault::new(Code::UpstreamAuthFailed, Level::L4, "invalid_grant").into());
        }
        self.newest += 1;
        Ok(self.newest)
    }
}

struct Process {
    machine: TokenMachine,
    todo: Vec<Want>,
    /// A request at the upstream, and the time at which the process gives up.
    request: Option<(CredentialRuntime, Ts)>,
    /// The process is stalled until then.
    asleep: Ts,
    starts: u64,
}

struct World {
    rng: Rng,
    faults: Faults,
    store: MemStore,
    api: MockApi,
    now: Ts,
    processes: Vec<Process>,
    /// Serials in the order in which they were stored.
    stored: Vec<u64>,
    tokens: u64,
    rejected: u64,
}

fn serial(state: &CredentialRuntime) -> u64 {
    state.sealed.as_deref().map_or(0, |sealed| sealed.parse().unwrap())
}

impl World {
    fn new(seed: u64, faults: Faults) -> World {
        let mut store = MemStore::default();
        let binding = Binding { alias: "a".into(), provenance_code: "p".into(), endpoint_name: "*".into() };
        let (sealed, key_id) = ("s".into(), "k".into());
        let save = SaveCredential { binding, version: 1, auth_type: AuthType::OAuth2, priority: 0, sealed, key_id };
        let now = Ts::from_secs(1_000_000);
        store.apply(now, &save.into()).unwrap();
        let (rng, api) = (Rng::new(seed), MockApi::default());
        let mut world =
            World { rng, faults, store, api, now, processes: Vec::new(), stored: Vec::new(), tokens: 0, rejected: 0 };
        for at in 0..PROCESSES {
            let process = world.process(at, 0);
            world.processes.push(process);
        }
        world
    }

    fn clock(&self) -> TokenTime {
        TokenTime { steady: self.now, wall: self.now }
    }

    /// A process that wants a token, with the state that it read just now.
    fn process(&mut self, at: usize, starts: u64) -> Process {
        let state = self.store.credentials(&CredentialFilter::Id(CREDENTIAL)).remove(0).state;
        // Sometimes the upstream has rejected a token before its expiry.
        let need = if self.rng.chance(200) { TokenNeed::Other { than: state.version } } else { TokenNeed::Good };
        let options = Options { rejected_pause: Duration::ZERO, ..Options::new(format!("p{at}.{starts}")) };
        let rng = self.rng.fork();
        let mut machine = TokenMachine::new(options, CREDENTIAL, need, state, rng, self.clock());
        let mut todo = Vec::new();
        machine.start(self.clock(), &mut todo);
        Process { machine, todo, request: None, asleep: Ts::MIN, starts }
    }

    fn run(mut self) -> World {
        for _ in 0..STEPS {
            let ready: Vec<_> = (0..PROCESSES).filter(|at| self.is_ready(*at)).collect();
            if ready.is_empty() || self.rng.chance(50) {
                self.pass();
                continue;
            }
            let at = ready[self.rng.below(ready.len() as u64) as usize];
            if self.rng.chance(self.faults.stalls) {
                self.stall(at);
            } else {
                self.step(at);
            }
            assert!(self.api.in_flight <= 1, "two refresh at once");
        }
        self
    }

    fn is_ready(&self, at: usize) -> bool {
        let process = &self.processes[at];
        let busy = !process.todo.is_empty() || process.request.is_some() || process.machine.wake_at() <= self.now;
        process.asleep <= self.now && busy
    }

    /// Advances the time to the next pending event, or a little. No request outlives its deadline.
    fn pass(&mut self) {
        let next = self.processes.iter().map(|process| process.machine.wake_at().max(process.asleep)).min();
        // Without stalls, ready events continue within a moment.
        let idle = (0..PROCESSES).all(|at| !self.is_ready(at));
        let longest = if idle || self.faults.stalls > 0 { 90_000 } else { 500 };
        let a_while = self.now + Duration::from_millis(self.rng.below(longest));
        self.now = next.filter(|next| *next > self.now).map_or(a_while, |next| next.min(a_while));
        for at in 0..PROCESSES {
            let expired = self.processes[at].request.as_ref().is_some_and(|(_, deadline)| *deadline <= self.now);
            if expired {
                self.answer(at, true);
            }
        }
    }

    /// The process crashes and another takes its place, or it stops for longer than its lease.
    fn stall(&mut self, at: usize) {
        if self.processes[at].request.take().is_some() {
            // The upstream may still process the request of a dead process.
            self.api.in_flight -= 1;
            let state = self.store.credentials(&CredentialFilter::Id(CREDENTIAL)).remove(0).state;
            let _ = self.api.refresh(serial(&state));
            self.processes[at] = self.process(at, self.processes[at].starts + 1);
        } else if self.rng.chance(300) {
            self.processes[at] = self.process(at, self.processes[at].starts + 1);
        } else {
            self.processes[at].asleep = self.now + Duration::from_secs(30 + self.rng.below(120));
        }
    }

    fn step(&mut self, at: usize) {
        if self.processes[at].request.is_some() {
            return self.answer(at, false);
        }
        let clock = self.clock();
        let process = &mut self.processes[at];
        if process.todo.is_empty() {
            process.machine.poll(clock, &mut process.todo);
            return;
        }
        match process.todo.remove(0) {
            Want::Permit => self.feed(at, TokenInput::Permit(GateDecision::Allow)),
            Want::Request { state, until } => {
                let deadline = self.now + Options::new("").request_timeout;
                if deadline > until {
                    return self.feed(at, TokenInput::Late);
                }
                self.api.in_flight += 1;
                self.processes[at].request = Some((state, deadline));
            }
            Want::Tx(tx) => {
                let answer = self.transact(&tx);
                self.feed(at, TokenInput::Tx(answer));
            }
            Want::Done(result) => {
                match result {
                    Ok(state) => {
                        assert!(state.sealed.is_some(), "a token to use");
                        self.tokens += 1;
                    }
                    Err(refused) => self.rejected += u64::from(refused.fault.level == Level::L4),
                }
                self.processes[at] = self.process(at, self.processes[at].starts + 1);
            }
        }
    }

    fn transact(&mut self, tx: &Tx) -> Result<Done, TxError> {
        let trouble = self.rng.chance(self.faults.store);
        if trouble && self.rng.chance(300) {
            return Err(TxError::Busy);
        }
        if trouble && self.rng.chance(300) {
            return Err(TxError::Unknown("lost before".into()));
        }
        let before = self.store.credential_states.first().map_or(0, |state| state.what.version);
        let answer = self.store.apply(self.now, tx);
        let state = self.store.credential_states.first();
        if let Some(state) = state.filter(|state| state.what.version > before) {
            self.stored.push(serial(&state.what));
        }
        if let Ok(Done::LeaseRefresh(RefreshLeased::Go { .. })) = &answer {
            let held = self.store.credential_states[0].lease.as_ref().unwrap();
            assert!(held.1 > self.now);
        }
        if trouble { Err(TxError::Unknown("lost after".into())) } else { answer }
    }

    fn answer(&mut self, at: usize, late: bool) {
        let Some((state, _)) = self.processes[at].request.take() else { return };
        self.api.in_flight -= 1;
        let answer = self.api.refresh(serial(&state));
        let lost = (late && self.faults.lost > 0) || self.rng.chance(self.faults.lost);
        let got = match answer {
            _ if lost => Err(Fault::transient(Code::TimeoutError, "no answer").into()),
            Ok(serial) => {
                Ok(NewToken { sealed: serial.to_string(), key_id: "k".into(), expires_at: Some(self.now + LIFE) })
            }
            Err(refused) => Err(refused),
        };
        self.feed(at, TokenInput::Response(got));
    }

    fn feed(&mut self, at: usize, got: TokenInput) {
        let clock = self.clock();
        let process = &mut self.processes[at];
        process.machine.on(clock, got, &mut process.todo);
    }
}

// covers: G-12
#[test]
fn refresh_token_is_used_once_and_stored_once_without_crashes() {
    let (mut tokens, mut refreshes) = (0, 0);
    for seed in 0..3_000 {
        let world = World::new(seed, Faults { store: 200, stalls: 0, lost: 0 }).run();
        assert_eq!((world.api.reused, world.rejected), (0, 0), "seed {seed}");
        let expected: Vec<u64> = (1..=world.stored.len() as u64).collect();
        assert_eq!(world.stored, expected, "seed {seed}: each token once, in order");
        // The newest token may not have reached the store when the world ends.
        let given = world.api.newest;
        assert!(world.stored.len() as u64 == given || world.stored.len() as u64 + 1 == given, "seed {seed}");
        tokens += world.tokens;
        refreshes += given;
    }
    assert!(tokens > 10_000 && refreshes > 5_000, "{tokens} tokens, {refreshes} refreshes: the worlds stand still");
}

// covers: G-12
#[test]
fn older_token_never_replaces_a_newer_one_despite_crashes_and_stalls() {
    let (mut reused, mut tokens) = (0, 0);
    for seed in 0..3_000 {
        let world = World::new(seed, Faults { store: 300, stalls: 80, lost: 50 }).run();
        let rising = world.stored.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(rising, "seed {seed}: {:?}", world.stored);
        reused += world.api.reused;
        tokens += world.tokens;
    }
    // A token of a dead process is lost. That this happens shows that the worlds are harsh enough.
    assert!(reused > 1_000 && tokens > 3_000, "{reused} reused, {tokens} tokens");
}
