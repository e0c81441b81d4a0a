//! What a run that fails does to the work like it.

use super::*;
use crate::id::CredentialId;
use crate::state::HoldKind;
use crate::tx::{Hold, Subject};

fn refused(code: Code, level: Level, status: u16) -> Refusal {
    let evidence = Evidence { status, ..Evidence::default() };
    Refusal { fault: Fault::new(code, level, "no"), evidence, ..refusal(level) }
}

/// The hold that a run sets whose first request fails like this.
fn hold(credential: Option<i64>, code: Code, level: Level, status: u16) -> Option<Hold> {
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
    close.hold.clone()
}

fn subject(hold: Option<Hold>, kind: HoldKind) -> Subject {
    let hold = hold.expect("a hold");
    assert_eq!((hold.kind, hold.by.as_str()), (kind, "task 3"));
    assert!(hold.reason.contains("no"), "{}", hold.reason);
    assert_eq!(hold.subject.flaw(), None);
    hold.subject
}

// covers: ING-9.5-03, ING-12.1-04, ING-12.2-07
#[test]
fn a_fatal_error_blows_the_fuse_of_the_narrowest_thing_that_is_certainly_broken() {
    let auth =
        [Code::UpstreamAuthFailed, Code::CookieInvalid, Code::Unauthorized, Code::Forbidden, Code::QuotaExhausted];
    for code in auth {
        let credential = subject(hold(Some(8), code, Level::L4, 401), HoldKind::Break);
        assert_eq!(credential, Subject { credential: Some(CredentialId(8)), ..Subject::default() });
        let nobodys = subject(hold(None, code, Level::L4, 401), HoldKind::Break);
        assert_eq!(nobodys, Subject::source("p"), "no narrower scope is known");
    }
    for code in [Code::ParseError, Code::ConfigError, Code::PlatformError] {
        let endpoint = subject(hold(Some(8), code, Level::L4, 200), HoldKind::Break);
        assert_eq!(endpoint, Subject::endpoint("p", "e"), "signing, or another form");
    }
}

// covers: ING-9.5-02, ING-11.7-02
#[test]
fn a_request_that_the_far_side_calls_wrong_pauses_its_partition() {
    let partition = Subject { operation: Some(Operation::Harvest), ..Subject::endpoint("p", "e") };
    for status in [400, 422] {
        let hold = hold(Some(8), Code::PlatformError, Level::L2, status);
        assert_eq!(subject(hold, HoldKind::Advisory), partition);
    }
    for code in [Code::ConfigError, Code::ValidationError] {
        let hold = hold(None, code, Level::L2, 0);
        assert_eq!(subject(hold, HoldKind::Advisory), partition, "it could not even be written");
    }
    for status in [403, 404, 410] {
        assert_eq!(hold(None, Code::NotFound, Level::L2, status), None, "that is not about the request");
    }
}

#[test]
fn a_bug_of_ours_holds_nothing() {
    assert_eq!(hold(Some(8), Code::InternalError, Level::L4, 200), None);
    let mut driver = Driver::tokens();
    driver.fetch();
    driver.on(page(1, None));
    let close = end(&driver.on(failed(TxError::Refused("broken".into()))));
    assert!(matches!(close.end, RunEnd::Failed { .. }) && close.hold.is_none(), "{close:?}");
}

// covers: ING-12.1-04
#[test]
fn a_far_side_that_has_changed_its_form_holds_the_endpoint() {
    let changed = |tag: u8| {
        let Got::Fetched(Ok(mut page)) = page(tag, Some("n")) else { unreachable!() };
        let unusable = |index| crate::record::Rejected {
            index,
            key: None,
            code: Code::ValidationError,
            reason: "id_path finds nothing".into(),
            sample: String::new(),
        };
        page.facts.items = 6;
        page.rejected = (0..4).map(unusable).collect();
        Got::Fetched(Ok(page))
    };
    let mut driver = Driver::tokens();
    driver.read(changed(1));
    driver.fetch();
    let hold = end(&driver.on(changed(2))).hold.clone().expect("a hold");
    assert_eq!((hold.kind, hold.subject), (HoldKind::Break, Subject::endpoint("p", "e")));
    assert!(hold.reason.contains("id_path finds nothing"));
}

