//! UPDATE: ids from the store, content from the far side.

use super::*;
use crate::bounds::Segment as Ids;
use crate::record::Rejected;
use crate::tx::{Checked, IdRange, Wanted};

fn stale() -> Wanted {
    Wanted::Stale { before: at(5) }
}

fn lease_on(wanted: Wanted) -> Lease {
    let ids = Ids { wanted, range: IdRange { after: Some("a".into()), through: "z".into() } };
    let params = serde_json::json!({ "ids": ids, "params": {} }).to_string();
    Lease { operation: Operation::Update, window: None, params, ..lease() }
}

/// Details are asked for two ids at a time.
fn refreshing() -> Policy {
    Policy { details: Some(Details { batch_size: 2, missing_is_bad: true }), ..(*policy(offsets())).clone() }
}

/// A run that asks the store for its first ids.
fn asking(wanted: Wanted) -> Driver {
    let (driver, wants) = Driver::prepared(lease_on(wanted), refreshing(), None);
    assert_eq!(after(&wants), Some("a".into()));
    driver
}

/// The wants are nothing but the question for the ids behind this one.
fn after(wants: &[Want]) -> Option<String> {
    match wants {
        [Want::Wanted { after, limit: WANTED_AT_ONCE, segment, stream }] => {
            assert_eq!((segment.range.through.as_str(), stream.endpoint_name.as_str()), ("z", "e"));
            after.clone()
        }
        other => panic!("expected to ask for ids, got {other:?}"),
    }
}

fn ids(names: &[&str]) -> Got {
    Got::Wanted(Ok(names.iter().map(|id| (*id).to_owned()).collect()))
}

/// As many ids as are asked for at once.
fn many(tag: &str) -> Vec<String> {
    (0..WANTED_AT_ONCE).map(|n| format!("{tag}{n:04}")).collect()
}

fn content(names: &[String]) -> Got {
    let facts = Facts { items: names.len() as u32, ..Facts::default() };
    let records = names.iter().map(|id| record(id, at(1))).collect();
    Got::Fetched(Ok(Box::new(Page { facts, records, ..Page::default() })))
}

/// Grants the permit; the ids whose details are asked for.
fn asked(driver: &mut Driver) -> Vec<String> {
    match driver.fetch().position {
        Position::Ids { ids, at } if matches!(*at, Position::Keys { .. }) => ids,
        other => panic!("expected ids, got {other:?}"),
    }
}

/// Answers the next request with all that it asks for.
fn answer(driver: &mut Driver) -> Arc<CommitBatch> {
    let names = asked(driver);
    commit(&driver.on(content(&names)))
}

fn checked(batch: &CommitBatch) -> Vec<(&str, bool)> {
    batch.checked.iter().map(|one| (one.key.as_str(), one.failed.is_some())).collect()
}

fn keys(after: &str) -> Position {
    Position::Keys { after: Some(after.to_owned()) }
}

// covers: ING-6.3-05, ING-6.3-09, ING-8.2-03
#[test]
fn the_ids_of_the_store_are_fetched_in_groups_and_checked() {
    let mut driver = asking(stale());
    assert!(asks(&driver.on(ids(&["b", "c", "d"]))));
    let first = answer(&mut driver);
    assert_eq!(checked(&first), [("b", false), ("c", false)]);
    assert_eq!((first.records.len(), first.progress, first.marks.len()), (2, true, 0), "no marks: nothing is screened");
    assert_eq!(first.next, Some(keys("a")), "a run that dies here asks the store again");
    assert_eq!(&*first.generation, "g1");
    driver.on(committed());
    let last = answer(&mut driver);
    assert_eq!((checked(&last), last.next.clone()), (vec![("d", false)], None));
    let close = end(&driver.on(committed()));
    assert_eq!((close.end.clone(), close.stats.req_count, close.done), (RunEnd::Succeeded, 2, None));
    let wants = driver.on(closed(TaskStatus::Succeeded));
    assert!(matches!(&wants[..], [Want::Tx(Tx::RecordAdvance(_))]), "{wants:?}");
}

