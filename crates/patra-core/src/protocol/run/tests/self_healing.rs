//! An upstream in trouble: smaller pages, narrower windows, an open circuit.

use proptest::prelude::*;

use super::*;
use crate::gate::GateDecision::WaitUntil;
use crate::hash::content_hash;
use crate::tx::SelfHealing;

const NARROWER: fn() -> Advice = || Advice { narrower: true, ..Advice::default() };

fn open_circuit() -> Advice {
    Advice { circuit_open: true, ..Advice::default() }
}

fn halved() -> Advice {
    Advice { page_percent: 50, ..Advice::default() }
}

/// A listing of records, one a second, `size` to a page whatever is requested, or as many as requested.
fn listing(records: u64, size: Option<u32>) -> impl Fn(&PageFetch) -> FetchedPage {
    move |fetch| {
        let from = match &fetch.position {
            Position::Offset(offset) => *offset,
            Position::Page(no) => (no - 1) * u64::from(size.unwrap_or(2)),
            // A number would look like an offset, which does not keep its place.
            Position::Token(token) => token.as_ref().map_or(0, |token| token.len() as u64),
            other => panic!("{other:?}"),
        };
        let to = (from + u64::from(size.unwrap_or(fetch.page_size))).min(records);
        let numbers = from.min(to)..to;
        let made: Vec<_> = numbers.clone().map(|n| record(&format!("{n:03}"), at(n as i64))).collect();
        let next_token = (to < records).then(|| "x".repeat(to as usize));
        let facts = PageFacts { items: made.len() as u32, next_token, ..PageFacts::default() };
        FetchedPage {
            facts,
            records: made,
            content: content_hash(format!("{numbers:?}").as_bytes()),
            ..FetchedPage::default()
        }
    }
}

fn play(policy: RunPolicy, advice: fn() -> Advice, records: u64) -> Played {
    let (mut driver, wants) = Driver::prepared(lease(), policy, None);
    driver.play(wants, advice, listing(records, None))
}

// covers: ING-4.4-24, ING-4.16-02, ING-5.4-17, ING-5.5-02, ING-8.3-01, ING-8.4-02, ING-1.3-05
#[test]
fn an_ordered_window_is_cut_where_the_trouble_begins() {
    let policy = RunPolicy { order: Some(RecordOrder::Ascending), ..cuttable(tokens()) };
    let (mut driver, _) = Driver::prepared(lease(), policy, None);
    let upstream = listing(10, None);
    let respond = |fetch: &PageFetch| RunInput::Fetched(Ok(Box::new(upstream(fetch))));
    for _ in 0..2 {
        let fetch = driver.fetch();
        driver.on(respond(&fetch));
        driver.on(committed());
    }
    let fetch = driver.fetch_with(NARROWER());
    driver.on(respond(&fetch));
    let close = end(&driver.on(committed()));
    assert_eq!((windows(&close.end), close.done), (vec![w(5, 7), w(7, 10)], Some(w(0, 5))));
    assert!(close.stats.remarks.starts_with("online-reslice: the upstream is in trouble"), "{}", close.stats.remarks);
}

// covers: ING-8.4-02
#[test]
fn a_window_without_order_is_cut_as_a_whole_and_only_while_little_is_read() {
    let played = play(cuttable(offsets()), NARROWER, 10);
    assert_eq!((windows(&played.end.end), played.end.done), (vec![w(0, 5), w(5, 10)], None));
    assert_eq!(played.commits.len(), 1, "what was read is kept");

    let (mut driver, wants) = Driver::prepared(lease(), cuttable(offsets()), None);
    let mut requested = 0;
    let late = || {
        requested += 1;
        Advice { narrower: requested > 2, ..Advice::default() }
    };
    let played = driver.play(wants, late, listing(10, None));
    assert_eq!((&played.end.end, played.keys().len()), (&RunEnd::Succeeded, 10), "reading it again would cost more");
}

