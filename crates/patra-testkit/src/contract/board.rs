//! Boards: the queue, counts by the minute, errors by kind, cursors and their steps.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::board::{
    A_MINUTE, CursorFilter, HttpStatusCount, MINUTES_KEPT, QUARTERS_KEPT, QueueDepth, WorkCounts, WorkFilter,
};
use patra_core::state::{Operation, PauseKind};
use patra_core::tx::{
    AdvanceCause, ArchiveLedger, HttpStats, PartitionKey, PauseSubject, RateStats, RecordAdvance, RunEnd, SelfHealing,
};
use patra_core::{Code, Level, Ts, Window};

use super::{Fixture, make};

const HOUR: Duration = Duration::from_secs(3_600);

fn of(operation: Operation) -> PartitionKey {
    let PauseSubject { provenance_code, endpoint_name, .. } = make::partition(operation);
    PartitionKey {
        provenance_code: provenance_code.unwrap_or_default(),
        endpoint_name: endpoint_name.unwrap_or_default(),
        operation,
    }
}

/// The window from an hour before to an hour after now.
async fn lately(fx: &Fixture) -> Window {
    let now = fx.now().await;
    Window { from: now - HOUR, to: now + HOUR }
}

fn elsewhere() -> WorkFilter {
    WorkFilter { project_key: Some("elsewhere".into()), ..WorkFilter::default() }
}

// covers: ING-14.7-02, ING-14.7-06
pub(super) async fn queue_is_counted_by_source_endpoint_and_operation(fx: Fixture) {
    fx.plan("a", &make::windows(0, 4)).await;
    fx.plan_of("b", Operation::Backfill, &make::windows(0, 1)).await;
    let leases = fx.claim(2).await;
    let harvest = leases[0].lineage.plan == leases[1].lineage.plan;
    assert!(harvest, "HARVEST goes first");
    let delay = Duration::from_secs(600);
    let later = RunEnd::Requeue { delay, error: make::fault("not now"), counted: true };
    fx.finish(&leases[0], later).await;

    let (lines, now) = fx.subject.store.queued(WorkFilter::default()).await.expect("an answer");
    let line = |operation| lines.iter().find(|line| line.partition == of(operation)).expect("a line");
    let (backfill, harvest) = (line(Operation::Backfill), line(Operation::Harvest));
    assert_eq!((lines.len(), backfill.depth, backfill.due, backfill.active), (2, 1, 1, 0));
    let QueueDepth { depth, due, active, c_max, .. } = harvest;
    assert_eq!((*depth, *due, *active), (3, 2, 1));
    assert!(*c_max > 0);
    assert!(harvest.oldest_at.is_some_and(|at| at <= now), "{harvest:?}");
    assert!(harvest.next_at.is_some_and(|at| at > now), "{harvest:?}");

    let only = WorkFilter { operation: Some(Operation::Backfill), ..WorkFilter::default() };
    assert_eq!(fx.subject.store.queued(only).await.expect("an answer").0.len(), 1);
    assert!(fx.subject.store.queued(elsewhere()).await.expect("an answer").0.is_empty(), "another project's");
}

pub(super) async fn pause_of_a_source_is_reported_until_it_is_resumed(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let plan = fx.next().await.lineage.plan;
    fx.ok(make::hold(PauseKind::Pause, make::partition(Operation::Harvest))).await;
    fx.ok(make::hold(PauseKind::Pause, PauseSubject { plan: Some(plan), ..PauseSubject::default() })).await;
    let held = fx.subject.store.active_pauses().await.expect("an answer");
    let [hold] = &held[..] else { panic!("of one plan is not of the source: {held:?}") };
    assert_eq!((hold.kind, &hold.subject), (PauseKind::Pause, &make::partition(Operation::Harvest)));
}

