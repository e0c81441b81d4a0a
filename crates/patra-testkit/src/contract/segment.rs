//! Cursors that count segments of ids, and the refresh candidates of an UPDATE.

use std::sync::Arc;
use std::time::Duration;

use patra_core::cursor::CursorValue;
use patra_core::port::query::{Cell, View};
use patra_core::record::RecordStream;
use patra_core::state::{Direction, Operation};
use patra_core::tx::{
    AdvanceCause, AdvanceCursor, AdvanceRecorded, CheckedRecord, ClaimedJob, CommitBatch, Coverage, IdRange, Lease,
    PlanTarget, ReadCoverage, ReadSegments, RecordAdvance, RefreshCriteria, RemainingPlan, RunEnd, SavePlan, Segments,
};
use patra_core::{CursorId, PlanId, RunId, Ts};

use super::fixture::{int, text};
use super::{Fixture, make};

fn nth(ordinal: i64, last: &str) -> CursorValue {
    CursorValue::Nth { ordinal, last: last.into() }
}

async fn progress(fx: &Fixture) -> Coverage {
    fx.ok(ReadCoverage { cursor: make::namespace(Operation::Update, "ns") }).await
}

async fn move_to(fx: &Fixture, cursor: CursorId, to: CursorValue, version: i64) -> bool {
    fx.ok(AdvanceCursor { cursor, to, version }).await.moved
}

// covers: ING-10.2-02, ING-10.5-03, ING-6.3-06, ING-9.6-03
pub(super) async fn segments_count_in_order_and_without_a_gap(fx: Fixture) {
    let cursor = fx.plan_ids("a", 0, &["f", "k", "c", "z"]).await.cursor;
    let leases = fx.claim(4).await;
    assert_eq!((leases[0].window, leases[0].cursor), (None, cursor));
    let none = AdvanceRecorded { direction: Direction::Forward, value: None, target: None, by: None, version: 0 };
    assert_eq!(fx.advance(cursor).await, none);
    // The order of ids has no meaning: `c` comes after `k` here.
    let steps = [(2, None), (0, Some(nth(1, "f"))), (1, Some(nth(3, "c"))), (3, Some(nth(4, "z")))];
    for (which, target) in steps {
        fx.finish(&leases[which], RunEnd::Succeeded).await;
        assert_eq!(fx.advance(cursor).await.target, target, "after segment {which}");
    }
    let events = fx.rows(View::Events).await;
    assert_eq!(events.texts("new_value"), ["z", "c", "f"]);
    assert_eq!(events.column("new_instant"), [Cell::Null, Cell::Null, Cell::Null]);
    let coverage = progress(&fx).await;
    assert_eq!((coverage.origin, coverage.value, coverage.covered.len()), (None, None, 0));
    assert_eq!((coverage.next_ordinal, coverage.epoch), (4, 1));
}

// covers: ING-10.3-02, ING-7.7-02, ING-0.2-09
pub(super) async fn id_cursor_value_is_its_last_id_ordered_by_number(fx: Fixture) {
    let cursor = fx.plan_ids("a", 0, &["f", "c"]).await.cursor;
    assert!(!move_to(&fx, cursor, nth(1, "f"), 0).await, "without an event");
    for lease in fx.claim(2).await {
        fx.finish(&lease, RunEnd::Succeeded).await;
    }
    fx.advance(cursor).await;
    assert!(!move_to(&fx, cursor, nth(3, "x"), 0).await, "beyond the event");
    assert!(!move_to(&fx, cursor, make::at(1), 0).await, "a time is nothing to it");
    assert!(move_to(&fx, cursor, nth(1, "f"), 0).await);
    assert!(!move_to(&fx, cursor, nth(1, "z"), 1).await, "where it stands, whatever the id");
    assert!(move_to(&fx, cursor, nth(2, "c"), 1).await, "a smaller id, and further on");
    assert!(!move_to(&fx, cursor, nth(1, "f"), 2).await, "back");
    let cursors = fx.rows(View::Cursors).await;
    assert_eq!(
        (text(&cursors.at(0, "cursor_type_code")), text(&cursors.at(0, "direction_code"))),
        ("ID".into(), "FORWARD".into())
    );
    assert_eq!((text(&cursors.at(0, "cursor_value")), int(&cursors.at(0, "normalized_numeric"))), ("c".into(), 2));
    assert_eq!(cursors.at(0, "normalized_instant"), Cell::Null);
    assert_eq!(progress(&fx).await.value, Some(nth(2, "c")));
}

