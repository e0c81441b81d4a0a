//! Coverage: windows in several parts, parts of windows, and backfills.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::query::{Cell, View};
use patra_core::state::{Direction, Operation, TaskStatus};
use patra_core::tx::{
    AdvanceCause, AdvanceCursor, AdvanceRecorded, EndRun, HISTORY, History, Lease, PlanSaved, PlanTarget, ReadCoverage,
    RecordAdvance, RemainingPlan, RunEnd, RunStats, SavePlan,
};
use patra_core::{CursorId, Ts, Window};

use super::fixture::{int, text, time};
use super::{Fixture, make};

/// A plan that reads one window in ranges of pages.
async fn in_ranges(fx: &Fixture, tag: &str, window: Window, ranges: u64) -> PlanSaved {
    let fire = make::fire(tag, Operation::Harvest);
    let slices = (0..ranges).map(|at| make::pages(tag, window, at)).collect();
    fx.plan_with(fire, &[window], |plan| plan.slices = slices).await
}

/// Ends a run that has read up to here.
async fn stop_at(fx: &Fixture, lease: &Lease, end: RunEnd, done: Window) -> TaskStatus {
    let run = fx.start(lease).await;
    fx.ok(Arc::new(EndRun { done: Some(done), ..make::end(lease, run, end) })).await.task_status
}

fn failed() -> RunEnd {
    RunEnd::Failed { error: make::fault("gone") }
}

fn partial() -> RunEnd {
    RunEnd::Partial { error: make::fault("capped") }
}

pub(super) async fn window_read_in_ranges_is_complete_with_all_of_them(fx: Fixture) {
    let window = make::window(0, 10);
    let saved = in_ranges(&fx, "a", window, 3).await;
    assert_eq!((saved.created, fx.coverage().await.covered), (3, vec![window]), "covered once");
    let leases = fx.claim(3).await;
    for lease in &leases[..2] {
        fx.finish(lease, RunEnd::Succeeded).await;
        assert_eq!(fx.advance(saved.cursor).await.target, None);
        assert_eq!(fx.coverage().await.covered, [window]);
    }
    fx.finish(&leases[2], RunEnd::Succeeded).await;
    assert_eq!(fx.advance(saved.cursor).await.target, Some(make::at(10)));
}

pub(super) async fn window_with_a_failed_range_is_read_again_as_a_whole(fx: Fixture) {
    let window = make::window(0, 10);
    let saved = in_ranges(&fx, "a", window, 2).await;
    let leases = fx.claim(2).await;
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    fx.finish(&leases[1], failed()).await;
    assert!(fx.coverage().await.covered.is_empty(), "a part of it is no part of the time");
    assert_eq!(fx.advance(saved.cursor).await.target, None);
    // Another plan is another attempt: earlier failures do not matter, and two equal plans cover a window once.
    in_ranges(&fx, "b", window, 2).await;
    fx.plan("c", &[window]).await;
    assert_eq!(fx.coverage().await.covered, [window]);
    for lease in fx.claim(2).await {
        fx.finish(&lease, RunEnd::Succeeded).await;
    }
    assert_eq!(fx.advance(saved.cursor).await.target, Some(make::at(10)));
}

pub(super) async fn completed_part_counts_when_its_task_ends_short(fx: Fixture) {
    let saved = fx.plan("a", &make::windows(0, 3)).await;
    let leases = fx.claim(3).await;
    assert_eq!(stop_at(&fx, &leases[0], partial(), make::window(0, 4)).await, TaskStatus::Partial);
    stop_at(&fx, &leases[1], failed(), make::window(10, 17)).await;
    assert_eq!(fx.coverage().await.covered, [make::window(0, 4), make::window(10, 17), make::window(20, 30)]);
    assert_eq!(fx.advance(saved.cursor).await.target, Some(make::at(4)));
    let tasks = fx.rows(View::Tasks).await;
    let done = |column| time(&tasks.of(leases[1].task.0, column));
    assert_eq!((done("done_from"), done("done_to")), (Ts::from_secs(10), Ts::from_secs(17)));
    assert_eq!(tasks.of(leases[2].task.0, "done_to"), Cell::Null);
    // The rest is planned again, and joins the completed part.
    fx.plan("b", &[make::window(4, 10), make::window(17, 20)]).await;
    for lease in fx.claim(2).await {
        fx.finish(&lease, RunEnd::Succeeded).await;
    }
    assert_eq!(fx.advance(saved.cursor).await.target, Some(make::at(20)));
    // Behind the cursor it is not listed.
    fx.ok(AdvanceCursor { cursor: saved.cursor, to: make::at(18), version: 0 }).await;
    assert_eq!(fx.coverage().await.covered, [make::window(17, 20), make::window(20, 30)]);
}

