//! Two-phase reading: ids, then their details.

use super::*;
use crate::record::{DetailCandidate, RejectedRecord};

fn candidate(id: &str) -> DetailCandidate {
    DetailCandidate { id: id.into(), version: "1".into() }
}

/// A run whose pages name ids, two to a request.
fn reading() -> Driver {
    let mut driver = Driver::new(at_once());
    driver.on(started(None));
    let details = DetailOptions { batch_size: 2, missing_is_bad: true };
    let policy = RunPolicy { details: Some(details), ..(*policy(tokens())).clone() };
    driver.on(RunInput::Prepared(Ok(Arc::new(policy))));
    driver
}

fn ids(names: &[&str], next: Option<&str>) -> RunInput {
    RunInput::Fetched(Ok(Box::new(FetchedPage {
        facts: PageFacts { items: names.len() as u32, next_token: next.map(str::to_owned), ..PageFacts::default() },
        candidates: names.iter().map(|id| candidate(id)).collect(),
        content: [names.len() as u8; 16],
        ..FetchedPage::default()
    })))
}

fn content(names: &[&str]) -> RunInput {
    let record = |id: &&str| record(id, at(1));
    let facts = PageFacts { items: names.len() as u32, ..PageFacts::default() };
    RunInput::Fetched(Ok(Box::new(FetchedPage {
        facts,
        records: names.iter().map(record).collect(),
        ..FetchedPage::default()
    })))
}

fn screened(names: &[&str]) -> RunInput {
    RunInput::Screened(Ok(names.iter().map(|id| candidate(id)).collect()))
}

/// Grants the permit; the requested ids.
fn requested_ids(driver: &mut Driver) -> Vec<String> {
    match driver.fetch().position {
        Position::Ids { ids, .. } => ids,
        other => panic!("expected ids, got {other:?}"),
    }
}

fn bad(batch: &CommitBatch) -> Vec<(&str, bool)> {
    batch.marks.iter().map(|mark| (mark.candidate.id.as_str(), mark.bad.is_some())).collect()
}

fn refused(status: u16, level: Level) -> RunInput {
    let mut refusal = refusal(level);
    refusal.evidence.status = status;
    RunInput::Fetched(Err(Box::new(refusal)))
}

// covers: ING-4.6-03, ING-4.6-04, ING-15-06, ING-11.6-01, ING-0.2-06, ING-2.4-02
#[test]
fn a_page_of_ids_is_screened_and_its_details_are_fetched_in_groups() {
    let mut driver = reading();
    driver.fetch();
    let wants = driver.on(ids(&["a", "b", "c", "d"], Some("n")));
    let [Want::Screen(_, candidates)] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!(candidates.len(), 4);

    let wants = driver.on(screened(&["a", "b", "c"]));
    let page = commit(&wants);
    assert_eq!(page.next, Some(Position::Token(None)), "a run that dies here reads the page again");
    assert_eq!((page.stats.items_count, page.stats.skipped), (1, 1), "d is fetched already");
    driver.on(committed());

    assert_eq!(requested_ids(&mut driver), ["a", "b"]);
    let first = commit(&driver.on(content(&["a", "b"])));
    assert_eq!((first.records.len(), bad(&first)), (2, vec![("a", false), ("b", false)]));
    assert_eq!(first.next, Some(Position::Token(None)));
    driver.on(committed());

    assert_eq!(requested_ids(&mut driver), ["c"]);
    let last = commit(&driver.on(content(&["c"])));
    assert_eq!(last.next, Some(token("n")), "only the last group leads on");
    driver.on(committed());
    assert_eq!(driver.fetch().position, token("n"));
    driver.on(ids(&[], None));
    assert_eq!(end(&driver.on(committed())).end, RunEnd::Succeeded);
}

#[test]
fn a_page_whose_ids_are_all_known_leads_on_without_a_request() {
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(&["a", "b"], None));
    let page = commit(&driver.on(screened(&[])));
    assert_eq!((page.next.clone(), page.stats.skipped), (None, 2));
    assert_eq!(end(&driver.on(committed())).end, RunEnd::Succeeded);
}

#[test]
fn failed_screening_is_retried() {
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(&["a"], None));
    assert!(driver.on(RunInput::Screened(Err(TxError::Busy))).is_empty());
    let wants = driver.wake();
    assert!(matches!(&wants[..], [Want::Screen(..)]), "{wants:?}");
    commit(&driver.on(screened(&["a"])));
}

// covers: ING-4.6-05
#[test]
fn a_group_that_is_refused_is_halved_until_the_bad_id_is_alone() {
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(&["a", "b", "c"], None));
    driver.on(screened(&["a", "b", "c"]));
    driver.on(committed());
    assert_eq!(requested_ids(&mut driver), ["a", "b"]);
    driver.on(refused(400, Level::L2));
    assert_eq!(requested_ids(&mut driver), ["a"]);
    assert_eq!(bad(&commit(&driver.on(content(&["a"])))), [("a", false)]);
    driver.on(committed());
    assert_eq!(requested_ids(&mut driver), ["b"]);
    let alone = commit(&driver.on(refused(400, Level::L2)));
    assert_eq!((bad(&alone), alone.progress), (vec![], false), "deferred until it is known that it is the id");
    driver.on(committed());
    assert_eq!(requested_ids(&mut driver), ["c"], "the others are not affected");
    let last = commit(&driver.on(content(&["c"])));
    assert_eq!((bad(&last), last.rejected.len()), (vec![("b", true), ("c", false)], 1), "kept aside, not lost");
    let close = end(&driver.on(committed()));
    assert_eq!(close.end, RunEnd::Succeeded);
}

