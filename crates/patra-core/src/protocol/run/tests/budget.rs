//! Slices that end before their window does: the done part, and what replaces the rest.

use proptest::prelude::*;

use super::*;
use crate::hash::content_hash;

/// Two requests, then the budget is used up.
fn limited(order: Option<RecordOrder>) -> RunPolicy {
    RunPolicy { order, limits: SliceLimits { max_requests: 2, ..SliceLimits::default() }, ..cuttable(tokens()) }
}

fn reading(policy: RunPolicy) -> Driver {
    Driver::prepared(lease(), policy, None).0
}

/// A full page with records of these seconds.
fn of(secs: [i64; 2]) -> RunInput {
    let records: Vec<_> = secs.iter().enumerate().map(|(at_, sec)| record(&format!("{sec}-{at_}"), at(*sec))).collect();
    let content = content_hash(format!("{secs:?}").as_bytes());
    let next_token = Some(format!("after-{secs:?}"));
    let facts = PageFacts { items: 2, next_token, ..PageFacts::default() };
    RunInput::Fetched(Ok(Box::new(FetchedPage { facts, records, content, ..FetchedPage::default() })))
}

fn with_total(secs: [i64; 2], total: u64) -> RunInput {
    let RunInput::Fetched(Ok(mut page)) = of(secs) else { unreachable!() };
    page.facts.total = Some(total);
    RunInput::Fetched(Ok(page))
}

/// Reads these pages; how the run ends after them.
fn ends(policy: RunPolicy, pages: &[[i64; 2]]) -> Arc<EndRun> {
    let mut driver = reading(policy);
    let mut wants = Vec::new();
    for secs in pages {
        wants = driver.read(of(*secs));
    }
    end(&wants)
}

// covers: ING-4.4-24, ING-4.16-03, ING-5.3-12, ING-5.4-19, ING-6.1-09, ING-8.4-02, ING-8.4-03, ING-0.2-07, ING-2.4-03
#[test]
fn when_the_budget_is_used_up_what_remains_of_an_ordered_window_is_cut_in_two() {
    let close = ends(limited(Some(RecordOrder::Ascending)), &[[1, 2], [3, 5]]);
    assert_eq!(windows(&close.end), [w(5, 7), w(7, 10)], "records that share the last time are read again");
    assert_eq!((close.done, close.stats.req_count), (Some(w(0, 5)), 2));
    assert!(close.stats.remarks.starts_with("online-reslice: "), "{}", close.stats.remarks);
    assert!(close.stats.remarks.contains("2 requests"), "{}", close.stats.remarks);
    let RunEnd::Split { slices, .. } = &close.end else { unreachable!() };
    assert_ne!(slices[0].signature, slices[1].signature);
    assert_ne!(slices[0].task_key, slices[1].task_key);

    let close = ends(limited(Some(RecordOrder::Descending)), &[[9, 8], [8, 6]]);
    assert_eq!((windows(&close.end), close.done), (vec![w(0, 3), w(3, 7)], Some(w(7, 10))));
}

// covers: ING-8.4-01, ING-4.16-03
#[test]
fn time_is_a_budget_too() {
    let limits = SliceLimits { max_duration: Duration::from_secs(60), ..SliceLimits::default() };
    let mut driver = reading(RunPolicy { limits, ..limited(Some(RecordOrder::Ascending)) });
    driver.read(of([1, 2]));
    driver.now = at(59);
    driver.read(of([2, 3]));
    driver.now = at(60);
    let close = end(&driver.read(of([3, 4])));
    assert_eq!((windows(&close.end), close.done), (vec![w(4, 7), w(7, 10)], Some(w(0, 4))));
    assert!(close.stats.remarks.contains("60 seconds"), "{}", close.stats.remarks);
}

// covers: ING-10.3-01
#[test]
fn a_done_part_leads_the_cursor_on_once_the_task_has_ended() {
    let run = |status| {
        let mut driver = reading(limited(Some(RecordOrder::Ascending)));
        driver.read(of([1, 2]));
        end(&driver.read(of([3, 5])));
        (driver.on(closed(status)), driver)
    };
    let (wants, mut driver) = run(TaskStatus::Partial);
    assert!(matches!(&wants[..], [Want::Tx(Tx::RecordAdvance(_))]), "{wants:?}");
    let ended = finished(&driver.on(advance(Some(5), Some(5))));
    assert_eq!(ended.outcome, RunOutcome::Split(2));
    finished(&run(TaskStatus::Queued).0);
}