pub(super) async fn completed_part_of_a_running_task_is_kept_and_does_not_count_yet(fx: Fixture) {
    let saved = fx.plan("a", &make::windows(0, 1)).await;
    let later = RunEnd::Requeue { delay: Duration::ZERO, error: make::fault("later"), counted: true };
    let lease = fx.next().await;
    stop_at(&fx, &lease, later, make::window(0, 4)).await;
    assert_eq!(fx.coverage().await.covered, make::windows(0, 1));
    assert_eq!(fx.advance(saved.cursor).await.target, None);
    // An end without a completed part keeps the known one.
    let lease = fx.next().await;
    fx.finish(&lease, failed()).await;
    assert_eq!(fx.coverage().await.covered, [make::window(0, 4)]);
    assert_eq!(fx.advance(saved.cursor).await.target, Some(make::at(4)));
}

// covers: ING-8.4-02, ING-8.4-03
pub(super) async fn replacement_of_a_task_joins_its_completed_part(fx: Fixture) {
    let saved = fx.plan("a", &[make::window(0, 30)]).await;
    let lease = fx.next().await;
    let parts = [make::window(12, 20), make::window(20, 30)];
    let slices = parts.iter().map(|part| make::slice("split", *part)).collect();
    let split = RunEnd::Split { error: make::fault("too many"), slices };
    stop_at(&fx, &lease, split, make::window(0, 12)).await;
    assert_eq!(fx.coverage().await.covered, [make::window(0, 12), parts[0], parts[1]]);
    assert_eq!(fx.advance(saved.cursor).await.target, Some(make::at(12)));
    let tasks = fx.rows(View::Tasks).await;
    assert_eq!(tasks.column("replaced"), [Cell::Int(0), Cell::Int(0), Cell::Int(1)]);
    assert_eq!(tasks.column("c_max"), vec![Cell::Int(make::C_MAX.into()); 3]);
    for lease in fx.claim(2).await {
        fx.finish(&lease, RunEnd::Succeeded).await;
    }
    assert_eq!(fx.advance(saved.cursor).await.target, Some(make::at(30)));
}

/// Replaces a task with page ranges of its own window, which the replaced task must not block.
pub(super) async fn window_replaced_by_its_ranges_is_complete_with_them(fx: Fixture) {
    let window = make::window(0, 10);
    let saved = fx.plan("a", &[window]).await;
    let lease = fx.next().await;
    let slices = (0..2).map(|at| make::pages("split", window, at)).collect();
    fx.finish(&lease, RunEnd::Split { error: make::fault("too many"), slices }).await;
    assert_eq!(fx.coverage().await.covered, [window]);
    let leases = fx.claim(2).await;
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    assert_eq!(fx.advance(saved.cursor).await.target, None);
    fx.finish(&leases[1], RunEnd::Succeeded).await;
    assert_eq!(fx.advance(saved.cursor).await.target, Some(make::at(10)));
}

/// A backfill of `[0, 40)`, newest window first, all claimed.
async fn towards_the_past(fx: &Fixture) -> (CursorId, Vec<Lease>) {
    let windows: Vec<_> = make::windows(0, 4).into_iter().rev().collect();
    let cursor = fx.plan_of("past", Operation::Backfill, &windows).await.cursor;
    (cursor, fx.claim(4).await)
}

async fn past(fx: &Fixture) -> patra_core::tx::Coverage {
    fx.ok(ReadCoverage { cursor: make::namespace(Operation::Backfill, "ns") }).await
}

async fn move_to(fx: &Fixture, cursor: CursorId, secs: i64, version: i64) -> bool {
    fx.ok(AdvanceCursor { cursor, to: make::at(secs), version }).await.moved
}

// covers: ING-4.15-01, ING-6.2-05, ING-9.6-02, ING-10.5-02
pub(super) async fn backfill_is_complete_downwards_from_its_upper_end(fx: Fixture) {
    let (cursor, leases) = towards_the_past(&fx).await;
    assert_eq!(leases[0].window, Some(make::window(30, 40)));
    let coverage = past(&fx).await;
    assert_eq!((coverage.origin, coverage.covered), (Some(Ts::from_secs(40)), make::windows(0, 4)));
    let steps = [(1, None), (0, Some(20)), (3, Some(20)), (2, Some(0))];
    for (which, target) in steps {
        fx.finish(&leases[which], RunEnd::Succeeded).await;
        assert_eq!(fx.advance(cursor).await.target, target.map(make::at), "after window {which}");
    }
    let direction = Direction::Backfill;
    let expected = AdvanceRecorded { direction, value: None, target: Some(make::at(0)), by: None, version: 0 };
    assert_eq!(fx.advance(cursor).await, expected);
    let events = fx.rows(View::Events).await;
    assert_eq!(events.texts("direction_code"), ["BACKFILL", "BACKFILL"]);
    assert_eq!(events.texts("operation_code"), ["BACKFILL", "BACKFILL"]);
    let values: Vec<_> = events.column("new_instant").iter().map(time).collect();
    assert_eq!(values, [Ts::from_secs(0), Ts::from_secs(20)]);
}

