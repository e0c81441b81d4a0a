//! Effect of a failed run on similar work.

use super::*;
use crate::id::CredentialId;
use crate::state::PauseKind;
use crate::tx::{PauseSubject, PauseWork};

fn refused(code: Code, level: Level, status: u16) -> PageFailure {
    let evidence = ExchangeEvidence { status, ..ExchangeEvidence::default() };
    PageFailure { fault: Fault::new(code, level, "no"), evidence, ..refusal(level) }
}

/// The pause that a run sets whose first request fails like this.
fn pause(credential: Option<i64>, code: Code, level: Level, status: u16) -> Option<PauseWork> {
    let lease = Lease { credential: credential.map(CredentialId), ..lease() };
    let (mut driver, _) = Driver::prepared(lease, (*policy(tokens())).clone(), None);
    let mut wants = driver.refuse(refused(code, level, status));
    if code == Code::ParseError && level == Level::L4 {
        assert!(wants.is_empty(), "once may be a slip: {wants:?}");
        driver.wake();
        wants = driver.refuse(refused(code, level, status));
    }
    let close = end(&wants);
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.code == code), "{close:?}");
    assert!(close.failure.is_some(), "the batch is FAILED");
    close.pause.clone()
}

fn subject(pause: Option<PauseWork>, kind: PauseKind) -> PauseSubject {
    let pause = pause.expect("a pause");
    assert_eq!((pause.kind, pause.by.as_str()), (kind, "task 3"));
    assert!(pause.reason.contains("no"), "{}", pause.reason);
    assert_eq!(pause.subject.invalid_reason(), None);
    pause.subject
}

// covers: ING-12.1-04
#[test]
fn fatal_error_halts_the_narrowest_broken_subject() {
    let auth =
        [Code::UpstreamAuthFailed, Code::CookieInvalid, Code::Unauthorized, Code::Forbidden, Code::QuotaExhausted];
    for code in auth {
        let credential = subject(pause(Some(8), code, Level::L4, 401), PauseKind::Break);
        assert_eq!(credential, PauseSubject { credential: Some(CredentialId(8)), ..PauseSubject::default() });
        let nobodys = subject(pause(None, code, Level::L4, 401), PauseKind::Break);
        assert_eq!(nobodys, PauseSubject::source("p"), "no narrower scope is known");
    }
    for code in [Code::ParseError, Code::ConfigError, Code::PlatformError] {
        let endpoint = subject(pause(Some(8), code, Level::L4, 200), PauseKind::Break);
        assert_eq!(endpoint, PauseSubject::endpoint("p", "e"), "signing, or another form");
    }
}

// covers: ING-9.5-02, ING-11.7-02
#[test]
fn a_request_that_the_upstream_calls_wrong_pauses_its_partition() {
    let partition = PauseSubject { operation: Some(Operation::Harvest), ..PauseSubject::endpoint("p", "e") };
    for status in [400, 422] {
        let pause = pause(Some(8), Code::PlatformError, Level::L2, status);
        assert_eq!(subject(pause, PauseKind::Advisory), partition);
    }
    for code in [Code::ConfigError, Code::ValidationError] {
        let pause = pause(None, code, Level::L2, 0);
        assert_eq!(subject(pause, PauseKind::Advisory), partition, "it could not even be written");
    }
    for status in [403, 404, 410] {
        assert_eq!(pause(None, Code::NotFound, Level::L2, status), None, "that is not about the request");
    }
}

#[test]
fn internal_error_pauses_nothing() {
    assert_eq!(pause(Some(8), Code::InternalError, Level::L4, 200), None);
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, None));
    let close = end(&driver.on(failed(TxError::Refused("broken".into()))));
    assert!(matches!(close.end, RunEnd::Failed { .. }) && close.pause.is_none(), "{close:?}");
}

// covers: ING-12.1-04
#[test]
fn changed_response_format_halts_the_endpoint() {
    let changed = |tag: u8| {
        let RunInput::Fetched(Ok(mut page)) = page(tag, Some("n")) else { unreachable!() };
        let unusable = |index| crate::record::RejectedRecord {
            index,
            key: None,
            code: Code::ValidationError,
            reason: "id_path finds nothing".into(),
            sample: String::new(),
        };
        page.facts.items = 6;
        page.rejected = (0..4).map(unusable).collect();
        RunInput::Fetched(Ok(page))
    };
    let mut driver = Driver::tokens();
    driver.read(changed(1));
    driver.fetch();
    let pause = end(&driver.on(changed(2))).pause.clone().expect("a pause");
    assert_eq!((pause.kind, pause.subject), (PauseKind::Break, PauseSubject::endpoint("p", "e")));
    assert!(pause.reason.contains("id_path finds nothing"));
}

