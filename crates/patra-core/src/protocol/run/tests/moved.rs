//! Numbered pages of a result set that shrinks, and runs that end before a page is settled.

use super::*;
use crate::record::DetailCandidate;

fn numbered(from: u64, total: u64) -> FetchedPage {
    let records: Vec<_> = (from..(from + 2).min(total)).map(|n| record(&format!("{n}"), at(1))).collect();
    let facts = PageFacts { items: records.len() as u32, total: Some(total), ..PageFacts::default() };
    FetchedPage { facts, records, content: [from as u8 + 1; 16], ..FetchedPage::default() }
}

fn ids(total: u64) -> RunInput {
    let candidates = ["a", "b"].map(|id| DetailCandidate { id: id.into(), version: "1".into() }).into();
    let facts = PageFacts { items: 2, total: Some(total), ..PageFacts::default() };
    RunInput::Fetched(Ok(Box::new(FetchedPage {
        facts,
        candidates,
        content: [total as u8; 16],
        ..FetchedPage::default()
    })))
}

/// A run after the first page, which had this total.
fn resumed(policy: RunPolicy, total: Option<u64>) -> (Driver, Vec<Want>) {
    let resume =
        ResumePoint { run: RunId(6), batch_no: 1, next: Some(Position::Offset(2)), total, taken: None, walk: None };
    let mut driver = Driver::new(at_once());
    driver.on(started_behind(Some(resume)));
    let wants = driver.on(RunInput::Prepared(Ok(Arc::new(policy))));
    (driver, wants)
}

fn two_phase(policy: RunPolicy) -> RunPolicy {
    RunPolicy { details: Some(DetailOptions { batch_size: 2, missing_is_bad: true }), ..policy }
}

fn offsets_of(played: &Played) -> Vec<u64> {
    played.fetches.iter().filter_map(|fetch| fetch.position.number()).collect()
}

#[test]
fn a_total_that_fell_between_two_runs_starts_the_slice_again() {
    let play = |before| {
        let (mut driver, wants) = resumed((*policy(offsets())).clone(), before);
        driver.play(wants, Advice::default, |fetch| numbered(fetch.position.number().unwrap(), 5))
    };
    assert_eq!(offsets_of(&play(Some(6))), [2, 0, 2, 4], "records have moved past the place");
    assert_eq!(offsets_of(&play(Some(5))), [2, 4]);
    assert_eq!(offsets_of(&play(None)), [2, 4]);
    assert!(play(Some(5)).commits.iter().all(|batch| batch.stats.total == Some(5)), "for the run that comes after");
}

#[test]
fn the_total_of_a_page_of_ids_is_kept_with_its_details() {
    let (mut driver, _) = resumed(two_phase((*policy(offsets())).clone()), None);
    driver.fetch();
    driver.on(ids(9));
    let page =
        commit(&driver.on(RunInput::Screened(Ok(vec![DetailCandidate { id: "a".into(), version: "1".into() }]))));
    assert_eq!(page.stats.total, Some(9));
    driver.on(committed());
    driver.fetch();
    let facts = PageFacts { items: 1, ..PageFacts::default() };
    let found = FetchedPage { facts, records: vec![record("a", at(1))], ..FetchedPage::default() };
    assert_eq!(commit(&driver.on(RunInput::Fetched(Ok(Box::new(found))))).stats.total, Some(9));
    assert_eq!(commit(&driver_at_token()).stats.total, None, "a token leads to its page whatever went away");
}

fn driver_at_token() -> Vec<Want> {
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, None))
}

#[test]
fn a_page_of_ids_after_which_all_is_read_again_is_left_at_once() {
    let (mut driver, _) = resumed(two_phase((*policy(offsets())).clone()), Some(9));
    driver.fetch();
    let batch = commit(&driver.on(ids(8)));
    assert_eq!((batch.next.clone(), batch.stats.items_count), (Some(Position::Offset(0)), 0), "a run that dies now");
}

// A run that dies between the last page and its end must not resume behind ids that nobody has fetched.
#[test]
fn page_of_ids_left_to_narrower_slices_is_read_again_after_a_crash() {
    let limits = SliceLimits { page_range: Some(1), ..SliceLimits::default() };
    let policy = two_phase(RunPolicy { limits, ..cuttable(offsets()) });
    let (mut driver, _) = Driver::prepared(lease(), policy, None);
    driver.fetch();
    let batch = commit(&driver.on(ids(8)));
    assert_eq!(batch.next, Some(Position::Offset(0)));
    assert!(matches!(end(&driver.on(committed())).end, RunEnd::Split { .. }));
}

#[test]
fn stopped_run_still_reports_retry_after() {
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(RunInput::Stop { reason: "enough" });
    let refusal = PageFailure { throttled: true, retry_after: Some(Duration::from_secs(9)), ..refusal(Level::L1) };
    let wants = driver.on(RunInput::Fetched(Err(Box::new(refusal))));
    assert!(matches!(&wants[..], [Want::CoolDown(wait)] if *wait == Duration::from_secs(9)), "{wants:?}");
}
