//! Drives one run: every want becomes a future, every result goes back into the machine.

mod read;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tracing::{Instrument as _, Span};

use patra_core::bounds::IdSegment;
use patra_core::gate::{GateDecision, GateRefusal, GateSignal as Pace};
use patra_core::health::{Advice, RequestOutcome};
use patra_core::params::{self, Params};
use patra_core::port::{BoxFuture, CommandsExt as _};
use patra_core::protocol::run::{FetchedPage, PageFailure, RunInput, RunMachine, RunOutcome, RunSummary, Want};
use patra_core::rng::Rng;
use patra_core::tx::{Captured, Done, Lease, LeaseRef, PartitionKey, Tx, TxError, job_type};
use patra_core::{Code, Level, Ts, Window};

use crate::coalescer::{CoalescerLeader, CoalescerTurn};
use crate::crash;
use crate::decoding::lacks_memory;
use crate::events::{self, RunEvent};
use crate::gate::{GateFeedback, PermitRequester, PermitToken, RateLane, comes_first};
use crate::pool;
use crate::prepared::CompiledSpec;
use crate::scrape::{self, existence};
use crate::shared::{Shared, sleep_until};
use crate::spans;

pub(crate) use self::read::{RequestContext, read};

/// A signal of the executor to a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunnerSignal {
    Lost,
    /// Give the task back, with this reason.
    Stop(&'static str),
}

/// Runs a leased task to its end.
pub(crate) async fn run(
    shared: Arc<Shared>,
    lease: Lease,
    rng: Rng,
    signals: mpsc::Receiver<RunnerSignal>,
    progress: Option<mpsc::UnboundedSender<LeaseRef>>,
) -> RunSummary {
    let began = shared.ports.clock.steady();
    let lease = shared.credentials.refreshed_lease(lease).await;
    let job_type = match existence::feed(&lease) {
        Some(_) => scrape::job_type_of(&*shared.ports.store, &lease).await.into(),
        None => job_type(&lease.provenance_code, &lease.endpoint_name).into(),
    };
    let mut runner = Runner {
        began,
        job_type,
        partition: lease.inventory(),
        // A damaged row has no params; a template that needs one fails with an error that names it.
        params: Arc::new(params::of_task(&lease.params).unwrap_or_default()),
        machine: RunMachine::new(lease, shared.options.run, rng),
        progress,
        in_flight: FuturesUnordered::new(),
        spec: None,
        lane: None,
        token: None,
        details: false,
        pace: None,
        refused: None,
        leader: None,
        has_moved: false,
        batches: BTreeMap::new(),
        shared,
    };
    let ended = runner.drive(signals).await;
    scrape::after(&runner.shared, runner.machine.lease(), &ended).await;
    ended
}

struct Runner {
    shared: Arc<Shared>,
    job_type: Arc<str>,
    began: Ts,
    machine: RunMachine,
    partition: PartitionKey,
    params: Arc<Params>,
    spec: Option<Arc<CompiledSpec>>,
    /// The lane of a poll, by the host of its source.
    lane: Option<RateLane>,
    /// Permit of the next request. Given back when there is none.
    token: Option<PermitToken>,
    /// Notified of batches that count as progress.
    progress: Option<mpsc::UnboundedSender<LeaseRef>>,
    /// Whether the last permit was for details.
    details: bool,
    /// Report on the last response, until the run has decided about it.
    pace: Option<GateReport>,
    /// Code of the last refusal, until the next request.
    refused: Option<Code>,
    /// Leadership of the cursor's advance, from the event to the value.
    leader: Option<CoalescerLeader>,
    /// Whether the run has requested to advance the cursor.
    has_moved: bool,
    /// Spans of batches that are being read, or wait for their commit.
    batches: BTreeMap<u32, Span>,
    in_flight: FuturesUnordered<BoxFuture<'static, RunnerEvent>>,
}

enum RunnerEvent {
    Input(RunInput),
    /// The result of a transaction, how long it took, its batches, and the leadership of the advance that sent it.
    Stored(Result<Done, TxError>, Duration, Vec<u32>, Option<CoalescerLeader>),
    Permitted(Result<PermitToken, (GateRefusal, Ts)>, Advice),
    /// A request has ended.
    Fetched(RequestDeparture, Result<Box<FetchedPage>, Box<PageFailure>>),
    Prepared(Result<Arc<CompiledSpec>, patra_core::Fault>),
}

