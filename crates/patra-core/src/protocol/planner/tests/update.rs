//! Plans over stored records.

use super::*;
use crate::bounds::Bounds;
use crate::record::Stream;
use crate::state::UpdateReason;
use crate::tx::{IdRange, Segments, Wanted};

fn update(reason: UpdateReason) -> TriggerTaken {
    TriggerTaken { operation: Operation::Update, reason: Some(reason), ..trigger() }
}

fn stream() -> Stream {
    Stream {
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        dedup_scope: "e".into(),
        kind: "work".into(),
    }
}

/// Segments of 50 ids, detail requests of 20.
fn refresh(trigger: &TriggerTaken) -> Draft {
    let draft = draft(trigger);
    let (operation, scope) = (Operation::Update, Scope::Custom);
    let refresh = Refresh {
        reason: trigger.reason.expect("a reason"),
        stale_after: Duration::from_secs(600),
        generation: "g2".into(),
        size: 50,
    };
    Draft {
        cursor: Name { operation, scope, cursor_key: "item_id".into(), ..draft.cursor },
        span: Span::Ids { stream: stream(), refresh },
        shape: Shape {
            operation,
            phase: Phase { two_phase: true, id_batch_size: Some(20) },
            priority: 200,
            ..draft.shape
        },
        ..draft
    }
}

/// A planner that knows the coverage and asks which ids are wanted.
fn asking(trigger: TriggerTaken, coverage: &Coverage) -> (Driver, ReadSegments) {
    let draft = refresh(&trigger);
    let mut driver = Driver::with(Options::new("me"), trigger, draft);
    let wants = driver.covered(coverage);
    let [Want::Tx(Tx::ReadSegments(asked))] = &wants[..] else { panic!("{wants:?}") };
    (driver, asked.clone())
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

/// What is known of a namespace that has had so many segments.
fn after_segments(next_ordinal: i64) -> Coverage {
    let value = (next_ordinal > 0).then(|| Mark::Nth { ordinal: next_ordinal, last: "x".into() });
    Coverage { value, next_ordinal, origin: None, ..known(None, Vec::new()) }
}

// covers: ING-6.3-03
#[test]
fn the_reason_says_which_records_are_wanted() {
    let wanted = |reason| asking(update(reason), &fresh()).1.wanted;
    assert_eq!(wanted(UpdateReason::Staleness), Wanted::Stale { before: DB_NOW - Duration::from_secs(600) });
    assert_eq!(wanted(UpdateReason::ExprChange), Wanted::MappedOtherThan { generation: "g2".into() });
    assert_eq!(wanted(UpdateReason::Signals), Wanted::Signalled);
    let asked = asking(update(UpdateReason::Signals), &Coverage { queued: 30, ..fresh() }).1;
    assert_eq!(
        (asked.stream, asked.after, asked.size, asked.limit),
        (stream(), None, 50, 970),
        "what there is room for"
    );
}

// covers: ING-5.3-08, ING-5.3-19, ING-6.3-04, ING-8.2-03, ING-8.2-08, ING-4.10-29
#[test]
fn a_plan_over_ids_has_one_slice_per_range_numbered_on_from_the_last() {
    let (mut driver, asked) = asking(update(UpdateReason::Staleness), &after_segments(7));
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
    let bounds = Bounds::of_task(&middle.task_params).unwrap().ids.expect("ids");
    assert_eq!(bounds.range, IdRange { after: Some("f".into()), through: "m".into() });
    assert_eq!(bounds.wanted, asked.wanted, "frozen");
    let spec: serde_json::Value = serde_json::from_str(&middle.spec).unwrap();
    assert_eq!((&spec["dimension"], &spec["bounds"]["id"]), (&json!("ID"), &json!({ "from": "f", "to": "m" })));
    assert_eq!(spec["phase"], json!({ "twoPhase": true, "idBatchSize": 20 }));
    assert_eq!(spec["budget"]["expectedRequests"], 3, "fifty ids, twenty in each request");
}

#[test]
fn when_nothing_is_wanted_there_is_no_plan() {
    let (mut driver, _) = asking(update(UpdateReason::Signals), &fresh());
    let end = outcome(&driver.ok(segments(&[], false)));
    assert!(matches!(end, Err(Settlement::Nothing { .. })), "{end:?}");
}

// covers: ING-8.5-02, ING-12.4-03
#[test]
fn a_plan_with_more_than_there_is_room_for_goes_on_behind_its_last_key() {
    let trigger = update(UpdateReason::ExprChange);
    let (mut driver, _) = asking(trigger.clone(), &fresh());
    let save = outcome(&driver.ok(segments(&["f", "m"], true))).expect("a first part");
    assert_eq!((ordinals(&save), save.complete), (vec![(0, "f"), (1, "m")], false));
    assert_eq!(remarks(&save)["totalEstimated"], json!(null), "nobody has counted the rest");

    let open = OpenPlan { plan: PlanId(8), snapshot_hash: "s".into(), rest: Rest::Ids { after: Some("m".into()) } };
    let again = TriggerTaken { plan: Some(open), ..trigger };
    let (mut driver, asked) = asking(again.clone(), &after_segments(2));
    assert_eq!(asked.after.as_deref(), Some("m"));
    let save = outcome(&driver.ok(segments(&["z"], false))).expect("the rest");
    assert_eq!((ordinals(&save), save.complete), (vec![(2, "z")], true));
    assert_eq!(save.target, PlanTarget::Existing(PlanId(8)));

    // Nothing of the rest is wanted any more: it is closed with an empty part.
    let (mut driver, _) = asking(again, &after_segments(2));
    let save = outcome(&driver.ok(segments(&[], false))).expect("an empty part");
    assert!(save.complete && save.slices.is_empty());
}

// covers: ING-5.5-01
#[test]
fn a_full_inventory_is_not_asked_for_ids() {
    let trigger = update(UpdateReason::Signals);
    let draft = Draft { inventory: Some(3), ..refresh(&trigger) };
    let end = drafted(trigger, draft, &Coverage { queued: 3, ..fresh() });
    assert!(matches!(end, Err(Settlement::Later { .. })), "{end:?}");
}

#[test]
fn a_planner_that_was_overtaken_asks_for_the_ids_again() {
    let (mut driver, _) = asking(update(UpdateReason::Signals), &after_segments(2));
    let first = outcome(&driver.ok(segments(&["m"], false))).expect("a plan");
    let wants = driver.err(TxError::Conflict);
    assert!(matches!(&wants[..], [Want::Tx(Tx::ReadCoverage(_))]), "{wants:?}");
    let wants = driver.ok(Done::ReadCoverage(Coverage { epoch: 4, ..after_segments(3) }));
    assert!(matches!(&wants[..], [Want::Tx(Tx::ReadSegments(_))]), "{wants:?}");
    let second = outcome(&driver.ok(segments(&["m"], false))).expect("a plan");
    assert_eq!((ordinals(&first), ordinals(&second)), (vec![(2, "m")], vec![(3, "m")]));
    assert_ne!(keys(&first), keys(&second), "what another planner made is not taken for ours");
}

#[test]
fn a_store_that_does_not_name_the_ids_leaves_the_trigger_for_later() {
    let (mut driver, _) = asking(update(UpdateReason::Signals), &fresh());
    let wants = driver.err(TxError::Busy);
    assert!(matches!(outcome(&wants), Err(Settlement::Later { .. })), "{wants:?}");

    let (mut driver, _) = asking(update(UpdateReason::Signals), &fresh());
    assert!(driver.err(TxError::Refused("broken".into())).is_empty());
    assert!(driver.0.is_idle() && driver.0.wake_at() > HERE);
}