/// Some upstreams return another document where they do not know the id.
#[test]
fn details_of_another_form_are_halved_too_and_one_alone_is_tried_twice() {
    let mut driver = reading();
    let strange = || {
        let fault = Fault::new(Code::ParseError, Level::L4, "items_path finds nothing");
        RunInput::Fetched(Err(Box::new(PageFailure { fault, ..refusal(Level::L4) })))
    };
    driver.fetch();
    driver.on(ids(&["a", "b"], None));
    driver.on(screened(&["a", "b"]));
    driver.on(committed());
    assert_eq!(requested_ids(&mut driver), ["a", "b"]);
    driver.on(strange());
    assert_eq!(requested_ids(&mut driver), ["a"]);
    assert!(driver.on(strange()).is_empty(), "it may be a slip");
    driver.wake();
    assert_eq!(requested_ids(&mut driver), ["a"]);
    assert_eq!(bad(&commit(&driver.on(content(&["a"])))), [("a", false)]);
    driver.on(committed());
    assert_eq!(requested_ids(&mut driver), ["b"]);
    driver.on(strange());
    driver.wake();
    assert_eq!(requested_ids(&mut driver), ["b"]);
    let last = commit(&driver.on(strange()));
    assert_eq!((bad(&last), last.rejected.len()), (vec![("b", true)], 1), "kept aside, not lost");
    assert_eq!(end(&driver.on(committed())).end, RunEnd::Succeeded);
}

#[test]
fn an_id_that_breaks_the_upstream_is_found_too() {
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(&["a", "b"], None));
    driver.on(screened(&["a", "b"]));
    driver.on(committed());
    let mut refusals = 0;
    while requested_ids(&mut driver) == ["a", "b"] {
        refusals += 1;
        let wants = driver.on(refused(500, Level::L1));
        if wants.is_empty() && driver.run.wake_at() < Ts::MAX {
            driver.wake();
        }
    }
    assert_eq!(refusals, 5, "after all its tries");
    driver.on(content(&["a"]));
}

// covers: ING-4.6-05
#[test]
fn id_missing_in_the_response_is_marked_bad_and_quarantined() {
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(&["a", "b"], None));
    driver.on(screened(&["a", "b"]));
    driver.on(committed());
    requested_ids(&mut driver);
    let batch = commit(&driver.on(content(&["b"])));
    assert_eq!(bad(&batch), [("a", true), ("b", false)]);
    let [RejectedRecord { key: Some(key), .. }] = &batch.rejected[..] else { panic!("{batch:?}") };
    assert_eq!((key.as_str(), batch.stats.items_count, batch.stats.failed), ("a", 2, 1));
}

/// A run that has requested the details of these ids.
fn wanting(names: &[&str]) -> Driver {
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(names, None));
    driver.on(screened(names));
    driver.on(committed());
    driver
}

#[test]
fn other_records_in_a_response_do_not_replace_missing_ids() {
    let mut driver = wanting(&["a", "b"]);
    requested_ids(&mut driver);
    let batch = commit(&driver.on(content(&["b", "x", "y"])));
    assert_eq!(bad(&batch), [("a", true), ("b", false)]);
    let mut driver = wanting(&["a", "b"]);
    requested_ids(&mut driver);
    let batch = commit(&driver.on(content(&["A", "B"])));
    assert_eq!(bad(&batch), [("a", false), ("b", false)], "an upstream that calls them otherwise");
}

#[test]
fn an_item_that_the_filter_drops_is_not_missing() {
    let mut driver = wanting(&["a", "b"]);
    requested_ids(&mut driver);
    let RunInput::Fetched(Ok(mut page)) = content(&["b"]) else { unreachable!() };
    page.facts.items = 2;
    page.candidates = vec![candidate("a")];
    let batch = commit(&driver.on(RunInput::Fetched(Ok(page))));
    assert_eq!((bad(&batch), batch.stats.skipped), (vec![("a", false), ("b", false)], 1));
}

#[test]
fn empty_responses_do_not_make_ids_bad() {
    let mut driver = wanting(&["a", "b", "c"]);
    requested_ids(&mut driver);
    assert!(commit(&driver.on(content(&[]))).marks.is_empty());
    driver.on(committed());
    requested_ids(&mut driver);
    let close = end(&driver.on(content(&[])));
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.message.contains("any of 3 ids")), "{close:?}");
}

