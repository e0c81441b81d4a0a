//! Where a slice ends, and slices that hold too much.

use super::*;

/// A run over `rule` whose window, ten seconds wide, can be split at whole seconds.
fn reading(rule: paging::PagingRule) -> Driver {
    Driver::prepared(lease(), cuttable(rule), None).0
}

fn with_total(tag: u8, total: Option<u64>) -> RunInput {
    let RunInput::Fetched(Ok(mut page)) = page(tag, None) else { unreachable!() };
    page.facts.total = total;
    RunInput::Fetched(Ok(page))
}

// covers: ING-15-02, ING-4.4-24, ING-8.4-02, ING-8.4-03
#[test]
fn window_over_the_ceiling_is_split_after_its_first_page() {
    let mut driver = reading(paging::PagingRule { ceiling: Some(4), ..offsets() });
    driver.fetch();
    driver.on(with_total(1, Some(10)));
    let close = end(&driver.on(committed()));
    assert_eq!(close.stats.req_count, 1);
    let parts = windows(&close.end);
    assert_eq!(parts.len(), 4, "ten records at three a part");
    assert_eq!((parts[0].from, parts[3].to), (at(0), at(10)));
    assert!(parts.windows(2).all(|pair| pair[0].to == pair[1].from));
    let RunEnd::Split { slices, .. } = &close.end else { unreachable!() };
    let signatures: std::collections::BTreeSet<_> = slices.iter().map(|slice| &slice.signature).collect();
    assert_eq!(signatures.len(), 4);
}

// covers: ING-15-02
#[test]
fn a_window_that_turns_out_to_be_over_the_ceiling_is_cut_when_it_is_reached() {
    let mut driver = reading(paging::PagingRule { ceiling: Some(4), ..offsets() });
    driver.fetch();
    driver.on(with_total(1, None));
    driver.on(committed());
    driver.fetch();
    driver.on(with_total(2, None));
    assert_eq!(windows(&end(&driver.on(committed())).end).len(), 2);
}

// covers: ING-15-02
#[test]
fn window_that_ends_at_the_ceiling_is_whole() {
    let mut driver = reading(paging::PagingRule { ceiling: Some(4), ..offsets() });
    driver.fetch();
    driver.on(with_total(1, Some(4)));
    driver.on(committed());
    driver.fetch();
    driver.on(with_total(2, Some(4)));
    assert_eq!(end(&driver.on(committed())).end, RunEnd::Succeeded);
}

// covers: ING-15-02
#[test]
fn window_that_cannot_be_cut_is_read_to_the_ceiling_and_ends_partial() {
    let read = |total: Option<u64>, can_cut: bool| {
        let rule = paging::PagingRule { ceiling: Some(4), can_cut, ..offsets() };
        let mut driver = Driver::reading(at_once(), rule, None);
        driver.fetch();
        driver.on(with_total(1, total));
        driver.on(committed());
        driver.fetch();
        driver.on(with_total(2, total));
        end(&driver.on(committed())).end.clone()
    };
    let partial = |end: RunEnd| match end {
        RunEnd::Partial { error } => error.message,
        other => panic!("{other:?}"),
    };
    let over = partial(read(Some(5), true));
    assert!(over.contains("5 records, more than the 4 that the upstream returns"), "{over}");
    assert!(over.contains("cannot be split any further") && over.contains("accept-gap"), "{over}");
    let capped = partial(read(Some(4), true));
    assert!(capped.contains("holds 4 records") && capped.contains("there may be more"), "{capped}");
    assert!(partial(read(None, true)).contains("more records than the 4"));
    assert_eq!(read(Some(4), false), RunEnd::Succeeded, "a total that was never capped");
}

// covers: ING-4.3-05, ING-15-02
#[test]
fn window_too_large_for_one_response_is_split() {
    let mut driver = reading(paging::PagingRule::new(PagingKind::Time, 2));
    driver.fetch();
    driver.on(with_total(1, Some(7)));
    assert_eq!(windows(&end(&driver.on(committed())).end).len(), 7, "seven records, at most two in a response");
}