/// When a request left, whether for details, and for which batch.
#[derive(Clone, Copy)]
struct RequestDeparture {
    at: Ts,
    details: bool,
    batch_no: Option<u32>,
}

/// Feedback for the gate.
struct GateReport {
    left: RequestDeparture,
    feedback: GateFeedback,
}

impl Runner {
    async fn drive(&mut self, mut signals: mpsc::Receiver<RunnerSignal>) -> RunSummary {
        let mut wants = Vec::new();
        self.machine.start(&mut wants);
        loop {
            if let Some(ended) = self.execute(&mut wants) {
                return ended;
            }
            let sleep = sleep_until(self.now(), self.machine.wake_at());
            let event = tokio::select! {
                biased;
                Some(signal) = signals.recv() => Some(RunnerEvent::Input(match signal {
                    RunnerSignal::Lost => RunInput::Lost,
                    RunnerSignal::Stop(reason) => RunInput::Stop { reason },
                })),
                Some(event) = self.in_flight.next() => Some(event),
                () = sleep => None,
            };
            let now = self.now();
            match event {
                Some(RunnerEvent::Input(input)) => self.machine.on(now, input, &mut wants),
                Some(RunnerEvent::Stored(result, took, pages, leader)) => {
                    self.leader = leader.filter(|_| result.is_ok());
                    self.on_stored(&result, took, &pages);
                    self.machine.on(now, RunInput::Tx(result), &mut wants);
                }
                Some(RunnerEvent::Permitted(permitted, advice)) => {
                    let got = self.permitted(permitted, advice);
                    self.machine.on(now, got, &mut wants);
                }
                Some(RunnerEvent::Fetched(left, result)) => {
                    self.pace = self.gate_report(left, &result);
                    self.batch(left.batch_no).in_scope(|| self.on_fetched(&result));
                    self.machine.on(now, RunInput::Fetched(result), &mut wants);
                }
                Some(RunnerEvent::Prepared(spec)) => {
                    let policy =
                        spec.as_ref().map(|spec| Arc::new(spec.policy(self.machine.lease()))).map_err(Clone::clone);
                    self.spec = spec.ok();
                    self.lane = self.spec.as_ref().and_then(|spec| spec.lane_of(&self.params));
                    self.machine.on(now, RunInput::Prepared(policy), &mut wants);
                }
                None => self.machine.poll(now, &mut wants),
            }
        }
    }

