//! Two-phase reading: ids, then their content.

use super::*;
use crate::record::{Candidate, Rejected};

fn candidate(id: &str) -> Candidate {
    Candidate { id: id.into(), version: "1".into() }
}

/// A run whose pages name ids, two to a request.
fn reading() -> Driver {
    let mut driver = Driver::new(Options::default());
    driver.on(started(None));
    let details = Details { batch_size: 2, missing_is_bad: true };
    let policy = Policy { details: Some(details), ..(*policy(tokens())).clone() };
    driver.on(Got::Prepared(Ok(Arc::new(policy))));
    driver
}

fn ids(names: &[&str], next: Option<&str>) -> Got {
    Got::Fetched(Ok(Box::new(Page {
        facts: Facts { items: names.len() as u32, next_token: next.map(str::to_owned), ..Facts::default() },
        candidates: names.iter().map(|id| candidate(id)).collect(),
        content: [names.len() as u8; 16],
        ..Page::default()
    })))
}

fn content(names: &[&str]) -> Got {
    let record = |id: &&str| Record {
        key: (*id).to_owned(),
        version: Version { updated_at: at(1), source_version: 0 },
        fields: String::new(),
        payload: Bytes::from_static(b"{}"),
        content_hash: [0; 16],
    };
    let facts = Facts { items: names.len() as u32, ..Facts::default() };
    Got::Fetched(Ok(Box::new(Page { facts, records: names.iter().map(record).collect(), ..Page::default() })))
}

fn screened(names: &[&str]) -> Got {
    Got::Screened(Ok(names.iter().map(|id| candidate(id)).collect()))
}

/// Grants the permit; the ids that are asked for.
fn asked(driver: &mut Driver) -> Vec<String> {
    match driver.fetch().position {
        Position::Ids { ids, .. } => ids,
        other => panic!("expected ids, got {other:?}"),
    }
}

fn bad(batch: &CommitBatch) -> Vec<(&str, bool)> {
    batch.marks.iter().map(|mark| (mark.candidate.id.as_str(), mark.bad.is_some())).collect()
}

fn refused(status: u16, level: Level) -> Got {
    let mut refusal = refusal(level);
    refusal.evidence.status = status;
    Got::Fetched(Err(Box::new(refusal)))
}

// covers: ING-4.6-03, ING-4.6-04, ING-15-06, ING-11.6-01
#[test]
fn a_page_of_ids_is_screened_and_its_details_are_fetched_in_groups() {
    let mut driver = reading();
    driver.fetch();
    let wants = driver.on(ids(&["a", "b", "c", "d"], Some("n")));
    let [Want::Screen(_, asked_about)] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!(asked_about.len(), 4);

    let wants = driver.on(screened(&["a", "b", "c"]));
    let page = commit(&wants);
    assert_eq!(page.next, Some(Position::Token(None)), "a run that dies here reads the page again");
    assert_eq!((page.stats.items_count, page.stats.skipped), (1, 1), "d is fetched already");
    driver.on(committed());

    assert_eq!(asked(&mut driver), ["a", "b"]);
    let first = commit(&driver.on(content(&["a", "b"])));
    assert_eq!((first.records.len(), bad(&first)), (2, vec![("a", false), ("b", false)]));
    assert_eq!(first.next, Some(Position::Token(None)));
    driver.on(committed());

    assert_eq!(asked(&mut driver), ["c"]);
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
fn a_screening_without_an_answer_is_asked_again() {
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(&["a"], None));
    assert!(driver.on(Got::Screened(Err(TxError::Busy))).is_empty());
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
    assert_eq!(asked(&mut driver), ["a", "b"]);
    driver.on(refused(400, Level::L2));
    assert_eq!(asked(&mut driver), ["a"]);
    assert_eq!(bad(&commit(&driver.on(content(&["a"])))), [("a", false)]);
    driver.on(committed());
    assert_eq!(asked(&mut driver), ["b"]);
    let alone = commit(&driver.on(refused(400, Level::L2)));
    assert_eq!((bad(&alone), alone.rejected.len()), (vec![("b", true)], 1), "kept aside, not lost");
    driver.on(committed());
    assert_eq!(asked(&mut driver), ["c"], "the others are not affected");
    driver.on(content(&["c"]));
    let close = end(&driver.on(committed()));
    assert_eq!(close.end, RunEnd::Succeeded);
}

#[test]
fn an_id_that_breaks_the_far_side_is_found_too() {
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(&["a", "b"], None));
    driver.on(screened(&["a", "b"]));
    driver.on(committed());
    let mut refusals = 0;
    while asked(&mut driver) == ["a", "b"] {
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
fn an_id_that_the_answer_leaves_out_is_marked_and_kept_aside() {
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(&["a", "b"], None));
    driver.on(screened(&["a", "b"]));
    driver.on(committed());
    asked(&mut driver);
    let batch = commit(&driver.on(content(&["b"])));
    assert_eq!(bad(&batch), [("a", true), ("b", false)]);
    let [Rejected { key: Some(key), .. }] = &batch.rejected[..] else { panic!("{batch:?}") };
    assert_eq!((key.as_str(), batch.stats.items_count, batch.stats.failed), ("a", 2, 1));
}

#[test]
fn a_far_side_that_refuses_every_id_fails_the_task() {
    let names: Vec<_> = (0..40).map(|n| format!("{n:02}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut driver = reading();
    driver.fetch();
    driver.on(ids(&names, None));
    driver.on(screened(&names));
    driver.on(committed());
    for _ in 0..200 {
        asked(&mut driver);
        let wants = driver.on(refused(404, Level::L2));
        match &wants[..] {
            [Want::Tx(Tx::EndRun(close))] => {
                assert!(matches!(close.end, RunEnd::Failed { .. }));
                return;
            }
            [Want::Tx(Tx::CommitBatch(_)), ..] => _ = driver.on(committed()),
            _ => {}
        }
    }
    panic!("the run goes on for ever");
}
