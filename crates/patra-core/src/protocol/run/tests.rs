//! A run and a clock, driven by hand.

mod budget;
mod details;
mod ends;
mod flow;
mod halt;
mod limits;
mod missing;
mod moved;
mod pages;
mod parts;
mod refusals;
mod self_healing;
mod update;
mod verify;

use super::*;
use crate::gate::GateDecision::Allow;
use crate::id::{BatchId, CursorId, Fence, JobId, PlanId, SliceId, TaskId};
use crate::paging::{self, PageFacts, PagingKind, Position};
use crate::protocol::planner::{PhaseSpec, SliceBudget, SliceContext, SliceTemplate};
use crate::record::{Record, RecordVersion};
use crate::retry;
use crate::state::Operation;
use crate::tx::{BatchCommitted, Captured, CursorMoved, ResumePoint, RunEnded, TaskLineage};
use crate::window::Window;

const RUN: RunId = RunId(7);

/// Default options, but no page waits for others.
fn at_once() -> Options {
    Options { linger: Duration::ZERO, ..Options::default() }
}

/// A run and a clock; every call returns what the run wants next.
struct Driver {
    run: RunMachine,
    now: Ts,
}

impl Driver {
    fn new(options: Options) -> Driver {
        Driver::of(lease(), options)
    }

    fn of(lease: Lease, options: Options) -> Driver {
        let mut driver = Driver { run: RunMachine::new(lease, options, Rng::new(1)), now: at(0) };
        let mut wants = Vec::new();
        driver.run.start(&mut wants);
        assert!(matches!(&wants[..], [Want::Tx(Tx::StartRun(_))]), "{wants:?}");
        driver
    }

    /// Opened, prepared, and requesting its first permit.
    fn reading(options: Options, rule: paging::PagingRule, resume: Option<Option<Position>>) -> Driver {
        let mut driver = Driver::new(options);
        let wants = driver.on(started(resume));
        assert!(matches!(&wants[..], [Want::Prepare { .. }]), "{wants:?}");
        let wants = driver.on(RunInput::Prepared(Ok(policy(rule))));
        assert!(matches!(&wants[..], [Want::Permit { .. }]), "{wants:?}");
        driver
    }

    /// Opened and prepared like this, and what it wants then.
    fn prepared(lease: Lease, policy: RunPolicy, resume: Option<Option<Position>>) -> (Driver, Vec<Want>) {
        let mut driver = Driver::of(lease, at_once());
        driver.on(started(resume));
        let wants = driver.on(RunInput::Prepared(Ok(Arc::new(policy))));
        (driver, wants)
    }

    fn tokens() -> Driver {
        Driver::reading(at_once(), tokens(), None)
    }

    fn on(&mut self, got: RunInput) -> Vec<Want> {
        let mut wants = Vec::new();
        self.run.on(self.now, got, &mut wants);
        wants
    }

    /// Grants the requested permit.
    fn fetch(&mut self) -> PageFetch {
        self.fetch_with(Advice::default())
    }

    /// The same, with advice about the upstream's health.
    fn fetch_with(&mut self, advice: Advice) -> PageFetch {
        match &self.on(RunInput::Permit(Allow, advice))[..] {
            [Want::Fetch(fetch)] => fetch.clone(),
            other => panic!("expected a fetch, got {other:?}"),
        }
    }

    /// Lets time pass up to the run's next timer.
    fn wake(&mut self) -> Vec<Want> {
        let wake_at = self.run.wake_at();
        assert!(wake_at < Ts::MAX, "nothing to wake for");
        let mut wants = Vec::new();
        self.run.poll(wake_at - Duration::from_micros(1), &mut wants);
        assert!(wants.is_empty(), "woke too early: {wants:?}");
        self.now = wake_at;
        self.run.poll(self.now, &mut wants);
        wants
    }

    /// A fetch that fails like this; the wants that follow.
    fn refuse(&mut self, refusal: PageFailure) -> Vec<Want> {
        self.fetch();
        self.on(RunInput::Fetched(Err(Box::new(refusal))))
    }

    /// Reads one page and commits it; the wants that follow.
    fn read(&mut self, page: RunInput) -> Vec<Want> {
        self.fetch();
        self.on(page);
        self.on(committed())
    }

