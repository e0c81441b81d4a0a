#[path = "run_tests/refusals.rs"]
mod refusals;

use bytes::Bytes;

use super::*;
use crate::gate::Decision::Allow;
use crate::id::{BatchId, CursorId, Fence, InstanceId, PlanId, SliceId, TaskId};
use crate::paging::{Facts, Kind, Position};
use crate::record::{Record, Version};
use crate::state::Operation;
use crate::tx::{BatchCommitted, CursorMoved, Lineage, Resume, RunEnded};
use crate::window::Window;

const RUN: RunId = RunId(7);

/// A run and a clock; every call gives back what the run wants next.
struct Driver {
    run: Run,
    now: Ts,
}

impl Driver {
    fn new(options: Options) -> Driver {
        let mut driver = Driver { run: Run::new(lease(), options, Rng::new(1)), now: at(0) };
        let mut wants = Vec::new();
        driver.run.start(&mut wants);
        assert!(matches!(&wants[..], [Want::Tx(Tx::StartRun(_))]), "{wants:?}");
        driver
    }

    /// Opened, prepared, and asking for its first permit.
    fn reading(options: Options, rule: paging::Rule, resume: Option<Option<Position>>) -> Driver {
        let mut driver = Driver::new(options);
        let wants = driver.on(started(resume));
        assert!(matches!(&wants[..], [Want::Prepare { .. }]), "{wants:?}");
        let wants = driver.on(Got::Prepared(Ok(policy(rule))));
        assert!(matches!(&wants[..], [Want::Permit]), "{wants:?}");
        driver
    }

    fn tokens() -> Driver {
        Driver::reading(Options::default(), tokens(), None)
    }

    fn on(&mut self, got: Got) -> Vec<Want> {
        let mut wants = Vec::new();
        self.run.on(self.now, got, &mut wants);
        wants
    }

