//! The upstream or the gate refuses: wait, retry, return the task, or fail it.

use super::*;
use crate::gate::GateDecision::{Allow, WaitUntil};

fn throttled(retry_after: Option<u64>) -> PageFailure {
    let fault = Fault::transient(Code::RateLimited, "slow down");
    PageFailure { fault, throttled: true, retry_after: retry_after.map(Duration::from_secs), ..refusal(Level::L1) }
}

// covers: ING-12.1-01, ING-4.10-37, ING-1.2-03, ING-2.3-04
#[test]
fn a_429_cools_the_gate_and_waits_without_using_up_attempts() {
    let mut driver = Driver::tokens();
    for _ in 0..retry::RetryPolicy::default().max_attempts * 2 {
        let wants = driver.refuse(throttled(Some(3)));
        assert!(matches!(&wants[..], [Want::CoolDown(wait)] if *wait == Duration::from_secs(3)), "{wants:?}");
        assert_eq!(driver.run.wake_at(), driver.now + Duration::from_secs(3));
        assert!(requests_permit(&driver.wake()));
    }
    driver.fetch();
    let batch = commit(&driver.on(page(1, None)));
    assert_eq!((batch.stats.throttled_count, batch.stats.retry_count), (10, 10));
}

#[test]
fn status_429_without_retry_after_backs_off_a_bounded_number_of_times() {
    let options = Options { max_throttles: 2, ..at_once() };
    let mut driver = Driver::reading(options, tokens(), None);
    for _ in 0..2 {
        assert!(matches!(&driver.refuse(throttled(None))[..], [Want::CoolDown(_)]));
        driver.wake();
    }
    let wants = driver.refuse(throttled(None));
    let [Want::CoolDown(_), Want::Tx(Tx::EndRun(end))] = &wants[..] else { panic!("{wants:?}") };
    assert!(matches!(end.end, RunEnd::Requeue { counted: false, .. }));
}

// covers: COLL-50, COLL-120
#[test]
fn poll_that_is_always_throttled_fails() {
    let mut driver = Driver::tokens();
    driver.run.lease.source = Some(crate::SourceId(7));
    for _ in 0..3 {
        assert!(matches!(&driver.refuse(throttled(Some(1)))[..], [Want::CoolDown(_)]));
        driver.wake();
    }
    let wants = driver.refuse(throttled(Some(1)));
    let [Want::CoolDown(_), Want::Tx(Tx::EndRun(end))] = &wants[..] else { panic!("{wants:?}") };
    assert!(matches!(end.end, RunEnd::Failed { .. }), "{end:?}");
    assert!(end.poll.is_some());
}

// covers: ING-15-04
#[test]
fn long_pause_returns_the_task_uncounted() {
    let mut driver = Driver::tokens();
    let wants = driver.refuse(throttled(Some(16)));
    let [Want::CoolDown(_), Want::Tx(Tx::EndRun(end))] = &wants[..] else { panic!("{wants:?}") };
    let RunEnd::Requeue { delay, counted, .. } = end.end else { panic!("{end:?}") };
    assert_eq!((delay, counted), (Duration::from_secs(16), false));
    assert_eq!(end.failure, None);
}

// covers: ING-15-04, ING-4.10-30
#[test]
fn gate_wait_is_retried_or_returns_the_task() {
    let mut driver = Driver::tokens();
    assert!(driver.on(RunInput::Permit(WaitUntil(at(2)), Advice::default())).is_empty());
    assert_eq!(driver.run.wake_at(), at(2));
    assert!(requests_permit(&driver.wake()));
    let close = end(&driver.on(RunInput::Permit(WaitUntil(at(100)), Advice::default())));
    assert!(matches!(close.end, RunEnd::Requeue { counted: false, .. }));
}