/// The newer plan replaces the unfinished older one, because it covers all refresh candidates.
pub(super) async fn newest_plan_of_segments_replaces_older_ones(fx: Fixture) {
    let cursor = fx.plan_ids("a", 0, &["f", "z"]).await.cursor;
    let leases = fx.claim(2).await;
    fx.finish(&leases[0], RunEnd::Failed { error: make::fault("gone") }).await;
    fx.finish(&leases[1], RunEnd::Succeeded).await;
    assert_eq!(fx.advance(cursor).await.target, None);
    assert_eq!(progress(&fx).await.next_ordinal, 2);
    fx.plan_ids("b", 2, &["k", "z", "zz"]).await;
    let leases = fx.claim(3).await;
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    assert_eq!(fx.advance(cursor).await.target, Some(nth(3, "k")));
    // The next segment begins behind the value, and the same last id again is another step.
    assert!(move_to(&fx, cursor, nth(3, "k"), 0).await);
    fx.finish(&leases[1], RunEnd::Succeeded).await;
    assert_eq!(fx.advance(cursor).await.target, Some(nth(4, "z")));
    fx.plan_ids("c", 5, &["z"]).await;
    let lease = fx.claim(1).await.remove(0);
    fx.finish(&lease, RunEnd::Succeeded).await;
    assert_eq!(fx.advance(cursor).await.target, Some(nth(6, "z")), "the third plan");
    let events = fx.rows(View::Events).await;
    assert_eq!(events.texts("new_value"), ["z", "z", "k"]);
    assert_eq!(text(&events.at(0, "prev_value")), "k");
}

pub(super) async fn segment_plan_has_no_window_and_continues_behind_its_last_id(fx: Fixture) {
    fx.ok(make::fire("a", Operation::Update)).await;
    let taken = fx.take().await.expect("the trigger");
    let part =
        |taken: &_, epoch, first, ids: &[&str]| SavePlan { complete: false, ..make::id_plan(taken, epoch, first, ids) };
    let saved = fx.ok(Arc::new(part(&taken, 0, 0, &[]))).await;
    let rest = async |expected: Option<&str>| {
        let again = fx.take().await.expect("the trigger that goes on");
        let after = expected.map(str::to_owned);
        assert_eq!(again.plan.as_ref().map(|open| open.rest.clone()), Some(RemainingPlan::Ids { after }));
        again
    };
    let again = rest(None).await;
    let target = || PlanTarget::Existing(saved.plan);
    fx.ok(Arc::new(SavePlan { target: target(), ..part(&again, 1, 0, &["f", "c"]) })).await;
    let again = rest(Some("c")).await;
    fx.ok(Arc::new(SavePlan { target: target(), ..make::id_plan(&again, 2, 2, &["x"]) })).await;
    let plans = fx.rows(View::Plans).await;
    assert_eq!((plans.at(0, "window_from"), plans.at(0, "window_to")), (Cell::Null, Cell::Null));
    assert_eq!((plans.texts("plan_strategy"), plans.texts("status_code")), (vec!["ID".into()], vec!["READY".into()]));
    let tasks = fx.rows(View::Tasks).await;
    assert_eq!(tasks.column("ordinal"), [Cell::Int(2), Cell::Int(1), Cell::Int(0)]);
    assert_eq!(tasks.column("window_from"), vec![Cell::Null; 3]);
    assert_eq!(fx.rows(View::Slices).await.column("window_to"), vec![Cell::Null; 3]);
}

// covers: ING-4.14-05, ING-6.3-08, ING-6.3-09, ING-9.6-03
pub(super) async fn refresh_does_not_move_the_harvest(fx: Fixture) {
    let harvest = fx.plan("harvest", &make::windows(0, 1)).await.cursor;
    let refresh = fx.plan_ids("refresh", 0, &["z"]).await.cursor;
    assert_ne!(harvest, refresh);
    let leases = fx.claim(2).await;
    let lease = leases.iter().find(|lease| lease.cursor == refresh).expect("the refresh");
    let run = fx.start(lease).await;
    fx.end(lease, run, RunEnd::Succeeded).await;
    let cause = AdvanceCause { task: lease.task, run, batch_no: 2, late: 0 };
    fx.ok(RecordAdvance { cursor: refresh, cause: Some(cause), observed_max: None }).await;
    let remarks = text(&fx.rows(View::Events).await.at(0, "record_remarks"));
    let remarks: serde_json::Value = serde_json::from_str(&remarks).expect("JSON");
    assert_eq!(remarks, serde_json::json!({ "reason": "UPDATE", "batchNo": 2, "lateArrival": 0 }));
    assert!(move_to(&fx, refresh, nth(1, "z"), 0).await);
    assert_eq!(fx.coverage().await.value, None);
    let cursors = fx.rows(View::Cursors).await;
    assert_eq!(cursors.of(harvest.0, "cursor_value"), Cell::Null);
    assert_eq!(cursors.text_of(refresh.0, "namespace_scope_code"), "CUSTOM");
    assert_eq!(fx.rows(View::Events).await.column("cursor_id"), [Cell::Int(refresh.0)]);
}