    /// Grants the permit that is asked for.
    fn fetch(&mut self) -> Fetch {
        match &self.on(Got::Permit(Allow))[..] {
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
    fn refuse(&mut self, refusal: Refusal) -> Vec<Want> {
        self.fetch();
        self.on(Got::Fetched(Err(Box::new(refusal))))
    }
}

fn at(secs: i64) -> Ts {
    Ts::from_secs(secs)
}

fn lease() -> Lease {
    Lease {
        task: TaskId(3),
        fence: Fence(9),
        until: at(60),
        attempts: 1,
        lineage: Lineage { instance: InstanceId(1), plan: PlanId(2), slice: SliceId(3) },
        cursor: CursorId(5),
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        operation: Operation::Harvest,
        expr_hash: "expr".into(),
        window: Window { from: at(0), to: at(10) },
        params: "{}".into(),
    }
}

fn tokens() -> paging::Rule {
    paging::Rule { kind: Kind::Token { initial: None }, page_size: 2, max_page: None, always_token: false }
}

fn pages() -> paging::Rule {
    paging::Rule { kind: Kind::Page { base: 1 }, ..tokens() }
}

fn policy(paging: paging::Rule) -> Arc<Policy> {
    let stream = Stream {
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        dedup_scope: "e".into(),
        kind: "work".into(),
    };
    Arc::new(Policy { paging, retry: retry::Policy::default(), stream: Arc::new(stream) })
}

fn started(resume: Option<Option<Position>>) -> Got {
    let resume = resume.map(|next| Resume { run: RunId(6), batch_no: 4, next });
    Got::Tx(Ok(Done::StartRun(RunStarted::Go { run: RUN, attempt_no: 9, snapshot_hash: "s".into(), resume })))
}

fn token(text: &str) -> Position {
    Position::Token(Some(text.to_owned()))
}

/// A page of two records whose content is told apart by `tag`.
fn page(tag: u8, next: Option<&str>) -> Got {
    let record = |at_sec: i64| Record {
        key: format!("{tag}-{at_sec}"),
        version: Version { updated_at: at(at_sec), source_version: 0 },
        fields: String::new(),
        payload: Bytes::from_static(b"{}"),
        content_hash: [tag; 16],
    };
    Got::Fetched(Ok(Box::new(Page {
        facts: Facts { items: 2, next_token: next.map(str::to_owned), ..Facts::default() },
        records: vec![record(i64::from(tag)), record(i64::from(tag) + 1)],
        content: [tag; 16],
        ..Page::default()
    })))
}

fn refusal(level: Level) -> Refusal {
    let fault = Fault::new(Code::NetworkError, level, "no answer");
    Refusal { fault, throttled: false, retry_after: None, evidence: Evidence::default() }
}

fn committed() -> Got {
    let stats = tx_stats();
    Got::Tx(Ok(Done::CommitBatch(BatchCommitted { batch: BatchId(1), stats, replayed: false })))
}

fn tx_stats() -> crate::tx::BatchStats {
    crate::tx::BatchStats { items_count: 2, inserted: 2, ..Default::default() }
}

fn closed(task_status: TaskStatus) -> Got {
    Got::Tx(Ok(Done::EndRun(RunEnded { task_status })))
}

fn failed(error: TxError) -> Got {
    Got::Tx(Err(error))
}

fn advance(value: Option<i64>, target: Option<i64>) -> Got {
    let ts = |secs: Option<i64>| secs.map(at);
    Got::Tx(Ok(Done::RecordAdvance(crate::tx::Advance { value: ts(value), target: ts(target), version: 4 })))
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

/// The wants are nothing but the end of the run.
fn end(wants: &[Want]) -> Arc<EndRun> {
    match wants {
        [Want::Tx(Tx::EndRun(end))] => Arc::clone(end),
        other => panic!("expected the end of the run, got {other:?}"),
    }
}

fn finished(wants: &[Want]) -> Ended {
    match wants {
        [Want::Finished(ended)] => ended.clone(),
        other => panic!("expected to be finished, got {other:?}"),
    }
}

fn asks(wants: &[Want]) -> bool {
    wants.iter().any(|want| matches!(want, Want::Permit))
}

// covers: ING-9.3-02, ING-9.3-09, ING-5.4-10
#[test]
fn pages_are_committed_in_order_and_read_one_ahead() {
    let mut driver = Driver::tokens();
    let fetch = driver.fetch();
    assert_eq!((fetch.run, fetch.batch_no, fetch.position), (RUN, 1, Position::Token(None)));

    let wants = driver.on(page(1, Some("b")));
    let first = commit(&wants);
    assert_eq!((first.batch_no, &first.next), (1, &Some(token("b"))));
    assert!(asks(&wants), "page 2 is read while page 1 is committed");

    assert_eq!(driver.fetch().position, token("b"));
    let wants = driver.on(page(2, Some("c")));
    assert!(wants.is_empty(), "page 2 waits for page 1, and page 3 is not asked for: {wants:?}");

    let wants = driver.on(committed());
    assert_eq!(commit(&wants).batch_no, 2);
    assert!(asks(&wants));
    assert_eq!(driver.fetch().batch_no, 3);
    assert!(driver.on(page(3, None)).is_empty());
    let wants = driver.on(committed());
    let last = commit(&wants);
    assert_eq!((last.batch_no, &last.next), (3, &None));
    assert_ne!(last.idempotent_key, first.idempotent_key);

    let close = end(&driver.on(committed()));
    assert_eq!(close.end, RunEnd::Succeeded);
    assert_eq!((close.stats.req_count, close.stats.pages_visited, close.stats.inserted), (3, 3, 6));
    assert_eq!(close.stats.observed_max, Some(at(4)));
}

// covers: ING-9.4-05
#[test]
fn a_run_resumes_behind_the_last_batch_of_the_one_before() {
    let mut driver = Driver::reading(Options::default(), tokens(), Some(Some(token("m"))));
    let fetch = driver.fetch();
    assert_eq!((fetch.batch_no, fetch.position), (1, token("m")));
}

#[test]
fn a_slice_that_was_read_to_its_end_is_closed_without_a_request() {
    let mut driver = Driver::new(Options::default());
    driver.on(started(Some(None)));
    let close = end(&driver.on(Got::Prepared(Ok(policy(tokens())))));
    assert_eq!((close.end.clone(), close.stats.req_count), (RunEnd::Succeeded, 0));
}

// covers: ING-12.3-02
#[test]
fn a_commit_without_an_answer_is_repeated_with_the_same_batch() {
    let mut driver = Driver::tokens();
    driver.fetch();
    let first = commit(&driver.on(page(1, None)));
    for error in [TxError::Unknown("lost".into()), TxError::Busy, TxError::Unavailable("away".into())] {
        assert!(driver.on(failed(error)).is_empty());
        assert!(Arc::ptr_eq(&first, &commit(&driver.wake())));
    }
    end(&driver.on(committed()));
}

// covers: ING-11.9-03
#[test]
fn a_fenced_write_stops_everything() {
    let mut driver = Driver::tokens();
    driver.fetch();
    commit(&driver.on(page(1, Some("b"))));
    driver.fetch();
    assert_eq!(finished(&driver.on(failed(TxError::Fenced))).outcome, Outcome::Lost);
    assert!(driver.run.is_over() && driver.run.wake_at() == Ts::MAX);
    assert!(driver.on(page(2, Some("c"))).is_empty());
    assert!(driver.on(committed()).is_empty());
    assert!(driver.on(Got::Stop).is_empty());
}

#[test]
fn a_lease_that_is_lost_while_fetching_ends_the_run() {
    let mut driver = Driver::tokens();
    driver.fetch();
    assert_eq!(finished(&driver.on(Got::Lost)).outcome, Outcome::Lost);
    assert!(driver.on(page(1, None)).is_empty());
}

#[test]
fn stopping_finishes_the_commit_in_flight_and_gives_the_task_back() {
    let mut driver = Driver::tokens();
    driver.fetch();
    commit(&driver.on(page(1, Some("b"))));
    driver.fetch();
    assert!(driver.on(Got::Stop).is_empty());
    assert!(driver.on(page(2, Some("c"))).is_empty(), "a page that comes too late is dropped");
    let close = end(&driver.on(committed()));
    let RunEnd::Requeue { delay, counted, .. } = close.end else { panic!("{close:?}") };
    assert_eq!((delay, counted, close.stats.pages_visited), (Duration::ZERO, false, 1));
}

#[test]
fn a_stop_before_the_first_page_gives_the_task_back_too() {
    let mut driver = Driver::new(Options::default());
    assert!(driver.on(Got::Stop).is_empty());
    driver.on(started(None));
    let close = end(&driver.on(Got::Prepared(Ok(policy(tokens())))));
    assert!(matches!(close.end, RunEnd::Requeue { counted: false, .. }));
}

// covers: ING-15-01
#[test]
fn a_token_that_leads_in_a_circle_fails_the_task() {
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.on(committed());
    driver.fetch();
    let close = end(&driver.on(page(1, Some("b"))));
    assert!(matches!(close.end, RunEnd::Failed { .. }) && close.failure.is_some());
}

// covers: ING-15-01
#[test]
fn a_last_page_that_is_served_for_every_number_is_the_end() {
    let mut driver = Driver::reading(Options::default(), pages(), None);
    driver.fetch();
    driver.on(page(1, None));
    driver.on(committed());
    driver.fetch();
    commit(&driver.on(page(1, None)));
    assert_eq!(end(&driver.on(committed())).end, RunEnd::Succeeded);
}

#[test]
fn a_cap_on_pages_leaves_the_task_partial() {
    let mut driver = Driver::reading(Options::default(), paging::Rule { max_page: Some(2), ..tokens() }, None);
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.on(committed());
    driver.fetch();
    let last = commit(&driver.on(page(2, Some("c"))));
    assert_eq!(last.next, Some(token("c")));
    let close = end(&driver.on(committed()));
    assert!(matches!(&close.end, RunEnd::Partial { error } if error.code == Code::PartialFail));
}

#[test]
fn a_page_that_the_store_never_takes_fails_the_task_and_leaves_no_timer_behind() {
    let mut driver = Driver::tokens();
    driver.fetch();
    commit(&driver.on(page(1, Some("b"))));
    assert!(driver.refuse(refusal(Level::L1)).is_empty(), "page 2 is to be tried again later");
    let close = end(&driver.on(failed(TxError::Refused("broken".into()))));
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.level == Level::L4));
    assert_eq!(driver.run.wake_at(), Ts::MAX);
    assert!(driver.on(page(2, None)).is_empty());
}

/// A run of one page up to its closing.
fn closing() -> Driver {
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, None));
    end(&driver.on(committed()));
    driver
}

