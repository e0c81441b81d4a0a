//! The normal flow of a run: pages, commits, the end, the cursor.

use super::*;
use crate::project::Library;
use crate::tx::Capture;

// covers: ING-9.3-02, ING-9.3-09, ING-5.4-10
#[test]
fn pages_are_committed_in_order_and_those_read_meanwhile_together() {
    let mut driver = Driver::tokens();
    let fetch = driver.fetch();
    assert_eq!((fetch.run, fetch.batch_no, fetch.position), (RUN, 1, Position::Token(None)));

    let wants = driver.on(page(1, Some("b")));
    let first = commit(&wants);
    assert_eq!((first.batch_no, &first.next), (1, &Some(token("b"))));
    assert!(requests_permit(&wants), "page 2 is read while page 1 is committed");

    assert_eq!(driver.fetch().position, token("b"));
    let wants = driver.on(page(2, Some("c")));
    assert!(matches!(&*wants, [Want::Permit { .. }]), "page 2 waits for page 1, page 3 is requested: {wants:?}");
    assert_eq!(driver.fetch().batch_no, 3);
    assert!(driver.on(page(3, None)).is_empty());

    let group = together(&driver.on(committed()));
    let [second, last] = &*group else { panic!("two pages, not {group:?}") };
    assert_eq!((second.batch_no, last.batch_no, &last.next), (2, 3, &None));
    assert_ne!(last.idempotent_key, first.idempotent_key);

    let close = end(&driver.on(committed_together(2)));
    assert_eq!(close.end, RunEnd::Succeeded);
    assert_eq!((close.stats.req_count, close.stats.pages_visited, close.stats.inserted), (3, 3, 6));
    assert_eq!(close.stats.observed_max, Some(at(4)));
}

#[test]
fn the_reader_stays_within_reach_of_the_ledger() {
    let mut driver = Driver::reading(Options { lookahead: 2, ..at_once() }, tokens(), None);
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.fetch();
    assert!(requests_permit(&driver.on(page(2, Some("c")))));
    driver.fetch();
    assert!(driver.on(page(3, Some("d"))).is_empty(), "three pages wait");
    assert!(requests_permit(&driver.on(committed())), "two of them are on their way");
}

#[test]
fn large_pages_are_read_one_ahead() {
    let large = |tag, next| changed(page(tag, next), |page| page.evidence.bytes = 9 << 20);
    let mut driver = Driver::tokens();
    driver.fetch();
    assert!(requests_permit(&driver.on(large(1, Some("b")))));
    driver.fetch();
    assert!(driver.on(large(2, Some("c"))).is_empty(), "page 2 waits for page 1, and page 3 is not requested");
    let wants = driver.on(committed());
    assert_eq!(commit(&wants).batch_no, 2);
    assert!(requests_permit(&wants));
}

#[test]
fn group_with_unknown_outcome_is_repeated_page_by_page() {
    let (mut driver, group) = with_group();
    assert!(driver.on(failed(TxError::Unknown("lost".into()))).is_empty());
    assert!(Arc::ptr_eq(&group[0], &commit(&driver.wake())));
    assert!(Arc::ptr_eq(&group[1], &commit(&driver.on(committed()))));
    end(&driver.on(committed()));
}

#[test]
fn group_with_fewer_results_than_pages_fails() {
    let (mut driver, _) = with_group();
    let wants = driver.on(committed_together(1));
    assert!(matches!(finished(&wants).outcome, RunOutcome::Stuck(TxError::Refused(_))), "{wants:?}");
}

// covers: ING-13.8-02
#[test]
fn a_page_waits_a_moment_for_others_to_be_committed_with() {
    let mut driver = Driver::reading(Options::default(), tokens(), None);
    driver.fetch();
    assert!(matches!(&driver.on(page(1, Some("b")))[..], [Want::Permit { .. }]), "it is read on first");
    driver.fetch();
    driver.on(page(2, Some("c")));
    let sent = driver.wake();
    assert!(matches!(&sent[..], [Want::Tx(Tx::CommitBatches(group))] if group.len() == 2), "{sent:?}");
    driver.on(committed_together(2));
    driver.fetch();
    assert_eq!(commit(&driver.on(page(3, None))).batch_no, 3, "nothing comes behind the last");
}

