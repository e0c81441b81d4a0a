//! Lists whose end proves nothing: the slice is unverified, or PARTIAL with both numbers, but never verified.

use super::*;
use crate::hash::{content_hash, id_hash};
use crate::paging::{PagingRule, Verification, Verify};

/// A page with these rows.
fn page_of(rows: &[u32]) -> FetchedPage {
    let facts = PageFacts {
        items: rows.len() as u32,
        ids: rows.iter().map(|row| id_hash(&row.to_be_bytes())).collect(),
        ..PageFacts::default()
    };
    let records = rows.iter().map(|row| record(&row.to_string(), at(1))).collect();
    FetchedPage { facts, records, content: content_hash(format!("{rows:?}").as_bytes()), ..FetchedPage::default() }
}

/// The rows that the request is for.
fn rows_at<'a>(rows: &'a [u32], fetch: &PageFetch) -> &'a [u32] {
    let size = fetch.page_size as usize;
    let from = match &fetch.position {
        Position::Offset(offset) => *offset as usize,
        Position::Page(no) => (*no as usize - 1) * size,
        other => panic!("{other:?}"),
    };
    &rows[from.min(rows.len())..(from + size).min(rows.len())]
}

fn with(page: FetchedPage, total: Option<u64>) -> FetchedPage {
    FetchedPage { facts: PageFacts { total, ..page.facts }, ..page }
}

fn numbered(verify: Verify) -> PagingRule {
    PagingRule { verify, ..PagingRule::new(PagingKind::Page { base: 1 }, 10) }
}

fn seams() -> PagingRule {
    PagingRule { verify: Verify::Seams, ..PagingRule::new(PagingKind::Offset, 10) }
}

fn list(rows: u32) -> Vec<u32> {
    (0..rows).collect()
}

/// Reads with this rule; where the upstream has no page, it returns 404.
fn read(rule: PagingRule, mut upstream: impl FnMut(usize, &PageFetch) -> Option<FetchedPage>) -> (usize, Arc<EndRun>) {
    let (mut driver, wants) = Driver::prepared(lease(), (*policy(rule)).clone(), None);
    let (mut wants, mut requests) = (VecDeque::from(wants), 0);
    loop {
        assert!(requests < 1_000, "the reading does not end");
        let more = match wants.pop_front().expect("the run waits for nothing") {
            Want::Permit { .. } => driver.on(RunInput::Permit(Allow, Advice::default())),
            Want::Fetch(fetch) => {
                requests += 1;
                let missing = || {
                    let evidence = ExchangeEvidence { status: 404, ..ExchangeEvidence::default() };
                    Box::new(PageFailure { evidence, ..refusal(Level::L2) })
                };
                driver.on(RunInput::Fetched(upstream(requests, &fetch).map(Box::new).ok_or_else(missing)))
            }
            Want::Tx(Tx::EndRun(end)) => return (requests, end),
            Want::Tx(Tx::CommitBatches(batches)) => driver.on(committed_together(batches.len())),
            Want::Tx(_) => driver.on(committed()),
            other => panic!("{other:?}"),
        };
        wants.extend(more);
    }
}

#[track_caller]
fn assert_ends(end: &EndRun, by: Verification) {
    assert_eq!((&end.end, end.stats.verification), (&RunEnd::Succeeded, Some(by)));
    assert_eq!(end.is_unverified(), by == Verification::Unverified);
}

#[track_caller]
fn assert_partial(end: &EndRun, reason: &str) {
    let RunEnd::Partial { error } = &end.end else { panic!("{:?} as {:?}", end.end, end.stats.verification) };
    assert!(error.message.contains(reason), "{}", error.message);
}

/// A server that returns at most ten rows a page, and 404 behind the last.
fn capped(total: u64, verify: Verify) -> (usize, Arc<EndRun>) {
    let rows = list(25);
    read(PagingRule { page_size: 100, ..numbered(verify) }, |_, fetch| {
        let page = rows_at(&rows, &PageFetch { page_size: 10, ..fetch.clone() });
        (!page.is_empty()).then(|| with(page_of(page), Some(total)))
    })
}

#[test]
fn page_that_only_a_total_announced_and_that_is_missing_is_judged_like_any_end() {
    assert_partial(&capped(60, Verify::Total).1, "reports 60 records and returned 25");
    assert_ends(&capped(25, Verify::Total).1, Verification::Unverified);
    let (requests, end) = capped(25, Verify::Twice);
    assert_ends(&end, Verification::Twice);
    assert_eq!(requests, 8, "two passes of four requests");
}