// covers: ING-4.16-03
#[test]
fn without_order_a_slice_that_used_up_its_budget_goes_on_where_it_is() {
    for order in [None, Some(RecordOrder::Ascending)] {
        // The declaration is not enough: these come in no order.
        let close = ends(limited(order), &[[4, 2], [7, 1]]);
        let RunEnd::Requeue { delay, counted, error } = &close.end else { panic!("{close:?}") };
        assert_eq!((*delay, *counted, close.done), (Duration::ZERO, false, None));
        assert!(error.message.contains("budget"), "{error}");
    }
    let (mut driver, _) = Driver::prepared(lease(), limited(None), Some(Some(Position::Offset(4))));
    assert_eq!(driver.fetch().position, Position::Offset(4));
    assert!(requests_permit(&driver.on(of([4, 2]))), "the next run has a budget of its own");
}

#[test]
fn a_rest_that_cannot_be_cut_is_left_to_the_same_task() {
    let close = ends(limited(Some(RecordOrder::Ascending)), &[[1, 2], [3, 9]]);
    assert!(matches!(close.end, RunEnd::Requeue { counted: false, .. }), "{close:?}");
    assert_eq!(close.done, Some(w(0, 9)));
    let mut policy = limited(Some(RecordOrder::Ascending));
    policy.split.as_mut().unwrap().by_time = false;
    assert!(matches!(ends(policy, &[[1, 2], [3, 5]]).end, RunEnd::Requeue { counted: false, .. }));
}

#[test]
fn a_window_that_is_cut_as_a_whole_has_no_done_part() {
    let deep = SliceLimits { page_depth: 2, ..SliceLimits::default() };
    let shared = SliceLimits { page_range: Some(2), ..SliceLimits::default() };
    let ceiling = paging::PagingRule { ceiling: Some(4), ..offsets() };
    let ordered = limited(Some(RecordOrder::Ascending));
    for policy in [
        RunPolicy { limits: deep, ..ordered.clone() },
        RunPolicy { limits: shared, ..ordered.clone() },
        RunPolicy { paging: ceiling, ..ordered },
    ] {
        let close = end(&reading(policy).read(with_total([3, 5], 10)));
        let parts = windows(&close.end);
        assert_eq!((parts[0].from, parts[parts.len() - 1].to, close.done), (at(0), at(10), None));
    }
}

#[test]
fn a_slice_that_ends_with_its_budget_has_succeeded() {
    let mut driver = reading(limited(Some(RecordOrder::Ascending)));
    driver.read(of([1, 2]));
    let close = end(&driver.read(RunInput::Fetched(Ok(Box::default()))));
    assert_eq!((close.end.clone(), close.done), (RunEnd::Succeeded, None));
}

#[test]
fn the_order_of_ids_says_nothing_about_their_details() {
    let details = Some(DetailOptions { batch_size: 9, missing_is_bad: true });
    let mut driver = reading(RunPolicy { details, ..limited(Some(RecordOrder::Ascending)) });
    driver.read(of([1, 2]));
    let close = end(&driver.read(of([3, 5])));
    assert!(matches!(close.end, RunEnd::Requeue { .. }) && close.done.is_none(), "{close:?}");
}

#[test]
fn a_task_that_fails_half_way_keeps_what_is_done_of_an_ordered_window() {
    let mut driver = reading(RunPolicy { limits: SliceLimits::default(), ..limited(Some(RecordOrder::Ascending)) });
    driver.read(of([1, 4]));
    let close = end(&driver.refuse(refusal(Level::L2)));
    assert_eq!((matches!(close.end, RunEnd::Failed { .. }), close.done), (true, Some(w(0, 4))));
    let wants = driver.on(closed(TaskStatus::Failed));
    assert!(matches!(&wants[..], [Want::Tx(Tx::RecordAdvance(_))]), "{wants:?}");
}

#[test]
fn a_page_that_is_not_committed_is_no_part_of_what_is_done() {
    let mut driver = reading(RunPolicy { limits: SliceLimits::default(), ..limited(Some(RecordOrder::Ascending)) });
    driver.read(of([1, 2]));
    driver.fetch();
    let RunInput::Fetched(Ok(mut page)) = of([3, 8]) else { unreachable!() };
    page.facts.items = 6;
    page.rejected = (0..4).map(unusable).collect();
    driver.on(RunInput::Fetched(Ok(page.clone())));
    driver.on(committed());
    driver.fetch();
    page.records = vec![record("8-1", at(8)), record("9-0", at(9))];
    page.content = [9; 16];
    let close = end(&driver.on(RunInput::Fetched(Ok(page))));
    assert!(matches!(close.end, RunEnd::Failed { .. }), "{close:?}");
    assert_eq!(close.done, Some(w(0, 8)), "the other record of second 8 is not stored");
}

fn unusable(index: u32) -> crate::record::RejectedRecord {
    let (code, reason) = (Code::ValidationError, "no id".to_owned());
    crate::record::RejectedRecord { index, key: None, code, reason, sample: String::new() }
}