    /// Plays the upstream and the store until the run is closed. `advice` goes with every permit.
    fn play(
        &mut self,
        wants: Vec<Want>,
        mut advice: impl FnMut() -> Advice,
        mut upstream: impl FnMut(&PageFetch) -> FetchedPage,
    ) -> Played {
        let (mut wants, mut fetches, mut commits) = (VecDeque::from(wants), Vec::new(), Vec::new());
        for _ in 0..10_000 {
            let more = match wants.pop_front().expect("the run waits for nothing") {
                Want::Permit { .. } => self.on(RunInput::Permit(Allow, advice())),
                Want::Fetch(fetch) => {
                    let page = upstream(&fetch);
                    fetches.push(fetch);
                    self.on(RunInput::Fetched(Ok(Box::new(page))))
                }
                Want::Tx(Tx::CommitBatch(batch)) => {
                    commits.push(batch);
                    self.on(committed())
                }
                Want::Tx(Tx::CommitBatches(batches)) => {
                    commits.extend(batches.iter().cloned());
                    self.on(committed_together(batches.len()))
                }
                Want::Tx(Tx::EndRun(end)) => return Played { fetches, commits, end },
                other => panic!("{other:?}"),
            };
            wants.extend(more);
        }
        panic!("the run goes on for ever");
    }
}

/// The requests and commits of a run, and its end.
struct Played {
    fetches: Vec<PageFetch>,
    commits: Vec<Arc<CommitBatch>>,
    end: Arc<EndRun>,
}

impl Played {
    fn keys(&self) -> Vec<String> {
        let records = self.commits.iter().flat_map(|batch| &batch.records);
        records.map(|record| record.key.clone()).collect()
    }
}

fn at(secs: i64) -> Ts {
    Ts::from_secs(secs)
}

fn mark(secs: i64) -> CursorValue {
    CursorValue::At(at(secs))
}

fn lease() -> Lease {
    Lease {
        task: TaskId(3),
        fence: Fence(9),
        until: at(60),
        attempts: 1,
        suspect: false,
        lineage: TaskLineage { job: JobId(1), plan: PlanId(2), slice: SliceId(3) },
        cursor: CursorId(5),
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        operation: Operation::Harvest,
        expr_hash: "expr".into(),
        window: Some(Window { from: at(0), to: at(10) }),
        params: "{}".into(),
        credential: None,
        source: None,
        priority: 0,
        scheduled_at: at(0),
    }
}

fn tokens() -> paging::PagingRule {
    paging::PagingRule::new(PagingKind::Token { initial: None }, 2)
}

fn pages() -> paging::PagingRule {
    paging::PagingRule { kind: PagingKind::Page { base: 1 }, ..tokens() }
}

fn offsets() -> paging::PagingRule {
    paging::PagingRule::new(PagingKind::Offset, 2)
}

/// The same, for a window that can be split at whole seconds.
fn cuttable(rule: paging::PagingRule) -> RunPolicy {
    let shape = SliceContext {
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        operation: Operation::Harvest,
        watermark_key: "updated_at".into(),
        snapshot_hash: "s".into(),
        first: rule.first(),
        params: Default::default(),
        partition: Default::default(),
        safety_lag: Duration::ZERO,
        phase: PhaseSpec::default(),
        budget: SliceBudget::default(),
        priority: 100,
        job: "SPLIT".into(),
    };
    let split = SplitRule { step: Duration::from_secs(1), template: SliceTemplate::new(shape), by_time: true };
    RunPolicy { split: Some(split), ..(*policy(rule)).clone() }
}

fn policy(paging: paging::PagingRule) -> Arc<RunPolicy> {
    let stream = RecordStream {
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        dedup_scope: "e".into(),
        kind: "work".into(),
    };
    Arc::new(RunPolicy {
        paging,
        retry: retry::RetryPolicy::default(),
        stream: Arc::new(stream),
        details: None,
        split: None,
        limits: SliceLimits::default(),
        order: None,
        generation: "g1".into(),
        emit: false,
        pass: None,
    })
}

fn started(resume: Option<Option<Position>>) -> RunInput {
    started_behind(resume.map(|next| ResumePoint {
        run: RunId(6),
        batch_no: 4,
        next,
        total: None,
        taken: None,
        walk: None,
    }))
}

