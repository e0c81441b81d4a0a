//! Page ranges, and windows that are deeper than one slice should be.

use proptest::prelude::*;

use super::*;
use crate::bounds::{PageRange, TaskBounds};
use crate::hash::content_hash;

/// Pages are divided into ranges of this size.
fn ranged(rule: paging::PagingRule, range: u32) -> RunPolicy {
    let limits = SliceLimits { page_range: Some(range), ..SliceLimits::default() };
    let mut policy = RunPolicy { limits, ..cuttable(rule) };
    policy.split.as_mut().unwrap().by_time = false;
    policy
}

/// A lease on a range of pages.
fn range(from: u64, to: Option<u64>) -> Lease {
    let params = serde_json::json!({ "pages": PageRange { from, to, total: None } }).to_string();
    Lease { params, ..lease() }
}

/// A listing of this many records.
#[derive(Clone, Copy)]
struct Listing {
    records: u64,
    page_size: u64,
    total: Option<u64>,
}

impl Listing {
    fn page(self, fetch: &PageFetch) -> FetchedPage {
        let from = match fetch.position {
            Position::Offset(offset) => offset,
            Position::Page(no) => (no - 1) * self.page_size,
            _ => panic!("{fetch:?}"),
        };
        let numbers = from.min(self.records)..(from + self.page_size).min(self.records);
        let records: Vec<_> = numbers.clone().map(|n| record(&format!("{n:04}"), at(1))).collect();
        let facts = PageFacts { items: records.len() as u32, total: self.total, ..PageFacts::default() };
        FetchedPage {
            facts,
            records,
            content: content_hash(format!("{numbers:?}").as_bytes()),
            ..FetchedPage::default()
        }
    }
}

/// Ten records, two to a page, and a total.
const TEN: Listing = Listing { records: 10, page_size: 2, total: Some(10) };

fn play(lease: Lease, policy: RunPolicy, listing: Listing) -> Played {
    let (mut driver, wants) = Driver::prepared(lease, policy, None);
    driver.play(wants, Advice::default, |fetch| listing.page(fetch))
}

fn ranges(end: &RunEnd) -> Vec<PageRange> {
    let RunEnd::Split { slices, .. } = end else { panic!("expected ranges, got {end:?}") };
    slices.iter().map(|slice| TaskBounds::of_task(&slice.task_params).unwrap().pages.expect("a range")).collect()
}

fn numbers(played: &Played) -> Vec<u64> {
    played.fetches.iter().filter_map(|fetch| fetch.position.number()).collect()
}

// covers: ING-5.3-07, ING-8.2-02
#[test]
fn total_of_the_first_page_divides_the_pages_into_ranges() {
    let played = play(lease(), ranged(offsets(), 2), TEN);
    let pages = |from, to| PageRange { from, to, total: Some(10) };
    assert_eq!(ranges(&played.end.end), [pages(0, Some(1)), pages(1, Some(3)), pages(3, None)]);
    assert_eq!(windows(&played.end.end), [w(0, 10); 3], "each is a part of the same window");
    assert_eq!((played.fetches.len(), played.commits.len(), played.end.done), (1, 1, None));
    let RunEnd::Split { slices, .. } = &played.end.end else { unreachable!() };
    let signatures: std::collections::BTreeSet<_> = slices.iter().map(|slice| &slice.signature).collect();
    assert_eq!(signatures.len(), 3);
    assert!(played.end.stats.remarks.contains("5 pages"), "{}", played.end.stats.remarks);
}

#[test]
fn small_listing_is_not_divided() {
    for (policy, listing) in [
        (ranged(offsets(), 5), TEN),
        (ranged(offsets(), 2), Listing { total: None, ..TEN }),
        (RunPolicy { split: None, ..ranged(offsets(), 2) }, TEN),
    ] {
        let played = play(lease(), policy, listing);
        assert_eq!((&played.end.end, played.keys().len()), (&RunEnd::Succeeded, 10));
    }
    // Neither is one that an earlier run has started.
    let (mut driver, wants) = Driver::prepared(lease(), ranged(offsets(), 2), Some(Some(Position::Offset(2))));
    let played = driver.play(wants, Advice::default, |fetch| TEN.page(fetch));
    assert_eq!((&played.end.end, numbers(&played)), (&RunEnd::Succeeded, vec![2, 4, 6, 8, 10]));
}

