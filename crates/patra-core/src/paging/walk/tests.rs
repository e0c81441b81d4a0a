use super::*;
use crate::paging::{PagingKind, Verification};

#[test]
fn tokens_beyond_what_is_remembered_may_all_have_been_read() {
    let mut walk = PageWalk::new(true);
    walk.remember("a");
    assert!(walk.may_have_read("a") && !walk.may_have_read("b"));
    for number in 0..MAX_TOKENS {
        walk.remember(&number.to_string());
    }
    assert!(walk.may_have_read("b") && !walk.has_read("b"));
}

/// Pages of ids at tokens that are always new, each saying that there is more.
fn steps(rule: &PagingRule, pages: &[&[u8]]) -> Vec<PageStep> {
    let (mut walk, mut steps) = (PageWalk::new(true), Vec::new());
    for (at, ids) in pages.iter().enumerate() {
        let facts = PageFacts {
            items: ids.len() as u32,
            has_more: Some(true),
            next_token: Some(format!("t{at}")),
            ids: ids.iter().map(|id| [*id; 16]).collect(),
            ..PageFacts::default()
        };
        let here = Position::Token(at.checked_sub(1).map(|before| format!("t{before}")));
        // Whatever the ids, no two pages have the same content.
        steps.push(walk.after(rule, &here, &facts, [at as u8 + 100; 16], &[]));
    }
    steps
}

// covers: TWEET-25, TWEET-170
#[test]
fn a_page_without_a_new_id_is_the_end_where_that_is_declared_and_nowhere_else() {
    let plain = PagingRule::new(PagingKind::Token { initial: None }, 2);
    let tweets = PagingRule { repeat_ends: true, ..plain.clone() };
    let pages: &[&[u8]] = &[&[1, 2], &[2, 3], &[3, 1]];
    let next = |token: &str| PageStep::Next { next: Position::Token(Some(token.into())), perhaps: false };
    assert_eq!(steps(&tweets, pages), [next("t0"), next("t1"), PageStep::End(EndReason::Repeated)]);
    assert_eq!(steps(&plain, pages), [next("t0"), next("t1"), next("t2")]);
}

// covers: TWEET-25
#[test]
fn the_same_page_again_is_the_end_where_a_repetition_is() {
    let rule = PagingRule { repeat_ends: true, ..PagingRule::new(PagingKind::Token { initial: None }, 2) };
    let mut walk = PageWalk::new(true);
    let facts = PageFacts { items: 2, has_more: Some(true), next_token: Some("b".into()), ..PageFacts::default() };
    walk.after(&rule, &Position::Token(None), &facts, [1; 16], &[]);
    let again = walk.after(&rule, &Position::Token(Some("b".into())), &facts, [1; 16], &[]);
    assert_eq!(again, PageStep::End(EndReason::Repeated));
}

/// A server that ignores the number of the page, and puts a counter into each.
#[test]
fn requests_without_new_records_end_numbered_paging_too_also_over_many_runs() {
    for pages_of_a_run in [1, 7, 1_000] {
        let rule = PagingRule { max_idle_requests: 20, ..PagingRule::new(PagingKind::Page { base: 1 }, 2) };
        let (mut walk, mut page) = (PageWalk::new(true), 1_u64);
        let fault = loop {
            let facts =
                PageFacts { items: 2, has_more: Some(true), ids: vec![[1; 16], [2; 16]], ..PageFacts::default() };
            let content = crate::hash::content_hash(&page.to_be_bytes());
            match walk.after(&rule, &Position::Page(page), &facts, content, &[]) {
                PageStep::Next { .. } => page += 1,
                PageStep::Broken(fault) => break fault,
                other => panic!("{other:?}"),
            }
            assert!(page < 100, "{pages_of_a_run} pages a run: it does not end");
            if page.is_multiple_of(pages_of_a_run) {
                walk = PageWalk::resumed(&Position::Page(page), None, walk.progress().as_ref());
            }
        };
        assert!(fault.message.contains("max_requests_without_new_records"), "{}", fault.message);
    }
}

#[test]
fn only_a_total_shows_that_a_response_without_a_page_size_is_whole() {
    let rule = PagingRule { may_omit: true, ..PagingRule::new(PagingKind::Time, 0) };
    let read = |rule: &PagingRule, items, total| {
        let mut walk = PageWalk::new(true);
        walk.after(rule, &Position::Time, &PageFacts { items, total, ..PageFacts::default() }, [1; 16], &[]);
        walk.verification(rule)
    };
    assert_eq!(read(&rule, 3, None), Verification::Unverified);
    assert_eq!(read(&rule, 3, Some(3)), Verification::Single);
    assert_eq!(read(&rule, 0, None), Verification::Single);
    assert_eq!(read(&PagingRule::new(PagingKind::Time, 10), 3, None), Verification::Single);
}

#[test]
fn only_the_first_page_of_the_list_keeps_its_place_without_a_proof() {
    let rule = PagingRule::new(PagingKind::Page { base: 0 }, 2);
    let facts = PageFacts { items: 2, ids: vec![[1; 16], [2; 16]], ..PageFacts::default() };
    let mut first = PageWalk::new(true);
    first.after(&rule, &Position::Page(0), &facts, [1; 16], &[]);
    assert!(first.keeps_its_place(&rule));
    // What was on the next page may have moved to this one before the run went on.
    let mut resumed = PageWalk::resumed(&Position::Page(1), None, first.progress().as_ref());
    let facts = PageFacts { items: 2, ids: vec![[3; 16], [4; 16]], ..PageFacts::default() };
    resumed.after(&rule, &Position::Page(1), &facts, [2; 16], &[]);
    assert!(!resumed.keeps_its_place(&rule));
}