    /// Starts the future of every want. Results that are known at once go back into the machine at once.
    fn execute(&mut self, wants: &mut Vec<Want>) -> Option<RunSummary> {
        let mut at = 0;
        while at < wants.len() {
            match wants[at].clone() {
                Want::Tx(Tx::RecordAdvance(record)) => {
                    self.leader = None;
                    let (shared, again) = (Arc::clone(&self.shared), self.has_moved);
                    self.in_flight.push(Box::pin(async move {
                        let (leader, record) = match shared.advances.join(record, again).await {
                            CoalescerTurn::Recorded(result) => {
                                return RunnerEvent::Input(RunInput::Tx(result.map(Done::RecordAdvance)));
                            }
                            CoalescerTurn::Lead(leader, record) => (leader, record),
                        };
                        let sent = shared.ports.clock.steady();
                        let step = || shared.ports.store.run(record);
                        let result = crash::around("run", "RecordAdvance", step).await;
                        leader.publish(result.clone());
                        let took = shared.ports.clock.steady().since(sent);
                        RunnerEvent::Stored(result.map(Done::RecordAdvance), took, Vec::new(), Some(leader))
                    }));
                }
                Want::Tx(tx) => {
                    let leader = self.leader.take();
                    self.has_moved |= matches!(tx, Tx::AdvanceCursor(_));
                    let shared = Arc::clone(&self.shared);
                    let job_type = Arc::clone(&self.job_type);
                    let pages: Vec<_> = tx.pages().iter().map(|page| page.batch_no).collect();
                    let span = self.batch(pages.first().copied());
                    let is_progress = tx.pages().iter().any(|page| page.progress);
                    let progress = self.progress.clone().filter(|_| is_progress);
                    let lease = LeaseRef::from(self.machine.lease());
                    let step = async move {
                        let sent = shared.ports.clock.steady();
                        // One name for pages, committed alone or together.
                        let name = if pages.is_empty() { tx.name() } else { "CommitBatch" };
                        let answer = crash::around("run", name, || shared.ports.store.execute(tx)).await;
                        if let Some(progress) = progress.filter(|_| answer.is_ok()) {
                            let _ = progress.send(lease);
                        }
                        let now = shared.ports.clock.steady();
                        if let Ok(each) = u32::try_from(pages.len())
                            && each > 0
                        {
                            shared.health.on_commit(now, now.since(sent) / each);
                        }
                        let committed = answer.as_ref().map(Done::committed).unwrap_or_default();
                        for _ in committed.iter().filter(|page| page.captured == Captured::Failed) {
                            shared.capture.failed(&job_type, "the store refused them");
                        }
                        drop(leader);
                        RunnerEvent::Stored(answer, now.since(sent), pages, None)
                    };
                    self.in_flight.push(Box::pin(step.instrument(span)));
                }
                Want::Prepare { snapshot_hash } => {
                    let shared = Arc::clone(&self.shared);
                    self.in_flight.push(Box::pin(async move {
                        RunnerEvent::Prepared(shared.prepared.get(&*shared.ports.store, &snapshot_hash).await)
                    }));
                }
                Want::Permit { details } => {
                    if let Some(spec) = self.spec.clone() {
                        self.request_permit(&spec, details, wants);
                    }
                }
                Want::CoolDown(wait) => {
                    let none = GateReport {
                        left: RequestDeparture { at: self.now(), details: self.details, batch_no: None },
                        feedback: GateFeedback::default(),
                    };
                    let GateReport { left, feedback } = self.pace.take().unwrap_or(none);
                    self.feed_back(GateReport { left, feedback: GateFeedback { retry_after: Some(wait), ..feedback } });
                    RunEvent::Throttled { lease: self.machine.lease(), wait }.emit(&self.shared);
                }
                Want::Fetch(fetch) => {
                    if let Some(spec) = self.spec.clone() {
                        if self.refused.is_some() {
                            RunEvent::Retried { lease: self.machine.lease() }.emit(&self.shared);
                        }
                        let shared = Arc::clone(&self.shared);
                        let (window, params) = (self.window(&spec), self.params.clone());
                        let credential = self.machine.lease().credential;
                        let (token, details) = (self.token.take(), self.details);
                        let (first, left) = (
                            comes_first(&self.partition),
                            RequestDeparture { at: self.now(), details, batch_no: Some(fetch.batch_no) },
                        );
                        let lane = self.lane(&spec, details).clone();
                        let lease = self.machine.lease();
                        let (project, job_type) = (lease.project_key.clone(), Arc::clone(&self.job_type));
                        let (feed, task) = (existence::feed(lease), lease.task);
                        let batch = self.batches.entry(fetch.batch_no).or_insert_with(|| spans::batch(&fetch));
                        let span = spans::exchange(batch);
                        let step = async move {
                            let leave = RequestContext { token, lane, first, credential };
                            crash::of_task(task);
                            let read = || read(&shared, &spec, &fetch, window, &params, leave);
                            let mut result = crash::around("run", "Fetch", read).await;
                            if let Some(feed) = feed {
                                result =
                                    existence::check(&shared, feed, &spec, &fetch, &params, credential, result).await;
                            }
                            if let Ok(page) = &mut result {
                                for warning in &page.warnings {
                                    tracing::warn!(project, job_type = &*job_type, "{warning}");
                                }
                                pool::capture(&shared, &project, &job_type, fetch.batch_no <= 1, page).await;
                            }
                            spans::answered(&Span::current(), answer_of(&result));
                            RunnerEvent::Fetched(left, result)
                        };
                        self.in_flight.push(Box::pin(step.instrument(span)));
                    }
                }
                Want::Screen(stream, candidates) => {
                    let store = Arc::clone(&self.shared.ports.store);
                    self.in_flight.push(Box::pin(async move {
                        let screen = || store.screen(&stream, &candidates);
                        RunnerEvent::Input(RunInput::Screened(crash::around("run", "Screen", screen).await))
                    }));
                }
                Want::Wanted { stream, segment, after, limit } => {
                    let store = Arc::clone(&self.shared.ports.store);
                    self.in_flight.push(Box::pin(async move {
                        let IdSegment { criteria: wanted, range } = &segment;
                        RunnerEvent::Input(RunInput::Wanted(
                            store.ids_to_refresh(&stream, wanted, range, after.as_deref(), limit).await,
                        ))
                    }));
                }
                Want::Finished(ended) => {
                    self.leader = None;
                    if let Some(report) = self.pace.take() {
                        self.feed_back(report);
                    }
                    spans::ended(&Span::current(), &ended);
                    let duration = self.now().since(self.began);
                    let lease = self.machine.lease();
                    let is_news = match &ended.outcome {
                        RunOutcome::Closed(_, Some(fault)) => self.refused != Some(fault.code),
                        _ => false,
                    };
                    RunEvent::Ended { lease, ended: &ended, duration, is_news }.emit(&self.shared);
                    return Some(ended);
                }
            }
            at += 1;
        }
        wants.clear();
        if let Some(report) = self.pace.take() {
            self.feed_back(report);
        }
        None
    }