// covers: ING-9.5-01, ING-5.4-16
#[test]
fn transient_errors_are_retried_and_then_counted_with_a_failed_row() {
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, Some("b")));
    driver.on(committed());
    let mut waits = Vec::new();
    for _ in 1..retry::RetryPolicy::default().max_attempts {
        assert!(driver.refuse(refusal(Level::L1)).is_empty());
        waits.push(driver.run.wake_at().since(driver.now));
        assert!(requests_permit(&driver.wake()));
    }
    assert!(waits.is_sorted() && waits[3] > waits[0] * 4, "{waits:?}");
    let close = end(&driver.refuse(refusal(Level::L1)));
    assert!(matches!(close.end, RunEnd::Requeue { counted: true, delay, .. } if delay == Duration::from_secs(5)));
    let failure = close.failure.as_ref().expect("a row for the ledger");
    assert_eq!((failure.batch_no, &failure.position), (2, &token("b")));
    assert_eq!((failure.stats.retry_count, close.stats.retry_count), (5, 5));
}

// covers: ING-9.4-06
#[test]
fn retried_page_keeps_its_number_and_key() {
    let undisturbed = {
        let mut driver = Driver::tokens();
        driver.fetch();
        commit(&driver.on(page(1, None)))
    };
    let mut driver = Driver::tokens();
    let requested = driver.fetch();
    let trouble = [refusal(Level::L1), throttled(Some(2)), throttled(None), refusal(Level::L1)];
    for (at, trouble) in trouble.into_iter().enumerate() {
        let slows = trouble.throttled;
        let wants = driver.on(RunInput::Fetched(Err(Box::new(trouble))));
        assert_eq!(matches!(wants[..], [Want::CoolDown(_)]), slows, "only pacing slows the others down: {wants:?}");
        assert!(requests_permit(&driver.wake()));
        assert_eq!(driver.fetch(), requested, "after {} refusals", at + 1);
    }
    let batch = commit(&driver.on(page(1, None)));
    assert_eq!((batch.batch_no, &batch.idempotent_key), (1, &undisturbed.idempotent_key));
    assert_eq!((batch.stats.retry_count, batch.stats.throttled_count), (4, 2));
    assert_eq!(end(&driver.on(committed())).end, RunEnd::Succeeded);
}

// covers: ING-12.1-02, ING-5.4-18, ING-11.7-02, ING-12.1-05
#[test]
fn a_refused_request_fails_at_once_but_what_was_read_is_committed_first() {
    let mut driver = Driver::tokens();
    driver.fetch();
    commit(&driver.on(page(1, Some("b"))));
    assert!(driver.refuse(refusal(Level::L2)).is_empty(), "the commit of page 1 is still in progress");
    let close = end(&driver.on(committed()));
    assert!(matches!(close.end, RunEnd::Failed { .. }));
    assert_eq!(close.failure.as_ref().map(|failure| failure.batch_no), Some(2));
    let ended = finished(&driver.on(closed(TaskStatus::Failed)));
    assert!(matches!(ended.outcome, RunOutcome::Closed(TaskStatus::Failed, Some(_))));
}

#[test]
fn a_snapshot_that_cannot_be_read_now_requeues_and_a_broken_one_fails() {
    for (level, requeued) in [(Level::L1, true), (Level::L4, false)] {
        let mut driver = Driver::new(at_once());
        driver.on(started(None));
        let error = Fault::new(Code::ConfigError, level, "no snapshot");
        let close = end(&driver.on(RunInput::Prepared(Err(error))));
        assert_eq!(matches!(close.end, RunEnd::Requeue { counted: true, .. }), requeued, "{:?}", close.end);
    }
}

#[test]
fn a_page_that_only_a_total_promised_may_be_missing() {
    let mut driver = Driver::reading(at_once(), pages(), None);
    driver.fetch();
    let short = FetchedPage {
        facts: PageFacts { items: 1, total: Some(9), ..PageFacts::default() },
        content: [1; 16],
        ..FetchedPage::default()
    };
    let wants = driver.on(RunInput::Fetched(Ok(Box::new(short))));
    assert!(requests_permit(&wants), "{wants:?}");
    driver.on(committed());
    driver.on(RunInput::Permit(Allow, Advice::default()));
    let missing =
        PageFailure { evidence: ExchangeEvidence { status: 404, ..ExchangeEvidence::default() }, ..refusal(Level::L2) };
    let close = end(&driver.on(RunInput::Fetched(Err(Box::new(missing)))));
    assert_eq!(close.end, RunEnd::Succeeded);
}