// covers: ING-10.3-01, ING-11.7-01
#[test]
fn the_cursor_moves_after_the_task_has_succeeded() {
    let mut driver = closing();
    let wants = driver.on(closed(TaskStatus::Succeeded));
    let [Want::Tx(Tx::RecordAdvance(record))] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!((record.cursor, record.cause), (CursorId(5), Some((TaskId(3), RUN))));
    assert_eq!(record.observed_max, Some(at(2)));
    let wants = driver.on(advance(Some(5), Some(10)));
    assert!(matches!(&wants[..], [Want::Tx(Tx::AdvanceCursor(op))] if op.to == at(10) && op.version == 4));
    let ended = finished(&driver.on(Got::Tx(Ok(Done::AdvanceCursor(CursorMoved { moved: true })))));
    assert_eq!((ended.outcome, ended.cursor), (Outcome::Closed(TaskStatus::Succeeded, None), Some(at(10))));
}

#[test]
fn a_cursor_that_cannot_be_moved_now_does_not_undo_the_success() {
    for error in [TxError::Busy, TxError::Unknown("lost".into()), TxError::Refused("broken".into())] {
        let mut driver = closing();
        driver.on(closed(TaskStatus::Succeeded));
        let ended = finished(&driver.on(failed(error)));
        assert_eq!((ended.outcome, ended.cursor), (Outcome::Closed(TaskStatus::Succeeded, None), None));
    }
}

