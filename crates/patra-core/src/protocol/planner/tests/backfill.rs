//! Plans that go towards the past.

use proptest::prelude::*;

use super::*;

fn backfill() -> ClaimedJob {
    ClaimedJob { operation: Operation::Backfill, activity: Some("spring".into()), ..claimed() }
}

/// As [`draft`], down to 100.
fn past(claimed: &ClaimedJob) -> PlanDraft {
    let draft = draft(claimed);
    let (operation, scope) = (Operation::Backfill, CursorScope::Custom);
    PlanDraft {
        cursor: CursorName { operation, scope, namespace_key: "e:activity".into(), ..draft.cursor },
        context: SliceContext { operation, priority: 300, ..draft.context },
        ..draft
    }
}

fn backfilled(claimed: ClaimedJob, coverage: &Coverage) -> Result<Arc<SavePlan>, JobSettlement> {
    let draft = past(&claimed);
    drafted(claimed, draft, coverage)
}

/// A namespace that began at 700 and is done down to `value`.
fn down_to(value: Option<i64>, covered: Vec<Window>) -> Coverage {
    Coverage { origin: Some(at(700)), harvested: Some(at(900)), ..known(value, covered) }
}

// covers: ING-6.2-04, ING-8.1-03, ING-8.2-07
#[test]
fn a_backfill_begins_where_the_harvest_is_and_reads_the_newest_first() {
    let save = backfilled(backfill(), &Coverage { harvested: Some(at(850)), ..fresh() }).expect("a plan");
    assert_eq!(windows(&save), [w(700, 850), w(400, 700), w(100, 400)]);
    assert_eq!(new_plan(&save).window, Some(w(100, 850)));
    assert_eq!((save.origin, save.complete, save.priority), (Some(at(850)), true, 300), "counted from the upper end");
    let namespace = &remarks(&save)["namespace"];
    assert_eq!(namespace, &json!({ "scope": "CUSTOM", "key": "e:activity", "direction": "BACKFILL" }));
    for slice in &save.slices {
        let spec: serde_json::Value = serde_json::from_str(&slice.spec).unwrap();
        assert_eq!(spec["dimension"], "TIME");
    }
    assert_eq!((save.cursor.scope, save.cursor.operation), (CursorScope::Custom, Operation::Backfill));
}

#[test]
fn requested_backfill_window_is_clipped_at_the_barrier() {
    let requested = |from: Option<i64>, to: Option<i64>| ClaimedJob {
        window_from: from.map(at),
        window_to: to.map(at),
        ..backfill()
    };
    let harvested = Coverage { harvested: Some(at(400)), ..fresh() };
    let save = backfilled(requested(Some(300), Some(600)), &harvested).expect("a plan");
    assert_eq!((windows(&save), save.origin), (vec![w(300, 600)], Some(at(600))));
    let save = backfilled(requested(Some(900), Some(5_000)), &harvested).expect("a plan");
    assert_eq!((windows(&save), save.origin), (vec![w(900, 940)], Some(at(940))));
    let save = backfilled(requested(Some(10), Some(90)), &harvested).expect("further down than it must go");
    assert_eq!(windows(&save), [w(10, 90)]);
    let save = backfilled(requested(None, None), &fresh()).expect("a plan");
    assert_eq!(save.origin, Some(at(940)), "without a harvest it begins at the barrier");
}

// covers: ING-6.2-08, ING-6.2-09
#[test]
fn backfill_continues_below_its_value_to_the_earliest_time() {
    let save = backfilled(backfill(), &down_to(Some(500), Vec::new())).expect("a plan");
    assert_eq!(windows(&save), [w(400, 500), w(100, 400)]);
    assert_eq!(save.origin, Some(at(700)), "where it began does not change");
    let save = backfilled(backfill(), &down_to(Some(350), vec![w(200, 250)])).expect("a plan");
    assert_eq!(windows(&save), [w(250, 350), w(100, 200)]);
    let save = backfilled(backfill(), &down_to(None, vec![w(400, 700)])).expect("a plan");
    assert_eq!(windows(&save), [w(100, 400)]);
    let requested = ClaimedJob { window_to: Some(at(700)), ..backfill() };
    let save = backfilled(requested, &down_to(Some(500), Vec::new())).expect("a plan");
    assert_eq!(
        windows(&save),
        [w(400, 500), w(100, 400)],
        "completed windows are not read again, whatever is requested"
    );
    for done in [down_to(Some(100), Vec::new()), down_to(Some(400), vec![w(100, 400)])] {
        let end = backfilled(backfill(), &done);
        assert!(matches!(end, Err(JobSettlement::Nothing { .. })), "{end:?}");
    }
}

