//! UPDATE: ids from the store, details from the upstream.

use super::*;
use crate::bounds::IdSegment as Ids;
use crate::record::RejectedRecord;
use crate::tx::{CheckedRecord, IdRange, RefreshCriteria};

fn stale() -> RefreshCriteria {
    RefreshCriteria::Stale { before: at(5) }
}

fn lease_on(criteria: RefreshCriteria) -> Lease {
    let ids = Ids { criteria, range: IdRange { after: Some("a".into()), through: "z".into() } };
    let params = serde_json::json!({ "ids": ids, "params": {} }).to_string();
    Lease { operation: Operation::Update, window: None, params, ..lease() }
}

/// Details are requested two ids at a time.
fn refreshing() -> RunPolicy {
    RunPolicy { details: Some(DetailOptions { batch_size: 2, missing_is_bad: true }), ..(*policy(offsets())).clone() }
}

/// A run that reads its first ids from the store.
fn reading_ids(criteria: RefreshCriteria) -> Driver {
    let (driver, wants) = Driver::prepared(lease_on(criteria), refreshing(), None);
    assert_eq!(after(&wants), Some("a".into()));
    driver
}

/// The wants are exactly a read of the ids behind this one.
fn after(wants: &[Want]) -> Option<String> {
    match wants {
        [Want::Wanted { after, limit: IDS_PER_READ, segment, stream }] => {
            assert_eq!((segment.range.through.as_str(), stream.endpoint_name.as_str()), ("z", "e"));
            after.clone()
        }
        other => panic!("expected to read ids, got {other:?}"),
    }
}

fn ids(names: &[&str]) -> RunInput {
    RunInput::Wanted(Ok(names.iter().map(|id| (*id).to_owned()).collect()))
}

/// As many ids as are read at a time.
fn many(tag: &str) -> Vec<String> {
    (0..IDS_PER_READ).map(|n| format!("{tag}{n:04}")).collect()
}

fn content(names: &[String]) -> RunInput {
    let facts = PageFacts { items: names.len() as u32, ..PageFacts::default() };
    let records = names.iter().map(|id| record(id, at(1))).collect();
    RunInput::Fetched(Ok(Box::new(FetchedPage { facts, records, ..FetchedPage::default() })))
}

/// Grants the permit; the ids whose details are requested.
fn requested_ids(driver: &mut Driver) -> Vec<String> {
    match driver.fetch().position {
        Position::Ids { ids, at } if matches!(*at, Position::Keys { .. }) => ids,
        other => panic!("expected ids, got {other:?}"),
    }
}

/// Returns all requested details.
fn respond(driver: &mut Driver) -> Arc<CommitBatch> {
    let names = requested_ids(driver);
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
    let mut driver = reading_ids(stale());
    assert!(requests_permit(&driver.on(ids(&["b", "c", "d"]))));
    let first = respond(&mut driver);
    assert_eq!(checked(&first), [("b", false), ("c", false)]);
    assert_eq!((first.records.len(), first.progress, first.marks.len()), (2, true, 0), "no marks: nothing is screened");
    assert_eq!(first.next, Some(keys("a")), "a run that dies here reads the ids again");
    assert_eq!(&*first.generation, "g1");
    driver.on(committed());
    let last = respond(&mut driver);
    assert_eq!((checked(&last), last.next.clone()), (vec![("d", false)], None));
    let close = end(&driver.on(committed()));
    assert_eq!((close.end.clone(), close.stats.req_count, close.done), (RunEnd::Succeeded, 2, None));
    let wants = driver.on(closed(TaskStatus::Succeeded));
    assert!(matches!(&wants[..], [Want::Tx(Tx::RecordAdvance(_))]), "{wants:?}");
}

// covers: ING-6.3-09
#[test]
fn update_without_ids_succeeds_without_a_batch() {
    let mut driver = reading_ids(RefreshCriteria::Signalled);
    let close = end(&driver.on(ids(&[])));
    assert_eq!((close.end.clone(), close.stats.req_count), (RunEnd::Succeeded, 0));
}

#[test]
fn next_ids_are_read_after_the_previous_ones_are_committed() {
    let mut driver = reading_ids(stale());
    let first = many("b");
    driver.on(RunInput::Wanted(Ok(first.clone())));
    for _ in 1..IDS_PER_READ / 2 {
        assert_eq!(respond(&mut driver).next, Some(keys("a")));
        driver.on(committed());
    }
    let names = requested_ids(&mut driver);
    let wants = driver.on(content(&names));
    assert_eq!(commit(&wants).next, Some(keys(&first[first.len() - 1])), "only the last group leads on");
    assert!(wants.iter().all(|want| !matches!(want, Want::Wanted { .. })), "the next read would name them again");
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
    assert_eq!(requested_ids(&mut driver), ["n"]);
    let (_, wants) = Driver::prepared(lease_on(stale()), refreshing(), Some(None));
    assert_eq!(end(&wants).end, RunEnd::Succeeded, "settled to the last");
}