#[test]
fn range_of_pages_is_not_read_twice() {
    let lease = Lease { params: r#"{"pages":{"from":0,"to":1}}"#.into(), ..lease() };
    let (mut driver, wants) = Driver::prepared(lease, (*policy(numbered(Verify::Twice))).clone(), None);
    let rows = list(40);
    let played = driver.play(wants, Advice::default, |fetch| page_of(rows_at(&rows, fetch)));
    assert_eq!(played.fetches.len(), 2);
    assert_ends(&played.end, Verification::Unverified);
}

#[test]
fn list_that_ends_at_the_ceiling_is_read_twice_too() {
    let rows = list(50);
    let rule = PagingRule { ceiling: Some(50), ..numbered(Verify::Twice) };
    let (requests, end) = read(rule, |_, fetch| Some(with(page_of(rows_at(&rows, fetch)), Some(50))));
    assert_eq!(requests, 10);
    assert_ends(&end, Verification::Twice);
}

#[test]
fn total_that_is_smaller_than_what_was_read_shows_no_end() {
    let rows = list(80);
    let lagging = |rule| read(rule, |_, fetch| Some(with(page_of(rows_at(&rows, fetch)), Some(45)))).1;
    assert_partial(&lagging(PagingRule { max_page: Some(5), ..numbered(Verify::Total) }), "max_page");
    assert_partial(&lagging(PagingRule { ceiling: Some(50), ..numbered(Verify::Total) }), "more records than the 50");
    assert_partial(&lagging(PagingRule { ceiling: Some(50), ..seams() }), "more records than the 50");
}

#[test]
fn page_that_comes_again_is_no_proof_of_the_end() {
    // The server ignores the number of the page.
    let rows = list(60);
    let (_, end) = read(numbered(Verify::Twice), |_, _| Some(page_of(&rows[..10])));
    assert_ends(&end, Verification::Unverified);
    let (_, end) = read(numbered(Verify::Twice), |_, _| Some(with(page_of(&rows[..10]), Some(60))));
    assert!(matches!(end.end, RunEnd::Failed { .. }), "{:?}", end.end);
    let rule = PagingRule { always_token: true, ..PagingRule::new(PagingKind::Token { initial: None }, 10) };
    let (_, end) = read(rule, |request, _| {
        let mut page = page_of(&rows[10 * (request.min(2) - 1)..10 * request.min(2)]);
        page.facts.next_token = Some("same".into());
        Some(page)
    });
    assert_ends(&end, Verification::Unverified);
}

#[test]
fn passes_that_agree_prove_nothing_while_the_total_changes_or_ids_repeat() {
    let rows = list(30);
    let moving = |request: usize, fetch: &PageFetch| {
        // A full last page is followed by an empty one.
        let total = 29 + request as u64 % 2;
        Some(with(page_of(rows_at(&rows, fetch)), Some(total)))
    };
    assert_ends(&read(numbered(Verify::Twice), moving).1, Verification::Unverified);
    let mut rows = list(35);
    rows[25] = 3;
    let (_, end) = read(numbered(Verify::Twice), |_, fetch| Some(page_of(rows_at(&rows, fetch))));
    assert_ends(&end, Verification::Unverified);
}

#[test]
fn token_that_is_a_place_or_comes_with_a_moving_total_proves_nothing() {
    let rows = list(35);
    let tokens = |token: fn(usize) -> String, total: fn(usize) -> Option<u64>| {
        let rule = PagingRule::new(PagingKind::Token { initial: None }, 10);
        read(rule, |request, _| {
            let mut page = with(page_of(&rows[10 * (request - 1)..(10 * request).min(35)]), total(request));
            page.facts.next_token = (request < 4).then(|| token(request));
            Some(page)
        })
        .1
    };
    let opaque = |request: usize| ["", "one", "two", "three"][request].to_owned();
    assert_ends(&tokens(opaque, |_| None), Verification::Token);
    assert_ends(&tokens(|request| format!("offset:{}", 10 * request), |_| None), Verification::Unverified);
    assert_ends(&tokens(opaque, |request| Some(36 - request as u64 / 3)), Verification::Unverified);
}

#[test]
fn stable_list_that_has_a_record_twice_is_unverified_and_not_unstable() {
    let mut rows = list(60);
    rows.insert(25, 3);
    for total in [None, Some(61)] {
        let (_, end) = read(seams(), |_, fetch| Some(with(page_of(rows_at(&rows, fetch)), total)));
        assert_ends(&end, Verification::Unverified);
        let (_, end) = read(numbered(Verify::Total), |_, fetch| Some(with(page_of(rows_at(&rows, fetch)), total)));
        assert_ends(&end, Verification::Unverified);
    }
    let (_, end) = read(numbered(Verify::Total), |_, fetch| Some(with(page_of(rows_at(&rows, fetch)), Some(70))));
    assert_partial(&end, "reports 70 records and returned 61 rows, 60 distinct");
}

#[test]
fn seam_with_a_record_that_the_page_has_twice_proves_nothing() {
    let mut rows = list(60);
    rows[7] = rows[9];
    let (_, end) = read(seams(), |_, fetch| Some(page_of(rows_at(&rows, fetch))));
    assert_ends(&end, Verification::Unverified);
}

#[test]
fn part_that_reports_the_total_of_the_whole_is_read_to_the_ceiling_before_it_is_cut() {
    let lease = Lease { params: r#"{"total":60}"#.into(), ..lease() };
    let rule = PagingRule { ceiling: Some(30), can_cut: true, ..numbered(Verify::Total) };
    let read = |rows: u32| {
        let (mut driver, wants) = Driver::prepared(lease.clone(), cuttable(rule.clone()), None);
        let rows = list(rows);
        driver.play(wants, Advice::default, |fetch| with(page_of(rows_at(&rows, fetch)), Some(60)))
    };
    let played = read(15);
    assert_eq!(played.fetches.len(), 2);
    assert_ends(&played.end, Verification::Unverified);
    let played = read(60);
    assert_eq!((played.fetches.len(), windows(&played.end.end).len()), (3, 3));
}

#[test]
fn end_that_nothing_has_judged_is_unverified() {
    let (mut driver, wants) = Driver::prepared(lease(), (*policy(tokens())).clone(), Some(None));
    let played = driver.play(wants, Advice::default, |_| panic!("everything is read"));
    assert_ends(&played.end, Verification::Unverified);
}