// covers: ING-4.3-16, ING-4.16-03
#[test]
fn the_cap_on_pages_cuts_the_window_where_the_source_reads_by_time() {
    let mut driver = reading(paging::PagingRule { max_page: Some(1), split_at_max: true, ..tokens() });
    driver.fetch();
    driver.on(page(1, Some("b")));
    assert_eq!(windows(&end(&driver.on(committed())).end).len(), 2);
}

// covers: ING-4.3-14, ING-4.5-02, ING-12.3-03
#[test]
fn tail_probe_requests_the_last_page_once_more() {
    let rule = paging::PagingRule { tail_probe: true, ..tokens() };
    let mut driver = Driver::reading(at_once(), rule.clone(), None);
    assert_eq!(driver.fetch().position, Position::Token(None));
    let wants = driver.on(page(1, None));
    assert_eq!(commit(&wants).next, Some(Position::Token(None)));
    driver.on(committed());
    assert_eq!(driver.fetch().position, Position::Token(None));
    driver.on(page(1, None));
    let close = end(&driver.on(committed()));
    assert_eq!((close.end.clone(), close.stats.req_count), (RunEnd::Succeeded, 2), "exactly one request more");

    // The upstream had lost its token: the second request continues.
    let mut driver = Driver::reading(at_once(), rule, None);
    driver.fetch();
    driver.on(page(1, None));
    driver.on(committed());
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.on(committed());
    assert_eq!(driver.fetch().position, token("b"));
}

// covers: ING-15-01
#[test]
fn a_token_that_comes_back_is_the_end_only_where_tokens_are_unique() {
    let mut driver = Driver::reading(at_once(), paging::PagingRule { unique_tokens: true, ..tokens() }, None);
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.on(committed());
    driver.fetch();
    driver.on(page(2, Some("b")));
    assert_eq!(end(&driver.on(committed())).end, RunEnd::Succeeded);

    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.on(committed());
    driver.fetch();
    let wants = driver.on(page(2, Some("b")));
    assert!(requests_permit(&wants), "an upstream that repeats its token on every page is read on");
}

#[test]
fn a_total_that_falls_between_pages_starts_the_slice_again() {
    let mut driver = Driver::reading(at_once(), offsets(), None);
    driver.fetch();
    driver.on(with_total(1, Some(6)));
    driver.on(committed());
    assert_eq!(driver.fetch().position, Position::Offset(2));
    let wants = driver.on(with_total(2, Some(5)));
    assert_eq!(commit(&wants).next, Some(Position::Offset(0)));
    driver.on(committed());
    for total in [5, 4] {
        driver.fetch();
        driver.on(with_total(3, Some(total)));
        driver.on(committed());
    }
    driver.fetch();
    driver.on(with_total(5, Some(4)));
    driver.on(committed());
    driver.fetch();
    assert_eq!(commit(&driver.on(with_total(6, Some(3)))).next, Some(Position::Offset(0)));
    let close = end(&driver.on(committed()));
    let RunEnd::Partial { error } = &close.end else { panic!("{close:?}") };
    assert!(error.message.contains("keeps changing"));
}

#[test]
fn an_estimate_may_fall() {
    let mut driver = Driver::reading(at_once(), paging::PagingRule { estimates: true, ..offsets() }, None);
    driver.fetch();
    driver.on(with_total(1, Some(600)));
    driver.on(committed());
    driver.fetch();
    assert_eq!(commit(&driver.on(with_total(2, Some(500)))).next, Some(Position::Offset(4)));
}

#[test]
fn two_pages_of_mostly_unusable_items_stop_the_source() {
    let rejected = |tag: u8| {
        let RunInput::Fetched(Ok(mut page)) = page(tag, Some(&tag.to_string())) else { unreachable!() };
        page.facts.items = 6;
        page.rejected = (0..4)
            .map(|index| crate::record::RejectedRecord {
                index,
                key: None,
                code: Code::ValidationError,
                reason: "id_path $.id finds nothing".into(),
                sample: String::new(),
            })
            .collect();
        RunInput::Fetched(Ok(page))
    };
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(rejected(1));
    driver.on(committed());
    driver.fetch();
    let close = end(&driver.on(rejected(2)));
    let RunEnd::Failed { error } = &close.end else { panic!("{close:?}") };
    assert_eq!(error.level, Level::L4);
    assert!(error.message.contains("id_path"));
}
