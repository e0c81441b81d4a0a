//! The check for missing records after a pass over a whole list.

use super::*;
use crate::paging::{Verification, Verify, WalkProgress};
use crate::record::RejectedRecord;
use crate::tx::{MarkMissing, MissingMarked};

fn marking(rule: paging::PagingRule) -> RunPolicy {
    let missing = Some(MissingRule { list: "".into(), ratio: 0.5 });
    RunPolicy { pass: Some(PassRule { undated: true, missing }), ..(*policy(rule)).clone() }
}

fn reading(policy: RunPolicy) -> Driver {
    let (driver, wants) = Driver::prepared(lease(), policy, None);
    assert!(requests_permit(&wants), "{wants:?}");
    driver
}

/// The one check among the wants.
fn check(wants: &[Want]) -> MarkMissing {
    match wants {
        [Want::Tx(Tx::MarkMissing(check))] => check.clone(),
        other => panic!("expected a check, got {other:?}"),
    }
}

fn part(known: u32, gone: u32, next: Option<i64>) -> RunInput {
    RunInput::Tx(Ok(Done::MarkMissing(MissingMarked { known, gone, missing: gone, next })))
}

/// The last page of a list, after which the run checks.
fn last(driver: &mut Driver) -> Vec<Want> {
    driver.read(page(1, None))
}

#[test]
fn complete_pass_counts_part_by_part_and_then_marks() {
    let mut driver = reading(marking(tokens()));
    let batch = {
        driver.fetch();
        commit(&driver.on(page(1, Some("b"))))
    };
    let pass = batch.pass.clone().expect("a page of a pass");
    assert!(pass.undated && pass.list.is_some() && batch.refresh);
    assert_eq!(batch.listed(), ["1-1", "1-2"]);
    driver.on(committed());
    let wants = driver.read(page(2, None));
    let first = check(&wants);
    assert!(first.only_count && first.after.is_none() && first.limit == MarkMissing::LIMIT);
    let second = check(&driver.on(part(1_000, 1, Some(77))));
    assert!(second.only_count && second.after == Some(77));
    let third = check(&driver.on(part(500, 2, None)));
    assert!(!third.only_count && third.after.is_none(), "from the first part on");
    let fourth = check(&driver.on(part(1_000, 1, Some(77))));
    assert!(!fourth.only_count && fourth.after == Some(77));
    let end = end(&driver.on(part(500, 2, None)));
    assert!(matches!(end.end, RunEnd::Succeeded));
    assert_eq!((end.stats.missing, &*end.stats.missing_unmarked), (3, ""));
}

#[test]
fn nothing_is_marked_where_nothing_is_gone() {
    let mut driver = reading(marking(tokens()));
    check(&last(&mut driver));
    let end = end(&driver.on(part(10, 0, None)));
    assert_eq!((end.stats.missing, &*end.stats.missing_unmarked), (0, ""));
}

#[test]
fn pass_that_is_not_known_to_be_complete_marks_nothing() {
    // Unverified: numbered pages with a total at best.
    let mut driver = reading(marking(pages()));
    driver.read(page(1, None));
    let last = driver.read(RunInput::Fetched(Ok(Box::default())));
    let unverified = end(&last);
    assert!(matches!(unverified.end, RunEnd::Succeeded));
    assert!(unverified.stats.missing_unmarked.contains("unverified"), "{:?}", unverified.stats);
    // Partial: a cap.
    let mut driver = reading(marking(paging::PagingRule { max_page: Some(1), ..tokens() }));
    let partial = end(&driver.read(page(1, Some("b"))));
    assert!(matches!(partial.end, RunEnd::Partial { .. }) && partial.stats.missing_unmarked.is_empty());
    // An item without an id, although what can be stored is.
    let mut driver = reading(marking(tokens()));
    driver.fetch();
    let reject = |key: Option<&str>| RejectedRecord {
        index: 0,
        key: key.map(str::to_owned),
        code: Code::ValidationError,
        reason: "no id".into(),
        sample: String::new(),
    };
    let with = |rejected| {
        let facts = PageFacts { items: 1, ids: vec![[9; 16]], ..PageFacts::default() };
        RunInput::Fetched(Ok(Box::new(FetchedPage { facts, rejected: vec![rejected], ..FetchedPage::default() })))
    };
    let batch = commit(&driver.on(with(reject(None))));
    assert!(batch.stats.walk.expect("progress").unidentified, "a later run knows it too");
    let end = end(&driver.on(committed()));
    assert!(end.stats.missing_unmarked.contains("without a usable id"), "{:?}", end.stats);
    // With an id it is known which record it is.
    let mut driver = reading(marking(tokens()));
    driver.fetch();
    let batch = commit(&driver.on(with(reject(Some("bad")))));
    assert_eq!(batch.listed(), ["bad"]);
    check(&driver.on(committed()));
}