#[test]
fn large_or_slow_pages_are_committed_at_once() {
    let is_sent_at_once = |change: fn(&mut FetchedPage)| {
        let mut driver = Driver::reading(Options::default(), tokens(), None);
        driver.fetch();
        driver.on(changed(page(1, Some("b")), change)).iter().any(|want| matches!(want, Want::Tx(_)))
    };
    assert!(is_sent_at_once(|page| page.evidence.bytes = 4 << 20));
    assert!(is_sent_at_once(|page| page.evidence.latency_ms = 10));
    assert!(!is_sent_at_once(|page| page.evidence.latency_ms = 9));
}

#[test]
fn a_group_ends_behind_a_page_with_urls_for_the_pool() {
    let mut driver = Driver::tokens();
    for (tag, next) in [(1, Some("b")), (2, Some("c")), (3, None)] {
        driver.fetch();
        driver.on(if tag == 2 { with_urls(page(tag, next)) } else { page(tag, next) });
    }
    assert_eq!(commit(&driver.on(committed())).batch_no, 2);
    assert_eq!(commit(&driver.on(committed())).batch_no, 3);
}

#[test]
fn refused_group_loses_only_the_page_at_fault() {
    let (mut driver, _) = with_group();
    let refused = || failed(TxError::Refused("no".into()));
    assert_eq!(commit(&driver.on(refused())).batch_no, 2, "each by itself");
    assert_eq!(commit(&driver.on(committed())).batch_no, 3);
    let close = end(&driver.on(refused()));
    assert!(matches!(&close.end, RunEnd::Failed { .. }), "{:?}", close.end);
    assert_eq!(close.stats.inserted, 4, "pages 1 and 2");
}

fn with_urls(page: RunInput) -> RunInput {
    let capture = Capture { library: Library::Shared, job_type: "p/e".into(), urls: vec![("u".into(), "d".into())] };
    changed(page, |page| page.capture = Some(capture))
}

fn changed(page: RunInput, change: impl FnOnce(&mut FetchedPage)) -> RunInput {
    let RunInput::Fetched(Ok(mut page)) = page else { panic!("{page:?}") };
    change(&mut page);
    RunInput::Fetched(Ok(page))
}

/// Page 1 is committed; pages 2 and 3, the last, are in flight together.
fn with_group() -> (Driver, Arc<[Arc<CommitBatch>]>) {
    let mut driver = Driver::tokens();
    for (tag, next) in [(1, Some("b")), (2, Some("c")), (3, None)] {
        driver.fetch();
        driver.on(page(tag, next));
    }
    let group = together(&driver.on(committed()));
    (driver, group)
}

// covers: ING-9.4-05
#[test]
fn a_run_resumes_behind_the_last_batch_of_the_one_before() {
    let mut driver = Driver::reading(at_once(), tokens(), Some(Some(token("m"))));
    let fetch = driver.fetch();
    assert_eq!((fetch.batch_no, fetch.position), (1, token("m")));
}

#[test]
fn a_slice_that_was_read_to_its_end_is_closed_without_a_request() {
    let mut driver = Driver::new(at_once());
    driver.on(started(Some(None)));
    let close = end(&driver.on(RunInput::Prepared(Ok(policy(tokens())))));
    assert_eq!((close.end.clone(), close.stats.req_count), (RunEnd::Succeeded, 0));
}

// covers: ING-12.3-02
#[test]
fn commit_with_unknown_outcome_is_repeated_with_the_same_batch() {
    let mut driver = Driver::tokens();
    driver.fetch();
    let first = commit(&driver.on(page(1, None)));
    for error in [TxError::Unknown("lost".into()), TxError::Busy, TxError::Unavailable("away".into())] {
        assert!(driver.on(failed(error)).is_empty());
        assert!(Arc::ptr_eq(&first, &commit(&driver.wake())));
    }
    end(&driver.on(committed()));
}