// covers: ING-6.3-09
#[test]
fn nothing_wanted_any_more_is_a_success_without_a_batch() {
    let mut driver = asking(Wanted::Signalled);
    let close = end(&driver.on(ids(&[])));
    assert_eq!((close.end.clone(), close.stats.req_count), (RunEnd::Succeeded, 0));
}

#[test]
fn more_ids_are_asked_for_once_those_before_are_committed() {
    let mut driver = asking(stale());
    let first = many("b");
    driver.on(Got::Wanted(Ok(first.clone())));
    for _ in 1..WANTED_AT_ONCE / 2 {
        assert_eq!(answer(&mut driver).next, Some(keys("a")));
        driver.on(committed());
    }
    let names = asked(&mut driver);
    let wants = driver.on(content(&names));
    assert_eq!(commit(&wants).next, Some(keys(&first[first.len() - 1])), "only the last group leads on");
    assert!(wants.iter().all(|want| !matches!(want, Want::Wanted { .. })), "the answer would name them again");
    assert_eq!(after(&driver.on(committed())), first.last().cloned());
    let close = end(&driver.on(ids(&[])));
    assert_eq!(close.end, RunEnd::Succeeded);
}

// covers: ING-9.4-05
#[test]
fn a_run_resumes_behind_the_ids_that_were_settled() {
    let (mut driver, wants) = Driver::prepared(lease_on(stale()), refreshing(), Some(Some(keys("m"))));
    assert_eq!(after(&wants), Some("m".into()));
    driver.on(ids(&["n"]));
    assert_eq!(asked(&mut driver), ["n"]);
    let (_, wants) = Driver::prepared(lease_on(stale()), refreshing(), Some(None));
    assert_eq!(end(&wants).end, RunEnd::Succeeded, "settled to the last");
}

#[test]
fn a_store_that_does_not_answer_is_asked_again_and_one_that_refuses_fails_the_task() {
    let mut driver = asking(stale());
    for error in [TxError::Busy, TxError::Unavailable("away".into())] {
        assert!(driver.on(Got::Wanted(Err(error))).is_empty());
        assert_eq!(after(&driver.wake()), Some("a".into()));
    }
    driver.on(ids(&["b"]));
    answer(&mut driver);

    let mut driver = asking(stale());
    let close = end(&driver.on(Got::Wanted(Err(TxError::Refused("broken".into())))));
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.code == Code::InternalError));
    assert_eq!(close.hold, None);
}

#[test]
fn only_a_reason_to_doubt_what_is_stored_replaces_an_equal_version() {
    let generation = "g1".to_owned();
    for (wanted, refresh) in
        [(stale(), false), (Wanted::Signalled, true), (Wanted::MappedOtherThan { generation }, true)]
    {
        let mut driver = asking(wanted);
        driver.on(ids(&["b"]));
        assert_eq!(answer(&mut driver).refresh, refresh);
    }
    let mut driver = Driver::tokens();
    driver.fetch();
    assert!(!commit(&driver.on(page(1, None))).refresh, "a harvest never does");
}

#[test]
fn content_that_cannot_be_had_or_used_is_told_and_nothing_is_put_aside_twice() {
    let mut driver = asking(Wanted::Signalled);
    driver.on(ids(&["b", "c", "d"]));
    asked(&mut driver);
    let unusable = Rejected {
        index: 1,
        key: Some("c".into()),
        code: Code::ValidationError,
        reason: "no date".into(),
        sample: String::new(),
    };
    let Got::Fetched(Ok(mut page)) = content(&["x".to_owned()]) else { unreachable!() };
    page.rejected = vec![unusable];
    page.facts.items = 2;
    let batch = commit(&driver.on(Got::Fetched(Ok(page))));
    assert_eq!(checked(&batch), [("b", true), ("c", true)]);
    assert_eq!(batch.checked[1], Checked { key: "c".into(), failed: Some("no date".into()), looked_at: true });
    assert_eq!(batch.rejected.len(), 1, "what is stored under b stays as it is");
    driver.on(committed());
    assert_eq!(checked(&answer(&mut driver)), [("d", false)]);
}