// covers: ING-8.5-02, ING-12.4-03
#[test]
fn full_queue_leaves_the_older_part_of_a_backfill() {
    let claimed = backfill();
    let draft = PlanDraft { inventory: Some(2), ..past(&claimed) };
    let harvested = Coverage { harvested: Some(at(850)), ..fresh() };
    let save = drafted(claimed.clone(), draft.clone(), &harvested).expect("a first part");
    assert_eq!((windows(&save), save.complete), (vec![w(700, 850), w(400, 700)], false));
    assert_eq!(new_plan(&save).window, Some(w(100, 850)), "the plan's window is the whole of it");
    assert_eq!(remarks(&save)["sliceCount"], 3);

    let rest = |window| {
        let open = OpenPlan { plan: PlanId(8), snapshot_hash: "s".into(), rest: RemainingPlan::Time(window) };
        ClaimedJob { plan: Some(open), ..claimed.clone() }
    };
    // One of its windows has failed meanwhile: it is left to a later job.
    let later = Coverage { origin: Some(at(850)), ..down_to(None, vec![w(400, 700)]) };
    let save = drafted(rest(w(100, 400)), draft.clone(), &later).expect("the rest");
    assert_eq!((windows(&save), save.complete), (vec![w(100, 400)], true));
    assert_eq!(save.target, PlanTarget::Existing(PlanId(8)));
    let save = drafted(rest(w(100, 100)), draft, &later).expect("an empty last part");
    assert!(save.complete && save.slices.is_empty());
}

proptest! {
    // covers: ING-DOD-06
    #[test]
    fn plan_covers_exactly_the_gaps_in_its_direction(
        value in prop::option::of(100i64..900),
        covered in prop::collection::vec((100i64..900, 1i64..200), 0..6),
        width in 7u64..400,
        harvest in any::<bool>(),
    ) {
        let covered: Vec<_> = covered.into_iter().map(|(from, len)| w(from, from + len)).collect();
        let claimed = if harvest { claimed() } else { backfill() };
        let mut draft = if harvest { draft(&claimed) } else { past(&claimed) };
        let PlanSpan::Time { cut, .. } = &mut draft.span else { unreachable!() };
        cut.max_width = Duration::from_secs(width);
        let (origin, whole, behind) = match harvest {
            true => (100, w(value.unwrap_or(100), 940), value.and_then(|value| Window::new(at(100), at(value)))),
            false => (900, w(100, value.unwrap_or(900)), value.and_then(|value| Window::new(at(value), at(900)))),
        };
        let state = Coverage { origin: Some(at(origin)), ..known(value, covered.clone()) };
        let made = drafted(claimed, draft, &state).map_or_else(|_| Vec::new(), |save| windows(&save));
        let done: Vec<_> = covered.into_iter().chain(behind).collect();
        for second in 100..940 {
            let planned = made.iter().filter(|window| window.contains(at(second))).count();
            let missing = whole.contains(at(second)) && !done.iter().any(|window| window.contains(at(second)));
            prop_assert_eq!(planned, usize::from(missing), "at {}", second);
        }
        let mut sorted = made.clone();
        sorted.sort_unstable();
        if !harvest {
            sorted.reverse();
        }
        prop_assert_eq!(&made, &sorted);
        prop_assert!(made.iter().all(|window| window.width() <= Duration::from_secs(width)));
    }
}
