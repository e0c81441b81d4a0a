//! Cursor events and values.

use std::sync::Arc;

use patra_core::cursor::CursorValue;
use patra_core::port::query::{Cell, View};
use patra_core::state::{Direction, Operation};
use patra_core::tx::{AcceptGap, AdvanceCause, AdvanceCursor, AdvanceRecorded, Lease, RecordAdvance, RunEnd, TxError};
use patra_core::{CursorId, Ts, Window};
use serde_json::json;

use super::fixture::{int, text, time};
use super::{Fixture, make};

/// A namespace of four windows of 10 s, all claimed.
async fn four(fx: &Fixture) -> (CursorId, Vec<Lease>) {
    let cursor = fx.plan("a", &make::windows(0, 4)).await.cursor;
    (cursor, fx.claim(4).await)
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of what it is compared with")]
fn at(secs: i64) -> Option<CursorValue> {
    Some(make::at(secs))
}

async fn move_to(fx: &Fixture, cursor: CursorId, secs: i64, version: i64) -> bool {
    fx.ok(AdvanceCursor { cursor, to: make::at(secs), version }).await.moved
}

fn forward(value: Option<CursorValue>, target: Option<CursorValue>, version: i64) -> AdvanceRecorded {
    AdvanceRecorded { direction: Direction::Forward, value, target, by: None, version }
}

// covers: ING-4.4-25, ING-9.6-01, ING-10.2-01
pub(super) async fn cursor_advances_over_the_unbroken_prefix_only(fx: Fixture) {
    let (cursor, leases) = four(&fx).await;
    assert_eq!(fx.advance(cursor).await, forward(None, None, 0));
    let steps = [(2, None), (0, at(10)), (3, at(10)), (1, at(40))];
    for (which, target) in steps {
        fx.finish(&leases[which], RunEnd::Succeeded).await;
        assert_eq!(fx.advance(cursor).await.target, target, "after window {which}");
    }
    let events = fx.rows(View::Events).await;
    let values: Vec<_> = events.column("new_instant").iter().map(time).collect();
    assert_eq!(values, [Ts::from_secs(40), Ts::from_secs(10)]);
}

pub(super) async fn failed_window_stops_the_prefix(fx: Fixture) {
    let (cursor, leases) = four(&fx).await;
    let error = || make::fault("gone");
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    fx.finish(&leases[1], RunEnd::Partial { error: error() }).await;
    fx.finish(&leases[2], RunEnd::Succeeded).await;
    fx.finish(&leases[3], RunEnd::Failed { error: error() }).await;
    assert_eq!(fx.advance(cursor).await.target, at(10));
    // A later plan covers the gap, and the prefix continues to the next one.
    fx.plan("b", &[make::window(10, 20)]).await;
    let lease = fx.next().await;
    fx.finish(&lease, RunEnd::Succeeded).await;
    assert_eq!(fx.advance(cursor).await.target, at(30));
}

pub(super) async fn window_that_overlaps_an_open_one_counts(fx: Fixture) {
    let (cursor, leases) = four(&fx).await;
    for done in [0, 3] {
        fx.finish(&leases[done], RunEnd::Succeeded).await;
    }
    assert_eq!(fx.advance(cursor).await.target, at(10));
    fx.plan("b", &[make::window(12, 18), make::window(5, 35)]).await;
    let later = fx.claim(2).await;
    let wide = later.iter().find(|lease| lease.window == Some(make::window(5, 35))).expect("the wide one");
    fx.finish(wide, RunEnd::Succeeded).await;
    assert_eq!(fx.advance(cursor).await.target, at(40), "over windows that are open, and on with one behind them");
}

// covers: ING-6.1-10, ING-9.4-04, ING-10.0-01, ING-10.3-01, ING-13.2-03, ING-7.7-04, ING-7.9-07, ING-11.5-02
// covers: ING-13.2-01, ING-0.2-09, ING-2.4-06, ING-2.6-01, ING-4.4-05, ING-11.9-02
pub(super) async fn cursor_value_follows_its_event_and_only_forward(fx: Fixture) {
    let (cursor, leases) = four(&fx).await;
    assert!(!move_to(&fx, cursor, 10, 0).await, "without an event");
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    assert!(!move_to(&fx, cursor, 10, 0).await, "completed, but not recorded");
    assert_eq!(fx.advance(cursor).await, forward(None, at(10), 0));
    let cursors = fx.rows(View::Cursors).await;
    assert_eq!((cursors.at(0, "normalized_instant"), cursors.at(0, "cursor_value")), (Cell::Null, Cell::Null));

    assert!(!move_to(&fx, cursor, 11, 0).await, "beyond the event");
    assert!(!move_to(&fx, cursor, 10, 1).await, "with another version");
    assert!(move_to(&fx, cursor, 5, 0).await, "a part of the way is forward too");
    assert!(!move_to(&fx, cursor, 10, 0).await, "with a stale version");
    assert!(move_to(&fx, cursor, 10, 1).await);
    assert!(!move_to(&fx, cursor, 10, 2).await, "where it stands");
    assert!(!move_to(&fx, cursor, 9, 2).await, "backwards");

    let cursors = fx.rows(View::Cursors).await;
    assert_eq!((time(&cursors.at(0, "normalized_instant")), int(&cursors.at(0, "version"))), (Ts::from_secs(10), 2));
    assert_eq!(text(&cursors.at(0, "cursor_value")).parse::<Ts>().ok(), Some(Ts::from_secs(10)));
    assert_eq!(fx.advance(cursor).await, forward(at(10), at(10), 2));
}

// covers: ING-5.4-15, ING-10.3-03, ING-7.10-03, ING-11.4-02, ING-10.6-03
pub(super) async fn recording_twice_writes_one_event(fx: Fixture) {
    let (cursor, leases) = four(&fx).await;
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    let first = fx.advance(cursor).await;
    assert_eq!(fx.advance(cursor).await, first);
    assert_eq!(fx.rows(View::Events).await.len(), 1);
    // The value lags behind its events and catches up later.
    fx.finish(&leases[1], RunEnd::Succeeded).await;
    assert_eq!(fx.advance(cursor).await, forward(None, at(20), 0));
    assert_eq!(fx.rows(View::Events).await.len(), 2);
    assert!(move_to(&fx, cursor, 20, 0).await);
    assert_eq!(fx.advance(cursor).await.target, at(20));
    assert_eq!(fx.rows(View::Events).await.len(), 2);
}

// covers: ING-7.8-01, ING-7.8-02, ING-10.1-03, ING-10.4-03, ING-14.3-06, ING-2.3-06
pub(super) async fn event_names_its_origin(fx: Fixture) {
    let (cursor, leases) = four(&fx).await;
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    let advance = fx.advance(cursor).await;
    move_to(&fx, cursor, 10, advance.version).await;
    let run = fx.start(&leases[1]).await;
    fx.ok(Arc::new(make::end(&leases[1], run, RunEnd::Succeeded))).await;
    let seen = Ts::from_micros(19_999_999);
    let cause = AdvanceCause { task: leases[1].task, run, batch_no: 12, late: 3 };
    let advance = RecordAdvance { cursor, cause: Some(cause), observed_max: Some(seen) };
    for _ in 0..2 {
        let advanced = fx.ok(advance).await;
        assert_eq!((advanced.target, advanced.by), (at(20), Some(run)), "also when it is repeated");
    }
    assert_eq!(fx.advance(cursor).await.by, Some(run), "and by anybody else");

    let events = fx.rows(View::Events).await;
    assert_eq!(
        (time(&events.at(0, "prev_instant")), time(&events.at(0, "new_instant"))),
        (Ts::from_secs(10), Ts::from_secs(20))
    );
    assert_eq!(events.at(1, "prev_instant"), Cell::Null, "the first event comes from no value");
    assert_eq!((int(&events.at(0, "task_id")), int(&events.at(0, "run_id"))), (leases[1].task.0, run.0));
    assert_eq!((events.at(1, "task_id"), events.at(1, "observed_max_value")), (Cell::Null, Cell::Null));
    assert_eq!(text(&events.at(0, "observed_max_value")).parse::<Ts>().ok(), Some(seen));
    assert_eq!(int(&events.at(0, "plan_id")), leases[1].lineage.plan.0);
    let remarks = |row| serde_json::from_str::<serde_json::Value>(&text(&events.at(row, "record_remarks")));
    let why = json!({ "reason": "HARVEST", "batchNo": 12, "lateArrival": 3 });
    assert_eq!(remarks(0).expect("JSON"), why);
    assert_eq!(remarks(1).expect("JSON"), json!({ "reason": "HARVEST", "batchNo": null, "lateArrival": 0 }));
    let values = |column| text(&events.at(0, column)).parse::<Ts>().ok();
    assert_eq!((values("prev_value"), values("new_value")), (Some(Ts::from_secs(10)), Some(Ts::from_secs(20))));
    assert_eq!((int(&events.at(0, "cursor_id")), text(&events.at(0, "direction_code"))), (cursor.0, "FORWARD".into()));
}

pub(super) async fn accepted_gap_is_passed_and_stays_on_record(fx: Fixture) {
    let (cursor, leases) = four(&fx).await;
    let gap = |from, to| AcceptGap {
        cursor,
        window: Window { from: Ts::from_secs(from), to: Ts::from_secs(to) },
        reason: "the API lost it".into(),
        by: "ann".into(),
    };
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    fx.finish(&leases[1], RunEnd::Partial { error: make::fault("too much") }).await;
    fx.finish(&leases[2], RunEnd::Succeeded).await;
    assert_eq!(fx.advance(cursor).await.target, at(10));
    // Nobody passes a gap that nobody named.
    for wrong in [gap(20, 30), gap(30, 30), gap(0, 4_000_000_000), AcceptGap { reason: " ".into(), ..gap(10, 20) }] {
        assert!(matches!(fx.run(wrong.clone()).await, Err(TxError::Refused(_))), "{wrong:?}");
    }
    assert_eq!(fx.advance(cursor).await.target, at(10));
    assert!(!fx.ok(gap(10, 20)).await.existed);
    assert!(fx.ok(gap(10, 20)).await.existed, "again");
    assert!(fx.ok(gap(0, 10)).await.existed, "complete");
    let advance = fx.advance(cursor).await;
    assert_eq!((advance.target, advance.by), (at(20), None));
    assert!(move_to(&fx, cursor, 20, advance.version).await);
    assert_eq!(fx.advance(cursor).await.target, at(30), "on over the complete window behind it");
    let events = fx.rows(View::Events).await;
    let remarks: serde_json::Value = serde_json::from_str(&text(&events.at(1, "record_remarks"))).expect("JSON");
    let (from, to) = (Ts::from_secs(10).to_string(), Ts::from_secs(20).to_string());
    let why = json!({ "reason": "ACCEPTED_GAP", "from": from, "to": to, "why": "the API lost it", "by": "ann" });
    assert_eq!(remarks, why);
}

// covers: ING-9.6-02, ING-9.6-03, ING-10.1-04, ING-11.5-03, ING-11.5-04, ING-7.7-04
pub(super) async fn backfill_and_update_do_not_move_the_harvest_cursor(fx: Fixture) {
    let harvest = fx.plan("harvest", &make::windows(0, 2)).await.cursor;
    for operation in [Operation::Backfill, Operation::Update] {
        let cursor = fx.plan_of(operation.as_str(), operation, &make::windows(0, 2)).await.cursor;
        let leases = fx.claim(9).await;
        for lease in leases.iter().filter(|lease| lease.operation == operation) {
            fx.finish(lease, RunEnd::Succeeded).await;
        }
        let advance = fx.advance(cursor).await;
        let end = if operation == Operation::Backfill { 0 } else { 20 };
        assert_eq!(advance.target, at(end));
        assert!(move_to(&fx, cursor, end, advance.version).await);
    }
    assert_eq!(fx.advance(harvest).await, forward(None, None, 0));
    let cursors = fx.rows(View::Cursors).await;
    assert_eq!(cursors.texts("direction_code"), ["FORWARD", "BACKFILL", "FORWARD"]);
    assert_eq!(cursors.texts("namespace_scope_code"), ["CUSTOM", "CUSTOM", "EXPR"]);
    assert_eq!(cursors.of(harvest.0, "normalized_instant"), Cell::Null);
}
