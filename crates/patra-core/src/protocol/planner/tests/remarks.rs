//! Remarks of a plan, the effect of history on its windows, and how much of it is emitted.

use super::*;
use crate::window::Align;

/// This many records in this many seconds.
fn history(items: u64, secs: u64) -> History {
    History { items, span: Duration::from_secs(secs) }
}

/// The windows of a first plan with this cut.
fn cut_by(history: History, cut: Cut, narrowest: Duration) -> Vec<Window> {
    let draft = PlanDraft { span: PlanSpan::Time { cut, initial: at(0), narrowest, depth: 100 }, ..draft(&claimed()) };
    windows(&drafted(claimed(), draft, &Coverage { history, ..fresh() }).expect("a plan"))
}

fn widths(windows: &[Window]) -> Vec<u64> {
    windows.iter().map(|window| window.width().as_secs()).collect()
}

// covers: ING-5.3-18, ING-5.3-19, ING-12.4-02
#[test]
fn plan_remarks_name_size_slices_namespace_and_degradations() {
    let save = plan(claimed(), &Coverage { history: history(500, 1_000), ..fresh() });
    let remarks = remarks(&save);
    assert_eq!(remarks["totalEstimated"], 420, "840 seconds, one record in two");
    assert_eq!((&remarks["sliceCount"], &remarks["avgWindow"]), (&json!(3), &json!("PT4M40S")));
    let window = json!({ "from": at(100), "to": at(940), "safetyLag": "PT1M" });
    assert_eq!(remarks["window"], window);
    assert_eq!(remarks["degradation"], json!(["noCount"]));
    assert_eq!(remarks["namespace"], json!({ "scope": "EXPR", "key": "n", "direction": "FORWARD" }));
    assert_eq!(new_plan(&save).strategy, "TIME");

    let unknown = plan(claimed(), &fresh());
    assert_eq!(super::remarks(&unknown)["totalEstimated"], json!(null), "nothing is made up");
}

#[test]
fn covered_windows_count_neither_as_size_nor_as_width() {
    let history = history(1_000, 1_000);
    let save = plan(claimed(), &Coverage { history, ..known(Some(300), vec![w(320, 930)]) });
    assert_eq!(windows(&save), [w(300, 320), w(930, 940)]);
    let remarks = remarks(&save);
    assert_eq!((&remarks["totalEstimated"], &remarks["avgWindow"]), (&json!(30), &json!("PT15S")));
}

#[test]
fn remarks_of_a_part_describe_the_whole_plan() {
    let options = Options { inventory: 1, ..Options::new("me") };
    let save = planned(options, claimed(), &fresh()).expect("a first part");
    assert_eq!((save.slices.len(), &remarks(&save)["sliceCount"]), (1, &json!(3)));
}

// covers: ING-4.4-18, ING-8.3-01, ING-2.4-03
#[test]
fn windows_are_as_narrow_as_history_advises_within_the_bounds_of_the_manifest() {
    let cut = Cut { max_width: Duration::from_secs(300), align: None };
    let narrowest = Duration::from_secs(20);
    let by = |items, secs| widths(&cut_by(history(items, secs), cut, narrowest));
    assert_eq!(by(0, 0), [300, 300, 300, 40], "nothing to go by");
    assert_eq!(by(0, 500), [300, 300, 300, 40], "nothing came");
    assert_eq!(by(10, 1_000), [300, 300, 300, 40], "sparse: as wide as may be");
    assert_eq!(by(1_000, 2_000)[..4], [200, 200, 200, 200], "a hundred records in two hundred seconds");
    assert_eq!(by(3_000, 2_000)[..2], [66, 66], "in whole seconds");
    assert_eq!(by(1_000_000, 1_000)[..2], [20, 20], "not narrower than the narrowest");
}

#[test]
fn narrower_windows_keep_their_alignment_and_never_grow_wider_than_the_manifest_allows() {
    let minutes = Cut { max_width: Duration::from_secs(300), align: Some(Align::Minute) };
    let dense = history(1_000, 1_500);
    let windows = cut_by(dense, minutes, Duration::from_secs(10));
    assert_eq!(widths(&windows)[..2], [120, 120], "150 seconds in whole minutes");
    for (max_width, align) in [(300, Some(Align::Hour)), (300, Some(Align::Day)), (30, Some(Align::Minute))] {
        let cut = Cut { max_width: Duration::from_secs(max_width), align };
        let windows = cut_by(history(100_000, 1_000), cut, Duration::from_secs(10));
        assert!(widths(&windows).iter().all(|width| *width <= max_width), "{:?}", widths(&windows));
    }
}

// covers: ING-5.5-01, ING-5.3-16, ING-8.1-06
#[test]
fn endpoint_may_set_its_own_queue_limit() {
    let limited = |inventory, queued| {
        let draft = PlanDraft { inventory, ..draft(&claimed()) };
        drafted(claimed(), draft, &Coverage { queued, ..fresh() })
    };
    assert!(limited(None, 0).expect("a plan").complete, "the planner's own limit leaves room");
    let save = limited(Some(2), 1).expect("a first part");
    assert_eq!((save.slices.len(), save.complete), (1, false), "up to the limit, and PARTIAL");
    for queued in [2, 3] {
        let full = limited(Some(2), queued);
        assert!(matches!(full, Err(JobSettlement::Later { .. })), "nothing is sliced: {full:?}");
    }
    assert!(limited(Some(5_000), 1_200).expect("a plan").complete, "more than the planner's own, too");
}

#[test]
fn tasks_carry_c_max() {
    assert_eq!(plan(claimed(), &fresh()).c_max, 4);
}