#[test]
fn endless_listing_is_divided_into_a_bounded_number_of_ranges() {
    let huge = Listing { records: 1_000_000, page_size: 2, total: Some(1_000_000) };
    let played = play(lease(), ranged(offsets(), 2), huge);
    let ranges = ranges(&played.end.end);
    assert_eq!(ranges.len(), 64);
    assert_eq!((ranges[0].from, ranges[63].to), (0, None));
}

// covers: ING-5.3-07
#[test]
fn a_range_is_read_from_its_first_to_its_last_page_and_no_further() {
    let endless = Listing { records: 1_000, page_size: 2, total: None };
    let played = play(range(2, Some(4)), ranged(offsets(), 2), endless);
    assert_eq!((&played.end.end, numbers(&played)), (&RunEnd::Succeeded, vec![4, 6, 8]));
    assert_eq!(played.commits[2].next, None, "a later run has nothing to resume");
    let played = play(range(0, Some(1)), ranged(pages(), 2), endless);
    assert_eq!((&played.end.end, numbers(&played)), (&RunEnd::Succeeded, vec![1, 2]));
    // A range behind the end is empty.
    let played = play(range(8, Some(9)), ranged(pages(), 2), TEN);
    assert_eq!((&played.end.end, numbers(&played), played.keys().len()), (&RunEnd::Succeeded, vec![9], 0));
}

/// The slice is known to be incomplete because the total changed.
fn is_moved(end: &RunEnd) -> bool {
    matches!(end, RunEnd::Partial { error } if error.message.contains("the total of the list changed"))
}

// covers: ING-8.2-02
#[test]
fn the_last_range_goes_on_to_the_end_wherever_that_is_by_then() {
    let grown = Listing { records: 15, page_size: 2, total: Some(15) };
    let played = play(range(3, None), ranged(offsets(), 2), grown);
    assert_eq!((&played.end.end, numbers(&played)), (&RunEnd::Succeeded, vec![6, 8, 10, 12, 14]));
}

#[test]
fn a_range_resumes_within_itself_and_ends_partial_when_the_list_moves() {
    let (mut driver, wants) = Driver::prepared(range(1, Some(3)), ranged(pages(), 2), Some(Some(Position::Page(3))));
    let played = driver.play(wants, Advice::default, |fetch| TEN.page(fetch));
    assert_eq!((&played.end.end, numbers(&played)), (&RunEnd::Succeeded, vec![3, 4]));

    let (mut driver, wants) = Driver::prepared(range(1, Some(3)), ranged(pages(), 2), None);
    let mut requested = 0;
    let played = driver.play(wants, Advice::default, |fetch| {
        requested += 1;
        Listing { total: Some(if requested == 1 { 10 } else { 9 }), ..TEN }.page(fetch)
    });
    assert_eq!(numbers(&played), [2, 3]);
    assert!(is_moved(&played.end.end), "records may have moved to another range: {:?}", played.end.end);
}

#[test]
fn a_range_that_ends_where_the_cap_is_reached_is_complete() {
    let rule = paging::PagingRule { max_page: Some(2), ..offsets() };
    let played = play(range(1, Some(2)), ranged(rule.clone(), 2), Listing { total: None, ..TEN });
    assert_eq!((&played.end.end, numbers(&played)), (&RunEnd::Succeeded, vec![2, 4]));
    let played = play(range(1, Some(3)), ranged(rule, 2), Listing { total: None, ..TEN });
    assert!(matches!(played.end.end, RunEnd::Partial { .. }), "{:?}", played.end);
}

#[test]
fn a_range_is_never_cut_by_time() {
    let limits = SliceLimits { max_requests: 1, ..SliceLimits::default() };
    let policy = RunPolicy { limits, order: Some(RecordOrder::Ascending), ..cuttable(offsets()) };
    let (mut driver, wants) = Driver::prepared(range(1, Some(3)), policy, None);
    let narrower = || Advice { narrower: true, ..Advice::default() };
    let played = driver.play(wants, narrower, |fetch| TEN.page(fetch));
    assert!(matches!(played.end.end, RunEnd::Requeue { counted: false, .. }), "{:?}", played.end);
    assert_eq!(played.end.done, None);
    assert_eq!(played.commits[0].next, Some(Position::Offset(4)));
}