    /// Checks the circuit breaker first, then the gate, at the rate that the upstream bears now.
    fn request_permit(&mut self, spec: &CompiledSpec, details: bool, wants: &mut Vec<Want>) {
        self.details = details;
        let (thresholds, c_max) = (spec.snapshot.thresholds(), spec.snapshot.limits.concurrency);
        // One source says nothing about the others of its type, so polls skip the circuit breaker.
        let (decision, advice) = match self.machine.lease().source {
            None => self.shared.health.permit(&self.partition, thresholds, c_max, self.now()),
            Some(_) => (GateDecision::Allow, Advice::default()),
        };
        if let GateDecision::WaitUntil(_) = decision {
            return self.machine.on(self.now(), RunInput::Permit(decision, advice), wants);
        }
        let (gate, first) = (Arc::clone(&self.shared.gate), comes_first(&self.partition));
        let lane = self.lane(spec, details).clone();
        if self.machine.lease().source.is_none() {
            gate.used_by(&lane, &self.partition);
        }
        let deadline = self.shared.options.run.inline_wait;
        self.in_flight.push(Box::pin(async move {
            let requester = PermitRequester { lane: &lane, first, percent: advice.rate_percent, deadline };
            RunnerEvent::Permitted(gate.acquire(requester).await, advice)
        }));
    }

    fn permitted(&mut self, permitted: Result<PermitToken, (GateRefusal, Ts)>, mut advice: Advice) -> RunInput {
        let admitted = permitted.as_ref().map(|token| token.waited).map_err(|(why, _)| *why);
        RunEvent::Admitted { lease: self.machine.lease(), admitted }.emit(&self.shared);
        match permitted {
            Ok(token) => {
                advice.rate.wait_total_ms = token.waited.as_millis() as u64;
                advice.rate.permits_total = self.spec.as_ref().map_or(1, |spec| self.lane(spec, self.details).cost);
                self.token = Some(token);
                RunInput::Permit(GateDecision::Allow, advice)
            }
            Err((why, until)) => {
                advice.rate.quota_soft_hits = u32::from(why == GateRefusal::QuotaSoft);
                advice.rate.quota_hard_hits = u32::from(why == GateRefusal::QuotaHard);
                RunInput::Permit(GateDecision::WaitUntil(until), advice)
            }
        }
    }