// covers: ING-4.4-06, ING-6.2-07
pub(super) async fn backfill_value_falls_and_never_rises(fx: Fixture) {
    let (cursor, leases) = towards_the_past(&fx).await;
    assert!(!move_to(&fx, cursor, 30, 0).await, "without an event");
    for lease in &leases[..2] {
        fx.finish(lease, RunEnd::Succeeded).await;
    }
    fx.advance(cursor).await;
    assert!(!move_to(&fx, cursor, 19, 0).await, "beyond the event");
    assert!(move_to(&fx, cursor, 30, 0).await, "a part of the way");
    assert!(!move_to(&fx, cursor, 35, 1).await, "back");
    assert!(!move_to(&fx, cursor, 30, 1).await, "where it stands");
    assert!(move_to(&fx, cursor, 20, 1).await);
    let coverage = past(&fx).await;
    assert_eq!((coverage.value, coverage.covered), (Some(make::at(20)), make::windows(0, 2)), "what lies beyond");
    let cursors = fx.rows(View::Cursors).await;
    assert_eq!((text(&cursors.at(0, "direction_code")), int(&cursors.at(0, "version"))), ("BACKFILL".into(), 2));
    assert_eq!(time(&cursors.at(0, "normalized_instant")), Ts::from_secs(20));
}

// covers: ING-4.15-03, ING-6.2-07, ING-6.2-09
pub(super) async fn backfill_does_not_move_the_harvest(fx: Fixture) {
    let harvest = fx.plan("harvest", &make::windows(40, 1)).await.cursor;
    let lease = fx.next().await;
    fx.finish(&lease, RunEnd::Succeeded).await;
    fx.advance(harvest).await;
    assert!(move_to(&fx, harvest, 50, 0).await);
    let before = fx.rows(View::Cursors).await.of(harvest.0, "normalized_instant");

    let (cursor, leases) = towards_the_past(&fx).await;
    for lease in &leases {
        fx.finish(lease, RunEnd::Succeeded).await;
    }
    fx.advance(cursor).await;
    assert!(move_to(&fx, cursor, 0, 0).await);
    assert_eq!(fx.rows(View::Cursors).await.of(harvest.0, "normalized_instant"), before);
    assert_eq!(fx.coverage().await.value, Some(make::at(50)));
    let events = fx.rows(View::Events).await;
    assert_eq!(events.column("cursor_id"), [Cell::Int(cursor.0), Cell::Int(harvest.0)]);
}

// covers: ING-6.2-06, ING-11.5-03
pub(super) async fn backfill_uses_the_same_keys_and_versions(fx: Fixture) {
    fx.plan("harvest", &make::windows(40, 1)).await;
    fx.plan_of("past", Operation::Backfill, &make::windows(0, 1)).await;
    let leases = fx.claim(2).await;
    let counts = async |at: usize, no, records| {
        let run = fx.start(&leases[at]).await;
        let stats = fx.commit(&leases[at], run, no, records, true).await.stats;
        (stats.inserted, stats.updated, stats.skipped)
    };
    let records = |time| ["a", "b"].map(|key| make::record(key, time)).to_vec();
    assert_eq!(counts(0, 1, records(45)).await, (2, 0, 0));
    assert_eq!(counts(1, 1, records(5)).await, (0, 0, 2), "older");
    assert_eq!(counts(1, 2, records(45)).await, (0, 0, 2), "equal");
    assert_eq!(counts(1, 3, records(46)).await, (0, 2, 0), "newer");
    assert_eq!(fx.rows(View::Items).await.len(), 2);
}

