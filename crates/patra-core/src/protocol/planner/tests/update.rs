//! Plans over stored records.

use super::*;
use crate::bounds::TaskBounds;
use crate::record::RecordStream;
use crate::state::UpdateReason;
use crate::tx::{IdRange, RefreshCriteria, Segments};

fn update(reason: UpdateReason) -> ClaimedJob {
    ClaimedJob { operation: Operation::Update, reason: Some(reason), ..claimed() }
}

fn stream() -> RecordStream {
    RecordStream {
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        dedup_scope: "e".into(),
        kind: "work".into(),
    }
}

/// Segments of 50 ids, detail requests of 20.
fn refresh(claimed: &ClaimedJob) -> PlanDraft {
    let draft = draft(claimed);
    let (operation, scope) = (Operation::Update, CursorScope::Custom);
    let refresh = RefreshSpec {
        reason: claimed.reason.expect("a reason"),
        stale_after: Duration::from_secs(600),
        generation: "g2".into(),
        size: 50,
    };
    PlanDraft {
        cursor: CursorName { operation, scope, cursor_key: "item_id".into(), ..draft.cursor },
        span: PlanSpan::Ids { stream: stream(), refresh },
        context: SliceContext {
            operation,
            phase: PhaseSpec { two_phase: true, id_batch_size: Some(20) },
            priority: 200,
            ..draft.context
        },
        ..draft
    }
}

/// A planner that knows the coverage and reads which ids to refresh.
fn reading_segments(claimed: ClaimedJob, coverage: &Coverage) -> (Driver, ReadSegments) {
    let draft = refresh(&claimed);
    let mut driver = Driver::with(Options::new("me"), claimed, draft);
    let wants = driver.covered(coverage);
    let [Want::Tx(Tx::ReadSegments(read))] = &wants[..] else { panic!("{wants:?}") };
    (driver, read.clone())
}

/// Ranges that end at these keys.
fn segments(ends: &[&str], more: bool) -> Done {
    let mut after = None;
    let mut range = |end: &&str| IdRange { after: after.replace((*end).to_owned()), through: (*end).to_owned() };
    Done::ReadSegments(Segments { ranges: ends.iter().map(&mut range).collect(), more, now: DB_NOW })
}

fn ordinals(save: &SavePlan) -> Vec<(i64, &str)> {
    let segment = |slice: &'_ crate::tx::NewSlice| slice.segment.clone().expect("a segment").ordinal;
    let last = save.slices.iter().map(|slice| slice.segment.as_ref().expect("a segment").last_id.as_str());
    save.slices.iter().map(segment).zip(last).collect()
}

/// Coverage of a namespace that has had this many segments.
fn after_segments(next_ordinal: i64) -> Coverage {
    let value = (next_ordinal > 0).then(|| CursorValue::Nth { ordinal: next_ordinal, last: "x".into() });
    Coverage { value, next_ordinal, origin: None, ..known(None, Vec::new()) }
}

// covers: ING-6.3-03
#[test]
fn update_reason_selects_the_records() {
    let criteria = |reason| reading_segments(update(reason), &fresh()).1.criteria;
    assert_eq!(criteria(UpdateReason::Staleness), RefreshCriteria::Stale { before: DB_NOW - Duration::from_secs(600) });
    assert_eq!(criteria(UpdateReason::ExprChange), RefreshCriteria::MappedOtherThan { generation: "g2".into() });
    assert_eq!(criteria(UpdateReason::Signals), RefreshCriteria::Signalled);
    let read = reading_segments(update(UpdateReason::Signals), &Coverage { queued: 30, ..fresh() }).1;
    assert_eq!((read.stream, read.after, read.size, read.limit), (stream(), None, 50, 970), "the room in the queue");
}

// covers: ING-5.3-08, ING-5.3-19, ING-6.3-04, ING-8.2-03, ING-8.2-08, ING-4.10-29
#[test]
fn a_plan_over_ids_has_one_slice_per_range_numbered_on_from_the_last() {
    let (mut driver, read) = reading_segments(update(UpdateReason::Staleness), &after_segments(7));
    let save = outcome(&driver.ok(segments(&["f", "m", "z"], false))).expect("a plan");
    assert_eq!(ordinals(&save), [(7, "f"), (8, "m"), (9, "z")]);
    assert_eq!((save.origin, save.epoch, save.complete, save.priority), (None, 3, true, 200));
    let plan = new_plan(&save);
    assert_eq!((plan.window, plan.strategy), (None, "ID"));
    let remarks = remarks(&save);
    assert_eq!((&remarks["reason"], &remarks["sliceCount"]), (&json!("STALENESS"), &json!(3)));
    assert_eq!(remarks["totalEstimated"], 150);
    assert_eq!(remarks["namespace"], json!({ "scope": "CUSTOM", "key": "n", "direction": "FORWARD" }));
    assert_eq!(remarks.get("window"), None);

    let middle = &save.slices[1];
    assert_eq!(middle.window, None);
    let bounds = TaskBounds::of_task(&middle.task_params).unwrap().ids.expect("ids");
    assert_eq!(bounds.range, IdRange { after: Some("f".into()), through: "m".into() });
    assert_eq!(bounds.criteria, read.criteria, "frozen");
    let spec: serde_json::Value = serde_json::from_str(&middle.spec).unwrap();
    assert_eq!((&spec["dimension"], &spec["bounds"]["id"]), (&json!("ID"), &json!({ "from": "f", "to": "m" })));
    assert_eq!(spec["phase"], json!({ "twoPhase": true, "idBatchSize": 20 }));
    assert_eq!(spec["budget"]["expectedRequests"], 3, "fifty ids, twenty in each request");
}