// covers: ING-13.6-01, ING-14.7-01, ING-14.7-02, ING-14.7-03, ING-14.7-05, ING-2.2-03, ING-2.3-07
pub(super) async fn work_is_counted_in_its_own_transaction(fx: Fixture) {
    fx.plan("a", &make::windows(0, 3)).await;
    let leases = fx.claim(3).await;
    let run = fx.start(&leases[0]).await;
    let mut page = make::page(&leases[0], run, 1, vec![make::record("a", 1), make::record("b", 1)], true);
    page.rejected = vec![make::rejected(2)];
    (page.stats.failed, page.stats.retry_count, page.stats.throttled_count) = (1, 2, 1);
    page.stats.http = HttpStats { status: 200, bytes: 9 };
    page.stats.rate = RateStats { permits_total: 3, wait_total_ms: 40, demote_events: 1, ..RateStats::default() };
    page.stats.self_healing = SelfHealing { qps_downshift: true, ..SelfHealing::default() };
    let page = Arc::new(page);
    fx.ok(Arc::clone(&page)).await;
    fx.ok(page).await;
    let mut last = make::page(&leases[0], run, 2, vec![make::record("a", 1)], false);
    last.stats.http.status = 200;
    fx.ok(Arc::new(last)).await;
    fx.end(&leases[0], run, RunEnd::Succeeded).await;
    let failed = fx.start(&leases[1]).await;
    let mut end = make::end(&leases[1], failed, RunEnd::Failed { error: make::fault("gone") });
    end.failure = Some(make::failure(&leases[1], failed, 1));
    fx.ok(Arc::new(end)).await;
    let narrower = vec![make::slice("x", make::window(20, 25)), make::slice("y", make::window(25, 30))];
    fx.finish(&leases[2], RunEnd::Split { slices: narrower, error: make::fault("too much") }).await;

    let expected = WorkCounts {
        picks: 3,
        succeeded: 1,
        partial: 1,
        failed: 1,
        batches: 2,
        batches_failed: 1,
        latency_ms: 14,
        inserted: 2,
        skipped: 1,
        rejected: 1,
        retries: 6,
        throttled: 1,
        permits: 3,
        wait_ms: 40,
        demoted: 1,
        qps_downshift: 1,
        resliced: 1,
        ..WorkCounts::default()
    };
    let (store, window) = (&fx.subject.store, lately(&fx).await);
    let counts = store.counts(WorkFilter::default(), window).await.expect("an answer");
    assert_eq!(counts, [(of(Operation::Harvest), expected)], "a page that is committed twice counts once");
    assert!(store.counts(elsewhere(), window).await.expect("an answer").is_empty(), "another project's");
    let past = Window { from: window.from - HOUR, to: window.from };
    assert!(store.counts(WorkFilter::default(), past).await.expect("an answer").is_empty());

    let steps = store.series(WorkFilter::default(), window, 5).await.expect("an answer");
    let mut sum = WorkCounts::default();
    for step in &steps {
        assert_eq!(step.at, step.at.floor_to(5 * A_MINUTE));
        sum.add(&step.counts);
    }
    assert_eq!(sum, expected);
    assert!(steps.is_sorted_by_key(|step| step.at));
    let statuses = store.statuses(run).await.expect("an answer");
    assert_eq!(statuses, [HttpStatusCount { status: 200, batches: 2 }]);
    assert_eq!(store.statuses(failed).await.expect("an answer"), [HttpStatusCount { status: 0, batches: 1 }]);
}

// covers: ING-14.11-02
pub(super) async fn old_minutes_are_summed_by_quarter_and_hour_without_loss(fx: Fixture) {
    fx.plan("a", &make::windows(0, 3)).await;
    for lease in fx.claim(3).await {
        let run = fx.start(&lease).await;
        fx.commit(&lease, run, 1, vec![make::record(&run.to_string(), 1)], false).await;
        fx.end(&lease, run, RunEnd::Failed { error: make::fault(&run.to_string()) }).await;
        fx.pass(2 * A_MINUTE).await;
    }
    let now = fx.now().await;
    let (store, window) = (&fx.subject.store, Window { from: (now - HOUR).floor_to(HOUR), to: now + HOUR });
    let board = async |minutes| {
        let counts = store.counts(WorkFilter::default(), window).await.expect("counts");
        let steps = store.series(WorkFilter::default(), window, minutes).await.expect("steps");
        (counts, steps, store.errors(WorkFilter::default(), None, window, 9).await.expect("errors"))
    };
    let [minutes, quarters, hours] = [board(1).await, board(15).await, board(60).await];
    assert!(minutes.1.len() > quarters.1.len() && !hours.1.is_empty());
    for (passes, minutes, before) in [(MINUTES_KEPT + HOUR, 15, quarters), (QUARTERS_KEPT, 60, hours)] {
        fx.pass(passes).await;
        for _ in 0..2 {
            fx.ok(ArchiveLedger { before: Ts::from_secs(0), limit: 9 }).await;
            assert_eq!(board(minutes).await, before);
        }
    }
}