// covers: ING-5.4-15, ING-7.7-01, ING-7.7-03, ING-10.1-01
pub(super) async fn cursor_is_identified_by_its_namespace_not_its_endpoint(fx: Fixture) {
    let fire = |id: &str| make::fire(id, Operation::Harvest);
    let saved = fx.plan_with(fire("a"), &make::windows(0, 1), |_| {}).await;
    let same = |plan: &mut SavePlan| plan.cursor.endpoint_name = "authors".into();
    assert_eq!(fx.plan_with(fire("b"), &make::windows(10, 1), same).await.cursor, saved.cursor);
    let others: [fn(&mut SavePlan); 4] = [
        |plan| plan.cursor.provenance_code = "other".into(),
        |plan| plan.cursor.cursor_key = "created_at".into(),
        |plan| plan.cursor.scope = patra_core::cursor::CursorScope::Global,
        |plan| plan.cursor.namespace_key = "other".into(),
    ];
    let mut cursors = std::collections::BTreeSet::from([saved.cursor]);
    for (at, other) in others.into_iter().enumerate() {
        let cursor = fx.plan_with(fire(&format!("other {at}")), &make::windows(0, 1), other).await.cursor;
        assert!(cursors.insert(cursor), "{at} is another namespace");
    }
    cursors.insert(fx.plan_of("update", Operation::Update, &make::windows(0, 1)).await.cursor);
    assert_eq!((cursors.len(), fx.rows(View::Cursors).await.len()), (6, 6));
}

// covers: ING-6.2-09
pub(super) async fn partial_backfill_continues_below_its_last_slice(fx: Fixture) {
    fx.ok(make::fire("past", Operation::Backfill)).await;
    let taken = fx.take().await.expect("the trigger");
    let whole = make::window(0, 60);
    let first = make::part(&taken, 0, whole, &[make::window(50, 60), make::window(40, 50)]);
    let saved = fx.ok(Arc::new(first)).await;
    for (epoch, rest, next) in [(1, (0, 40), Some((30, 40))), (2, (0, 30), Some((0, 30))), (3, (0, 0), None)] {
        let again = fx.take().await.expect("the trigger that goes on");
        let open = again.plan.clone().expect("an open plan");
        assert_eq!((open.plan, open.rest), (saved.plan, RemainingPlan::Time(make::window(rest.0, rest.1))));
        let windows: Vec<_> = next.map(|(from, to)| make::window(from, to)).into_iter().collect();
        let complete = windows.is_empty();
        let target = PlanTarget::Existing(saved.plan);
        fx.ok(Arc::new(SavePlan { target, complete, ..make::part(&again, epoch, whole, &windows) })).await;
    }
    assert_eq!(past(&fx).await.covered.len(), 4);
}

pub(super) async fn backfill_begins_at_the_value_of_the_harvest(fx: Fixture) {
    assert_eq!(past(&fx).await.harvested, None);
    let harvest = fx.plan("a", &make::windows(0, 2)).await.cursor;
    assert_eq!(past(&fx).await.harvested, None, "nothing is harvested yet");
    for lease in fx.claim(2).await {
        fx.finish(&lease, RunEnd::Succeeded).await;
    }
    fx.advance(harvest).await;
    move_to(&fx, harvest, 10, 0).await;
    assert_eq!(past(&fx).await.harvested, Some(Ts::from_secs(10)));
    assert_eq!(fx.coverage().await.harvested, None, "of no interest to a harvest");
    // The furthest of several namespaces counts; those of another endpoint do not.
    let other = |key: &str, endpoint: &str, to: i64| {
        let fire = patra_core::tx::RequestJob { endpoint_name: endpoint.into(), ..make::fire(key, Operation::Harvest) };
        let (key, endpoint) = (key.to_owned(), endpoint.to_owned());
        let fx = fx.clone();
        async move {
            let name = move |plan: &mut SavePlan| {
                (plan.cursor.namespace_key, plan.cursor.endpoint_name) = (key, endpoint);
            };
            let cursor = fx.plan_with(fire, &[make::window(0, to)], name).await.cursor;
            let lease = fx.next().await;
            fx.finish(&lease, RunEnd::Succeeded).await;
            fx.advance(cursor).await;
            assert!(move_to(&fx, cursor, to, 0).await);
        }
    };
    other("second", make::ENDPOINT, 70).await;
    other("third", make::ENDPOINT, 30).await;
    other("fourth", "authors", 90).await;
    assert_eq!(past(&fx).await.harvested, Some(Ts::from_secs(70)));
}