#[test]
fn a_refusal_that_is_not_about_the_ids_fails_the_task_at_once() {
    let mut driver = wanting(&["a", "b"]);
    requested_ids(&mut driver);
    let close = end(&driver.on(refused(403, Level::L2)));
    assert!(matches!(close.end, RunEnd::Failed { .. }));
}

#[test]
fn a_lone_id_that_is_not_there_is_bad() {
    let mut driver = wanting(&["a"]);
    requested_ids(&mut driver);
    let batch = commit(&driver.on(refused(404, Level::L2)));
    assert_eq!((bad(&batch), batch.rejected.len(), batch.next.clone()), (vec![("a", true)], 1, None));
}

/// Refuses the one requested id until its tries are used up; the wants that follow.
fn outage(driver: &mut Driver) -> Vec<Want> {
    for _ in 0..4 {
        driver.on(refused(500, Level::L1));
        driver.wake();
        requested_ids(driver);
    }
    driver.on(refused(500, Level::L1))
}

#[test]
fn an_outage_makes_no_id_bad() {
    let mut driver = wanting(&["a"]);
    requested_ids(&mut driver);
    let close = end(&outage(&mut driver));
    assert!(matches!(close.end, RunEnd::Requeue { counted: true, .. }), "the page is not left: {close:?}");

    // An outage that ends is followed by another try.
    let mut driver = wanting(&["a", "b", "c"]);
    requested_ids(&mut driver);
    driver.on(refused(400, Level::L2));
    assert_eq!(requested_ids(&mut driver), ["a"]);
    assert!(commit(&outage(&mut driver)).marks.is_empty());
    driver.on(committed());
    assert_eq!(requested_ids(&mut driver), ["b"]);
    assert_eq!(bad(&commit(&driver.on(content(&["b"])))), [("b", false)]);
    driver.on(committed());
    assert_eq!(requested_ids(&mut driver), ["c"]);
    driver.on(content(&["c"]));
    driver.on(committed());
    assert_eq!(requested_ids(&mut driver), ["a"], "once more, now that the upstream responds");
    assert_eq!(bad(&commit(&driver.on(content(&["a"])))), [("a", false)]);
}

#[test]
fn an_upstream_that_refuses_every_id_fails_the_task() {
    let names: Vec<_> = (0..40).map(|n| format!("{n:02}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(&names, None));
    driver.on(screened(&names));
    driver.on(committed());
    for _ in 0..200 {
        requested_ids(&mut driver);
        let wants = driver.on(refused(404, Level::L2));
        match &wants[..] {
            [Want::Tx(Tx::EndRun(close))] => {
                assert!(matches!(close.end, RunEnd::Failed { .. }));
                return;
            }
            [Want::Tx(Tx::CommitBatch(batch)), ..] => {
                assert!(batch.marks.is_empty(), "none of them counts as bad");
                driver.on(committed());
            }
            _ => {}
        }
    }
    panic!("the run goes on for ever");
}

/// Reads a page of forty ids of which every `nth` is refused when it is requested alone; how the run ends.
fn with_refused(nth: usize) -> (Vec<Arc<CommitBatch>>, Arc<EndRun>) {
    let names: Vec<_> = (0..40).map(|n| format!("{n:02}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let is_bad = |id: &str| id.parse::<usize>().unwrap() % nth == 3;
    let mut driver = wanting(&names);
    let mut batches = Vec::new();
    loop {
        let group = requested_ids(&mut driver);
        let names: Vec<_> = group.iter().map(String::as_str).collect();
        let refused = names.iter().any(|id| is_bad(id));
        let wants = driver.on(if refused { refused_with("no such field: ids") } else { content(&names) });
        if wants.iter().any(|want| matches!(want, Want::Tx(Tx::CommitBatch(_)))) {
            batches.push(commit(&wants));
            let wants = driver.on(committed());
            if let [Want::Tx(Tx::EndRun(close))] = &wants[..] {
                return (batches, Arc::clone(close));
            }
        }
    }
}

fn refused_with(message: &str) -> RunInput {
    let mut refusal = refusal(Level::L2);
    (refusal.evidence.status, refusal.fault.message) = (400, message.to_owned());
    RunInput::Fetched(Err(Box::new(refusal)))
}

// covers: ING-12.2-05, ING-4.16-03
#[test]
fn a_run_whose_details_are_refused_too_often_fails_and_keeps_what_came() {
    let (batches, close) = with_refused(8);
    let RunEnd::Failed { error } = &close.end else { panic!("{close:?}") };
    assert_eq!(error.level, Level::L2);
    assert!(error.message.contains("5 of 40 ids are refused (limits.error_ratio 0.1): no such field: ids"), "{error}");
    let stored: usize = batches.iter().map(|batch| batch.records.len()).sum();
    let set_aside: usize = batches.iter().map(|batch| batch.rejected.len()).sum();
    assert_eq!((stored, set_aside), (35, 5), "nothing is lost and nothing is forgotten");
    assert_eq!(batches.last().unwrap().next, Some(Position::Token(None)), "it has not come further than this page");

    let (_, close) = with_refused(10);
    assert_eq!(close.end, RunEnd::Succeeded, "a tenth is not more than a tenth");
}