fn started_behind(resume: Option<ResumePoint>) -> RunInput {
    RunInput::Tx(Ok(Done::StartRun(RunStarted::Go {
        slice_signature_hash: "slice".into(),
        run: RUN,
        attempt_no: 9,
        snapshot_hash: "s".into(),
        resume,
        validators: None,
    })))
}

fn token(text: &str) -> Position {
    Position::Token(Some(text.to_owned()))
}

fn record(key: &str, updated_at: Ts) -> Record {
    Record {
        key: key.to_owned(),
        version: RecordVersion { updated_at, source_version: 0 },
        fields: String::new(),
        payload: "{}".into(),
        content_hash: [0; 16],
    }
}

/// A page of two records whose content is identified by `tag`.
fn page(tag: u8, next: Option<&str>) -> RunInput {
    let record = |at_sec: i64| record(&format!("{tag}-{at_sec}"), at(at_sec));
    RunInput::Fetched(Ok(Box::new(FetchedPage {
        facts: PageFacts { items: 2, next_token: next.map(str::to_owned), ..PageFacts::default() },
        records: vec![record(i64::from(tag)), record(i64::from(tag) + 1)],
        content: [tag; 16],
        ..FetchedPage::default()
    })))
}

fn refusal(level: Level) -> PageFailure {
    let fault = Fault::new(Code::NetworkError, level, "no response");
    PageFailure { fault, throttled: false, retry_after: None, evidence: ExchangeEvidence::default(), offline: false }
}

fn committed() -> RunInput {
    RunInput::Tx(Ok(Done::CommitBatch(page_committed())))
}

fn committed_together(pages: usize) -> RunInput {
    RunInput::Tx(Ok(Done::CommitBatches(vec![page_committed(); pages])))
}

fn page_committed() -> BatchCommitted {
    BatchCommitted { batch: BatchId(1), stats: tx_stats(), replayed: false, captured: Captured::None }
}

fn tx_stats() -> crate::tx::BatchStats {
    crate::tx::BatchStats { items_count: 2, inserted: 2, ..Default::default() }
}

fn closed(task_status: TaskStatus) -> RunInput {
    RunInput::Tx(Ok(Done::EndRun(RunEnded { task_status })))
}

fn failed(error: TxError) -> RunInput {
    RunInput::Tx(Err(error))
}

fn advance(value: Option<i64>, target: Option<i64>) -> RunInput {
    let (value, target) = (value.map(mark), target.map(mark));
    let direction = crate::state::Direction::Forward;
    RunInput::Tx(Ok(Done::RecordAdvance(crate::tx::AdvanceRecorded {
        direction,
        value,
        target,
        by: Some(RUN),
        version: 4,
    })))
}

fn w(from: i64, to: i64) -> Window {
    Window { from: at(from), to: at(to) }
}

/// The windows that a slice is split into.
fn windows(end: &RunEnd) -> Vec<Window> {
    let RunEnd::Split { slices, .. } = end else { panic!("expected a split, got {end:?}") };
    slices.iter().map(|slice| slice.window.expect("a window")).collect()
}

/// The one commit among the wants.
fn commit(wants: &[Want]) -> Arc<CommitBatch> {
    let mut commits = wants.iter().filter_map(|want| match want {
        Want::Tx(Tx::CommitBatch(batch)) => Some(Arc::clone(batch)),
        _ => None,
    });
    match (commits.next(), commits.next()) {
        (Some(batch), None) => batch,
        _ => panic!("expected one commit in {wants:?}"),
    }
}

/// The pages that are committed together.
fn together(wants: &[Want]) -> Arc<[Arc<CommitBatch>]> {
    let group = wants.iter().find_map(|want| match want {
        Want::Tx(Tx::CommitBatches(batches)) => Some(Arc::clone(batches)),
        _ => None,
    });
    group.unwrap_or_else(|| panic!("expected pages together in {wants:?}"))
}

/// The wants are nothing but the end of the run.
fn end(wants: &[Want]) -> Arc<EndRun> {
    match wants {
        [Want::Tx(Tx::EndRun(end))] => Arc::clone(end),
        other => panic!("expected the end of the run, got {other:?}"),
    }
}

fn finished(wants: &[Want]) -> RunSummary {
    match wants {
        [Want::Finished(ended)] => ended.clone(),
        other => panic!("expected to be finished, got {other:?}"),
    }
}

fn requests_permit(wants: &[Want]) -> bool {
    wants.iter().any(|want| matches!(want, Want::Permit { .. }))
}