// covers: ING-11.9-03
#[test]
fn a_fenced_write_stops_everything() {
    let mut driver = Driver::tokens();
    driver.fetch();
    commit(&driver.on(page(1, Some("b"))));
    driver.fetch();
    assert_eq!(finished(&driver.on(failed(TxError::Fenced))).outcome, RunOutcome::Lost);
    assert!(driver.run.is_over() && driver.run.wake_at() == Ts::MAX);
    assert!(driver.on(page(2, Some("c"))).is_empty());
    assert!(driver.on(committed()).is_empty());
    assert!(driver.on(RunInput::Stop { reason: "shutting down" }).is_empty());
}

#[test]
fn a_lease_that_is_lost_while_fetching_ends_the_run() {
    let mut driver = Driver::tokens();
    driver.fetch();
    assert_eq!(finished(&driver.on(RunInput::Lost)).outcome, RunOutcome::Lost);
    assert!(driver.on(page(1, None)).is_empty());
}

/// The executor renews until the run has ended, so a renewal may find that the end has ended the lease.
#[test]
fn a_lease_that_ended_with_the_run_does_not_stop_the_cursor() {
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, None));
    end(&driver.on(committed()));
    assert!(driver.on(RunInput::Lost).is_empty(), "the end is with the store");
    assert!(matches!(driver.on(closed(TaskStatus::Succeeded))[..], [Want::Tx(Tx::RecordAdvance(_))]));
    assert!(driver.on(RunInput::Lost).is_empty());
    assert!(driver.on(failed(TxError::Busy)).is_empty());
    assert!(matches!(driver.wake()[..], [Want::Tx(Tx::RecordAdvance(_))]));
}

#[test]
fn end_with_unknown_outcome_is_not_repeated_without_a_lease() {
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, None));
    end(&driver.on(committed()));
    assert!(driver.on(RunInput::Lost).is_empty());
    assert_eq!(finished(&driver.on(failed(TxError::Unknown("lost".into())))).outcome, RunOutcome::Lost);
}

#[test]
fn stop_finishes_the_commit_in_flight_and_returns_the_task() {
    let mut driver = Driver::tokens();
    driver.fetch();
    commit(&driver.on(page(1, Some("b"))));
    driver.fetch();
    assert!(driver.on(RunInput::Stop { reason: "shutting down" }).is_empty());
    assert!(driver.on(page(2, Some("c"))).is_empty(), "a page that comes too late is dropped");
    let close = end(&driver.on(committed()));
    let RunEnd::Requeue { delay, counted, .. } = close.end else { panic!("{close:?}") };
    assert_eq!((delay, counted, close.stats.pages_visited), (Duration::ZERO, false, 1));
}

#[test]
fn stop_before_the_first_page_returns_the_task() {
    let mut driver = Driver::new(at_once());
    assert!(driver.on(RunInput::Stop { reason: "shutting down" }).is_empty());
    driver.on(started(None));
    let close = end(&driver.on(RunInput::Prepared(Ok(policy(tokens())))));
    assert!(matches!(close.end, RunEnd::Requeue { counted: false, .. }));
}

// covers: ING-15-01
#[test]
fn a_token_that_leads_in_a_circle_fails_the_task() {
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.on(committed());
    driver.fetch();
    let close = end(&driver.on(page(1, Some("b"))));
    assert!(matches!(close.end, RunEnd::Failed { .. }) && close.failure.is_some());
}

// covers: ING-15-01
#[test]
fn a_last_page_that_is_served_for_every_number_is_the_end() {
    let mut driver = Driver::reading(at_once(), pages(), None);
    driver.fetch();
    driver.on(page(1, None));
    driver.on(committed());
    driver.fetch();
    commit(&driver.on(page(1, None)));
    assert_eq!(end(&driver.on(committed())).end, RunEnd::Succeeded);
}

#[test]
fn a_cap_on_pages_leaves_the_task_partial() {
    let mut driver = Driver::reading(at_once(), paging::PagingRule { max_page: Some(2), ..tokens() }, None);
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.on(committed());
    driver.fetch();
    let last = commit(&driver.on(page(2, Some("c"))));
    assert_eq!(last.next, Some(token("c")));
    let close = end(&driver.on(committed()));
    assert!(matches!(&close.end, RunEnd::Partial { error } if error.code == Code::PartialFail));
}