#[test]
fn update_without_matching_records_makes_no_plan() {
    let (mut driver, _) = reading_segments(update(UpdateReason::Signals), &fresh());
    let end = outcome(&driver.ok(segments(&[], false)));
    assert!(matches!(end, Err(JobSettlement::Nothing { .. })), "{end:?}");
}

// covers: ING-8.5-02, ING-12.4-03
#[test]
fn a_plan_with_more_than_there_is_room_for_goes_on_behind_its_last_key() {
    let claimed = update(UpdateReason::ExprChange);
    let (mut driver, _) = reading_segments(claimed.clone(), &fresh());
    let save = outcome(&driver.ok(segments(&["f", "m"], true))).expect("a first part");
    assert_eq!((ordinals(&save), save.complete), (vec![(0, "f"), (1, "m")], false));
    assert_eq!(remarks(&save)["totalEstimated"], json!(null), "the rest is not counted");

    let open =
        OpenPlan { plan: PlanId(8), snapshot_hash: "s".into(), rest: RemainingPlan::Ids { after: Some("m".into()) } };
    let again = ClaimedJob { plan: Some(open), ..claimed };
    let (mut driver, read) = reading_segments(again.clone(), &after_segments(2));
    assert_eq!(read.after.as_deref(), Some("m"));
    let save = outcome(&driver.ok(segments(&["z"], false))).expect("the rest");
    assert_eq!((ordinals(&save), save.complete), (vec![(2, "z")], true));
    assert_eq!(save.target, PlanTarget::Existing(PlanId(8)));

    // Nothing of the rest is to be refreshed any more: it is closed with an empty part.
    let (mut driver, _) = reading_segments(again, &after_segments(2));
    let save = outcome(&driver.ok(segments(&[], false))).expect("an empty part");
    assert!(save.complete && save.slices.is_empty());
}

// covers: ING-5.5-01
#[test]
fn full_queue_reads_no_ids() {
    let claimed = update(UpdateReason::Signals);
    let draft = PlanDraft { inventory: Some(3), ..refresh(&claimed) };
    let end = drafted(claimed, draft, &Coverage { queued: 3, ..fresh() });
    assert!(matches!(end, Err(JobSettlement::Later { .. })), "{end:?}");
}

#[test]
fn planner_that_was_overtaken_reads_the_ids_again() {
    let (mut driver, _) = reading_segments(update(UpdateReason::Signals), &after_segments(2));
    let first = outcome(&driver.ok(segments(&["m"], false))).expect("a plan");
    let wants = driver.err(TxError::Conflict);
    assert!(matches!(&wants[..], [Want::Tx(Tx::ReadCoverage(_))]), "{wants:?}");
    let wants = driver.ok(Done::ReadCoverage(Coverage { epoch: 4, ..after_segments(3) }));
    assert!(matches!(&wants[..], [Want::Tx(Tx::ReadSegments(_))]), "{wants:?}");
    let second = outcome(&driver.ok(segments(&["m"], false))).expect("a plan");
    assert_eq!((ordinals(&first), ordinals(&second)), (vec![(2, "m")], vec![(3, "m")]));
    assert_ne!(keys(&first), keys(&second), "segments of another planner are not ours");
}

#[test]
fn store_failure_while_reading_ids_defers_the_job() {
    let (mut driver, _) = reading_segments(update(UpdateReason::Signals), &fresh());
    let wants = driver.err(TxError::Busy);
    assert!(matches!(outcome(&wants), Err(JobSettlement::Later { .. })), "{wants:?}");

    let (mut driver, _) = reading_segments(update(UpdateReason::Signals), &fresh());
    assert!(driver.err(TxError::Refused("broken".into())).is_empty());
    assert!(driver.0.is_idle() && driver.0.wake_at() > HERE);
}