#[test]
fn list_that_has_lost_too_much_is_not_marked() {
    let after = |policy: RunPolicy, total: Option<u64>, known, gone| {
        let mut driver = reading(policy);
        driver.fetch();
        let facts = PageFacts { total, ..PageFacts::default() };
        driver.on(RunInput::Fetched(Ok(Box::new(FetchedPage { facts, ..FetchedPage::default() }))));
        let counting = driver.on(committed());
        assert!(check(&counting).only_count);
        driver.on(part(known, gone, None))
    };
    let objection = |wants: Vec<Want>| end(&wants).stats.missing_unmarked.clone();
    assert!(objection(after(marking(tokens()), None, 3, 3)).contains("does not report a total of 0"));
    check(&after(marking(tokens()), Some(0), 3, 3));
    assert!(objection(after(marking(tokens()), Some(0), 20, 20)).contains("20 of 20 known records"));
    let estimates = paging::PagingRule { estimates: true, ..tokens() };
    assert!(objection(after(marking(estimates), Some(0), 3, 3)).contains("limits.missing_ratio: 1"));
    assert!(objection(after(marking(tokens()), None, 40, 21)).contains("21 of 40"));
    check(&after(marking(tokens()), None, 40, 20));
    let mut all = marking(tokens());
    all.pass.as_mut().unwrap().missing.as_mut().unwrap().ratio = 1.0;
    check(&after(all, None, 40, 40));
}

#[test]
fn run_that_finds_the_list_read_only_marks() {
    let resume = |verification, unidentified| {
        let walk = WalkProgress { verification: Some(verification), unidentified, ..WalkProgress::default() };
        let (run, walk) = (RunId(6), Some(Box::new(walk)));
        started_behind(Some(ResumePoint { run, batch_no: 4, next: None, total: Some(0), taken: None, walk }))
    };
    let begin = |started| {
        let mut driver = Driver::of(lease(), at_once());
        driver.on(started);
        let wants = driver.on(RunInput::Prepared(Ok(Arc::new(marking(tokens())))));
        (driver, wants)
    };
    let (mut driver, wants) = begin(resume(Verification::Token, false));
    check(&wants);
    check(&driver.on(part(2, 2, None)));
    let (_, wants) = begin(resume(Verification::Token, true));
    assert!(end(&wants).stats.missing_unmarked.contains("without a usable id"));
    let (_, wants) = begin(resume(Verification::Unverified, false));
    assert!(end(&wants).stats.missing_unmarked.contains("unverified"));
}

#[test]
fn stopped_run_leaves_the_rest_of_the_marks_to_a_later_one() {
    let mut driver = reading(marking(tokens()));
    check(&last(&mut driver));
    assert!(driver.on(RunInput::Stop { reason: "shutdown" }).is_empty(), "the part in flight is awaited");
    let end = end(&driver.on(part(1_000, 5, Some(9))));
    assert!(matches!(end.end, RunEnd::Requeue { counted: false, .. }));
    // A lost lease ends the run at once.
    let mut driver = reading(marking(tokens()));
    check(&last(&mut driver));
    assert_eq!(finished(&driver.on(failed(TxError::Fenced))).outcome, RunOutcome::Lost);
}

#[test]
fn pages_that_are_read_twice_may_mark() {
    let twice = paging::PagingRule { verify: Verify::Twice, ..pages() };
    let mut driver = reading(marking(twice));
    let facts = |items: u32| PageFacts {
        items,
        ids: (0..items).map(|at| [at as u8 + 1; 16]).collect(),
        ..PageFacts::default()
    };
    let one =
        || RunInput::Fetched(Ok(Box::new(FetchedPage { facts: facts(1), content: [1; 16], ..FetchedPage::default() })));
    driver.read(one());
    check(&driver.read(one()));
}

#[test]
fn run_that_dies_behind_a_page_without_its_end_is_read_again() {
    let mut driver = reading(marking(tokens()));
    driver.fetch();
    let cut = FetchedPage { cut: Some("the end is missing".into()), ..FetchedPage::default() };
    let batch = commit(&driver.on(RunInput::Fetched(Ok(Box::new(cut)))));
    assert_eq!(batch.next, Some(Position::Token(None)), "not the end");
    let end = end(&driver.on(committed()));
    assert!(matches!(end.end, RunEnd::Partial { .. }) && end.stats.missing == 0);
}