fn refused(status: u16) -> Got {
    let mut refusal = refusal(Level::L2);
    refusal.evidence.status = status;
    Got::Fetched(Err(Box::new(refusal)))
}

/// What becomes of an UPDATE of so many ids, when `far` says how each request is answered: none for its content.
fn play(count: usize, policy: Policy, far: impl Fn(&[String]) -> Option<Got>) -> (Vec<Arc<CommitBatch>>, Arc<EndRun>) {
    let (mut driver, _) = Driver::prepared(lease_on(stale()), policy, None);
    let names: Vec<_> = (0..count).map(|n| format!("b{n:02}")).collect();
    let mut wants = driver.on(Got::Wanted(Ok(names)));
    let mut batches = Vec::new();
    for _ in 0..500 {
        if let [Want::Tx(Tx::EndRun(close))] = &wants[..] {
            return (batches, Arc::clone(close));
        }
        let batch = wants.iter().find_map(|want| match want {
            Want::Tx(Tx::CommitBatch(batch)) => Some(Arc::clone(batch)),
            _ => None,
        });
        wants = match batch {
            Some(batch) => {
                batches.push(batch);
                driver.on(committed())
            }
            None => {
                let names = asked(&mut driver);
                driver.on(far(&names).unwrap_or_else(|| content(&names)))
            }
        };
    }
    panic!("the run goes on for ever");
}

fn all_checked(batches: &[Arc<CommitBatch>]) -> Vec<&Checked> {
    batches.iter().flat_map(|batch| &batch.checked).collect()
}

#[test]
fn records_that_have_gone_are_looked_at_and_do_not_fail_the_slice() {
    let (batches, close) = play(19, refreshing(), |_| Some(refused(404)));
    assert_eq!((&close.end, &close.hold), (&RunEnd::Succeeded, &None));
    let last = batches.last().expect("a batch");
    assert_eq!((last.next.clone(), last.checked.len(), last.rejected.len()), (None, 19, 0), "each is looked at");
    assert!(last.checked.iter().all(|one| one.failed.is_some() && one.looked_at));
    assert!(last.checked.is_sorted_by_key(|one| &one.key));

    // Of some hundred, most have gone; one is there, and that is proof enough.
    let (batches, close) = play(60, refreshing(), |names| (names != ["b58", "b59"]).then(|| refused(410)));
    assert_eq!(close.end, RunEnd::Succeeded);
    assert_eq!(all_checked(&batches).iter().filter(|one| one.looked_at).count(), 60);
}

#[test]
fn when_not_one_of_many_records_is_there_it_is_the_address_that_is_wrong() {
    let (batches, close) = play(20, refreshing(), |_| Some(refused(404)));
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.message.contains("any of 20 ids")), "{close:?}");
    assert!(all_checked(&batches).is_empty(), "nothing counts as looked at");
    assert_eq!(close.hold, None);
    // Whoever knows better says so.
    let limits = Limits { error_ratio: 1.0, ..Limits::default() };
    let (batches, close) = play(20, Policy { limits, ..refreshing() }, |_| Some(refused(404)));
    assert_eq!((&close.end, all_checked(&batches).len()), (&RunEnd::Succeeded, 20));
}

// covers: ING-6.3-09, ING-12.2-05
#[test]
fn an_update_that_is_refused_every_detail_fails_and_nothing_is_looked_at() {
    for (count, requests) in [(3, 6), (100, 30)] {
        let (batches, close) = play(count, refreshing(), |_| Some(refused(422)));
        assert!(matches!(&close.end, RunEnd::Failed { error } if error.level == Level::L2), "{close:?}");
        assert!(all_checked(&batches).is_empty(), "{count} ids");
        assert!(close.stats.req_count <= requests, "{} requests for {count} ids", close.stats.req_count);
    }
    // So few may be bad themselves: the try counts, and the records stay as old as they were.
    for count in [1, 2] {
        let (batches, close) = play(count, refreshing(), |_| Some(refused(422)));
        assert!(matches!(&close.end, RunEnd::Failed { error } if error.message.contains("are refused")), "{close:?}");
        let checked = all_checked(&batches);
        assert_eq!(checked.len(), count);
        assert!(checked.iter().all(|one| one.failed.is_some() && !one.looked_at), "{checked:?}");
        assert_eq!(batches.last().and_then(|batch| batch.next.clone()), Some(keys("a")), "to be asked for again");
    }
}