#[test]
fn a_page_that_the_store_never_takes_fails_the_task_and_leaves_no_timer_behind() {
    let mut driver = Driver::tokens();
    driver.fetch();
    commit(&driver.on(page(1, Some("b"))));
    assert!(driver.refuse(refusal(Level::L1)).is_empty(), "page 2 is to be tried again later");
    let close = end(&driver.on(failed(TxError::Refused("broken".into()))));
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.level == Level::L4));
    assert_eq!(driver.run.wake_at(), Ts::MAX);
    assert!(driver.on(page(2, None)).is_empty());
}

/// A run of one page up to its closing.
fn closing() -> Driver {
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, None));
    end(&driver.on(committed()));
    driver
}

// covers: ING-10.3-01, ING-11.7-01, ING-13.2-01
#[test]
fn the_cursor_moves_after_the_task_has_succeeded() {
    let mut driver = closing();
    let wants = driver.on(closed(TaskStatus::Succeeded));
    let [Want::Tx(Tx::RecordAdvance(record))] = &wants[..] else { panic!("{wants:?}") };
    let cause = AdvanceCause { task: TaskId(3), run: RUN, batch_no: 1, late: 0 };
    assert_eq!((record.cursor, record.cause), (CursorId(5), Some(cause)));
    assert_eq!(record.observed_max, Some(at(2)));
    let wants = driver.on(advance(Some(5), Some(10)));
    assert!(matches!(&wants[..], [Want::Tx(Tx::AdvanceCursor(op))] if op.to == mark(10) && op.version == 4));
    let ended = finished(&driver.on(RunInput::Tx(Ok(Done::AdvanceCursor(CursorMoved { moved: true })))));
    assert_eq!((ended.outcome, ended.cursor), (RunOutcome::Closed(TaskStatus::Succeeded, None), Some(mark(10))));
}

#[test]
fn a_cursor_that_cannot_be_moved_now_does_not_undo_the_success() {
    for error in [TxError::Busy, TxError::Unknown("lost".into()), TxError::Refused("broken".into())] {
        let mut driver = closing();
        driver.on(closed(TaskStatus::Succeeded));
        let transient = error.is_transient();
        for _ in 0..if transient { MAX_ADVANCE_RETRIES } else { 0 } {
            assert!(driver.on(failed(error.clone())).is_empty());
            assert!(matches!(driver.wake()[..], [Want::Tx(Tx::RecordAdvance(_))]));
        }
        let ended = finished(&driver.on(failed(error)));
        assert_eq!((ended.outcome, ended.cursor), (RunOutcome::Closed(TaskStatus::Succeeded, None), None));
    }
}

#[test]
fn a_task_that_did_not_succeed_leaves_the_cursor_alone() {
    let mut driver = closing();
    finished(&driver.on(closed(TaskStatus::Queued)));
}

#[test]
fn a_cancelled_plan_makes_no_run_and_a_spec_that_does_not_load_fails_the_task() {
    let mut driver = Driver::new(at_once());
    let wants = driver.on(RunInput::Tx(Ok(Done::StartRun(RunStarted::Cancelled))));
    assert_eq!(finished(&wants).outcome, RunOutcome::Cancelled);

    let mut driver = Driver::new(at_once());
    driver.on(started(None));
    let fault = Fault::new(Code::ConfigError, Level::L4, "no such snapshot");
    assert!(matches!(end(&driver.on(RunInput::Prepared(Err(fault)))).end, RunEnd::Failed { .. }));
}

#[test]
fn a_store_that_refuses_to_open_or_close_the_run_leaves_it_to_the_sweep() {
    let mut driver = Driver::new(at_once());
    let ended = finished(&driver.on(failed(TxError::Refused("broken".into()))));
    assert!(matches!(ended.outcome, RunOutcome::Stuck(TxError::Refused(_))));
    let mut driver = closing();
    let ended = finished(&driver.on(failed(TxError::Conflict)));
    assert!(matches!(ended.outcome, RunOutcome::Stuck(TxError::Conflict)));
}
