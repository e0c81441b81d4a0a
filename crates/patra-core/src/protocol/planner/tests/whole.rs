//! Lists that are read as a whole: one slice, and never two at once.

use super::*;

fn whole(coverage: &Coverage) -> Result<Arc<SavePlan>, JobSettlement> {
    let mut draft = PlanDraft { span: PlanSpan::Whole, ..draft(&claimed()) };
    draft.context.safety_lag = Duration::ZERO;
    drafted(claimed(), draft, coverage)
}

#[test]
fn pass_is_one_slice_from_the_last_complete_pass_to_now() {
    let first = whole(&fresh()).expect("a pass");
    assert_eq!(windows(&first), [Window { from: at(0), to: DB_NOW }]);
    assert_eq!((first.origin, first.complete), (Some(at(0)), true));
    let begun = Coverage { origin: Some(at(0)), ..known(Some(900), Vec::new()) };
    assert_eq!(windows(&whole(&begun).expect("a pass")), [Window { from: at(900), to: DB_NOW }]);
    // A pass that has failed leaves its window to the next.
    let failed = Coverage { origin: Some(at(0)), ..known(None, Vec::new()) };
    assert_eq!(windows(&whole(&failed).expect("a pass")), [Window { from: at(0), to: DB_NOW }]);
}

#[test]
fn pass_is_not_planned_while_another_reads_the_list() {
    let reading = Coverage { origin: Some(at(0)), ..known(Some(300), vec![w(300, 900)]) };
    let Err(JobSettlement::Nothing { remark }) = whole(&reading) else { panic!("two passes at once") };
    assert_eq!(remark, "the list is being read");
    let done = Coverage { origin: Some(at(0)), ..known(Some(2_000), Vec::new()) };
    assert!(matches!(whole(&done), Err(JobSettlement::Nothing { .. })), "the clock was set back");
}