#[test]
fn failed_read_of_ids_is_retried_and_a_refused_one_fails_the_task() {
    let mut driver = reading_ids(stale());
    for error in [TxError::Busy, TxError::Unavailable("away".into())] {
        assert!(driver.on(RunInput::Wanted(Err(error))).is_empty());
        assert_eq!(after(&driver.wake()), Some("a".into()));
    }
    driver.on(ids(&["b"]));
    respond(&mut driver);

    let mut driver = reading_ids(stale());
    let close = end(&driver.on(RunInput::Wanted(Err(TxError::Refused("broken".into())))));
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.code == Code::InternalError));
    assert_eq!(close.pause, None);
}

#[test]
fn equal_version_is_replaced_only_for_signals_or_a_new_mapping() {
    let generation = "g1".to_owned();
    for (criteria, refresh) in
        [(stale(), false), (RefreshCriteria::Signalled, true), (RefreshCriteria::MappedOtherThan { generation }, true)]
    {
        let mut driver = reading_ids(criteria);
        driver.on(ids(&["b"]));
        assert_eq!(respond(&mut driver).refresh, refresh);
    }
    let mut driver = Driver::tokens();
    driver.fetch();
    assert!(!commit(&driver.on(page(1, None))).refresh, "a harvest never does");
}

#[test]
fn unavailable_details_are_reported_and_not_quarantined_twice() {
    let mut driver = reading_ids(RefreshCriteria::Signalled);
    driver.on(ids(&["b", "c", "d"]));
    requested_ids(&mut driver);
    let unusable = RejectedRecord {
        index: 1,
        key: Some("c".into()),
        code: Code::ValidationError,
        reason: "no date".into(),
        sample: String::new(),
    };
    let RunInput::Fetched(Ok(mut page)) = content(&["x".to_owned()]) else { unreachable!() };
    page.rejected = vec![unusable];
    page.facts.items = 2;
    let batch = commit(&driver.on(RunInput::Fetched(Ok(page))));
    assert_eq!(checked(&batch), [("b", true), ("c", true)]);
    assert_eq!(batch.checked[1], CheckedRecord { key: "c".into(), failed: Some("no date".into()), looked_at: true });
    assert_eq!(batch.rejected.len(), 1, "the stored record b stays as it is");
    driver.on(committed());
    assert_eq!(checked(&respond(&mut driver)), [("d", false)]);
}

fn refused(status: u16) -> RunInput {
    let mut refusal = refusal(Level::L2);
    refusal.evidence.status = status;
    RunInput::Fetched(Err(Box::new(refusal)))
}

/// The result of an UPDATE of this many ids, when `upstream` decides on the response to each request: `None` for the
/// details.
fn play(
    count: usize,
    policy: RunPolicy,
    upstream: impl Fn(&[String]) -> Option<RunInput>,
) -> (Vec<Arc<CommitBatch>>, Arc<EndRun>) {
    let (mut driver, _) = Driver::prepared(lease_on(stale()), policy, None);
    let names: Vec<_> = (0..count).map(|n| format!("b{n:02}")).collect();
    let mut wants = driver.on(RunInput::Wanted(Ok(names)));
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
                let names = requested_ids(&mut driver);
                driver.on(upstream(&names).unwrap_or_else(|| content(&names)))
            }
        };
    }
    panic!("the run goes on for ever");
}

fn all_checked(batches: &[Arc<CommitBatch>]) -> Vec<&CheckedRecord> {
    batches.iter().flat_map(|batch| &batch.checked).collect()
}

#[test]
fn deleted_records_are_checked_and_do_not_fail_the_slice() {
    let (batches, close) = play(19, refreshing(), |_| Some(refused(404)));
    assert_eq!((&close.end, &close.pause), (&RunEnd::Succeeded, &None));
    let last = batches.last().expect("a batch");
    assert_eq!((last.next.clone(), last.checked.len(), last.rejected.len()), (None, 19, 0), "each is looked at");
    assert!(last.checked.iter().all(|one| one.failed.is_some() && one.looked_at));
    assert!(last.checked.is_sorted_by_key(|one| &one.key));

    // Most of a hundred ids are gone; one exists, which is proof enough.
    let (batches, close) = play(60, refreshing(), |names| (names != ["b58", "b59"]).then(|| refused(410)));
    assert_eq!(close.end, RunEnd::Succeeded);
    assert_eq!(all_checked(&batches).iter().filter(|one| one.looked_at).count(), 60);
}

