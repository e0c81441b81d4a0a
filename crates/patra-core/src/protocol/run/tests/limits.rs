//! Runs with a record limit.

use super::*;

const POLL: &str = r#"{"params":{"limit":"3"}}"#;

fn limited() -> paging::PagingRule {
    paging::PagingRule { limit_param: Some("limit".into()), limit_max_param: Some("limit_max".into()), ..tokens() }
}

fn polling(params: &str) -> (Driver, Vec<Want>) {
    let lease = Lease { source: Some(crate::id::SourceId(1)), window: None, params: params.into(), ..lease() };
    Driver::prepared(lease, (*policy(limited())).clone(), None)
}

fn done(inserted: u32, skipped: u32) -> RunInput {
    let stats = crate::tx::BatchStats { items_count: inserted + skipped, inserted, skipped, ..Default::default() };
    RunInput::Tx(Ok(Done::CommitBatch(BatchCommitted {
        batch: BatchId(1),
        stats,
        replayed: false,
        captured: Captured::None,
    })))
}

fn keys(batch: &CommitBatch) -> Vec<&str> {
    batch.records.iter().map(|record| record.key.as_str()).collect()
}

// covers: TWEET-24
#[test]
fn run_ends_at_the_limit_and_drops_the_rest_of_the_page() {
    let (mut driver, _) = polling(POLL);
    driver.fetch();
    assert_eq!(commit(&driver.on(page(1, Some("b")))).stats.items_count, 2);
    driver.on(committed());
    driver.fetch();
    let last = commit(&driver.on(page(5, Some("c"))));
    assert_eq!(keys(&last), ["5-5"], "the limit takes two of four");
    assert_eq!((last.stats.items_count, last.stats.skipped), (1, 0), "dropped records were not fetched");
    let close = end(&driver.on(committed()));
    assert_eq!((close.end.clone(), close.stats.req_count), (RunEnd::Succeeded, 2));
}

#[test]
fn resumed_run_continues_the_count() {
    let (mut driver, _) = polling(POLL);
    driver.fetch();
    assert_eq!(commit(&driver.on(page(1, Some("b")))).stats.taken, Some(2));

    let lease = Lease { source: Some(crate::id::SourceId(1)), window: None, params: POLL.into(), ..lease() };
    let mut driver = Driver::of(lease, at_once());
    let resume =
        ResumePoint { run: RunId(6), batch_no: 1, next: Some(token("b")), total: None, taken: Some(2), walk: None };
    driver.on(started_behind(Some(resume)));
    driver.on(RunInput::Prepared(Ok(policy(limited()))));
    driver.fetch();
    let last = commit(&driver.on(page(5, Some("c"))));
    assert_eq!((keys(&last), last.stats.taken), (vec!["5-5"], Some(3)), "one is left of three");
    assert_eq!(end(&driver.on(committed())).end, RunEnd::Succeeded);
}

#[test]
fn record_repeated_on_every_page_counts_once() {
    let (mut driver, _) = polling(POLL);
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.on(committed());
    driver.fetch();
    let RunInput::Fetched(Ok(mut again)) = page(5, Some("c")) else { unreachable!() };
    again.records.insert(0, record("1-1", at(1)));
    again.facts.items = 3;
    let last = commit(&driver.on(RunInput::Fetched(Ok(again))));
    assert_eq!((keys(&last), last.stats.items_count), (vec!["5-5"], 1));
}

// covers: TWEET-26
#[test]
fn newest_tweet_is_reported_by_a_poll_that_reached_its_end() {
    let scheduled = r#"{"params":{"limit":"2","limit_max":"4"}}"#;
    // The params, the numbers of new and known tweets, whether there is a next page, and what is reported.
    for (params, new, known, next, expected) in [
        (POLL, 2, 0, None, Some(true)),
        (r#"{"params":{}}"#, 2, 0, None, Some(true)),
        (r#"{"params":{"limit":"2"}}"#, 1, 1, Some("b"), None),
        (scheduled, 1, 1, Some("b"), Some(false)),
        (scheduled, 2, 0, None, Some(true)),
    ] {
        let lease = Lease { source: Some(crate::id::SourceId(1)), window: None, params: params.into(), ..lease() };
        let plain = (*policy(limited())).clone();
        let stream = RecordStream { kind: crate::record::TWEET.into(), ..RecordStream::clone(&plain.stream) };
        let (mut driver, _) = Driver::prepared(lease, RunPolicy { stream: Arc::new(stream), ..plain }, None);
        driver.fetch();
        let RunInput::Fetched(Ok(mut first)) = page(1, next) else { unreachable!() };
        first.records = vec![record("99", at(1)), record("1000", at(2))];
        driver.on(RunInput::Fetched(Ok(first)));
        let poll = end(&driver.on(done(new, known))).poll.clone().expect("a poll");
        let found = poll.newest.map(|newest| (newest.id, newest.complete));
        assert_eq!(found, expected.map(|complete| ("1000".to_owned(), complete)), "{params} {next:?}");
    }
}

// covers: TWEET-20
#[test]
fn a_limit_that_is_no_number_is_refused_before_any_request() {
    for (odd, why) in [("0", "from 1"), ("-1", "from 1"), ("many", "many"), ("", "from 1"), ("100001", "100000")] {
        let (_, wants) = polling(&format!(r#"{{"params":{{"limit":"{odd}"}}}}"#));
        let RunEnd::Failed { error } = &end(&wants).end else { panic!("{wants:?}") };
        assert_eq!((error.code, error.level), (Code::InvalidInput, Level::L2));
        assert!(error.message.contains("`limit`") && error.message.contains(why), "{error}");
    }
    let (mut driver, _) = polling(r#"{"params":{}}"#);
    driver.fetch();
    let wants = driver.on(page(1, Some("b")));
    assert!(requests_permit(&wants), "without a value there is no limit");
}

// covers: TWEET-93
#[test]
fn run_continues_to_the_extended_limit_while_all_is_new() {
    let params = r#"{"params":{"limit":"2","limit_max":"5"}}"#;
    let (mut driver, _) = polling(params);
    driver.fetch();
    let wants = driver.on(page(1, Some("b")));
    assert!(!requests_permit(&wants), "whether it goes on is not known before the page is stored");
    assert!(requests_permit(&driver.on(done(2, 0))));
    driver.fetch();
    driver.on(page(5, Some("c")));
    assert!(requests_permit(&driver.on(done(2, 0))));
    driver.fetch();
    let last = commit(&driver.on(page(9, Some("d"))));
    assert_eq!(keys(&last), ["9-9"], "no more than the most");
    assert_eq!(end(&driver.on(done(1, 0))).end, RunEnd::Succeeded);

    let (mut driver, _) = polling(params);
    driver.fetch();
    driver.on(page(1, Some("b")));
    let close = end(&driver.on(done(1, 1)));
    assert_eq!((close.end.clone(), close.stats.req_count), (RunEnd::Succeeded, 1), "a known record was reached");
}