/// Partial plans interleave, and so do the numbers of their segments.
pub(super) async fn plan_with_interleaved_segment_numbers_still_counts(fx: Fixture) {
    let part = |taken: &ClaimedJob, epoch, first, ids: &[&str], target: Option<PlanId>| {
        let plan = make::id_plan(taken, epoch, first, ids);
        let target = target.map_or(plan.target.clone(), PlanTarget::Existing);
        Arc::new(SavePlan { complete: false, target, ..plan })
    };
    fx.ok(make::fire("a", Operation::Update)).await;
    let taken = fx.take().await.expect("the first");
    let first = fx.ok(part(&taken, 0, 0, &["f", "k"], None)).await;
    fx.ok(make::fire("b", Operation::Update)).await;
    let again = fx.take().await.expect("the first again");
    let taken = fx.take().await.expect("the second");
    let second = fx.ok(part(&taken, 1, 2, &["f", "k"], None)).await;
    fx.ok(part(&again, 2, 4, &["r", "z"], Some(first.plan))).await;
    fx.take().await.expect("the first once more");
    let taken = fx.take().await.expect("the second again");
    fx.ok(part(&taken, 3, 6, &["r", "z"], Some(second.plan))).await;
    let cursor = second.cursor;
    let mut leases = fx.claim(8).await;
    leases.retain(|lease| lease.lineage.plan == second.plan);
    assert_eq!(leases.len(), 4);
    for (lease, target) in leases.iter().zip([nth(3, "f"), nth(4, "k"), nth(7, "r"), nth(8, "z")]) {
        fx.finish(lease, RunEnd::Succeeded).await;
        assert_eq!(fx.advance(cursor).await.target, Some(target), "the other plan is behind");
    }
}