#[test]
fn a_task_that_did_not_succeed_leaves_the_cursor_alone() {
    let mut driver = closing();
    finished(&driver.on(closed(TaskStatus::Queued)));
}

#[test]
fn a_cancelled_plan_makes_no_run_and_a_spec_that_does_not_load_fails_the_task() {
    let mut driver = Driver::new(Options::default());
    let wants = driver.on(Got::Tx(Ok(Done::StartRun(RunStarted::Cancelled))));
    assert_eq!(finished(&wants).outcome, Outcome::Cancelled);

    let mut driver = Driver::new(Options::default());
    driver.on(started(None));
    let fault = Fault::new(Code::ConfigError, Level::L4, "no such snapshot");
    assert!(matches!(end(&driver.on(Got::Prepared(Err(fault)))).end, RunEnd::Failed { .. }));
}

#[test]
fn a_store_that_refuses_to_open_or_close_the_run_leaves_it_to_the_sweep() {
    let mut driver = Driver::new(Options::default());
    let ended = finished(&driver.on(failed(TxError::Refused("broken".into()))));
    assert!(matches!(ended.outcome, Outcome::Stuck(TxError::Refused(_))));
    let mut driver = closing();
    let ended = finished(&driver.on(failed(TxError::Conflict)));
    assert!(matches!(ended.outcome, Outcome::Stuck(TxError::Conflict)));
}