#[test]
fn window_that_cannot_be_split_is_read_on() {
    let narrow = Lease { window: Some(w(0, 1)), ..lease() };
    let two_phase =
        RunPolicy { details: Some(DetailOptions { batch_size: 2, missing_is_bad: true }), ..cuttable(offsets()) };
    let mut by_page = cuttable(offsets());
    by_page.split.as_mut().unwrap().by_time = false;
    let whole = RunPolicy { split: None, ..cuttable(offsets()) };
    for (lease, policy) in [(narrow, cuttable(offsets())), (lease(), two_phase), (lease(), by_page), (lease(), whole)] {
        let (mut driver, wants) = Driver::prepared(lease, policy, None);
        let played = driver.play(wants, NARROWER, listing(10, None));
        assert_eq!((&played.end.end, played.keys().len()), (&RunEnd::Succeeded, 10));
    }
}

// covers: ING-12.2-02
#[test]
fn pages_shrink_where_they_are_counted_in_records_and_the_ledger_says_so() {
    let ten = |kind| paging::PagingRule::new(kind, 10);
    let played = play((*policy(ten(PagingKind::Offset))).clone(), halved, 12);
    let requested: Vec<_> = played.fetches.iter().map(|fetch| (fetch.position.number(), fetch.page_size)).collect();
    assert_eq!(requested, [(Some(0), 5), (Some(5), 5), (Some(10), 5)], "five of five is a full page");
    assert_eq!((&played.end.end, played.keys().len()), (&RunEnd::Succeeded, 12));
    let shrunk = SelfHealing { page_size_shrink: true, ..SelfHealing::default() };
    for batch in &played.commits {
        assert_eq!((batch.page_size, batch.stats.self_healing), (5, shrunk));
    }
    let floor = || Advice { page_percent: 1, min_page_size: 4, ..Advice::default() };
    let played = play((*policy(ten(PagingKind::Offset))).clone(), floor, 12);
    assert!(played.fetches.iter().all(|fetch| fetch.page_size == 4));

    for kind in [PagingKind::Page { base: 1 }, PagingKind::Token { initial: None }] {
        let (mut driver, wants) = Driver::prepared(lease(), (*policy(ten(kind))).clone(), None);
        let played = driver.play(wants, halved, listing(25, Some(10)));
        assert!(played.fetches.iter().all(|fetch| fetch.page_size == 10), "numbers and tokens belong to a size");
        assert_eq!((played.keys().len(), played.commits[0].stats.self_healing), (25, SelfHealing::default()));
    }
    let range = Lease { params: r#"{"pages":{"from":1,"to":1}}"#.into(), ..lease() };
    let (mut driver, wants) = Driver::prepared(range, cuttable(ten(PagingKind::Offset)), None);
    let played = driver.play(wants, halved, listing(40, None));
    assert_eq!((played.fetches.len(), played.fetches[0].page_size), (1, 10), "a range counts pages");
}

// covers: ING-12.2-01, ING-12.2-02
#[test]
fn the_ledger_and_the_run_say_that_rate_and_tasks_were_lowered() {
    let slower = || Advice { rate_percent: 70, tasks_percent: 50, ..Advice::default() };
    let mut driver = Driver::tokens();
    driver.fetch_with(slower());
    let marked = SelfHealing { qps_downshift: true, concurrency_down: true, ..SelfHealing::default() };
    let wants = driver.on(page(1, Some("b")));
    let first = commit(&wants);
    assert_eq!(first.stats.self_healing, marked);
    driver.on(RunInput::Tx(Ok(Done::CommitBatch(BatchCommitted {
        batch: BatchId(1),
        stats: first.stats,
        captured: Captured::None,
        replayed: false,
    }))));
    driver.fetch();
    let wants = driver.on(page(2, None));
    assert!(commit(&wants).stats.self_healing.is_none(), "each batch reports its own measures");
    let close = end(&driver.on(committed()));
    assert_eq!((close.stats.self_healing, close.stats.rate_adjusted), (marked, true));
}

// covers: ING-12.2-04, ING-15-04
#[test]
fn open_circuit_waits_or_returns_the_task_uncounted() {
    let mut driver = Driver::tokens();
    assert!(driver.on(RunInput::Permit(WaitUntil(at(2)), open_circuit())).is_empty());
    assert!(requests_permit(&driver.wake()), "a short wait keeps the worker");
    let close = end(&driver.on(RunInput::Permit(WaitUntil(at(90)), open_circuit())));
    let RunEnd::Requeue { delay, counted, .. } = &close.end else { panic!("{close:?}") };
    assert_eq!((*delay, *counted, &close.failure), (Duration::from_secs(88), false, &None));
    assert!(close.stats.circuit_open && close.stats.self_healing.circuit_open);
    assert_eq!(close.stats.req_count, 0);
}

// covers: ING-12.2-04
#[test]
fn run_that_opened_the_circuit_uses_up_an_attempt() {
    let mut driver = Driver::tokens();
    assert!(driver.refuse(refusal(Level::L1)).is_empty());
    assert!(requests_permit(&driver.wake()));
    let until = driver.now + Duration::from_secs(60);
    let close = end(&driver.on(RunInput::Permit(WaitUntil(until), open_circuit())));
    let RunEnd::Requeue { delay, counted, error } = &close.end else { panic!("{close:?}") };
    assert_eq!((*delay, *counted, error.level), (Duration::from_secs(60), true, Level::L1));
    assert!(close.stats.circuit_open);

    // With the circuit closed only the rate has to be waited for.
    let mut driver = Driver::tokens();
    driver.refuse(refusal(Level::L1));
    driver.wake();
    let until = driver.now + Duration::from_secs(60);
    let close = end(&driver.on(RunInput::Permit(WaitUntil(until), Advice::default())));
    assert!(matches!(close.end, RunEnd::Requeue { counted: false, .. }));
    assert!(!close.stats.circuit_open);
}

#[test]
fn a_page_that_waited_for_the_circuit_says_so() {
    let mut driver = Driver::tokens();
    driver.on(RunInput::Permit(WaitUntil(at(2)), open_circuit()));
    driver.wake();
    driver.fetch();
    let batch = commit(&driver.on(page(1, None)));
    assert!(batch.stats.self_healing.circuit_open);
}

// covers: ING-15-04
#[test]
fn paused_task_is_returned_at_the_next_batch_uncounted() {
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.fetch();
    assert!(driver.on(RunInput::Stop { reason: "the work is paused" }).is_empty(), "page 1 is still being committed");
    assert!(driver.on(RunInput::Stop { reason: "the work is paused" }).is_empty(), "it may be said again and again");
    let close = end(&driver.on(committed()));
    let RunEnd::Requeue { delay, counted, error } = &close.end else { panic!("{close:?}") };
    assert_eq!((*delay, *counted, error.message.as_str()), (Duration::ZERO, false, "the work is paused"));
    assert_eq!((close.pause.clone(), close.failure.clone()), (None, None));
    finished(&driver.on(closed(TaskStatus::Queued)));
}

proptest! {
    // covers: ING-12.2-02
    #[test]
    fn any_advice_reads_every_record_once(
        records in 0u64..200,
        page_size in 1u32..40,
        min_page_size in 1u32..20,
        advice in prop::collection::vec(1u32..=100, 1..60),
        with_total in any::<bool>(),
    ) {
        let rule = paging::PagingRule::new(PagingKind::Offset, page_size);
        let (mut driver, wants) = Driver::prepared(lease(), (*policy(rule)).clone(), None);
        let mut requested = 0;
        let next = || {
            requested += 1;
            Advice { page_percent: advice[requested % advice.len()], min_page_size, ..Advice::default() }
        };
        let upstream = listing(records, None);
        let played = driver.play(wants, next, |fetch| {
            let mut page = upstream(fetch);
            page.facts.total = with_total.then_some(records);
            page
        });
        prop_assert_eq!(&played.end.end, &RunEnd::Succeeded);
        let all: Vec<_> = (0..records).map(|n| format!("{n:03}")).collect();
        prop_assert_eq!(played.keys(), all);
        let sizes = min_page_size.min(page_size)..=page_size;
        prop_assert!(played.fetches.iter().all(|fetch| sizes.contains(&fetch.page_size)));
    }
}
