//! Driving one run: every want becomes a future, every answer goes back into the machine.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use patra_connectors::Ask;
use patra_core::params::{self, Params};
use patra_core::port::Boxed;
use patra_core::protocol::run::{Ended, Fetch, Got, Page, Refusal, Run, Want};
use patra_core::protocol::token::Refused;
use patra_core::rng::Rng;
use patra_core::tx::{Done, Lease};
use patra_core::{CredentialId, Ts};

use crate::events::RunEvent;
use crate::gate::Key;
use crate::prepared::Spec;
use crate::shared::{Shared, sleep_until};

/// What the executor tells a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    Lost,
    Stop,
}

/// Runs a leased task to its end.
pub(crate) async fn run(shared: Arc<Shared>, lease: Lease, rng: Rng, signals: mpsc::Receiver<Signal>) -> Ended {
    let mut runner = Runner {
        key: (lease.provenance_code.clone(), lease.endpoint_name.clone()),
        // What a planner wrote reads back; a damaged row has no params, and a template that needs one says so.
        params: Arc::new(params::of_task(&lease.params).unwrap_or_default()),
        machine: Run::new(lease, shared.options.run, rng),
        in_flight: FuturesUnordered::new(),
        spec: None,
        shared,
    };
    runner.drive(signals).await
}

struct Runner {
    shared: Arc<Shared>,
    machine: Run,
    key: Key,
    params: Arc<Params>,
    spec: Option<Arc<Spec>>,
    in_flight: FuturesUnordered<Boxed<'static, Event>>,
}

enum Event {
    Got(Got),
    Prepared(Result<Arc<Spec>, patra_core::Fault>),
}

impl Runner {
    async fn drive(&mut self, mut signals: mpsc::Receiver<Signal>) -> Ended {
        let mut wants = Vec::new();
        self.machine.start(&mut wants);
        loop {
            if let Some(ended) = self.execute(&mut wants) {
                return ended;
            }
            let sleep = sleep_until(self.now(), self.machine.wake_at());
            let event = tokio::select! {
                biased;
                Some(signal) = signals.recv() => Some(Event::Got(match signal {
                    Signal::Lost => Got::Lost,
                    Signal::Stop => Got::Stop,
                })),
                Some(event) = self.in_flight.next() => Some(event),
                () = sleep => None,
            };
            let now = self.now();
            match event {
                Some(Event::Got(got)) => {
                    self.tell(&got);
                    self.machine.on(now, got, &mut wants);
                }
                Some(Event::Prepared(spec)) => {
                    let policy =
                        spec.as_ref().map(|spec| Arc::new(spec.policy(self.machine.lease()))).map_err(Clone::clone);
                    self.spec = spec.ok();
                    self.machine.on(now, Got::Prepared(policy), &mut wants);
                }
                None => self.machine.poll(now, &mut wants),
            }
        }
    }