// covers: ING-12.1-04
#[test]
fn single_malformed_response_halts_nothing() {
    let mut driver = Driver::tokens();
    for tag in 1..4 {
        assert!(driver.refuse(refused(Code::ParseError, Level::L4, 200)).is_empty());
        assert!(requests_permit(&driver.wake()));
        driver.read(page(tag, Some(&format!("n{tag}"))));
    }
    assert!(driver.refuse(refused(Code::ParseError, Level::L4, 200)).is_empty());
}

// covers: ING-12.1-04
#[test]
fn unparsable_responses_in_all_attempts_halt_the_endpoint() {
    let unreadable = |attempts: u32, pages: u8| {
        let lease = Lease { attempts, ..lease() };
        let (mut driver, _) = Driver::prepared(lease, (*policy(tokens())).clone(), None);
        for tag in 0..pages {
            driver.read(page(tag, Some(&format!("n{tag}"))));
        }
        for _ in 1..retry::RetryPolicy::default().max_attempts {
            driver.refuse(refused(Code::ParseError, Level::L1, 200));
            driver.wake();
        }
        end(&driver.refuse(refused(Code::ParseError, Level::L1, 200)))
    };
    let max = at_once().max_attempts;
    for (attempts, pages) in [(max - 1, 0), (max, 1)] {
        let close = unreadable(attempts, pages);
        assert!(matches!(close.end, RunEnd::Requeue { counted: true, .. }) && close.pause.is_none(), "{close:?}");
    }
    let close = unreadable(max, 0);
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.level == Level::L4), "{close:?}");
    let pause = close.pause.clone().expect("a pause");
    assert_eq!((pause.kind, pause.subject), (PauseKind::Break, PauseSubject::endpoint("p", "e")));
}

#[test]
fn uncommitted_page_counts_as_received() {
    let once = retry::RetryPolicy { max_attempts: 1, ..retry::RetryPolicy::default() };
    let mut driver = Driver::of(Lease { attempts: at_once().max_attempts, ..lease() }, Options::default());
    driver.on(started(None));
    driver.on(RunInput::Prepared(Ok(Arc::new(RunPolicy { retry: once, ..(*policy(tokens())).clone() }))));
    driver.fetch();
    assert!(matches!(&driver.on(page(1, Some("b")))[..], [Want::Permit { .. }]), "it waits");
    assert_eq!(commit(&driver.refuse(refused(Code::ParseError, Level::L1, 200))).batch_no, 1);
    let close = end(&driver.on(committed()));
    assert!(matches!(close.end, RunEnd::Requeue { counted: true, .. }) && close.pause.is_none(), "{close:?}");
}

// covers: ING-9.5-02
#[test]
fn broken_snapshot_halts_the_endpoint_and_a_store_outage_halts_nothing() {
    let held = |code, level| {
        let mut driver = Driver::new(at_once());
        driver.on(started(None));
        end(&driver.on(RunInput::Prepared(Err(Fault::new(code, level, "no snapshot"))))).pause.clone()
    };
    let pause = held(Code::ConfigError, Level::L4).expect("a pause");
    assert_eq!((pause.kind, pause.subject), (PauseKind::Break, PauseSubject::endpoint("p", "e")));
    let pause = held(Code::ConfigError, Level::L2).expect("a pause");
    assert_eq!(pause.kind, PauseKind::Advisory);
    assert_eq!(held(Code::InternalError, Level::L1), None);
}

#[test]
fn transient_or_other_ends_pause_nothing() {
    let mut driver = Driver::tokens();
    for _ in 1..retry::RetryPolicy::default().max_attempts {
        driver.refuse(refused(Code::PlatformError, Level::L1, 503));
        driver.wake();
    }
    let close = end(&driver.refuse(refused(Code::PlatformError, Level::L1, 503)));
    assert!(matches!(close.end, RunEnd::Requeue { counted: true, .. }) && close.pause.is_none());

    let mut driver = Driver::tokens();
    assert_eq!(end(&driver.read(page(1, None))).pause, None, "success");

    // A window that cannot be split is not the request's fault.
    let rule = paging::PagingRule { ceiling: Some(4), ..offsets() };
    let mut driver = Driver::reading(at_once(), rule, None);
    let RunInput::Fetched(Ok(mut page)) = page(1, None) else { unreachable!() };
    page.facts.total = Some(9);
    driver.read(RunInput::Fetched(Ok(page)));
    let RunInput::Fetched(Ok(mut page)) = super::page(2, None) else { unreachable!() };
    page.facts.total = Some(9);
    let close = end(&driver.read(RunInput::Fetched(Ok(page))));
    assert!(matches!(close.end, RunEnd::Partial { .. }) && close.pause.is_none(), "{close:?}");
}