#[test]
fn a_page_that_the_store_never_took_is_no_part_of_what_is_done() {
    let mut driver = reading(limited(Some(RecordOrder::Ascending)));
    driver.read(of([1, 2]));
    driver.fetch();
    driver.on(of([3, 8]));
    let close = end(&driver.on(failed(TxError::Refused("broken".into()))));
    assert_eq!((matches!(close.end, RunEnd::Failed { .. }), close.done), (true, None));
}

#[test]
fn pages_that_are_read_again_prove_no_order() {
    let limits = SliceLimits::default();
    let mut driver = reading(RunPolicy { limits, paging: offsets(), ..limited(Some(RecordOrder::Ascending)) });
    driver.read(with_total([1, 2], 8));
    driver.read(with_total([4, 5], 7));
    assert_eq!(end(&driver.refuse(refusal(Level::L2))).done, None);
}

/// The page of `records` that a fetch requests.
fn respond(records: &[Record], fetch: &PageFetch) -> FetchedPage {
    let Position::Token(token) = &fetch.position else { panic!("{fetch:?}") };
    let from: usize = token.as_ref().map_or(0, |token| token.strip_prefix("at-").unwrap().parse().unwrap());
    let to = from + fetch.page_size as usize;
    let next_token = (to < records.len()).then(|| format!("at-{to}"));
    let records: Vec<_> = records.iter().skip(from).take(fetch.page_size as usize).cloned().collect();
    let facts = PageFacts { items: records.len() as u32, next_token, ..PageFacts::default() };
    let content = content_hash(format!("{from} {}", records.len()).as_bytes());
    FetchedPage { facts, records, content, ..FetchedPage::default() }
}

fn sorted(order: RecordOrder, mut times: Vec<i64>) -> Vec<Record> {
    times.sort_unstable();
    if order == RecordOrder::Descending {
        times.reverse();
    }
    times.iter().enumerate().map(|(n, time)| record(&format!("{n:03}"), Ts::from_micros(*time))).collect()
}

proptest! {
    // covers: ING-4.4-24, ING-8.4-02
    #[test]
    fn done_and_parts_are_the_window_and_what_is_done_was_read(
        times in prop::collection::vec(0i64..1_000_000_000, 1..80),
        ties in prop::collection::vec(0i64..40, 0..40),
        descending in any::<bool>(),
        page_size in 1u32..12,
        max_requests in 1u32..10,
        step in 1u64..60_000_000,
    ) {
        let order = if descending { RecordOrder::Descending } else { RecordOrder::Ascending };
        let times = times.into_iter().chain(ties.into_iter().map(|n| n * 25_000_000)).collect();
        let (records, window) = (sorted(order, times), w(0, 1_000));
        let mut policy = limited(Some(order));
        policy.paging.page_size = page_size;
        policy.limits.max_requests = max_requests;
        policy.split.as_mut().unwrap().step = Duration::from_micros(step);
        let lease = Lease { window: Some(window), ..lease() };
        let (mut driver, wants) = Driver::prepared(lease, policy, None);
        let played = driver.play(wants, Advice::default, |fetch| respond(&records, fetch));
        let (end, read) = (&played.end, played.keys());
        let complete = |done: Window| {
            records.iter().filter(|one| done.contains(one.version.updated_at)).all(|one| read.contains(&one.key))
        };
        match &end.end {
            RunEnd::Succeeded => prop_assert_eq!(read.len(), records.len()),
            RunEnd::Split { .. } => {
                let mut all = windows(&end.end);
                all.extend(end.done);
                all.sort_unstable();
                prop_assert_eq!((all[0].from, all[all.len() - 1].to), (window.from, window.to));
                prop_assert!(all.windows(2).all(|pair| pair[0].to == pair[1].from), "{:?}", all);
                prop_assert!(end.done.is_none_or(complete), "{:?}", end.done);
            }
            RunEnd::Requeue { counted: false, .. } => prop_assert!(end.done.is_none_or(complete), "{:?}", end.done),
            other => prop_assert!(false, "{:?}", other),
        }
        prop_assert!(played.fetches.len() <= max_requests as usize);
    }
}

/// Records that leave a numbered list move others past the reader, so the part that was read is not known to be complete.
#[test]
fn numbered_list_without_seams_has_no_done_part() {
    for rule in [offsets(), pages(), paging::PagingRule::new(PagingKind::Url, 2)] {
        let policy = RunPolicy { paging: rule, ..limited(Some(RecordOrder::Ascending)) };
        let mut driver = reading(policy);
        driver.read(linked([1, 2]));
        let close = end(&driver.read(linked([3, 5])));
        assert_eq!((close.done, matches!(close.end, RunEnd::Requeue { .. })), (None, true), "{close:?}");
    }
}

/// A page with a next URL.
fn linked(secs: [i64; 2]) -> RunInput {
    let RunInput::Fetched(Ok(mut page)) = of(secs) else { unreachable!() };
    page.facts.next_url = Some(format!("http://x/{secs:?}"));
    RunInput::Fetched(Ok(page))
}