    /// The report to the gate that a response asks for, if any. The run decides how long to pause.
    fn gate_report(
        &self,
        left: RequestDeparture,
        result: &Result<Box<FetchedPage>, Box<PageFailure>>,
    ) -> Option<GateReport> {
        let (evidence, refused) = match result {
            Ok(page) => (&page.evidence, false),
            // A broken feed says nothing about its host.
            Err(refusal) if self.machine.lease().source.is_some() => (&refusal.evidence, refusal.throttled),
            Err(refusal) => (&refusal.evidence, refusal.lowers_rate()),
        };
        let remaining = match &evidence.quota {
            Ok(left) => left.map(|left| Pace::Remaining {
                remaining: left.remaining,
                limit: left.limit,
                resets_in: left.resets_in,
            }),
            Err(problem) => {
                events::unreadable_pace(self.machine.lease(), problem);
                None
            }
        };
        let feedback = GateFeedback { refused, retry_after: None, remaining };
        (refused || remaining.is_some()).then_some(GateReport { left, feedback })
    }

    /// Reports to the gate, once for each response: the store gets one request.
    fn feed_back(&self, GateReport { left, feedback }: GateReport) {
        if let Some(spec) = &self.spec {
            self.shared.gate.feedback(self.lane(spec, left.details), left.at, &feedback);
        }
    }

    fn lane<'a>(&'a self, spec: &'a CompiledSpec, details: bool) -> &'a RateLane {
        self.lane.as_ref().unwrap_or_else(|| spec.lane(details))
    }

    /// The window that requests cover.
    fn window(&self, spec: &CompiledSpec) -> Option<Window> {
        self.machine.lease().window.map(|window| spec.snapshot.request_window(window))
    }

    /// Reports the outcome of a request to the health registry.
    fn examine(&self, result: &Result<Box<FetchedPage>, Box<PageFailure>>) {
        let answer = match result {
            Ok(page) => RequestOutcome {
                latency: Duration::from_millis(u64::from(page.evidence.latency_ms)),
                bytes: page.evidence.bytes,
                items: page.facts.items,
                // Smaller pages would not change requests for details, which have a batch size of their own.
                page_size: match &self.spec {
                    Some(spec) if !self.details => spec.snapshot.paging().page_size,
                    _ => 0,
                },
                ..RequestOutcome::default()
            },
            Err(refusal) if lacks_memory(refusal) => return,
            Err(refusal) => RequestOutcome {
                throttled: refusal.throttled,
                failed: !refusal.throttled && refusal.fault.level == Level::L1,
                latency: Duration::from_millis(u64::from(refusal.evidence.latency_ms)),
                ..RequestOutcome::default()
            },
        };
        if self.machine.lease().source.is_none() {
            self.shared.health.on(&self.shared.metrics, &self.partition, self.now(), &answer);
        }
    }

    /// The span of a batch; the span of the run without one.
    fn batch(&self, batch_no: Option<u32>) -> Span {
        batch_no.and_then(|no| self.batches.get(&no)).cloned().unwrap_or_else(Span::current)
    }

    fn on_fetched(&mut self, result: &Result<Box<FetchedPage>, Box<PageFailure>>) {
        self.examine(result);
        self.refused = result.as_ref().err().map(|refusal| refusal.fault.code);
        RunEvent::Answered { lease: self.machine.lease(), answer: answer_of(result) }.emit(&self.shared);
    }

    fn on_stored(&mut self, result: &Result<Done, TxError>, stored_in: Duration, pages: &[u32]) {
        if let Ok(done) = result {
            self.shared.metrics.stored(done);
            for (page, done) in pages.iter().zip(done.committed()) {
                let span = self.batches.remove(page).unwrap_or_else(Span::current);
                spans::committed(&span, done);
                let event = RunEvent::Committed { lease: self.machine.lease(), stats: &done.stats, stored_in };
                span.in_scope(|| event.emit(&self.shared));
            }
        }
        let span = self.batch(pages.first().copied());
        let _entered = span.enter();
        match result {
            Ok(Done::StartRun(started)) => spans::started(&span, started),
            Err(error) if error.is_transient() => {
                RunEvent::StoreFailed { lease: self.machine.lease(), error }.emit(&self.shared);
            }
            _ => {}
        }
    }

    fn now(&self) -> Ts {
        self.shared.ports.clock.steady()
    }
}

/// The result of a request, borrowed.
fn answer_of(result: &Result<Box<FetchedPage>, Box<PageFailure>>) -> Result<&FetchedPage, &PageFailure> {
    result.as_deref().map_err(|refusal| &**refusal)
}