    /// Sets everything wanted in motion. Answers that are known at once are fed back at once.
    fn execute(&mut self, wants: &mut Vec<Want>) -> Option<Ended> {
        let mut at = 0;
        while at < wants.len() {
            match wants[at].clone() {
                Want::Tx(tx) => {
                    let store = Arc::clone(&self.shared.ports.store);
                    self.in_flight.push(Box::pin(async move { Event::Got(Got::Tx(store.execute(tx).await)) }));
                }
                Want::Prepare { snapshot_hash } => {
                    let shared = Arc::clone(&self.shared);
                    self.in_flight.push(Box::pin(async move {
                        Event::Prepared(shared.prepared.get(&*shared.ports.store, &snapshot_hash).await)
                    }));
                }
                Want::Permit => {
                    if let Some(spec) = &self.spec {
                        let decision = self.shared.gate.acquire(&self.key, spec.rate);
                        let now = self.now();
                        self.machine.on(now, Got::Permit(decision), wants);
                    }
                }
                Want::CoolDown(wait) => {
                    if let Some(spec) = &self.spec {
                        self.shared.gate.cool_down(&self.key, spec.rate, wait);
                    }
                    RunEvent::Throttled { lease: self.machine.lease(), wait }.emit(&*self.shared.listener);
                }
                Want::Fetch(fetch) => {
                    if let Some(spec) = &self.spec {
                        let (shared, spec) = (Arc::clone(&self.shared), Arc::clone(spec));
                        let (window, params) = (spec.snapshot.asked(self.machine.lease().window), self.params.clone());
                        let credential = self.machine.lease().credential;
                        self.in_flight.push(Box::pin(async move {
                            Event::Got(Got::Fetched(read(&shared, &spec, &fetch, window, &params, credential).await))
                        }));
                    }
                }
                Want::Screen(stream, candidates) => {
                    let store = Arc::clone(&self.shared.ports.store);
                    self.in_flight.push(Box::pin(async move {
                        Event::Got(Got::Screened(store.screen(&stream, &candidates).await))
                    }));
                }
                Want::Finished(ended) => {
                    RunEvent::Ended { lease: self.machine.lease(), ended: &ended }.emit(&*self.shared.listener);
                    return Some(ended);
                }
            }
            at += 1;
        }
        wants.clear();
        None
    }

    fn tell(&self, got: &Got) {
        let lease = self.machine.lease();
        let event = match got {
            Got::Tx(Ok(Done::CommitBatch(done))) => RunEvent::Committed { lease, stats: &done.stats },
            Got::Tx(Err(error)) if error.is_transient() => RunEvent::StoreFailed { lease, error },
            Got::Fetched(Err(refusal)) if !refusal.throttled => RunEvent::Failed { lease, fault: &refusal.fault },
            _ => return,
        };
        event.emit(&*self.shared.listener);
    }

    fn now(&self) -> Ts {
        self.shared.ports.clock.steady()
    }
}

/// One page: render, send, decode. Decoding is off the I/O threads when the body is large.
async fn read(
    shared: &Arc<Shared>,
    spec: &Arc<Spec>,
    fetch: &Fetch,
    window: patra_core::Window,
    params: &Params,
    credential: Option<CredentialId>,
) -> Result<Box<Page>, Box<Refusal>> {
    /// Bodies up to this size are decoded in place: handing them over would cost more.
    const SMALL: usize = 64 << 10;

    let clock = &shared.ports.clock;
    let ask = Ask { position: &fetch.position, window, page_size: fetch.page_size, params, now: clock.now() };
    let mut exchange = spec.pager.request(&ask)?;
    let correlation = format!("ing-{}-{}", fetch.run, fetch.batch_no);
    exchange.request.headers.push(("X-Ingest-Correlation-Id".into(), correlation));
    let sent = clock.steady();
    let answer = shared.send(spec, credential, &mut exchange).await;
    let (now, latency) = (clock.now(), clock.steady().since(sent));
    let answer = match answer {
        Ok(answer) => answer,
        Err(Refused { fault, retry_after }) => {
            let (throttled, evidence) = (retry_after.is_some(), exchange.evidence(latency));
            return Err(Box::new(Refusal { fault, throttled, retry_after, evidence }));
        }
    };
    let large = matches!(&answer, Ok(response) if response.body.len() > SMALL);
    if !large {
        return spec.pager.read(exchange, answer, latency, now);
    }
    let spec = Arc::clone(spec);
    match tokio::task::spawn_blocking(move || spec.pager.read(exchange, answer, latency, now)).await {
        Ok(page) => page,
        Err(error) => Err(Box::new(Refusal {
            fault: patra_core::Fault::new(
                patra_core::Code::InternalError,
                patra_core::Level::L2,
                format!("reading the answer failed: {error}"),
            ),
            throttled: false,
            retry_after: None,
            evidence: patra_core::protocol::run::Evidence::default(),
        })),
    }
}