// covers: ING-12.1-04
#[test]
fn one_answer_of_another_form_between_good_ones_is_no_change() {
    let mut driver = Driver::tokens();
    for tag in 1..4 {
        assert!(driver.refuse(refused(Code::ParseError, Level::L4, 200)).is_empty());
        assert!(asks(&driver.wake()));
        driver.read(page(tag, Some(&format!("n{tag}"))));
    }
    assert!(driver.refuse(refused(Code::ParseError, Level::L4, 200)).is_empty());
}

// covers: ING-12.1-04
#[test]
fn answers_that_nobody_can_read_blow_the_fuse_when_nothing_else_came_in_all_attempts() {
    let unreadable = |attempts: u32, pages: u8| {
        let lease = Lease { attempts, ..lease() };
        let (mut driver, _) = Driver::prepared(lease, (*policy(tokens())).clone(), None);
        for tag in 0..pages {
            driver.read(page(tag, Some(&format!("n{tag}"))));
        }
        for _ in 1..retry::Policy::default().max_attempts {
            driver.refuse(refused(Code::ParseError, Level::L1, 200));
            driver.wake();
        }
        end(&driver.refuse(refused(Code::ParseError, Level::L1, 200)))
    };
    let max = at_once().max_attempts;
    for (attempts, pages) in [(max - 1, 0), (max, 1)] {
        let close = unreadable(attempts, pages);
        assert!(matches!(close.end, RunEnd::Requeue { counted: true, .. }) && close.hold.is_none(), "{close:?}");
    }
    let close = unreadable(max, 0);
    assert!(matches!(&close.end, RunEnd::Failed { error } if error.level == Level::L4), "{close:?}");
    let hold = close.hold.clone().expect("a hold");
    assert_eq!((hold.kind, hold.subject), (HoldKind::Break, Subject::endpoint("p", "e")));
}

#[test]
fn a_page_that_waits_for_its_commit_has_come() {
    let once = retry::Policy { max_attempts: 1, ..retry::Policy::default() };
    let mut driver = Driver::of(Lease { attempts: at_once().max_attempts, ..lease() }, Options::default());
    driver.on(started(None));
    driver.on(Got::Prepared(Ok(Arc::new(Policy { retry: once, ..(*policy(tokens())).clone() }))));
    driver.fetch();
    assert!(matches!(&driver.on(page(1, Some("b")))[..], [Want::Permit { .. }]), "it waits");
    assert_eq!(commit(&driver.refuse(refused(Code::ParseError, Level::L1, 200))).batch_no, 1);
    let close = end(&driver.on(committed()));
    assert!(matches!(close.end, RunEnd::Requeue { counted: true, .. }) && close.hold.is_none(), "{close:?}");
}

// covers: ING-9.5-02
#[test]
fn a_spec_that_does_not_load_holds_the_endpoint_and_one_that_is_away_holds_nothing() {
    let held = |code, level| {
        let mut driver = Driver::new(at_once());
        driver.on(started(None));
        end(&driver.on(Got::Prepared(Err(Fault::new(code, level, "no snapshot"))))).hold.clone()
    };
    let hold = held(Code::ConfigError, Level::L4).expect("a hold");
    assert_eq!((hold.kind, hold.subject), (HoldKind::Break, Subject::endpoint("p", "e")));
    let hold = held(Code::ConfigError, Level::L2).expect("a hold");
    assert_eq!(hold.kind, HoldKind::Advisory);
    assert_eq!(held(Code::InternalError, Level::L1), None);
}

#[test]
fn what_passes_or_ends_otherwise_holds_nothing() {
    let mut driver = Driver::tokens();
    for _ in 1..retry::Policy::default().max_attempts {
        driver.refuse(refused(Code::PlatformError, Level::L1, 503));
        driver.wake();
    }
    let close = end(&driver.refuse(refused(Code::PlatformError, Level::L1, 503)));
    assert!(matches!(close.end, RunEnd::Requeue { counted: true, .. }) && close.hold.is_none());

    let mut driver = Driver::tokens();
    assert_eq!(end(&driver.read(page(1, None))).hold, None, "success");

    // A window that cannot be cut is nobody's mistake.
    let rule = paging::Rule { ceiling: Some(4), ..offsets() };
    let mut driver = Driver::reading(at_once(), rule, None);
    let Got::Fetched(Ok(mut page)) = page(1, None) else { unreachable!() };
    page.facts.total = Some(9);
    let close = end(&driver.read(Got::Fetched(Ok(page))));
    assert!(matches!(close.end, RunEnd::Failed { .. }) && close.hold.is_none(), "{close:?}");
}