// covers: ING-5.3-06, ING-6.1-04, ING-8.3-01, ING-12.2-03
#[test]
fn a_window_that_is_deeper_than_a_slice_should_be_is_cut_after_its_first_page() {
    let deep = |rule| RunPolicy { limits: SliceLimits { page_depth: 2, ..SliceLimits::default() }, ..cuttable(rule) };
    let played = play(lease(), deep(offsets()), TEN);
    let parts = windows(&played.end.end);
    assert_eq!((parts.len(), played.fetches.len()), (4, 1), "ten records, about three to a part");
    assert_eq!((parts[0].from, parts[3].to), (at(0), at(10)));
    assert!(parts.windows(2).all(|pair| pair[0].to == pair[1].from));
    assert!(played.end.stats.remarks.contains("10 records"), "{}", played.end.stats.remarks);

    for (policy, listing) in [
        (deep(offsets()), Listing { records: 4, total: Some(4), ..TEN }),
        (deep(paging::PagingRule { estimates: true, ..offsets() }), TEN),
        (RunPolicy { split: None, ..deep(offsets()) }, TEN),
    ] {
        assert_eq!(play(lease(), policy, listing).end.end, RunEnd::Succeeded);
    }
    let narrow = Lease { window: Some(w(0, 1)), ..lease() };
    assert_eq!(play(narrow, deep(offsets()), TEN).end.end, RunEnd::Succeeded, "a window that cannot be split is read");
}

#[test]
fn a_task_whose_bounds_are_damaged_reads_nothing() {
    let ids = r#"{"ids":{"wanted":"signalled","range":{"after":null,"through":"b"}}}"#;
    for damaged in [
        Lease { params: r#"{"pages":{"from":"x"}}"#.into(), ..lease() },
        Lease { params: r#"{"pages":3}"#.into(), ..lease() },
        Lease { window: None, ..lease() },
        Lease { params: ids.into(), window: None, ..lease() },
    ] {
        let (_, wants) = Driver::prepared(damaged, cuttable(offsets()), None);
        let close = end(&wants);
        let RunEnd::Failed { error } = &close.end else { panic!("{close:?}") };
        assert_eq!((error.code, close.pause.is_none()), (Code::InternalError, true), "{error}");
    }
}

proptest! {
    // covers: ING-8.2-02
    #[test]
    fn the_ranges_of_a_listing_read_all_of_it(
        before in 1u64..120, change in 0u64..8, page_size in 1u32..9, size in 1u32..7, offset in any::<bool>(),
    ) {
        // Half of the time, records come or go before the ranges are read.
        let after = (before + change.min(4)).saturating_sub(4).max(if change > 4 { before + change } else { 0 });
        let kind = if offset { PagingKind::Offset } else { PagingKind::Page { base: 1 } };
        let (rule, size_) = (paging::PagingRule::new(kind, page_size), u64::from(page_size));
        let listing = |records| Listing { records, page_size: size_, total: Some(records) };
        let played = play(lease(), ranged(rule.clone(), size), listing(before));
        if played.end.end == RunEnd::Succeeded {
            prop_assert_eq!(played.keys().len() as u64, before);
            return Ok(());
        }
        let RunEnd::Split { slices, .. } = &played.end.end else { panic!("{:?}", played.end) };
        let mut read = std::collections::BTreeSet::new();
        for slice in slices {
            // A range that finds another total may miss records that have moved to an earlier one.
            let lease = Lease { params: slice.task_params.clone(), ..lease() };
            let part = play(lease, ranged(rule.clone(), size), listing(after));
            if before != after {
                prop_assert!(is_moved(&part.end.end), "{:?}", part.end.end);
                continue;
            }
            prop_assert_eq!(&part.end.end, &RunEnd::Succeeded);
            let bound = TaskBounds::of_task(&slice.task_params).unwrap().pages.expect("a range");
            prop_assert!(bound.to.is_none_or(|to| part.fetches.len() as u64 <= to - bound.from + 1));
            read.extend(part.keys());
        }
        prop_assert!(before != after || read.len() as u64 == after);
    }
}