#[test]
fn update_that_finds_none_of_many_records_fails() {
    let (batches, close) = play(20, refreshing(), |_| Some(refused(404)));
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.message.contains("any of 20 ids")), "{close:?}");
    assert!(all_checked(&batches).is_empty(), "nothing counts as looked at");
    assert_eq!(close.pause, None);
    // The limit can be raised.
    let limits = SliceLimits { error_ratio: 1.0, ..SliceLimits::default() };
    let (batches, close) = play(20, RunPolicy { limits, ..refreshing() }, |_| Some(refused(404)));
    assert_eq!((&close.end, all_checked(&batches).len()), (&RunEnd::Succeeded, 20));
}

// covers: ING-6.3-09, ING-12.2-05
#[test]
fn update_refused_for_every_id_fails_and_checks_nothing() {
    for (count, requests) in [(3, 6), (100, 30)] {
        let (batches, close) = play(count, refreshing(), |_| Some(refused(422)));
        assert!(matches!(&close.end, RunEnd::Failed { error } if error.level == Level::L2), "{close:?}");
        assert!(all_checked(&batches).is_empty(), "{count} ids");
        assert!(close.stats.req_count <= requests, "{} requests for {count} ids", close.stats.req_count);
    }
    // So few may be bad themselves: the try counts, and the records keep their age.
    for count in [1, 2] {
        let (batches, close) = play(count, refreshing(), |_| Some(refused(422)));
        assert!(matches!(&close.end, RunEnd::Failed { error } if error.message.contains("are refused")), "{close:?}");
        let checked = all_checked(&batches);
        assert_eq!(checked.len(), count);
        assert!(checked.iter().all(|one| one.failed.is_some() && !one.looked_at), "{checked:?}");
        assert_eq!(batches.last().and_then(|batch| batch.next.clone()), Some(keys("a")), "to be requested again");
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
    assert!(all_checked(&batches).iter().all(|one| one.looked_at), "the upstream responded for each");
}

#[test]
fn an_outage_checks_nothing() {
    let mut driver = reading_ids(RefreshCriteria::Signalled);
    driver.on(ids(&["b"]));
    let outage = || {
        let mut refusal = refusal(Level::L1);
        refusal.evidence.status = 503;
        RunInput::Fetched(Err(Box::new(refusal)))
    };
    for _ in 1..retry::RetryPolicy::default().max_attempts {
        requested_ids(&mut driver);
        driver.on(outage());
        driver.wake();
    }
    requested_ids(&mut driver);
    let close = end(&driver.on(outage()));
    assert!(matches!(close.end, RunEnd::Requeue { counted: true, .. }), "tried again later: {close:?}");
}

// covers: ING-4.16-03, ING-6.3-09
#[test]
fn id_slice_over_budget_is_returned_before_the_next_ids() {
    let limits = SliceLimits { max_requests: 3, ..SliceLimits::default() };
    let details = Some(DetailOptions { batch_size: IDS_PER_READ / 2, missing_is_bad: true });
    let policy = RunPolicy { limits, details, ..refreshing() };
    let read = |policy: &RunPolicy| {
        let (mut driver, _) = Driver::prepared(lease_on(stale()), policy.clone(), None);
        for tag in ["b", "c"] {
            let names = many(tag);
            driver.on(RunInput::Wanted(Ok(names.clone())));
            respond(&mut driver);
            driver.on(committed());
            assert_eq!(respond(&mut driver).next, Some(keys(&names[names.len() - 1])));
            assert_eq!(after(&driver.on(committed())), names.last().cloned());
        }
        driver
    };
    let close = end(&read(&policy).on(ids(&["d"])));
    assert!(matches!(close.end, RunEnd::Requeue { counted: false, .. }), "{close:?}");
    assert_eq!(close.stats.req_count, 4);
    assert_eq!(end(&read(&policy).on(ids(&[]))).end, RunEnd::Succeeded, "there was nothing more to do");
    // Whatever its budget, a run makes progress.
    let limits = SliceLimits { max_requests: 0, max_duration: Duration::ZERO, ..limits };
    let (mut driver, _) = Driver::prepared(lease_on(stale()), RunPolicy { limits, ..policy }, None);
    assert!(requests_permit(&driver.on(ids(&["d"]))));
}

// covers: ING-15-04
#[test]
fn stop_returns_the_ids_whatever_the_run_waits_for() {
    let mut driver = reading_ids(stale());
    let close = end(&driver.on(RunInput::Stop { reason: "paused" }));
    assert!(matches!(close.end, RunEnd::Requeue { counted: false, .. }));
    assert!(driver.on(ids(&["b"])).is_empty(), "a response that comes too late");

    let mut driver = reading_ids(stale());
    driver.on(RunInput::Wanted(Err(TxError::Busy)));
    end(&driver.on(RunInput::Stop { reason: "paused" }));
    assert_eq!(driver.run.wake_at(), Ts::MAX);
}