/// Starts a run and commits these records.
async fn stored(fx: &Fixture, keys: &[&str]) -> (Lease, RunId) {
    fx.plan("store", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let records = keys.iter().map(|key| make::record(key, 1)).collect();
    fx.commit(&lease, run, 1, records, true).await;
    (lease, run)
}

fn read(wanted: RefreshCriteria, after: Option<&str>, size: u32, limit: u32) -> ReadSegments {
    ReadSegments { stream: make::stream(), criteria: wanted, after: after.map(str::to_owned), size, limit }
}

fn range(after: Option<&str>, through: &str) -> IdRange {
    IdRange { after: after.map(str::to_owned), through: through.into() }
}

fn other_mapping() -> RefreshCriteria {
    RefreshCriteria::MappedOtherThan { generation: "generation 2".into() }
}

// covers: ING-4.14-04, ING-6.3-04
pub(super) async fn refresh_candidates_are_split_into_key_ranges(fx: Fixture) {
    let nothing = fx.ok(read(other_mapping(), None, 2, 9)).await;
    assert_eq!((nothing.ranges, nothing.more), (vec![], false));
    // In byte order, independent of the collation.
    stored(&fx, &["B", "a", "b", "é", "🦀"]).await;
    let segments = |done: Segments| (done.ranges, done.more);
    let all = [range(None, "a"), range(Some("a"), "é"), range(Some("é"), "🦀")].to_vec();
    assert_eq!(segments(fx.ok(read(other_mapping(), None, 2, 9)).await), (all.clone(), false));
    assert_eq!(segments(fx.ok(read(other_mapping(), None, 2, 2)).await), (all[..2].to_vec(), true));
    assert_eq!(segments(fx.ok(read(other_mapping(), Some("é"), 2, 9)).await), (all[2..].to_vec(), false));
    assert_eq!(segments(fx.ok(read(other_mapping(), None, 5, 1)).await), (vec![range(None, "🦀")], false));
    assert_eq!(segments(fx.ok(read(other_mapping(), None, 2, 0)).await), (vec![], true));
    let same = RefreshCriteria::MappedOtherThan { generation: make::GENERATION.into() };
    assert_eq!(segments(fx.ok(read(same, None, 2, 9)).await), (vec![], false));
}

pub(super) async fn refresh_candidates_are_records_of_the_stream(fx: Fixture) {
    let (lease, run) = stored(&fx, &["a"]).await;
    let others = [
        RecordStream { project_key: "other".into(), ..make::stream() },
        RecordStream { provenance_code: "other".into(), ..make::stream() },
        RecordStream { dedup_scope: "other".into(), ..make::stream() },
        RecordStream { endpoint_name: "other".into(), ..make::stream() },
    ];
    for (no, stream) in (2..).zip(others) {
        let page = make::page(&lease, run, no, vec![make::record(&format!("b{no}"), 1)], true);
        fx.ok(Arc::new(CommitBatch { stream: Arc::new(stream), ..page })).await;
    }
    let done = fx.ok(read(other_mapping(), None, 9, 9)).await;
    assert_eq!(done.ranges, [range(None, "a")]);
}

// covers: ING-4.14-01, ING-4.14-02, ING-2.2-03, ING-2.3-07
pub(super) async fn checked_or_remapped_record_is_no_refresh_candidate(fx: Fixture) {
    let (lease, run) = stored(&fx, &["a", "b", "c", "d"]).await;
    fx.pass(Duration::from_millis(5)).await;
    let before = fx.now().await;
    let stale = || RefreshCriteria::Stale { before };
    let keys = async |wanted: &RefreshCriteria, range: &IdRange, after: Option<&str>, limit| {
        fx.subject.store.ids_to_refresh(&make::stream(), wanted, range, after, limit).await.expect("an answer")
    };
    let whole = range(None, "d");
    assert_eq!(keys(&stale(), &whole, None, 9).await, ["a", "b", "c", "d"]);
    assert_eq!(keys(&stale(), &range(Some("a"), "c"), None, 9).await, ["b", "c"]);
    assert_eq!(keys(&stale(), &range(Some("a"), "c"), Some("b"), 9).await, ["c"]);
    assert_eq!(keys(&stale(), &whole, Some("a"), 2).await, ["b", "c"]);
    assert!(keys(&RefreshCriteria::Stale { before: Ts::from_secs(0) }, &whole, None, 9).await.is_empty());

    fx.pass(Duration::from_millis(5)).await;
    let seen = |key: &str| CheckedRecord { key: key.into(), failed: None, looked_at: true };
    let mut page = make::page(&lease, run, 2, vec![make::record("c", 2)], true);
    page.generation = "generation 2".into();
    page.checked = vec![seen("a"), seen("nowhere")];
    fx.ok(Arc::new(page)).await;
    // `a` was checked, and `c` was replaced, which counts as a check.
    assert_eq!(keys(&stale(), &whole, None, 9).await, ["b", "d"]);
    assert_eq!(keys(&other_mapping(), &whole, None, 9).await, ["a", "b", "d"]);
    let same = RefreshCriteria::MappedOtherThan { generation: make::GENERATION.into() };
    assert_eq!(keys(&same, &whole, None, 9).await, ["c"]);
}

// covers: ING-4.14-03, ING-12.5-03, ING-2.2-03, ING-2.3-07
pub(super) async fn signalled_record_is_a_refresh_candidate_stored_or_not(fx: Fixture) {
    let (lease, run) = stored(&fx, &["a", "b"]).await;
    let mut page = make::page(&lease, run, 2, vec![], true);
    page.rejected = vec![make::rejected(0)];
    fx.ok(Arc::new(page)).await;
    let signal = |endpoint: &str, keys: &[&str]| patra_core::tx::SignalRecords {
        project_key: "default".into(),
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: endpoint.into(),
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        reason: "retracted".into(),
        by: "reader".into(),
    };
    fx.ok(signal(make::ENDPOINT, &["b", "unknown"])).await;
    fx.ok(signal("other", &["c"])).await;
    let done = fx.ok(read(RefreshCriteria::Signalled, None, 2, 9)).await;
    assert_eq!(done.ranges, [range(None, "bad-0"), range(Some("bad-0"), "unknown")]);
    let store = &fx.subject.store;
    let keys =
        store.ids_to_refresh(&make::stream(), &RefreshCriteria::Signalled, &range(None, "z"), Some("b"), 9).await;
    assert_eq!(keys.expect("an answer"), ["bad-0", "unknown"]);
}