// covers: ING-4.15-02
pub(super) async fn each_activity_has_its_own_namespace(fx: Fixture) {
    let named = |key: &'static str| move |plan: &mut SavePlan| plan.cursor.namespace_key = key.into();
    let fire = |id: &str| make::fire(id, Operation::Backfill);
    let one = fx.plan_with(fire("one"), &make::windows(0, 1), named("works:one")).await;
    let two = fx.plan_with(fire("two"), &make::windows(0, 2), named("works:two")).await;
    let again = fx.plan_with(fire("three"), &[make::window(-10, 0)], named("works:one")).await;
    assert!(one.cursor != two.cursor && one.cursor == again.cursor);
    let cursors = fx.rows(View::Cursors).await;
    assert_eq!(cursors.texts("namespace_scope_code"), ["CUSTOM", "CUSTOM"]);
    assert_eq!(cursors.texts("cursor_type_code"), ["TIME", "TIME"]);
}

pub(super) async fn history_lists_the_items_of_the_last_windows(fx: Fixture) {
    let items = |lease: &Lease, run, count| {
        let stats = RunStats { ret_count: count, ..RunStats::default() };
        Arc::new(EndRun { stats, ..make::end(lease, run, RunEnd::Succeeded) })
    };
    assert_eq!(fx.coverage().await.history, History::default());
    let count = i64::from(HISTORY) + 3;
    fx.plan("a", &make::windows(0, count)).await;
    for (at, lease) in (0..).zip(fx.claim(count as u32).await) {
        let run = fx.start(&lease).await;
        // The first three are outside the history; the last one but one fails.
        if at + 2 == count as u32 {
            fx.end(&lease, run, failed()).await;
        } else {
            fx.ok(items(&lease, run, if at < 2 { 100_000 } else { 1 + at })).await;
        }
    }
    let expected: u64 = (2..count as u64).filter(|at| at + 2 != count as u64).map(|at| 1 + at).sum();
    let history = fx.coverage().await.history;
    assert_eq!(history, History { items: expected, span: Duration::from_secs(10) * HISTORY });
    // Ranges of pages hold a part of their window only.
    in_ranges(&fx, "ranges", make::window(1_000, 1_010), 1).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    fx.ok(items(&lease, run, 777)).await;
    assert_eq!(fx.coverage().await.history, history);
    assert_eq!(int(&fx.cell(View::Tasks, lease.task.0, "items").await), 777);
}

pub(super) async fn items_of_all_runs_of_a_task_add_up(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    for (count, end) in [
        (5, RunEnd::Requeue { delay: Duration::ZERO, error: make::fault("later"), counted: true }),
        (7, RunEnd::Succeeded),
    ] {
        let lease = fx.next().await;
        let run = fx.start(&lease).await;
        let stats = RunStats { ret_count: count, ..RunStats::default() };
        let end = Arc::new(EndRun { stats, ..make::end(&lease, run, end) });
        fx.ok(end.clone()).await;
        fx.ok(end).await;
    }
    assert_eq!(fx.rows(View::Tasks).await.column("items"), [Cell::Int(12)]);
    assert_eq!(fx.coverage().await.history, History { items: 12, span: Duration::from_secs(10) });
}

// covers: ING-7.7-02, ING-10.1-02
pub(super) async fn cursor_names_the_origin_of_its_value(fx: Fixture) {
    let saved = fx.plan("a", &make::windows(0, 3)).await;
    let leases = fx.claim(3).await;
    let seen = [15, 12, 28].map(Ts::from_secs);
    for (at, lease) in leases.iter().enumerate() {
        let run = fx.start(lease).await;
        fx.end(lease, run, RunEnd::Succeeded).await;
        let cause = AdvanceCause { task: lease.task, run, batch_no: at as u32 + 1, late: 0 };
        fx.ok(RecordAdvance { cursor: saved.cursor, cause: Some(cause), observed_max: Some(seen[at]) }).await;
    }
    let source = async || {
        let cursors = fx.rows(View::Cursors).await;
        let observed = text(&cursors.at(0, "observed_max_value")).parse::<Ts>().ok();
        (cursors.at(0, "plan_id"), cursors.at(0, "task_id"), cursors.at(0, "run_id"), observed)
    };
    let plan = Cell::Int(saved.plan.0);
    let runs = fx.rows(View::Runs).await.ids();
    let expected =
        |at: usize, observed| (plan.clone(), Cell::Int(leases[at].task.0), Cell::Int(runs[2 - at]), observed);
    // Half way to the first event, and then to the second: the nearest that reaches so far.
    for (to, at, observed) in [(5, 0, 15), (10, 0, 15), (20, 1, 15), (30, 2, 28)] {
        let version = int(&fx.rows(View::Cursors).await.at(0, "version"));
        assert!(move_to(&fx, saved.cursor, to, version).await);
        assert_eq!(source().await, expected(at, Some(Ts::from_secs(observed))), "at {to}");
    }
}