// covers: ING-6.3-09, ING-12.2-05
#[test]
fn too_many_refused_among_others_fail_an_update_and_few_do_not() {
    let bad = |names: &[String], which: &[&str]| names.iter().any(|id| which.contains(&&**id)).then(|| refused(400));
    let four = ["b00", "b01", "b17", "b29"];
    let (batches, close) = play(30, refreshing(), |names| bad(names, &four));
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.message.contains("4 of 30 ids")), "{close:?}");
    let checked = all_checked(&batches);
    let old: Vec<_> = checked.iter().filter(|one| !one.looked_at).map(|one| one.key.as_str()).collect();
    assert_eq!((checked.len(), old), (30, four.to_vec()));

    let (batches, close) = play(30, refreshing(), |names| bad(names, &["b00", "b17", "b29"]));
    assert_eq!(close.end, RunEnd::Succeeded);
    assert!(all_checked(&batches).iter().all(|one| one.looked_at), "the far side answered for each");
}

#[test]
fn an_outage_checks_nothing() {
    let mut driver = asking(Wanted::Signalled);
    driver.on(ids(&["b"]));
    let outage = || {
        let mut refusal = refusal(Level::L1);
        refusal.evidence.status = 503;
        Got::Fetched(Err(Box::new(refusal)))
    };
    for _ in 1..retry::Policy::default().max_attempts {
        asked(&mut driver);
        driver.on(outage());
        driver.wake();
    }
    asked(&mut driver);
    let close = end(&driver.on(outage()));
    assert!(matches!(close.end, RunEnd::Requeue { counted: true, .. }), "tried again later: {close:?}");
}

// covers: ING-4.16-03, ING-6.3-09
#[test]
fn a_slice_of_ids_that_used_up_its_budget_is_given_back_before_the_next_ids() {
    let limits = Limits { max_requests: 3, ..Limits::default() };
    let details = Some(Details { batch_size: WANTED_AT_ONCE / 2, missing_is_bad: true });
    let policy = Policy { limits, details, ..refreshing() };
    let read = |policy: &Policy| {
        let (mut driver, _) = Driver::prepared(lease_on(stale()), policy.clone(), None);
        for tag in ["b", "c"] {
            let names = many(tag);
            driver.on(Got::Wanted(Ok(names.clone())));
            answer(&mut driver);
            driver.on(committed());
            assert_eq!(answer(&mut driver).next, Some(keys(&names[names.len() - 1])));
            assert_eq!(after(&driver.on(committed())), names.last().cloned());
        }
        driver
    };
    let close = end(&read(&policy).on(ids(&["d"])));
    assert!(matches!(close.end, RunEnd::Requeue { counted: false, .. }), "{close:?}");
    assert_eq!(close.stats.req_count, 4);
    assert_eq!(end(&read(&policy).on(ids(&[]))).end, RunEnd::Succeeded, "there was nothing more to do");
    // Whatever it may use, a run gets somewhere.
    let limits = Limits { max_requests: 0, max_duration: Duration::ZERO, ..limits };
    let (mut driver, _) = Driver::prepared(lease_on(stale()), Policy { limits, ..policy }, None);
    assert!(asks(&driver.on(ids(&["d"]))));
}

// covers: ING-15-04
#[test]
fn a_stop_gives_the_ids_back_whatever_the_run_waits_for() {
    let mut driver = asking(stale());
    let close = end(&driver.on(Got::Stop { why: "paused" }));
    assert!(matches!(close.end, RunEnd::Requeue { counted: false, .. }));
    assert!(driver.on(ids(&["b"])).is_empty(), "an answer that comes too late");

    let mut driver = asking(stale());
    driver.on(Got::Wanted(Err(TxError::Busy)));
    end(&driver.on(Got::Stop { why: "paused" }));
    assert_eq!(driver.run.wake_at(), Ts::MAX);
}