// covers: ING-14.7-09
pub(super) async fn errors_are_counted_by_kind_with_the_latest_location(fx: Fixture) {
    fx.plan("a", &make::windows(0, 4)).await;
    let mut runs = Vec::new();
    for (lease, message) in fx.claim(3).await.iter().zip(["one", "two", "three"]) {
        let run = fx.start(lease).await;
        let mut end = make::end(lease, run, RunEnd::Failed { error: make::fault(message) });
        end.failure = (message == "two").then(|| make::failure(lease, run, 1));
        fx.pass(Duration::from_millis(2)).await;
        if message != "three" {
            fx.ok(Arc::new(end)).await;
        } else {
            let mut page = make::page(lease, run, 1, vec![], false);
            page.rejected = vec![make::rejected(0), make::rejected(1), make::rejected(2)];
            fx.ok(Arc::new(page)).await;
            let waits = RunEnd::Requeue { delay: HOUR, error: make::fault("not now"), counted: false };
            fx.end(lease, run, waits).await;
        }
        runs.push(run);
    }
    let (store, window) = (&fx.subject.store, lately(&fx).await);
    let errors = store.errors(WorkFilter::default(), None, window, 9).await.expect("an answer");
    let [records, network] = &errors[..] else { panic!("a run that gives way has no error: {errors:?}") };
    assert_eq!((records.level, records.code, records.errors), (Level::L3, Code::ParseError, 3));
    assert_eq!((records.run_id, records.batch_no, &*records.message), (runs[2], Some(1), "no update time"));
    assert_eq!((network.level, network.code, network.errors), (Level::L1, Code::NetworkError, 2));
    assert_eq!((network.run_id, network.batch_no, &*network.message), (runs[1], Some(1), "two"));
    assert_eq!(network.partition, of(Operation::Harvest));

    let only = store.errors(WorkFilter::default(), Some(Level::L1), window, 9).await.expect("an answer");
    assert_eq!(only, errors[1..]);
    assert_eq!(store.errors(WorkFilter::default(), None, window, 1).await.expect("an answer"), errors[..1]);
    assert!(store.errors(elsewhere(), None, window, 9).await.expect("an answer").is_empty(), "another project's");
}

// covers: ING-14.7-04, ING-14.7-08
pub(super) async fn cursor_reports_its_value_and_its_history(fx: Fixture) {
    let cursor = fx.plan("a", &make::windows(0, 2)).await.cursor;
    fx.plan_of("b", Operation::Backfill, &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    fx.ok(Arc::new(make::end(&lease, run, RunEnd::Succeeded))).await;
    let cause = AdvanceCause { task: lease.task, run, batch_no: 4, late: 3 };
    let recorded = fx.ok(RecordAdvance { cursor, cause: Some(cause), observed_max: None }).await;
    let (store, window) = (&fx.subject.store, lately(&fx).await);
    let steps = store.advances(cursor, window, 9).await.expect("an answer");
    let [step] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((step.late, step.run_id, step.batch_no), (3, Some(run), Some(4)));
    assert_eq!((step.cursor, &step.from), (cursor, &None));
    assert_eq!(Some(step.to.clone()), recorded.target.map(|target| target.to_text()));
    let past = Window { from: window.from - HOUR, to: window.from };
    assert!(store.advances(cursor, past, 9).await.expect("an answer").is_empty());

    let ask = CursorFilter { limit: 9, ..CursorFilter::default() };
    let all = store.watermarks(ask.clone()).await.expect("an answer");
    assert_eq!(
        all.iter().map(|row| row.partition.operation).collect::<Vec<_>>(),
        [Operation::Harvest, Operation::Backfill]
    );
    let about = WorkFilter { operation: Some(Operation::Harvest), ..WorkFilter::default() };
    let one = store.watermarks(CursorFilter { work: about, ..ask.clone() }).await.expect("an answer");
    assert_eq!(one, all[..1]);
    assert_eq!((one[0].cursor, &*one[0].project_key), (cursor, "default"));
    assert!(store.watermarks(CursorFilter { work: elsewhere(), ..ask.clone() }).await.expect("an answer").is_empty());
    let other = CursorFilter { namespace: Some("other".into()), ..ask };
    assert!(store.watermarks(other).await.expect("an answer").is_empty());
}
